package supernet

import "fmt"

// View is one subnetwork at one input size: which operations run, what they
// read, and the shapes of their maps. It shares nothing with other views.
type View struct {
	Network *Network
	Subnet  Subnet
	Input   Shape
	Ops     []OpView // as Network.Ops
}

// OpView is one operation in a View.
type OpView struct {
	Runs     bool    // false: left out, and nothing below means anything but Source
	Source   int     // whose output holds what this operation stands for: itself if it runs, the shortcut if it closes a left-out block
	Operands []int   // the operations that are read, shortcuts of left-out blocks followed; FromInput is the input
	In       []Shape // of the operands
	Out      Shape
	Groups   int // of a convolution: how many groups remain; 1 otherwise, a depthwise one has Out.Channels
}

// View resolves a subnetwork of n at an input size. The input's channels must be
// those of the network; height and width are free as far as the network allows.
func (n *Network) View(s Subnet, input Shape) (*View, error) {
	v, err := n.view(s, input)
	if err != nil {
		return nil, fmt.Errorf("supernet: %w", err)
	}
	return v, nil
}

func (n *Network) view(s Subnet, input Shape) (*View, error) {
	if err := input.check(); err != nil {
		return nil, fmt.Errorf("input %w", err)
	}
	if input.Channels != n.input.Channels {
		return nil, fmt.Errorf("input has %d channels; %s reads %d", input.Channels, n.name, n.input.Channels)
	}
	widths, dropped, err := n.choices(s)
	if err != nil {
		return nil, err
	}
	v := &View{Network: n, Subnet: s, Input: input, Ops: make([]OpView, len(n.ops))}
	for i := range v.Ops {
		v.Ops[i].Source = i
		v.Ops[i].Runs = n.runs(i, dropped)
	}
	for b, block := range n.blocks {
		if !dropped[b] {
			continue
		}
		// Inside a larger block that is left out, nobody asks for the source.
		v.Ops[block.Add].Runs = false
		v.Ops[block.Add].Source = block.Shortcut
	}

	// Everything the loop needs for all operations at once: views are made for
	// every candidate of a search.
	links := 0
	for _, from := range n.operands {
		links += len(from)
	}
	operands := make([]int, 0, links)
	shapes := make([]Shape, 0, links)
	total := 0.0
	for i, op := range n.ops {
		o := &v.Ops[i]
		if !o.Runs {
			continue
		}
		start := len(operands)
		for _, from := range n.operands[i] {
			from = v.source(from)
			operands = append(operands, from)
			shapes = append(shapes, v.Shape(from))
		}
		o.Operands = operands[start:len(operands):len(operands)]
		o.In = shapes[start:len(shapes):len(shapes)]

		width := n.channels[i]
		if g := n.groupOf[i]; g >= 0 {
			width = n.width(i, widths[g])
		}
		if o.Out, err = outputShape(op, o.In, width); err != nil {
			return nil, err
		}
		o.Groups = 1
		switch op.Kind {
		case Conv:
			if op.Groups > 1 { // all groups of a convolution have the same width
				o.Groups = op.Groups * width / n.channels[i]
			}
		case Depthwise:
			o.Groups = width
		}
		if total += o.size(op); total > maxTotal {
			return nil, fmt.Errorf("operation %q: with it the network needs more than %d operations or bytes", op.Name, int64(maxTotal))
		}
	}
	return v, nil
}

// source follows the shortcuts of left-out blocks to the operation whose output
// is really read.
func (v *View) source(i int) int {
	for i != FromInput && v.Ops[i].Source != i {
		i = v.Ops[i].Source
	}
	return i
}

// Output is the index of the operation that writes the network's output, or
// FromInput where everything is left out.
func (v *View) Output() int { return v.source(len(v.Ops) - 1) }

// Shape is the shape of the output of a running operation, or of the input.
func (v *View) Shape(i int) Shape {
	if i == FromInput {
		return v.Input
	}
	return v.Ops[i].Out
}
