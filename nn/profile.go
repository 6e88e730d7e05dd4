package nn

import (
	"fmt"
	"strings"
	"time"

	"tips/internal/kernel"
	"tips/supernet"
)

// Step is what a session does at once, as far as it decides how long that takes:
// an operation, or several that are computed together. Steps that are equal take
// the same time on one machine, caches and chance aside.
type Step struct {
	Kind  StepKind       `json:"kind"`
	Batch int            `json:"batch"`
	In    supernet.Shape `json:"in"`
	Out   supernet.Shape `json:"out"`

	// Of convolutions and pools, 0 otherwise; of strips those of the filter.
	Kernel  int `json:"kernel,omitempty"`
	Stride  int `json:"stride,omitempty"`
	Padding int `json:"padding,omitempty"`
	Groups  int `json:"groups,omitempty"` // of a convolution

	Wide       int                 `json:"wide,omitempty"`      // of strips: channels of the map between expansion and filter
	Projected  bool                `json:"projected,omitempty"` // of strips: a projection follows the filter
	Joined     bool                `json:"joined,omitempty"`    // of a convolution, or of the projection of strips: an addition is done along with it
	Dense      bool                `json:"dense,omitempty"`     // of a convolution: it reads the caller's input, whose pixels have no pad
	Broadcast  bool                `json:"broadcast,omitempty"` // of a join: the second map has one pixel
	Activation supernet.Activation `json:"activation,omitempty"`
}

// StepKind is what a step computes.
type StepKind string

// The kinds of steps.
const (
	ConvStep       StepKind = "conv" // linear layers too
	DepthwiseStep  StepKind = "depthwise"
	MaxPoolStep    StepKind = "maxpool"
	AvgPoolStep    StepKind = "avgpool"
	MeanStep       StepKind = "mean"
	AddStep        StepKind = "add"
	MulStep        StepKind = "mul"
	ActivationStep StepKind = "activation"
	StripsStep     StepKind = "strips" // an expansion, a depthwise convolution and perhaps a projection, a few rows at a time
)

// String is the step in a line.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Kind, s.In)
	if s.Wide > 0 {
		fmt.Fprintf(&b, "→%d", s.Wide)
	}
	fmt.Fprintf(&b, "→%s", s.Out)
	if s.Kernel > 0 {
		fmt.Fprintf(&b, " k%ds%dp%d", s.Kernel, s.Stride, s.Padding)
	}
	if s.Groups > 1 {
		fmt.Fprintf(&b, " in %d groups", s.Groups)
	}
	if s.Joined {
		b.WriteString(" +add")
	}
	if s.Activation != supernet.NoActivation {
		fmt.Fprintf(&b, " %s", s.Activation)
	}
	if s.Batch != 1 {
		fmt.Fprintf(&b, " ×%d", s.Batch)
	}
	return b.String()
}

// Steps lists what the program does, in order.
func (p *Program) Steps() []Step {
	list := make([]Step, len(p.steps))
	for i := range p.steps {
		list[i] = p.steps[i].describe(p.batch)
	}
	return list
}

// Plan lists the steps of the program that a subnetwork would be, without its
// weights.
func Plan(v *supernet.View, batch int) ([]Step, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	m := &Model{network: v.Network, ops: make([]packed, len(v.Ops)), stripsPay: stripsPay}
	p, err := newBuilder(m, v, batch).build(nil)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	return p.Steps(), nil
}

// describe is the step as others see it.
func (t *step) describe(batch int) Step {
	s := Step{Batch: batch, In: t.in, Out: t.out, Activation: activationName(t.activation)}
	switch t.kind {
	case stepConv:
		s.Kind = ConvStep
		s.Kernel, s.Stride, s.Padding, s.Groups = t.window.kernel, t.window.stride, t.window.padding, t.window.groups
		s.Joined, s.Dense = t.z != none, t.xld > 0
	case stepDepthwise:
		s.Kind = DepthwiseStep
		s.Kernel, s.Stride, s.Padding = t.window.kernel, t.window.stride, t.window.padding
	case stepMaxPool, stepAvgPool:
		s.Kind = MaxPoolStep
		if t.kind == stepAvgPool {
			s.Kind = AvgPoolStep
		}
		s.Kernel, s.Stride, s.Padding = t.window.kernel, t.window.stride, t.window.padding
		s.Activation = supernet.NoActivation // a step of its own
	case stepMean:
		s.Kind = MeanStep
		s.Activation = supernet.NoActivation
	case stepJoin:
		s.Kind, s.Broadcast = AddStep, t.broadcast
		if t.product {
			s.Kind = MulStep
		}
	case stepActivation:
		s.Kind = ActivationStep
	case stepStrips:
		f := &t.strips.filter
		s.Kind, s.In, s.Out, s.Wide = StripsStep, t.strips.expand.in, f.out, f.in.Channels
		s.Kernel, s.Stride, s.Padding = f.window.kernel, f.window.stride, f.window.padding
		s.Activation = activationName(f.activation)
		if p := t.strips.project; p != nil {
			s.Out, s.Projected, s.Joined = p.out, true, p.z != none
		}
	}
	return s
}

func activationName(a kernel.Activation) supernet.Activation {
	switch a {
	case kernel.ReLU:
		return supernet.ReLU
	case kernel.ReLU6:
		return supernet.ReLU6
	case kernel.SiLU:
		return supernet.SiLU
	case kernel.Sigmoid:
		return supernet.Sigmoid
	}
	return supernet.NoActivation
}

// Profile is Run with a clock: took gets the time of every step, as Program.Steps
// lists them. What comes before the first step and after the last is not in it.
func (s *Session) Profile(p *Program, output, input []float32, took []time.Duration) {
	p.checkLengths(output, input)
	if len(took) != len(p.steps) {
		panic(fmt.Sprintf("nn: Profile with room for %d steps; the program has %d", len(took), len(p.steps)))
	}
	s.reserve(p)
	s.execute(p, s.arena, output, input, took)
}

// Threads is how many threads the session has.
func (s *Session) Threads() int { return s.pool.Size() }

// Variant names the kernels that sessions run on this machine: generic, avx2,
// avx512 or neon.
func Variant() string { return kernel.Best().String() }
