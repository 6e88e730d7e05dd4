package onnx

import (
	"slices"

	"tips/supernet"
)

// operation adds the nodes of operation i, the last of which writes the value
// called name.
func (g *graph) operation(i int, op supernet.Op, name string) {
	o := g.view.Ops[i]
	flat := g.computesFlat(op, o)
	x := make([]string, len(o.Operands))
	for j, from := range o.Operands {
		if flat {
			x[j] = g.flat(from)
		} else {
			x[j] = g.square(from)
		}
	}
	window := []attribute{
		{"kernel_shape", []int{op.Kernel, op.Kernel}},
		{"strides", []int{op.Stride, op.Stride}},
		{"pads", []int{op.Padding, op.Padding, op.Padding, op.Padding}},
	}
	var y string
	switch op.Kind {
	case supernet.Conv, supernet.Depthwise:
		y = g.add(op.Name, "conv", "Conv", append(x, g.weightsOf(i)...), append(window, attribute{"group", o.Groups})...)
	case supernet.Linear:
		y = g.add(op.Name, "gemm", "Gemm", append(x, g.weightsOf(i)...), attribute{"transB", 1})
	case supernet.MaxPool:
		y = g.add(op.Name, "maxpool", "MaxPool", x, window...)
	case supernet.AvgPool:
		y = g.add(op.Name, "avgpool", "AveragePool", x, append(window, attribute{"count_include_pad", 1})...)
	case supernet.GlobalPool:
		y = g.add(op.Name, "globalpool", "GlobalAveragePool", x)
	case supernet.Add: // not Sum: runtimes fuse additions of two into convolutions
		y = x[0]
		for _, z := range x[1:] {
			y = g.add(op.Name, "add", "Add", []string{y, z})
		}
	case supernet.Mul:
		y = g.add(op.Name, "mul", "Mul", x)
	}
	if op.Norm && !g.folds(op) {
		y = g.add(op.Name, "norm", "BatchNormalization", append([]string{y}, g.normOf(i)...), attribute{"epsilon", float32(op.Eps())})
	}
	switch op.Activation {
	case supernet.ReLU:
		g.add(op.Name, "relu", "Relu", []string{y})
	case supernet.ReLU6:
		g.add(op.Name, "relu6", "Clip", []string{y, g.scalar("zero", 0), g.scalar("six", 6)})
	case supernet.Sigmoid:
		g.add(op.Name, "sigmoid", "Sigmoid", []string{y})
	case supernet.SiLU:
		g.add(op.Name, "silu", "Mul", []string{y, g.add(op.Name, "sigmoid", "Sigmoid", []string{y})})
	}
	// Nobody has read the last value yet.
	g.nodes[len(g.nodes)-1].output = name
	if flat {
		g.maps[i].flat = name
	} else {
		g.maps[i].square = name
	}
}

// computesFlat tells whether operation i works on [N, C]: linear layers do, and
// what joins maps of one pixel does if one of them is there in that form.
func (g *graph) computesFlat(op supernet.Op, o supernet.OpView) bool {
	if op.Kind.Joins() {
		return onePixel(o.Out) && slices.ContainsFunc(o.Operands, func(from int) bool { return g.at(from).flat != "" })
	}
	return op.Kind == supernet.Linear
}

// folds tells whether the batch norm of an operation goes into its weights.
func (g *graph) folds(op supernet.Op) bool {
	return op.Norm && op.Kind.HasWeights() && !g.opts.KeepNorm
}
