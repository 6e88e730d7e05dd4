package supernet

import "fmt"

// Extract describes a subnetwork as a network of its own: only the operations
// that run, only the channels they use. Its widths are fixed at what they are by
// a minimum ratio of 1.
func (n *Network) Extract(s Subnet) (Description, error) {
	v, err := n.View(s, n.input)
	if err != nil {
		return Description{}, err
	}
	if v.Output() == FromInput {
		return Description{}, fmt.Errorf("supernet: subnet %s of %s leaves out every operation", s, n.name)
	}
	d := Description{
		Name:    n.name,
		Input:   n.input,
		Elastic: Elastic{MinRatio: 1, Divisor: n.elastic.Divisor},
	}
	for i, op := range n.ops {
		o := v.Ops[i]
		if !o.Runs {
			continue
		}
		op.Inputs = make([]string, len(o.Operands))
		for j, from := range o.Operands {
			op.Inputs[j] = n.operandName(from)
		}
		if op.Kind.setsWidth() {
			op.Channels = o.Out.Channels
		}
		if op.Kind == Conv {
			op.Groups = o.Groups
		}
		d.Operations = append(d.Operations, op)
	}
	return d, nil
}

func (n *Network) operandName(i int) string {
	if i == FromInput {
		return InputName
	}
	return n.ops[i].Name
}
