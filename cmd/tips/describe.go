package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tips/supernet"
)

func newDescribe() *cobra.Command {
	var o describeOptions
	cmd := &cobra.Command{
		Use:   "describe MODEL",
		Short: "Show a network's layers, width groups and blocks",
		Long: `Show what a network consists of, what each operation costs, which widths shrink
together, and which blocks can be left out; for the whole network or for one
subnetwork, at any input size.

A subnetwork is written as the widths of its groups and the blocks left out, as
in w16.8x3.24d2, or d2 alone; "full" and "smallest" are understood too. Written to
a file, a subnetwork is a network of its own.`,
		Example: `  tips describe mobilenet_v2
  tips describe resnet50 --subnet smallest --size 160
  tips describe mlp:depth=12,width=64 --json
  tips describe efficientnet_b0 --write efficientnet.json`,
		Args:              exactly("MODEL"),
		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.size < 1 && cmd.Flag("size").Changed {
				return fmt.Errorf("--size %d; want 1 or more", o.size)
			}
			if o.asJSON && o.write != "" {
				return fmt.Errorf("--json and --write do not go together: --write writes a description file")
			}
			n, err := openModel(args[0])
			if err != nil {
				return err
			}
			return describe(cmd.OutOrStdout(), n, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.subnet, "subnet", "full", "subnetwork to show")
	f.IntVar(&o.size, "size", 0, "height and width of the input (default the network's own)")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	f.StringVar(&o.write, "write", "", "write the description to this `file` instead")
	_ = cmd.RegisterFlagCompletionFunc("subnet", cobra.FixedCompletions([]string{"full", "smallest"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type describeOptions struct {
	subnet string
	size   int
	asJSON bool
	write  string
}

func describe(w io.Writer, n *supernet.Network, o describeOptions) error {
	sub, err := n.ParseSubnet(o.subnet)
	if err != nil {
		return err
	}
	input := n.Input()
	if o.size != 0 {
		input.Height, input.Width = o.size, o.size
	}
	v, err := n.View(sub, input)
	if err != nil {
		return err
	}
	if o.write != "" {
		return writeDescription(w, v, o.write)
	}
	d := newDescription(n, v)
	if o.asJSON {
		return failed(writeJSON(w, d))
	}
	return failed(d.print(w))
}

// writeDescription writes the subnetwork of a view, at its input size, as a
// network of its own.
func writeDescription(w io.Writer, v *supernet.View, name string) error {
	n := v.Network
	d := n.Description()
	if !v.Subnet.IsFull() {
		var err error
		if d, err = n.Extract(v.Subnet); err != nil {
			return err
		}
	}
	d.Input = v.Input
	n, err := supernet.New(d)
	if err != nil {
		return failed(err)
	}
	if err := writeFile(name, n.Write); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "wrote %s\n", name)
	return failed(err)
}

// description is the output of tips describe.
type description struct {
	Model      string           `json:"model"`
	Subnet     supernet.Subnet  `json:"subnet"`
	Input      supernet.Shape   `json:"input"`
	MACs       int64            `json:"macs"`
	Params     int64            `json:"params"`
	Weights    int64            `json:"weight_bytes"`
	Peak       int64            `json:"peak_activation_bytes"`
	Operations []describedOp    `json:"operations"`
	Groups     []describedGroup `json:"groups"`
	Blocks     []describedBlock `json:"blocks"`
}

type describedOp struct {
	Name   string         `json:"name"`
	Kind   supernet.Kind  `json:"kind"`
	Detail string         `json:"detail"`
	Runs   bool           `json:"runs"`
	In     supernet.Shape `json:"in"`
	Out    supernet.Shape `json:"out"`
	Group  int            `json:"group"` // counted from 1; 0 where the width is fixed
	Block  int            `json:"block"` // counted from 1; 0 where it always runs
	MACs   int64          `json:"macs"`
	Params int64          `json:"params"`
	Live   int64          `json:"live_bytes"`
}

type describedGroup struct {
	Number     int      `json:"number"`
	Name       string   `json:"name"`
	Width      int      `json:"width"`
	Channels   int      `json:"channels"`
	Min        int      `json:"min"`
	Step       int      `json:"step"`
	Operations []string `json:"operations"`
}

type describedBlock struct {
	Number     int    `json:"number"`
	Name       string `json:"name"`
	Operations int    `json:"operations"`
	MACs       int64  `json:"macs"`
	Runs       bool   `json:"runs"`
}

func newDescription(n *supernet.Network, v *supernet.View) description {
	total := v.Costs()
	d := description{
		Model: n.Name(), Subnet: v.Subnet, Input: v.Input,
		MACs: total.MACs, Params: total.Params, Weights: total.WeightBytes, Peak: total.PeakBytes,
		Blocks: make([]describedBlock, len(n.Blocks())), Groups: []describedGroup{},
	}
	for i, b := range n.Blocks() {
		d.Blocks[i] = describedBlock{Number: i + 1, Name: b.Name, Runs: v.Ops[b.Add].Runs}
	}
	costs := v.OpCosts()
	for i, op := range n.Ops() {
		o := v.Ops[i]
		row := describedOp{
			Name: op.Name, Kind: op.Kind, Detail: opDetail(op), Runs: o.Runs, Out: o.Out,
			Group: n.GroupOf(i) + 1, Block: n.BlockOf(i) + 1,
			MACs: costs[i].MACs, Params: costs[i].Params, Live: costs[i].LiveBytes,
		}
		if o.Runs {
			row.In = o.In[0]
		}
		d.Operations = append(d.Operations, row)
		for b := n.BlockOf(i); b >= 0; b = n.Blocks()[b].Parent {
			d.Blocks[b].Operations++
			d.Blocks[b].MACs += costs[i].MACs
		}
	}
	widths, _, _ := n.Widths(v.Subnet) // v exists, so its subnetwork is valid
	for i, g := range n.Groups() {
		row := describedGroup{Number: i + 1, Name: g.Name, Width: widths[i], Channels: g.Channels, Min: g.Min, Step: g.Step}
		for _, op := range g.Ops {
			row.Operations = append(row.Operations, n.Ops()[op].Name)
		}
		d.Groups = append(d.Groups, row)
	}
	return d
}

// opDetail says what an operation computes, in a few characters.
func opDetail(op supernet.Op) string {
	s := op.Window()
	if op.Groups > 1 {
		s += fmt.Sprintf(" g%d", op.Groups)
	}
	if op.Bias {
		s += " bias"
	}
	if op.Norm {
		s += " bn"
	}
	if op.Activation != supernet.NoActivation {
		s += " " + string(op.Activation)
	}
	return strings.TrimSpace(s)
}

func (d description) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, subnetwork %s, input %s\n", d.Model, d.Subnet, d.Input)
	fmt.Fprintf(w, "%s MACs (FLOPs in papers), %s parameters (%s), %s activations at the peak\n\n",
		count(d.MACs), count(d.Params), bytesize(d.Weights), bytesize(d.Peak))
	numbered := func(n int) string {
		if n == 0 {
			return "-"
		}
		return strconv.Itoa(n)
	}
	t := newTable(w, "OPERATION", "KIND", "", "INPUT", "OUTPUT", "GROUP", "BLOCK", "MACS", "PARAMETERS", "LIVE")
	for _, o := range d.Operations {
		if !o.Runs {
			t.row(o.Name, string(o.Kind), o.Detail, "left out", "", numbered(o.Group), numbered(o.Block), "", "", "")
			continue
		}
		t.row(o.Name, string(o.Kind), o.Detail, o.In.String(), o.Out.String(), numbered(o.Group), numbered(o.Block), count(o.MACs), count(o.Params), bytesize(o.Live))
	}
	if err := t.flush(); err != nil {
		return err
	}

	fmt.Fprintf(w, "\n%s: operations whose outputs shrink together\n", plural(len(d.Groups), "width group"))
	if len(d.Groups) > 0 {
		t = newTable(w, "GROUP", "WIDTH", "FULL", "MIN", "STEP", "OPERATIONS")
		for _, g := range d.Groups {
			t.row(strconv.Itoa(g.Number), strconv.Itoa(g.Width), strconv.Itoa(g.Channels), strconv.Itoa(g.Min), strconv.Itoa(g.Step), abbreviate(g.Operations))
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s that can be left out\n", plural(len(d.Blocks), "block"))
	if len(d.Blocks) > 0 {
		t = newTable(w, "BLOCK", "CLOSED BY", "OPERATIONS", "MACS", "")
		for _, b := range d.Blocks {
			note := ""
			if !b.Runs {
				note = "left out"
			}
			t.row(strconv.Itoa(b.Number), b.Name, strconv.Itoa(b.Operations), count(b.MACs), note)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// abbreviate lists a few names and how many more there are.
func abbreviate(names []string) string {
	const few = 4
	shown := names
	if len(names) > few {
		shown = slices.Concat(names[:few-1], []string{fmt.Sprintf("… %d more", len(names)-few+1)})
	}
	return strings.Join(shown, ", ")
}
