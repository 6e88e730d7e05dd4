package reference

import (
	"math"

	"tips/supernet"
	"tips/weights"
)

// Gradients gives, for a subnetwork run as RunBatch does, the gradients of the sum
// of its outputs times direction, laid out as the set's parameters. It goes back
// through every operation by its definition.
func Gradients(set *weights.Set, view *supernet.View, inputs, direction [][]float64) []OpGradients {
	r := runBatch(set, view, inputs)
	b := &backward{record: r, set: set, maps: make([][]featureMap, len(view.Ops)), grads: make([]OpGradients, len(view.Ops))}
	for i, p := range set.Ops {
		b.grads[i] = OpGradients{make([]float64, len(p.Weight)), make([]float64, len(p.Bias)), make([]float64, len(p.Scale)), make([]float64, len(p.Shift))}
		for range inputs {
			b.maps[i] = append(b.maps[i], newMap(view.Ops[i].Out))
		}
	}
	out := view.Output()
	if out == supernet.FromInput {
		return b.grads
	}
	for n := range inputs {
		copy(b.maps[out][n].values, direction[n])
	}
	for i := len(view.Ops) - 1; i >= 0; i-- {
		if view.Ops[i].Runs {
			b.finish(i)
			for n := range inputs {
				b.operation(i, n)
			}
		}
	}
	return b.grads
}

// OpGradients are those of the parameters of one operation.
type OpGradients struct{ Weight, Bias, Scale, Shift []float64 }

type backward struct {
	*record
	set   *weights.Set
	maps  [][]featureMap // gradients by operation and input
	grads []OpGradients
}

// finish goes back through activation and batch norm of operation i, in place.
func (b *backward) finish(i int) {
	op, p := b.set.Network.Ops()[i], b.set.Ops[i]
	channels := b.view.Ops[i].Out.Channels
	each := func(visit func(c int, x float64, g *float64)) {
		for n, grad := range b.maps[i] {
			for j := range grad.values {
				visit(j/(grad.Height*grad.Width), b.sums[i][n].values[j], &grad.values[j])
			}
		}
	}
	each(func(c int, x float64, g *float64) {
		if op.Norm {
			x = normalise(p, c, b.mean[i][c], b.variance[i][c], op.Eps(), x)
		}
		*g *= slope(op.Activation, x)
	})
	if !op.Norm {
		return
	}
	count := float64(len(b.inputs) * b.view.Ops[i].Out.Height * b.view.Ops[i].Out.Width)
	hat := func(c int, x float64) float64 { return (x - b.mean[i][c]) / math.Sqrt(b.variance[i][c]+op.Eps()) }
	sum, dot := make([]float64, channels), make([]float64, channels)
	each(func(c int, x float64, g *float64) {
		sum[c] += *g
		dot[c] += *g * hat(c, x)
	})
	for c := range channels {
		b.grads[i].Shift[c] += sum[c]
		b.grads[i].Scale[c] += dot[c]
	}
	each(func(c int, x float64, g *float64) {
		*g = float64(p.Scale[c]) / math.Sqrt(b.variance[i][c]+op.Eps()) * (*g - sum[c]/count - hat(c, x)*dot[c]/count)
	})
}

// slope is the derivative of an activation.
func slope(a supernet.Activation, v float64) float64 {
	s := 1 / (1 + math.Exp(-v))
	switch {
	case a == supernet.NoActivation, a == supernet.ReLU && v > 0, a == supernet.ReLU6 && v > 0 && v < 6:
		return 1
	case a == supernet.SiLU:
		return s * (1 + v*(1-s))
	case a == supernet.Sigmoid:
		return s * (1 - s)
	}
	return 0
}

// operation goes back from the output of operation i for input n to its operands
// and weights.
func (b *backward) operation(i, n int) {
	op, o := b.set.Network.Ops()[i], b.view.Ops[i]
	g := b.maps[i][n]
	in := b.at(o.Operands[0], n)
	to := func(j int, k int, v float64) { // the gradient of value k of operand j
		if from := o.Operands[j]; from != supernet.FromInput {
			b.maps[from][n].values[k] += v
		}
	}
	for c := range g.Channels {
		for h := range g.Height {
			for w := range g.Width {
				d := g.at(c, h, w)
				switch op.Kind {
				case supernet.Conv, supernet.Depthwise, supernet.Linear:
					b.product(i, n, c, h, w, d)
				case supernet.MaxPool, supernet.AvgPool:
					best := -1
					for dh := range op.Kernel {
						for dw := range op.Kernel {
							y, x := h*op.Stride+dh-op.Padding, w*op.Stride+dw-op.Padding
							if !in.holds(y, x) {
								continue
							}
							if k := in.index(c, y, x); op.Kind == supernet.AvgPool {
								to(0, k, d/float64(op.Kernel*op.Kernel))
							} else if best < 0 || in.values[k] > in.values[best] {
								best = k
							}
						}
					}
					if best >= 0 {
						to(0, best, d)
					}
				case supernet.GlobalPool:
					for k := range in.Height * in.Width {
						to(0, c*in.Height*in.Width+k, d/float64(in.Height*in.Width))
					}
				case supernet.Add:
					for j := range o.Operands {
						to(j, g.index(c, h, w), d)
					}
				case supernet.Mul:
					z := b.at(o.Operands[1], n)
					k, l := in.index(c, h, w), z.index(c, h, w)
					if z.Height == 1 && z.Width == 1 {
						l = c
					}
					to(0, k, d*z.values[l])
					to(1, l, d*in.values[k])
				}
			}
		}
	}
}

// product goes back through one value of a convolution or linear layer.
func (b *backward) product(i, n, c, h, w int, d float64) {
	op, o, p := b.set.Network.Ops()[i], b.view.Ops[i], b.set.Ops[i]
	from := o.Operands[0]
	in := b.at(from, n)
	taps, stride := max(op.Kernel, 1), max(op.Stride, 1)
	full := b.set.Network.Full().Ops[i]
	fullIn := full.In[0].Channels / full.Groups
	groupIn, groupOut := in.Channels/o.Groups, o.Out.Channels/o.Groups
	if op.Bias {
		b.grads[i].Bias[c] += d
	}
	for k := range groupIn {
		for dh := range taps {
			for dw := range taps {
				y, x := h*stride+dh-op.Padding, w*stride+dw-op.Padding
				if !in.holds(y, x) {
					continue
				}
				at, tap := in.index(c/groupOut*groupIn+k, y, x), ((c*fullIn+k)*taps+dh)*taps+dw
				b.grads[i].Weight[tap] += d * in.values[at]
				if from != supernet.FromInput {
					b.maps[from][n].values[at] += d * float64(p.Weight[tap])
				}
			}
		}
	}
}
