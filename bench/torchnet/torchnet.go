// Package torchnet writes networks down for the scripts that compute them in PyTorch.
package torchnet

import (
	"fmt"

	"tips/supernet"
)

// Op is an operation as the scripts read it.
type Op struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Operands   []int   `json:"operands"` // numbers of earlier operations; -1 is the input
	In         int     `json:"in"`       // channels of the first operand
	Out        int     `json:"out"`
	Kernel     int     `json:"kernel"`
	Stride     int     `json:"stride"`
	Padding    int     `json:"padding"`
	Groups     int     `json:"groups"`
	Bias       bool    `json:"bias"`
	Norm       bool    `json:"norm"`
	Eps        float64 `json:"eps"`
	Activation string  `json:"activation"`
}

// Ops lists the operations of a subnetwork that run, and the number of the one that
// writes its output.
func Ops(n *supernet.Network, sub supernet.Subnet) (ops []Op, output int, err error) {
	view, err := n.View(sub, n.Input())
	if err != nil {
		return nil, 0, err
	}
	at := map[int]int{supernet.FromInput: -1}
	for i, op := range n.Ops() {
		o := view.Ops[i]
		if !o.Runs {
			continue
		}
		at[i] = len(ops)
		var operands []int
		for _, from := range o.Operands {
			operands = append(operands, at[from])
		}
		ops = append(ops, Op{
			Name: op.Name, Kind: string(op.Kind), Operands: operands, In: o.In[0].Channels, Out: o.Out.Channels,
			Kernel: max(op.Kernel, 1), Stride: max(op.Stride, 1), Padding: op.Padding, Groups: o.Groups,
			Bias: op.Bias, Norm: op.Norm, Eps: op.Eps(), Activation: string(op.Activation),
		})
	}
	if output = at[view.Output()]; output < 0 {
		return nil, 0, fmt.Errorf("subnetwork %s of %s computes nothing", sub, n.Name())
	}
	return ops, output, nil
}
