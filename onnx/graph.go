package onnx

import (
	"bufio"
	"fmt"
	"math"

	"tips/supernet"
	"tips/weights"
)

// graph is the model while it is put together.
type graph struct {
	set  *weights.Set
	view *supernet.View
	opts Options

	nodes   []node
	tensors []tensor
	taken   map[string]bool   // names of values and nodes
	shared  map[string]string // constants that several nodes read, by what they are

	input featureMap
	maps  []featureMap // as Network.Ops
}

// featureMap names the values that hold a feature map. A map of one pixel can be
// [N, C, 1, 1], as convolutions and pools have it, or flat, [N, C], as Gemm does;
// whoever needs the other form adds it for all.
type featureMap struct{ square, flat string }

// newGraph builds the whole graph, but does not touch the weights.
func newGraph(set *weights.Set, view *supernet.View, o Options) (*graph, error) {
	g := &graph{
		set: set, view: view, opts: o,
		taken:  map[string]bool{inputName: true, outputName: true},
		shared: map[string]string{},
		input:  featureMap{square: inputName},
		maps:   make([]featureMap, len(view.Ops)),
	}
	ops := set.Network.Ops()
	if len(set.Ops) != len(ops) {
		return nil, fmt.Errorf("parameters of %d operations; %s has %d", len(set.Ops), set.Network.Name(), len(ops))
	}
	if s := o.Statistics; len(s.Mean) != len(ops) || len(s.Variance) != len(ops) {
		return nil, fmt.Errorf("statistics of %d and %d operations; %s has %d", len(s.Mean), len(s.Variance), set.Network.Name(), len(ops))
	}
	// Operations first, so that they keep their names whatever else needs one.
	names := make([]string, len(ops))
	for i, op := range ops {
		if view.Ops[i].Runs {
			names[i] = g.unique(op.Name)
		}
	}
	for i, op := range ops {
		if !view.Ops[i].Runs {
			continue
		}
		if err := g.checkParams(i); err != nil {
			return nil, fmt.Errorf("operation %q: %w", op.Name, err)
		}
		g.operation(i, op, names[i])
	}
	g.finish()
	return g, nil
}

// unique makes a name that no other value or node has. Operations may have almost
// any name, also that of the output.
func (g *graph) unique(name string) string {
	for g.taken[name] {
		name += "_"
	}
	g.taken[name] = true
	return name
}

// add adds a node that belongs to an operation and gives the name of its output.
func (g *graph) add(op, label, kind string, inputs []string, attributes ...attribute) string {
	name := g.unique(op + "/" + label)
	g.nodes = append(g.nodes, node{name: name, kind: kind, inputs: inputs, output: name, attributes: attributes})
	return name
}

// at is the feature map of an operation or of the input.
func (g *graph) at(i int) *featureMap {
	if i == supernet.FromInput {
		return &g.input
	}
	return &g.maps[i]
}

func (g *graph) nameOf(i int) string {
	if i == supernet.FromInput {
		return inputName
	}
	return g.set.Network.Ops()[i].Name
}

// square is the name of a feature map as [N, C, H, W].
func (g *graph) square(i int) string {
	m := g.at(i)
	if m.square == "" {
		m.square = g.add(g.nameOf(i), "unsqueeze", "Unsqueeze", []string{m.flat, g.pixelAxes()})
	}
	return m.square
}

// flat is the name of a feature map of one pixel as [N, C].
func (g *graph) flat(i int) string {
	m := g.at(i)
	if m.flat == "" {
		m.flat = g.add(g.nameOf(i), "flatten", "Flatten", []string{m.square}, attribute{"axis", 1})
	}
	return m.flat
}

// finish gives the last value the output's name, in the form that the output has.
func (g *graph) finish() {
	last := g.view.Output()
	if last == supernet.FromInput && !onePixel(g.view.Input) {
		g.add(inputName, "identity", "Identity", []string{inputName})
		g.nodes[len(g.nodes)-1].output = outputName
		return
	}
	var name string
	if onePixel(g.view.Shape(last)) {
		name = g.flat(last)
	} else {
		name = g.square(last)
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.output == name {
			n.output = outputName
		}
		for j := range n.inputs {
			if n.inputs[j] == name {
				n.inputs[j] = outputName
			}
		}
	}
}

func onePixel(s supernet.Shape) bool { return s.Height == 1 && s.Width == 1 }

// dims is the shape of an input or output with its batch.
func (g *graph) dims(s supernet.Shape, flat bool) []int {
	if flat {
		return []int{g.opts.Batch, s.Channels}
	}
	return []int{g.opts.Batch, s.Channels, s.Height, s.Width}
}

// write writes the model. Lengths stand before contents in protobuf, so that
// everything is measured first and the weights go straight to the file.
func (g *graph) write(w *bufio.Writer) error {
	var before message // the graph without its constants
	for _, n := range g.nodes {
		before.message(graphNode, n.encode())
	}
	before.string(graphName, g.set.Network.Name())
	last := g.view.Shape(g.view.Output())
	before.message(graphInput, value{inputName, g.dims(g.view.Input, false)}.encode())
	before.message(graphOutput, value{outputName, g.dims(last, onePixel(last))}.encode())

	heads := make([]message, len(g.tensors))
	length := len(before)
	for i, t := range g.tensors {
		head := t.head()
		heads[i].open(graphInitializer, len(head)+t.size())
		heads[i] = append(heads[i], head...)
		length += len(heads[i]) + t.size()
	}

	var model, version message
	model.int(modelIRVersion, irVersion)
	model.string(modelProducer, producer)
	version.int(opsetVersion, opset)
	model.message(modelOpset, version)
	model.open(modelGraph, length)
	if total := len(model) + length; total > math.MaxInt32 {
		return fmt.Errorf("the model has %d bytes; the format ends at %d", total, math.MaxInt32)
	}

	for _, part := range []message{model, before} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	for i, t := range g.tensors {
		if _, err := w.Write(heads[i]); err != nil {
			return err
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}
