// Package reference computes networks slowly and plainly: float64, one image,
// channels first, direct loops straight from the definitions. It is what tests
// and comparisons hold faster ways to the same numbers against; nothing else uses
// it.
package reference

import (
	"math"

	"tips/supernet"
	"tips/weights"
)

// Run gives the output of a subnetwork for one input, both as [channel][row][column].
// Statistics are those of its batch norm; nil takes the set's.
func Run(set *weights.Set, view *supernet.View, t *weights.Statistics, input []float64) []float64 {
	if t == nil {
		t = set.Statistics()
	}
	fixed := func(i int, _ []featureMap) (mean, variance []float64) { return widen(t.Mean[i]), widen(t.Variance[i]) }
	return run(set, view, [][]float64{input}, fixed).outputs()[0]
}

// RunBatch gives the outputs of a subnetwork for several inputs, batch norm using
// the statistics of these inputs, as in training.
func RunBatch(set *weights.Set, view *supernet.View, inputs [][]float64) [][]float64 {
	return runBatch(set, view, inputs).outputs()
}

// Moments are the mean and variance, the latter divided by the number of values, of
// what batch norm of a subnetwork normalises when it runs as RunBatch does; nil where
// an operation has none.
func Moments(set *weights.Set, view *supernet.View, inputs [][]float64) (mean, variance [][]float64) {
	r := runBatch(set, view, inputs)
	return r.mean, r.variance
}

func runBatch(set *weights.Set, view *supernet.View, inputs [][]float64) *record {
	return run(set, view, inputs, func(_ int, y []featureMap) (mean, variance []float64) { return moments(y) })
}

// record is all that a run computed, by operation.
type record struct {
	view           *supernet.View
	inputs         [][]float64
	sums           [][]featureMap // before batch norm and activation, by input
	maps           [][]featureMap // after them
	mean, variance [][]float64
}

func (r *record) at(i, n int) featureMap {
	if i == supernet.FromInput {
		return featureMap{r.view.Input, r.inputs[n]}
	}
	return r.maps[i][n]
}

func (r *record) outputs() [][]float64 {
	outputs := make([][]float64, len(r.inputs))
	for n := range outputs {
		outputs[n] = r.at(r.view.Output(), n).values
	}
	return outputs
}

// moments are the mean and variance of each channel of some maps.
func moments(maps []featureMap) (mean, variance []float64) {
	channels := maps[0].Channels
	mean, variance = make([]float64, channels), make([]float64, channels)
	n := float64(len(maps) * maps[0].Height * maps[0].Width)
	each := func(visit func(c int, v float64)) {
		for _, m := range maps {
			for i, v := range m.values {
				visit(i/(m.Height*m.Width), v)
			}
		}
	}
	each(func(c int, v float64) { mean[c] += v / n })
	each(func(c int, v float64) { variance[c] += (v - mean[c]) * (v - mean[c]) / n })
	return mean, variance
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// Calibrate makes statistics of a subnetwork with which its output depends on its
// input. Batch norm whose statistics do not fit what it normalises shrinks the
// signal layer by layer, until outputs are the same whatever the input is and
// equal outputs show nothing. The statistics of a layer are those of all its
// channels on the input given, varied by channel as the set's own are.
func Calibrate(set *weights.Set, view *supernet.View, input []float64) *weights.Statistics {
	n := len(set.Ops)
	t := &weights.Statistics{Mean: make([][]float32, n), Variance: make([][]float32, n)}
	run(set, view, [][]float64{input}, func(i int, maps []featureMap) (_, _ []float64) {
		y := maps[0]
		mean, variance := 0.0, 0.0
		for _, v := range y.values {
			mean += v / float64(len(y.values))
		}
		for _, v := range y.values {
			variance += (v - mean) * (v - mean) / float64(len(y.values))
		}
		t.Mean[i], t.Variance[i] = make([]float32, y.Channels), make([]float32, y.Channels)
		for c := range y.Channels {
			t.Mean[i][c] = float32(mean + math.Sqrt(variance)*float64(set.Ops[i].Mean[c]))
			t.Variance[i][c] = float32(variance * float64(set.Ops[i].Variance[c]))
		}
		return widen(t.Mean[i]), widen(t.Variance[i])
	})
	return t
}

// run computes operation by operation, each for all inputs. Batch norm asks
// statistics, which sees what is to be normalised, for the mean and variance of
// each channel.
func run(set *weights.Set, view *supernet.View, inputs [][]float64, statistics func(i int, y []featureMap) (mean, variance []float64)) *record {
	ops := len(view.Ops)
	r := &record{
		view: view, inputs: inputs, sums: make([][]featureMap, ops), maps: make([][]featureMap, ops),
		mean: make([][]float64, ops), variance: make([][]float64, ops),
	}
	for i, op := range set.Network.Ops() {
		o := view.Ops[i]
		if !o.Runs {
			continue
		}
		for n := range inputs {
			operands := make([]featureMap, len(o.Operands))
			for j, from := range o.Operands {
				operands[j] = r.at(from, n)
			}
			y := newMap(o.Out)
			y.fill(func(c, h, w int) float64 { return compute(set, i, o, operands, c, h, w) })
			r.sums[i] = append(r.sums[i], y)
		}
		if op.Norm {
			r.mean[i], r.variance[i] = statistics(i, r.sums[i])
		}
		for _, x := range r.sums[i] {
			y := newMap(o.Out)
			y.fill(func(c, h, w int) float64 {
				v := x.at(c, h, w)
				if op.Norm {
					v = normalise(set.Ops[i], c, r.mean[i][c], r.variance[i][c], op.Eps(), v)
				}
				return activate(op.Activation, v)
			})
			r.maps[i] = append(r.maps[i], y)
		}
	}
	return r
}

// featureMap is a map and its values.
type featureMap struct {
	supernet.Shape
	values []float64
}

func newMap(s supernet.Shape) featureMap { return featureMap{s, make([]float64, s.Elements())} }

func (m featureMap) index(c, h, w int) int { return (c*m.Height+h)*m.Width + w }

func (m featureMap) at(c, h, w int) float64 { return m.values[m.index(c, h, w)] }

func (m featureMap) fill(value func(c, h, w int) float64) {
	for c := range m.Channels {
		for h := range m.Height {
			for w := range m.Width {
				m.values[m.index(c, h, w)] = value(c, h, w)
			}
		}
	}
}

func (m featureMap) holds(h, w int) bool { return h >= 0 && h < m.Height && w >= 0 && w < m.Width }

// compute is one value of an operation's output before batch norm and activation.
func compute(set *weights.Set, i int, o supernet.OpView, x []featureMap, c, h, w int) float64 {
	op := set.Network.Ops()[i]
	in := x[0]
	switch op.Kind {
	case supernet.Conv, supernet.Depthwise, supernet.Linear:
		return product(set, i, o, in, c, h, w)
	case supernet.MaxPool, supernet.AvgPool:
		largest, sum := math.Inf(-1), 0.0
		for dh := range op.Kernel {
			for dw := range op.Kernel {
				if y, x := h*op.Stride+dh-op.Padding, w*op.Stride+dw-op.Padding; in.holds(y, x) {
					largest = math.Max(largest, in.at(c, y, x))
					sum += in.at(c, y, x)
				}
			}
		}
		if op.Kind == supernet.MaxPool {
			return largest
		}
		return sum / float64(op.Kernel*op.Kernel)
	case supernet.GlobalPool:
		sum := 0.0
		for y := range in.Height {
			for x := range in.Width {
				sum += in.at(c, y, x)
			}
		}
		return sum / float64(in.Height*in.Width)
	case supernet.Add:
		sum := 0.0
		for _, operand := range x {
			sum += operand.at(c, h, w)
		}
		return sum
	case supernet.Mul:
		if x[1].Height == 1 && x[1].Width == 1 {
			return in.at(c, h, w) * x[1].at(c, 0, 0)
		}
		return in.at(c, h, w) * x[1].at(c, h, w)
	}
	panic("reference: kind " + string(op.Kind))
}

// product is one value of a convolution, depthwise or not, or of a linear layer,
// which is a convolution of one tap. Weights lie as in the whole network.
func product(set *weights.Set, i int, o supernet.OpView, in featureMap, c, h, w int) float64 {
	op, p := set.Network.Ops()[i], set.Ops[i]
	taps, stride := max(op.Kernel, 1), max(op.Stride, 1)
	full := set.Network.Full().Ops[i]
	fullIn := full.In[0].Channels / full.Groups
	groupIn, groupOut := in.Channels/o.Groups, o.Out.Channels/o.Groups
	sum := 0.0
	if op.Bias {
		sum = float64(p.Bias[c])
	}
	for k := range groupIn {
		for dh := range taps {
			for dw := range taps {
				y, x := h*stride+dh-op.Padding, w*stride+dw-op.Padding
				if in.holds(y, x) {
					sum += in.at(c/groupOut*groupIn+k, y, x) * float64(p.Weight[((c*fullIn+k)*taps+dh)*taps+dw])
				}
			}
		}
	}
	return sum
}

func normalise(p weights.Params, c int, mean, variance, eps, v float64) float64 {
	return (v-mean)/math.Sqrt(variance+eps)*float64(p.Scale[c]) + float64(p.Shift[c])
}

func activate(a supernet.Activation, v float64) float64 {
	switch a {
	case supernet.NoActivation:
		return v
	case supernet.ReLU:
		return math.Max(v, 0)
	case supernet.ReLU6:
		return math.Min(math.Max(v, 0), 6)
	case supernet.SiLU:
		return v / (1 + math.Exp(-v))
	case supernet.Sigmoid:
		return 1 / (1 + math.Exp(-v))
	}
	panic("reference: activation " + string(a))
}
