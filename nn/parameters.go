package nn

import (
	"slices"

	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// Parameters are values for everything a network learns, laid out as the kernels
// read it. Weights are Parameters, and so is whatever goes with them value by
// value: gradients, momentum, moving averages.
//
// All values lie in one piece of memory, pad values between them are and stay
// zero, so that an optimiser need not know what belongs to what.
type Parameters struct {
	network *supernet.Network
	values  []float32
	ops     []opParameters // as Network.Ops
	tensors []Tensor

	// Of the set they were made from; training does not change them.
	mean, variance [][]float32

	version uint64 // counts changes of the values
}

// opParameters are those of one operation; what it does not have is nil.
type opParameters struct {
	conv               *kernel.ConvWeights
	depthwise          *kernel.DepthwiseWeights
	bias, scale, shift []float32 // rounded up to whole vectors of channels
}

// Role is what a tensor is to its operation.
type Role uint8

// The roles.
const (
	RoleWeight Role = iota
	RoleBias
	RoleScale // γ of batch norm
	RoleShift // β
)

// Tensor is the values of one parameter of one operation, packed. Among them are
// pad values, which are zero and must stay so: work on them value by value.
type Tensor struct {
	Op     int
	Role   Role
	Values []float32
}

// NewParameters packs a set of weights, which is not needed afterwards.
func NewParameters(s *weights.Set) *Parameters {
	p := layOut(s.Network)
	p.Load(s)
	return p
}

// layOut makes parameters that are all zero.
func layOut(n *supernet.Network) *Parameters {
	p := &Parameters{network: n, ops: make([]opParameters, len(n.Ops()))}
	floats := 0
	p.eachTensor(func(_ int, _ Role, size int) { floats += aligned(size) })
	p.values = kernel.Alloc(floats)
	at := 0
	p.eachTensor(func(i int, role Role, size int) {
		values := p.values[at : at+size : at+size]
		at += aligned(size)
		p.tensors = append(p.tensors, Tensor{i, role, values})
		op, full := n.Ops()[i], n.Full().Ops[i]
		o := &p.ops[i]
		switch {
		case role == RoleBias:
			o.bias = values
		case role == RoleScale:
			o.scale = values
		case role == RoleShift:
			o.shift = values
		case op.Kind == supernet.Depthwise:
			o.depthwise = &kernel.DepthwiseWeights{Channels: full.Out.Channels, Taps: op.Kernel * op.Kernel, Data: values}
		default:
			o.conv = &kernel.ConvWeights{Cout: full.Out.Channels, Cin: full.In[0].Channels / full.Groups, Taps: max(op.Kernel, 1) * max(op.Kernel, 1), Data: values}
		}
	})
	p.mean, p.variance = make([][]float32, len(p.ops)), make([][]float32, len(p.ops))
	for i, op := range n.Ops() {
		if op.Norm {
			p.mean[i] = make([]float32, n.Full().Ops[i].Out.Channels)
			p.variance[i] = slices.Repeat([]float32{1}, len(p.mean[i]))
		}
	}
	return p
}

// aligned rounds a number of floats up to whole cache lines.
func aligned(floats int) int { return (floats + alignment - 1) / alignment * alignment }

// eachTensor visits the tensors of all operations with their packed sizes.
func (p *Parameters) eachTensor(visit func(op int, role Role, size int)) {
	for i, op := range p.network.Ops() {
		full := p.network.Full().Ops[i]
		taps := max(op.Kernel, 1) * max(op.Kernel, 1)
		switch op.Kind {
		case supernet.Conv, supernet.Linear:
			visit(i, RoleWeight, kernel.PackedLen(full.Out.Channels, full.In[0].Channels/full.Groups, taps))
		case supernet.Depthwise:
			visit(i, RoleWeight, taps*kernel.PadChannels(full.Out.Channels))
		}
		channels := kernel.PadChannels(full.Out.Channels)
		if op.Bias {
			visit(i, RoleBias, channels)
		}
		if op.Norm {
			visit(i, RoleScale, channels)
			visit(i, RoleShift, channels)
		}
	}
}

// Network is the network the parameters are for.
func (p *Parameters) Network() *supernet.Network { return p.network }

// Tensors are the parameters of all operations, in an order that is the same for
// all Parameters of a network. Who writes to their values calls Changed.
func (p *Parameters) Tensors() []Tensor { return p.tensors }

// Values are all tensors in one slice, pad values between them. Who writes to
// them calls Changed.
func (p *Parameters) Values() []float32 { return p.values }

// Changed says that values were written to: what was computed from them before
// is out of date.
func (p *Parameters) Changed() { p.version++ }

// Zeros makes parameters of the same shapes that are all zero.
func (p *Parameters) Zeros() *Parameters { return layOut(p.network) }

// Clear makes all values zero.
func (p *Parameters) Clear() {
	clear(p.values)
	p.Changed()
}

// Clone copies the parameters.
func (p *Parameters) Clone() *Parameters {
	q := layOut(p.network)
	q.Copy(p)
	for i := range p.mean {
		copy(q.mean[i], p.mean[i])
		copy(q.variance[i], p.variance[i])
	}
	return q
}

// Copy takes over the values of parameters of the same network.
func (p *Parameters) Copy(from *Parameters) {
	copy(p.values, from.values)
	p.Changed()
}

// Load takes over the values of a set of the same network.
func (p *Parameters) Load(s *weights.Set) {
	for i := range p.ops {
		o, from := &p.ops[i], &s.Ops[i]
		if o.conv != nil {
			copy(o.conv.Data, kernel.PackConv(o.conv.Cout, o.conv.Cin, o.conv.Taps, from.Weight).Data)
		}
		if o.depthwise != nil {
			copy(o.depthwise.Data, kernel.PackDepthwise(o.depthwise.Channels, o.depthwise.Taps, from.Weight).Data)
		}
		copy(o.bias, from.Bias)
		copy(o.scale, from.Scale)
		copy(o.shift, from.Shift)
		copy(p.mean[i], from.Mean)
		copy(p.variance[i], from.Variance)
	}
	p.Changed()
}

// Set unpacks the parameters. The statistics of batch norm are those of the set
// they were made from, and mean 0 and variance 1 if there was none.
func (p *Parameters) Set() *weights.Set {
	s := weights.New(p.network)
	for i := range p.ops {
		o, to := &p.ops[i], &s.Ops[i]
		if o.conv != nil {
			o.conv.Unpack(to.Weight)
		}
		if o.depthwise != nil {
			o.depthwise.Unpack(to.Weight)
		}
		copy(to.Bias, o.bias)
		copy(to.Scale, o.scale)
		copy(to.Shift, o.shift)
		copy(to.Mean, p.mean[i])
		copy(to.Variance, p.variance[i])
	}
	return s
}

// Model is a model of the parameters, to run subnetworks with. It shares their
// weights: use it, and programs made from it, until they change.
func (p *Parameters) Model() *Model {
	m := &Model{network: p.network, ops: make([]packed, len(p.ops)), stripsPay: stripsPay}
	for i, op := range p.network.Ops() {
		if !op.Kind.HasWeights() && !op.Norm {
			continue
		}
		o, to := &p.ops[i], &m.ops[i]
		channels := p.network.Full().Ops[i].Out.Channels
		to.conv, to.depthwise = o.conv, o.depthwise
		if !op.Kind.HasWeights() {
			to.depthwise = normAlone(channels)
		}
		to.params = weights.Params{Bias: slices.Clone(o.bias), Scale: slices.Clone(o.scale), Shift: slices.Clone(o.shift)}
		to.affine = to.affineOf(op, channels, p.mean[i], p.variance[i])
	}
	return m
}
