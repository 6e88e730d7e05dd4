package onnx

import (
	"fmt"

	"tips/supernet"
)

// checkParams holds the parameters of operation i to the shapes of the network.
// A set is plain data, and statistics in particular are replaced by callers.
func (g *graph) checkParams(i int) error {
	op, p := g.set.Network.Ops()[i], g.set.Ops[i]
	out, in := g.fullShape(i)
	for _, t := range []struct {
		what string
		have []float32
		has  bool
		want int
	}{
		{"weight", p.Weight, op.Kind.HasWeights(), out * in},
		{"bias", p.Bias, op.Bias, out},
		{"scale", p.Scale, op.Norm, out},
		{"shift", p.Shift, op.Norm, out},
	} {
		if t.has && len(t.have) != t.want {
			return fmt.Errorf("%s of %d values; want %d", t.what, len(t.have), t.want)
		}
	}
	if !op.Norm {
		return nil
	}
	channels, s := g.view.Ops[i].Out.Channels, g.opts.Statistics
	if len(s.Mean[i]) < channels || len(s.Variance[i]) < channels {
		return fmt.Errorf("statistics of %d and %d channels; it has %d", len(s.Mean[i]), len(s.Variance[i]), channels)
	}
	return nil
}

// fullShape is the number of output channels of operation i in the whole network,
// and of the weights that each of them has.
func (g *graph) fullShape(i int) (out, length int) {
	full := g.set.Network.Full().Ops[i]
	taps := max(g.set.Network.Ops()[i].Kernel, 1)
	return full.Out.Channels, full.In[0].Channels / full.Groups * taps * taps
}

// weightsOf adds weight and bias of operation i, with batch norm folded in where
// that is to be, and gives their names.
func (g *graph) weightsOf(i int) []string {
	op, o, p := g.set.Network.Ops()[i], g.view.Ops[i], g.set.Ops[i]
	_, stride := g.fullShape(i)
	out, in, taps := o.Out.Channels, o.In[0].Channels/o.Groups, max(op.Kernel, 1)
	w := tensor{
		name:   g.unique(op.Name + ".weight"),
		dims:   []int{out, in, taps, taps},
		values: p.Weight, rows: out, length: in * taps * taps, stride: stride,
	}
	if op.Kind == supernet.Linear {
		w.dims = w.dims[:2]
	}
	var bias []float32
	if op.Bias {
		bias = p.Bias
	}
	if g.folds(op) {
		mean, variance := g.opts.Statistics.Mean[i], g.opts.Statistics.Variance[i]
		w.factors, bias = make([]float64, out), make([]float32, out)
		for c := range out {
			scale, shift := p.Affine(c, float64(mean[c]), float64(variance[c]), op.Eps())
			w.factors[c], bias[c] = scale, float32(shift)
		}
	}
	g.tensors = append(g.tensors, w)
	names := []string{w.name}
	if bias != nil {
		names = append(names, g.vector(op.Name+".bias", bias[:out]))
	}
	return names
}

// normOf adds the batch norm of operation i: scale, shift, mean and variance.
func (g *graph) normOf(i int) []string {
	name, p, channels := g.set.Network.Ops()[i].Name, g.set.Ops[i], g.view.Ops[i].Out.Channels
	return []string{
		g.vector(name+".norm.weight", p.Scale[:channels]),
		g.vector(name+".norm.bias", p.Shift[:channels]),
		g.vector(name+".norm.running_mean", g.opts.Statistics.Mean[i][:channels]),
		g.vector(name+".norm.running_var", g.opts.Statistics.Variance[i][:channels]),
	}
}

func (g *graph) vector(name string, values []float32) string {
	name = g.unique(name)
	g.tensors = append(g.tensors, tensor{name: name, dims: []int{len(values)}, values: values, rows: 1, length: len(values)})
	return name
}

// scalar is a constant that all nodes share.
func (g *graph) scalar(name string, v float32) string {
	return g.share(name, tensor{values: []float32{v}, rows: 1, length: 1})
}

// pixelAxes are the axes that [N, C] lacks.
func (g *graph) pixelAxes() string {
	return g.share("pixel_axes", tensor{dims: []int{2}, ints: []int64{2, 3}})
}

func (g *graph) share(name string, t tensor) string {
	if _, there := g.shared[name]; !there {
		t.name = g.unique(name)
		g.shared[name] = t.name
		g.tensors = append(g.tensors, t)
	}
	return g.shared[name]
}
