package onnx

import (
	"fmt"
	"math"
	"slices"
)

// A runtime for the operators that exported models use, by the definitions of
// ONNX and in float64, so that a model can be held against the network it was
// written from where no real runtime is at hand. bench/ does the same with one.

type array struct {
	dims   []int
	values []float64
}

func newArray(dims ...int) array {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return array{dims, make([]float64, n)}
}

// evaluate runs the model on one input. It panics on what no runtime would take:
// values that nobody wrote yet or that are written twice, or shapes that do not fit.
func evaluate(g readGraph, input array) array {
	values := map[string]array{g.inputs[0].name: input}
	for name, t := range g.tensors {
		if _, twice := values[name]; twice {
			panic(fmt.Sprintf("value %q is written twice", name))
		}
		values[name] = array{t.dims, t.floats}
	}
	for _, n := range g.nodes {
		in := make([]array, len(n.inputs))
		for i, name := range n.inputs {
			v, there := values[name]
			if !there {
				panic(fmt.Sprintf("node %q reads %q, which nobody wrote", n.name, name))
			}
			in[i] = v
		}
		if _, twice := values[n.outputs[0]]; twice {
			panic(fmt.Sprintf("value %q is written twice", n.outputs[0]))
		}
		values[n.outputs[0]] = operator(n, in)
	}
	return values[g.outputs[0].name]
}

func operator(n readNode, in []array) array {
	x := in[0]
	switch n.kind {
	case "Conv":
		return convolve(n, in)
	case "Gemm":
		return gemm(n, in)
	case "MaxPool":
		return pool(n, x, func(w []float64, _ int) float64 { return slices.Max(w) })
	case "AveragePool":
		return pool(n, x, func(w []float64, area int) float64 {
			if !slices.Equal(n.ints["count_include_pad"], []int{1}) {
				area = len(w)
			}
			return sum(w) / float64(area)
		})
	case "GlobalAveragePool":
		y := newArray(x.dims[0], x.dims[1], 1, 1)
		area := x.dims[2] * x.dims[3]
		for i := range y.values {
			y.values[i] = sum(x.values[i*area:][:area]) / float64(area)
		}
		return y
	case "BatchNormalization":
		return each(x, func(c int, v float64) float64 {
			return (v-in[3].values[c])/math.Sqrt(in[4].values[c]+n.floats["epsilon"])*in[1].values[c] + in[2].values[c]
		})
	case "Add":
		return join(x, in[1], func(a, b float64) float64 { return a + b })
	case "Mul":
		return join(x, in[1], func(a, b float64) float64 { return a * b })
	case "Relu":
		return each(x, func(_ int, v float64) float64 { return max(v, 0) })
	case "Clip":
		return each(x, func(_ int, v float64) float64 { return min(max(v, in[1].values[0]), in[2].values[0]) })
	case "Sigmoid":
		return each(x, func(_ int, v float64) float64 { return 1 / (1 + math.Exp(-v)) })
	case "Flatten":
		return array{[]int{x.dims[0], len(x.values) / x.dims[0]}, x.values}
	case "Unsqueeze": // at the end only
		return array{append(slices.Clone(x.dims), 1, 1), x.values}
	case "Identity":
		return x
	}
	panic(fmt.Sprintf("node %q: operator %s", n.name, n.kind))
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// each applies f to every value, which also gets its channel.
func each(x array, f func(c int, v float64) float64) array {
	y := newArray(x.dims...)
	area := len(x.values) / x.dims[0] / x.dims[1]
	for i, v := range x.values {
		y.values[i] = f(i/area%x.dims[1], v)
	}
	return y
}

// join broadcasts dimensions of one.
func join(a, b array, f func(a, b float64) float64) array {
	if len(a.dims) != len(b.dims) {
		panic(fmt.Sprintf("shapes %v and %v", a.dims, b.dims))
	}
	y := newArray(a.dims...)
	for d := range a.dims {
		if b.dims[d] != a.dims[d] && b.dims[d] != 1 {
			panic(fmt.Sprintf("shapes %v and %v", a.dims, b.dims))
		}
	}
	for i, v := range a.values {
		j, stride, rest := 0, 1, i
		for d := len(a.dims) - 1; d >= 0; d-- {
			if b.dims[d] > 1 {
				j += rest % a.dims[d] * stride
			}
			stride *= b.dims[d]
			rest /= a.dims[d]
		}
		y.values[i] = f(v, b.values[j])
	}
	return y
}

func gemm(n readNode, in []array) array {
	x, w := in[0], in[1]
	if len(x.dims) != 2 || x.dims[1] != w.dims[1] || !slices.Equal(n.ints["transB"], []int{1}) {
		panic(fmt.Sprintf("Gemm of %v and %v", x.dims, w.dims))
	}
	y := newArray(x.dims[0], w.dims[0])
	for r := range x.dims[0] {
		for o := range w.dims[0] {
			s := 0.0
			if len(in) > 2 {
				s = in[2].values[o]
			}
			for k := range x.dims[1] {
				s += x.values[r*x.dims[1]+k] * w.values[o*w.dims[1]+k]
			}
			y.values[r*w.dims[0]+o] = s
		}
	}
	return y
}

// windowed walks the windows of a node over maps of x: visit gets the place of
// the output and the window's first row and column, which may lie in the padding.
func windowed(n readNode, x array, channels int, visit func(y array, at, image, channel, top, left int)) array {
	k, s, p := n.ints["kernel_shape"], n.ints["strides"], n.ints["pads"]
	height := (x.dims[2]+p[0]+p[2]-k[0])/s[0] + 1
	width := (x.dims[3]+p[1]+p[3]-k[1])/s[1] + 1
	y := newArray(x.dims[0], channels, height, width)
	at := 0
	for image := range x.dims[0] {
		for c := range channels {
			for h := range height {
				for w := range width {
					visit(y, at, image, c, h*s[0]-p[0], w*s[1]-p[1])
					at++
				}
			}
		}
	}
	return y
}

func pool(n readNode, x array, f func(window []float64, area int) float64) array {
	k := n.ints["kernel_shape"]
	return windowed(n, x, x.dims[1], func(y array, at, image, c, top, left int) {
		var window []float64
		for h := max(top, 0); h < min(top+k[0], x.dims[2]); h++ {
			for w := max(left, 0); w < min(left+k[1], x.dims[3]); w++ {
				window = append(window, x.values[((image*x.dims[1]+c)*x.dims[2]+h)*x.dims[3]+w])
			}
		}
		y.values[at] = f(window, k[0]*k[1])
	})
}

func convolve(n readNode, in []array) array {
	x, w := in[0], in[1]
	k, groups := n.ints["kernel_shape"], n.ints["group"][0]
	if len(x.dims) != 4 || x.dims[1] != w.dims[1]*groups || w.dims[0]%groups != 0 || w.dims[2] != k[0] || w.dims[3] != k[1] {
		panic(fmt.Sprintf("Conv of %v and %v in %d groups", x.dims, w.dims, groups))
	}
	perGroup := w.dims[0] / groups
	return windowed(n, x, w.dims[0], func(y array, at, image, o, top, left int) {
		s := 0.0
		if len(in) > 2 {
			s = in[2].values[o]
		}
		for c := range w.dims[1] {
			plane := x.values[(image*x.dims[1]+o/perGroup*w.dims[1]+c)*x.dims[2]*x.dims[3]:]
			taps := w.values[(o*w.dims[1]+c)*k[0]*k[1]:]
			for h := max(top, 0); h < min(top+k[0], x.dims[2]); h++ {
				for v := max(left, 0); v < min(left+k[1], x.dims[3]); v++ {
					s += plane[h*x.dims[3]+v] * taps[(h-top)*k[1]+v-left]
				}
			}
		}
		y.values[at] = s
	})
}
