// Package weights holds the parameters of a network: by operation, at full
// width, in the layouts of PyTorch and ONNX. Executors pack them their own way,
// exporters write them out, and safetensors files keep them.
package weights

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"tips/supernet"
)

// Params are the parameters of one operation. What an operation does not have is
// nil.
type Params struct {
	// Weight is [out][in of a group][kernel][kernel] of a convolution, a depthwise
	// one having one input channel a group, and [out][in] of a linear layer.
	Weight []float32
	Bias   []float32 // [out]

	// Batch norm: scale γ and shift β, and the statistics of its input.
	Scale, Shift   []float32
	Mean, Variance []float32
}

// Set is the parameters of all operations of a network.
type Set struct {
	Network *supernet.Network
	Ops     []Params // as Network.Ops
}

// New makes a set of zero weights and batch norm that does nothing.
func New(n *supernet.Network) *Set {
	s := &Set{Network: n, Ops: make([]Params, len(n.Ops()))}
	for i := range s.Ops {
		for _, t := range tensorsOf(n, i) {
			*t.field(&s.Ops[i]) = make([]float32, t.elements())
		}
		fill(s.Ops[i].Scale, 1)
		fill(s.Ops[i].Variance, 1)
	}
	return s
}

func fill(x []float32, value float32) {
	for i := range x {
		x[i] = value
	}
}

// Random makes a set as training starts from, by the rules of torchvision, whose
// models the papers train: He et al.'s normal distribution by fan-out for
// convolutions, batch norm that does nothing, and for linear layers what the
// model of that name does.
//
// Fan-out is PyTorch's, kernel²·channels, also where a convolution has groups. A
// depthwise convolution so starts with weights smaller by √channels than the
// number of its terms asks for; batch norm makes up for it in the output, and the
// smaller weights turn the faster for it.
func Random(n *supernet.Network, seed uint64) *Set {
	s := New(n)
	rng := rand.New(rand.NewPCG(seed, 0x77656967687473))
	model, _, _ := strings.Cut(n.Name(), ":")
	for i, op := range n.Ops() {
		p := &s.Ops[i]
		full := fullShape(n, i)
		switch op.Kind {
		case supernet.Conv, supernet.Depthwise:
			normal(rng, p.Weight, math.Sqrt(2/float64(full.kernel*full.kernel*full.out)))
		case supernet.Linear:
			switch model {
			case "mobilenet_v2":
				normal(rng, p.Weight, 0.01)
			case "efficientnet_b0":
				uniform(rng, p.Weight, 1/math.Sqrt(float64(full.out)))
			default: // PyTorch's own, which the resnets keep
				uniform(rng, p.Weight, 1/math.Sqrt(float64(full.in)))
				uniform(rng, p.Bias, 1/math.Sqrt(float64(full.in)))
			}
		}
	}
	return s
}

func normal(rng *rand.Rand, x []float32, deviation float64) {
	for i := range x {
		x[i] = float32(deviation * rng.NormFloat64())
	}
}

func uniform(rng *rand.Rand, x []float32, bound float64) {
	for i := range x {
		x[i] = float32(bound * (2*rng.Float64() - 1))
	}
}

// RandomNorm replaces batch norm by values as a trained network might have them,
// so that nothing in a test or a measurement is trivially one or zero.
func (s *Set) RandomNorm(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6e6f726d))
	for i := range s.Ops {
		p := &s.Ops[i]
		for c := range p.Scale {
			p.Scale[c] = float32(0.5 + rng.Float64())
			p.Shift[c] = float32(0.2 * rng.NormFloat64())
			p.Mean[c] = float32(0.2 * rng.NormFloat64())
			p.Variance[c] = float32(0.5 + rng.Float64())
		}
		for c := range p.Bias {
			p.Bias[c] = float32(0.1 * rng.NormFloat64())
		}
	}
}

// Statistics are batch-norm statistics of one subnetwork: for every operation
// with batch norm that runs, the mean and variance of the channels it has there.
type Statistics struct {
	Mean, Variance [][]float32 // by operation
}

// Statistics are those of the whole network, which its subnetworks use as long
// as nobody measures their own.
func (s *Set) Statistics() *Statistics {
	t := &Statistics{Mean: make([][]float32, len(s.Ops)), Variance: make([][]float32, len(s.Ops))}
	for i := range s.Ops {
		t.Mean[i], t.Variance[i] = s.Ops[i].Mean, s.Ops[i].Variance
	}
	return t
}

// Affine is what bias and batch norm of an operation do to channel c of its
// output, given the mean and variance of that channel: y = scale·x + shift.
func (p *Params) Affine(c int, mean, variance, eps float64) (scale, shift float64) {
	scale = 1
	if p.Bias != nil {
		shift = float64(p.Bias[c])
	}
	if p.Scale != nil {
		scale = float64(p.Scale[c]) / math.Sqrt(variance+eps)
		shift = (shift-mean)*scale + float64(p.Shift[c])
	}
	return scale, shift
}

// shape is the size of an operation's weights at full width.
type shape struct {
	out, in int // in is that of a group
	kernel  int
}

func fullShape(n *supernet.Network, i int) shape {
	op := n.Ops()[i]
	v := n.Full().Ops[i]
	// A linear layer is a convolution of one pixel by one tap.
	return shape{out: v.Out.Channels, in: v.In[0].Channels / v.Groups, kernel: max(op.Kernel, 1)}
}

// tensor is one field of Params: its name in files, its shape, and where it is.
type tensor struct {
	name  string
	shape []int
	field func(*Params) *[]float32
}

func (t tensor) elements() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// tensorsOf lists the tensors that operation i has.
func tensorsOf(n *supernet.Network, i int) []tensor {
	op := n.Ops()[i]
	s := fullShape(n, i)
	var list []tensor
	switch op.Kind {
	case supernet.Conv, supernet.Depthwise:
		list = append(list, tensor{"weight", []int{s.out, s.in, s.kernel, s.kernel}, func(p *Params) *[]float32 { return &p.Weight }})
	case supernet.Linear:
		list = append(list, tensor{"weight", []int{s.out, s.in}, func(p *Params) *[]float32 { return &p.Weight }})
	}
	if op.Bias {
		list = append(list, tensor{"bias", []int{s.out}, func(p *Params) *[]float32 { return &p.Bias }})
	}
	if op.Norm {
		list = append(list,
			tensor{"norm.weight", []int{s.out}, func(p *Params) *[]float32 { return &p.Scale }},
			tensor{"norm.bias", []int{s.out}, func(p *Params) *[]float32 { return &p.Shift }},
			tensor{"norm.running_mean", []int{s.out}, func(p *Params) *[]float32 { return &p.Mean }},
			tensor{"norm.running_var", []int{s.out}, func(p *Params) *[]float32 { return &p.Variance }},
		)
	}
	return list
}

// Extract makes the set of a subnetwork as a network of its own: the first
// channels of every tensor.
func (s *Set) Extract(sub supernet.Subnet) (*Set, error) { return s.ExtractWith(sub, nil) }

// ExtractWith is Extract with batch-norm statistics that were calibrated for the
// subnetwork; nil takes the first channels of the set's own.
func (s *Set) ExtractWith(sub supernet.Subnet, t *Statistics) (*Set, error) {
	if t != nil && (len(t.Mean) != len(s.Ops) || len(t.Variance) != len(s.Ops)) {
		return nil, fmt.Errorf("weights: statistics of %d and %d operations; %s has %d", len(t.Mean), len(t.Variance), s.Network.Name(), len(s.Ops))
	}
	d, err := s.Network.Extract(sub)
	if err != nil {
		return nil, err
	}
	n, err := supernet.New(d)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	out := &Set{Network: n, Ops: make([]Params, len(n.Ops()))}
	for i, op := range n.Ops() {
		from, _ := s.Network.Index(op.Name)
		big, small := fullShape(s.Network, from), fullShape(n, i)
		src, dst := &s.Ops[from], &out.Ops[i]
		if src.Weight != nil {
			dst.Weight = slice(src.Weight, big, small)
		}
		for _, t := range tensorsOf(n, i) {
			if t.name != "weight" {
				*t.field(dst) = append([]float32(nil), (*t.field(src))[:small.out]...)
			}
		}
		if t != nil && op.Norm {
			if len(t.Mean[from]) != small.out || len(t.Variance[from]) != small.out {
				return nil, fmt.Errorf("weights: operation %q: statistics of %d and %d channels; it has %d", op.Name, len(t.Mean[from]), len(t.Variance[from]), small.out)
			}
			copy(dst.Mean, t.Mean[from])
			copy(dst.Variance, t.Variance[from])
		}
	}
	return out, nil
}

// slice copies the first output and input channels of a weight.
func slice(w []float32, big, small shape) []float32 {
	taps := big.kernel * big.kernel
	out := make([]float32, 0, small.out*small.in*taps)
	for o := range small.out {
		row := w[o*big.in*taps:]
		out = append(out, row[:small.in*taps]...)
	}
	return out
}

// Clone copies the set.
func (s *Set) Clone() *Set {
	c := &Set{Network: s.Network, Ops: make([]Params, len(s.Ops))}
	for i := range s.Ops {
		from, to := &s.Ops[i], &c.Ops[i]
		to.Weight, to.Bias = slices.Clone(from.Weight), slices.Clone(from.Bias)
		to.Scale, to.Shift = slices.Clone(from.Scale), slices.Clone(from.Shift)
		to.Mean, to.Variance = slices.Clone(from.Mean), slices.Clone(from.Variance)
	}
	return c
}
