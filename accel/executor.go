//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"tips/dataset"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// Executor is a train.Executor on a device. Weights and what goes with them stay
// there between steps. Programs are compiled when they are first needed, one for
// every arrangement of lessons, and serve all subnetworks.
type Executor struct {
	device   *Device
	settings train.Settings
	narrow   dtypes.DType
	layout   *layout
	columns  *columns

	weights, momentum compute.Buffer
	average, frozen   compute.Buffer // nil where there is none
	// The sets that Restore had, of which State takes the statistics: training does
	// not change them.
	statistics [4]*weights.Statistics

	steps    []*stepProgram
	forwards []*forwardProgram
	batch    int // the largest that went forwards so far
	stepped  int // images of the last step
	padded   []float32

	staged  staged           // the images of the next step
	garbage []compute.Buffer // what programs have left, until the next one runs
}

// staged is images that are on the device before they are asked for.
type staged struct {
	batch  *dataset.Batch // nil: there are none
	images compute.Buffer
}

// NewExecutor makes an executor for a network on the device. It has no state yet:
// Restore gives it one.
func (d *Device) NewExecutor(s train.Settings) (train.Executor, error) { return d.newExecutor(s) }

func (d *Device) newExecutor(s train.Settings) (*Executor, error) {
	x := &Executor{device: d, settings: s, layout: newLayout(s.Network), columns: newColumns(s.Network), narrow: dtypes.Float32}
	if d.precision == BFloat16 {
		x.narrow = dtypes.BFloat16
	}
	for _, op := range s.Network.Ops() {
		if pools := op.Kind == supernet.MaxPool || op.Kind == supernet.AvgPool; pools && op.Kernel > maxPoolKernel {
			return nil, fmt.Errorf("accel: operation %q: pooling with kernel %d; accelerators run up to %d", op.Name, op.Kernel, maxPoolKernel)
		}
	}
	return x, nil
}

// String says what results depend on, in the last digits.
func (x *Executor) String() string { return "accelerator, " + string(x.device.precision) }

// maxPoolKernel bounds the taps of pooling, each of which is a part of the program.
const maxPoolKernel = 11

// Close gives back the device's memory; the device itself stays open.
func (x *Executor) Close() error {
	err := errors.Join(finalize(x.weights, x.momentum, x.average, x.frozen, x.staged.images), finalize(x.garbage...))
	x.weights, x.momentum, x.average, x.frozen = nil, nil, nil, nil
	x.staged, x.garbage = staged{}, nil
	for _, p := range x.steps {
		p.run.Finalize()
	}
	for _, p := range x.forwards {
		p.run.Finalize()
	}
	x.steps, x.forwards = nil, nil
	return err
}

var errNoState = errors.New("accel: an executor without a state")

// Step implements train.Executor.
func (x *Executor) Step(ctx context.Context, s train.Step) (train.Outcome, error) {
	if x.weights == nil {
		return train.Outcome{}, errNoState
	}
	if err := ctx.Err(); err != nil {
		return train.Outcome{}, err
	}
	images, err := x.take(s.Batch)
	if err != nil {
		return train.Outcome{}, err
	}
	defer func() { x.garbage = append(x.garbage, images) }()
	labels := slices.Clone(s.Batch.Labels) // the batch may be lost before all is known
	report, err := x.step(s, images, labels, true)
	if err != nil {
		return train.Outcome{}, err
	}
	out := outcome(s, report)
	for i, l := range out.Lessons {
		if !finite(l.Loss) {
			return train.Outcome{}, &train.NotFiniteError{Lesson: i, Subnet: s.Lessons[i].Subnet, Value: l.Loss}
		}
	}
	if !finite(out.Norm) {
		return train.Outcome{}, x.blame(s, images, labels, out.Norm)
	}
	return out, nil
}

// outcome reads the report of a step.
func outcome(s train.Step, report []float32) train.Outcome {
	n := len(s.Lessons)
	out := train.Outcome{Norm: float64(report[3*n])}
	for i, l := range s.Lessons {
		o := train.LessonOutcome{Label: float64(report[i]), Soft: float64(report[n+i]), Correct: int(report[2*n+i])}
		o.Loss = l.Label*o.Label + l.Soft*o.Soft
		out.Lessons = append(out.Lessons, o)
	}
	return out
}

// blame finds the first lesson whose gradient is not finite: the step again, with
// one lesson at a time that counts.
func (x *Executor) blame(s train.Step, images compute.Buffer, labels []int32, sum float64) error {
	s.Next = nil
	for i, l := range s.Lessons {
		alone := s
		alone.Lessons = slices.Clone(s.Lessons)
		for j := range alone.Lessons {
			if j != i {
				alone.Lessons[j].Label = 0
				if alone.Lessons[j].Soft != 0 {
					alone.Lessons[j].Soft = math.SmallestNonzeroFloat64 // 0 in float32; the arrangement is the same
				}
			}
		}
		report, err := x.step(alone, images, labels, false)
		if err != nil {
			return err
		}
		if norm := float64(report[len(report)-1]); !finite(norm) {
			return &train.NotFiniteError{Lesson: i, Subnet: l.Subnet, Value: norm, Gradient: true}
		}
	}
	return &train.NotFiniteError{Lesson: -1, Value: sum, Gradient: true}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// of is the weights that a teacher has.
func (x *Executor) of(source method.Source) compute.Buffer {
	switch source {
	case method.Average:
		return x.average
	case method.Frozen:
		return x.frozen
	}
	return x.weights
}

// leavesOut tells whether a subnetwork leaves out a block.
func (x *Executor) leavesOut(s supernet.Subnet) bool {
	_, without, err := x.layout.network.Widths(s)
	return err == nil && len(without) > 0
}

// appendRows appends subnetworks as programs are told them.
func (x *Executor) appendRows(to []float32, subnets []supernet.Subnet) ([]float32, error) {
	for _, s := range subnets {
		from := len(to)
		to = append(to, make([]float32, x.columns.count)...)
		if err := x.columns.row(s, to[from:]); err != nil {
			return nil, err
		}
	}
	return to, nil
}

func appendLabels(to []float32, labels []int32) []float32 {
	for _, l := range labels {
		to = append(to, float32(l))
	}
	return to
}

// take gives the images of a step's batch on the device.
func (x *Executor) take(b *dataset.Batch) (compute.Buffer, error) {
	ready := x.staged
	x.staged = staged{}
	if ready.batch == b {
		return ready.images, nil
	}
	if ready.images != nil { // for a step that was not taken
		x.garbage = append(x.garbage, ready.images)
	}
	return x.images(b, b.N)
}

// meanwhile does what can be done while a program runs: it gives back memory, and
// uploads the images of the next step. What it fails in is tried again by that step.
func (x *Executor) meanwhile(next func() *dataset.Batch) {
	x.clean()
	if next == nil {
		return
	}
	if b := next(); b != nil {
		if images, err := x.images(b, b.N); err == nil {
			x.staged = staged{b, images}
		}
	}
}

// clean gives back memory. It takes its time, so it is done while a program runs.
func (x *Executor) clean() {
	_ = finalize(x.garbage...)
	x.garbage = x.garbage[:0]
}

// images uploads a batch, with zeros for images that it lacks.
func (x *Executor) images(b *dataset.Batch, batch int) (compute.Buffer, error) {
	in := x.layout.network.Input()
	if n := b.N * int(in.Elements()); b.N < 1 || len(b.Images) != n || len(b.Labels) != b.N {
		return nil, fmt.Errorf("accel: %d values and %d labels for a batch of %d inputs of %v", len(b.Images), len(b.Labels), b.N, in)
	}
	values := b.Images
	if b.N < batch {
		n := batch * int(in.Elements())
		if cap(x.padded) < n {
			x.padded = make([]float32, n)
		}
		x.padded = x.padded[:n]
		clear(x.padded[copy(x.padded, values):])
		values = x.padded
	}
	return x.device.upload(values, batch, in.Height, in.Width, in.Channels)
}

// State implements train.Executor.
func (x *Executor) State() (*train.State, error) {
	if x.weights == nil {
		return nil, errNoState
	}
	s := &train.State{}
	for i, part := range []struct {
		from compute.Buffer
		to   **weights.Set
	}{{x.weights, &s.Weights}, {x.momentum, &s.Momentum}, {x.average, &s.Average}, {x.frozen, &s.Frozen}} {
		if part.from == nil {
			continue
		}
		flat := make([]float32, x.layout.size)
		if err := part.from.ToFlatData(flat); err != nil {
			return nil, fmt.Errorf("accel: reading parameters back: %w", err)
		}
		set := weights.New(x.layout.network)
		x.layout.unpack(flat, set)
		for k, t := range set.Ops {
			copy(t.Mean, x.statistics[i].Mean[k])
			copy(t.Variance, x.statistics[i].Variance[k])
		}
		*part.to = set
	}
	return s, nil
}

// Restore implements train.Executor.
func (x *Executor) Restore(s *train.State) error {
	if s.Weights == nil || s.Momentum == nil {
		return errors.New("accel: a state without weights or momentum")
	}
	if (s.Average != nil) != (x.settings.Average != 0) {
		return errors.New("accel: a state whose moving average is not as the settings have it")
	}
	var made [4]compute.Buffer
	for i, set := range []*weights.Set{s.Weights, s.Momentum, s.Average, s.Frozen} {
		if set == nil {
			continue
		}
		b, err := x.device.upload(x.layout.pack(set), x.layout.size)
		if err != nil {
			return errors.Join(err, finalize(made[:]...))
		}
		made[i], x.statistics[i] = b, set.Clone().Statistics()
	}
	err := finalize(x.weights, x.momentum, x.average, x.frozen)
	x.weights, x.momentum, x.average, x.frozen = made[0], made[1], made[2], made[3]
	return err
}
