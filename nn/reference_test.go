package nn

import (
	"math"

	"tips/supernet"
	"tips/weights"
)

// reference computes a subnetwork in float64 by the definitions, one loop inside
// another, for one input in the order height, width, channel. It shares nothing
// with what it checks but the description and the weights.
func reference(set *weights.Set, v *supernet.View, input []float32, t *weights.Statistics) []float64 {
	maps := make([][]float64, len(v.Ops)+1)
	maps[0] = make([]float64, len(input))
	for i, x := range input {
		maps[0][i] = float64(x)
	}
	if t == nil {
		t = set.Statistics()
	}
	for i, op := range set.Network.Ops() {
		o := v.Ops[i]
		if !o.Runs {
			continue
		}
		in := make([][]float64, len(o.Operands))
		for j, from := range o.Operands {
			in[j] = maps[from+1]
		}
		out := make([]float64, o.Out.Elements())
		at := 0
		for y := range o.Out.Height {
			for x := range o.Out.Width {
				for c := range o.Out.Channels {
					value := referenceValue(set, op, i, &o, in, y, x, c)
					p := &set.Ops[i]
					if p.Bias != nil {
						value += float64(p.Bias[c])
					}
					if op.Norm {
						value = (value-float64(t.Mean[i][c]))/math.Sqrt(float64(t.Variance[i][c])+op.Eps())*float64(p.Scale[c]) + float64(p.Shift[c])
					}
					out[at] = referenceActivation(op.Activation, value)
					at++
				}
			}
		}
		maps[i+1] = out
	}
	return maps[v.Output()+1]
}

func referenceActivation(a supernet.Activation, x float64) float64 {
	switch a {
	case supernet.ReLU:
		return max(x, 0)
	case supernet.ReLU6:
		return min(max(x, 0), 6)
	case supernet.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case supernet.SiLU:
		return x / (1 + math.Exp(-x))
	}
	return x
}

// referenceValue is one value of an operation's output before bias.
func referenceValue(set *weights.Set, op supernet.Op, i int, o *supernet.OpView, in [][]float64, y, x, c int) float64 {
	shape := o.In[0]
	pixel := func(y, x, c int) (float64, bool) {
		if y < 0 || y >= shape.Height || x < 0 || x >= shape.Width {
			return 0, false
		}
		return in[0][(y*shape.Width+x)*shape.Channels+c], true
	}
	full := set.Network.Full().Ops[i]
	w := set.Ops[i].Weight
	value := 0.0
	switch op.Kind {
	case supernet.Conv, supernet.Depthwise, supernet.Linear:
		k := max(op.Kernel, 1)
		perGroup, fullPerGroup := shape.Channels/o.Groups, full.In[0].Channels/full.Groups
		group := c / (o.Out.Channels / o.Groups)
		for ky := range k {
			for kx := range k {
				for ci := range perGroup {
					if p, ok := pixel(y*max(op.Stride, 1)+ky-op.Padding, x*max(op.Stride, 1)+kx-op.Padding, group*perGroup+ci); ok {
						value += p * float64(w[((c*fullPerGroup+ci)*k+ky)*k+kx])
					}
				}
			}
		}
	case supernet.MaxPool, supernet.AvgPool:
		top := math.Inf(-1)
		for ky := range op.Kernel {
			for kx := range op.Kernel {
				if p, ok := pixel(y*op.Stride+ky-op.Padding, x*op.Stride+kx-op.Padding, c); ok {
					top = max(top, p)
					value += p / float64(op.Kernel*op.Kernel)
				}
			}
		}
		if op.Kind == supernet.MaxPool {
			value = top
		}
	case supernet.GlobalPool:
		for py := range shape.Height {
			for px := range shape.Width {
				p, _ := pixel(py, px, c)
				value += p / float64(shape.Height*shape.Width)
			}
		}
	case supernet.Add, supernet.Mul:
		at := (y*o.Out.Width+x)*o.Out.Channels + c
		value = in[0][at]
		for j := 1; j < len(in); j++ {
			other := at
			if s := o.In[j]; s.Height == 1 && s.Width == 1 {
				other = c
			}
			if op.Kind == supernet.Add {
				value += in[j][other]
			} else {
				value *= in[j][other]
			}
		}
	}
	return value
}
