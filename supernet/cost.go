package supernet

import "slices"

// BytesPerValue is the size of a weight or an activation: float32.
const BytesPerValue = 4

// OpCost is what one operation costs for one input.
type OpCost struct {
	MACs        int64 // multiply-accumulates; 0 for what is no convolution and not linear
	Params      int64 // weights, biases, and scale and shift of batch norm
	WeightBytes int64 // of the parameters as float32
	LiveBytes   int64 // of all feature maps held while the operation runs, its output included
}

// Costs is what a subnetwork costs for one input.
type Costs struct {
	MACs        int64
	Params      int64
	WeightBytes int64
	// PeakBytes is the most that feature maps take at any time when operations run
	// in order: a map is held from when it is written until its last reader is
	// done, an addition or multiplication writes over a map that it is the last
	// to read, and the input counts as a map.
	PeakBytes int64
}

// Costs adds up the view.
func (v *View) Costs() Costs {
	total := Costs{PeakBytes: BytesPerValue * v.Input.Elements()}
	for _, c := range v.OpCosts() {
		total.MACs += c.MACs
		total.Params += c.Params
		total.WeightBytes += c.WeightBytes
		total.PeakBytes = max(total.PeakBytes, c.LiveBytes)
	}
	return total
}

// OpCosts are the costs of every operation of the view, zero where it is left out.
func (v *View) OpCosts() []OpCost {
	lastReader := v.lastReaders()
	costs := make([]OpCost, len(v.Ops))
	live := v.Input.Elements() // values held
	for i := range v.Ops {
		o := &v.Ops[i]
		if !o.Runs {
			continue
		}
		c := &costs[i]
		op := v.Network.ops[i]
		c.MACs, c.Params = o.work(op)
		c.WeightBytes = BytesPerValue * c.Params

		freed := int64(0)
		inPlace := false
		for j, from := range o.Operands {
			if lastReader[from+1] == i && !slices.Contains(o.Operands[:j], from) {
				freed += v.Shape(from).Elements()
				inPlace = inPlace || op.Kind.Joins() && v.Shape(from) == o.Out
			}
		}
		out := o.Out.Elements()
		if inPlace {
			live -= out // one of the operands becomes the output
			freed -= out
		}
		live += out
		c.LiveBytes = BytesPerValue * live
		live -= freed
	}
	return costs
}

// lastReaders tells for the input (at 0) and for every operation (at 1 + its
// index) which running operation is the last to read it, or -1.
func (v *View) lastReaders() []int {
	last := make([]int, len(v.Ops)+1)
	for i := range last {
		last[i] = -1
	}
	for i, o := range v.Ops {
		for _, from := range o.Operands {
			last[from+1] = i
		}
	}
	return last
}

// work counts the multiply-accumulates and parameters of an operation.
func (o *OpView) work(op Op) (macs, params int64) {
	weights := int64(0)
	switch op.Kind {
	case Conv, Depthwise:
		window := int64(op.Kernel) * int64(op.Kernel)
		weights = int64(o.Out.Channels) * int64(o.In[0].Channels/o.Groups) * window
	case Linear:
		weights = int64(o.Out.Channels) * int64(o.In[0].Channels)
	}
	macs = weights * int64(o.Out.Height) * int64(o.Out.Width)
	params = weights
	if op.Bias {
		params += int64(o.Out.Channels)
	}
	if op.Norm {
		params += 2 * int64(o.Out.Channels)
	}
	return macs, params
}

// size is an upper bound, up to a small factor, on every count of an operation,
// in floating point because it is what keeps the integer counts from overflowing.
func (o *OpView) size(op Op) float64 {
	out := float64(o.Out.Channels) * float64(o.Out.Height) * float64(o.Out.Width)
	if !op.Kind.HasWeights() {
		return BytesPerValue * out
	}
	window := float64(max(op.Kernel, 1)) * float64(max(op.Kernel, 1))
	return BytesPerValue * (out*window*float64(o.In[0].Channels)/float64(o.Groups) + 3*out)
}
