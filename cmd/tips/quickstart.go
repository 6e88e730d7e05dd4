package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/topology"
)

func newQuickstart() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "See what tips does today, in a second",
		Long: `Take mobilenet_v2 through all that works today: describe it as a supernet, show
what its subnetworks cost, find the operations that matter most to their training,
and draw them. Training and search are verbs of their own (tips train quick, then
tips search); running subnetworks is a Go library so far (docs/runtime.md). This
command will show them all.`,
		Example: `  tips quickstart
  tips quickstart --out somewhere`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return failed(quickstart(cmd.OutOrStdout(), dir))
		},
	}
	cmd.Flags().StringVar(&dir, "out", "tips-quickstart", "`folder` for what it makes")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

func quickstart(w io.Writer, dir string) error {
	const model = "mobilenet_v2"
	n, err := zoo.New(model)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	fmt.Fprintf(w, "1. One network, many subnetworks\n\n")
	fmt.Fprintf(w, "%s has %d width groups and %d blocks that can be left out. Its weights hold\nsubnetworks such as these:\n\n", model, len(n.Groups()), len(n.Blocks()))
	t := newTable(w, "WIDTH", "MACS", "PARAMETERS", "ACTIVATIONS", "SUBNETWORK")
	for _, ratio := range []float64{1, 0.75, 0.5, n.Elastic().MinRatio} {
		s, err := n.Uniform(ratio)
		if err != nil {
			return err
		}
		v, err := n.View(s, n.Input())
		if err != nil {
			return err
		}
		c := v.Costs()
		t.row(fmt.Sprintf("%.2f", ratio), count(c.MACs), count(c.Params), bytesize(c.PeakBytes), shortForm(s))
	}
	if err := t.flush(); err != nil {
		return err
	}

	a, err := topology.Analyze(n, topology.Options{})
	if err != nil {
		return err
	}
	important := 0
	for _, is := range a.Important() {
		if is {
			important++
		}
	}
	fmt.Fprintf(w, "\n2. The operations that matter\n\n")
	fmt.Fprintf(w, "Of %d operations, %d are on the topologically most important path (%d nodes, TPS\n%.4f): every layer of the blocks that halve the image or change the width, and\nthe additions elsewhere. Training will sample these more.\n\n", len(a.Graph.Edges()), important, len(a.Path.Nodes), a.TPS())

	for _, file := range []struct {
		name  string
		what  string
		write func(io.Writer) error
	}{
		{"network.svg", "the network with its important path; open it in a browser", networkDiagram(n, a).WriteSVG},
		{"network.json", "the network's description: edit it, then tips analyze it", n.Write},
		{"analysis.json", "the scores of all operations, for programs", func(w io.Writer) error { return writeJSON(w, newAnalysis(n, a)) }},
	} {
		name := filepath.Join(dir, file.name)
		if err := writeFile(name, file.write); err != nil {
			return err
		}
		fmt.Fprintf(w, "wrote %s: %s\n", name, file.what)
	}
	_, err = fmt.Fprintf(w, `
That was step 1. What to try next:

  tips train quick                     step 2: train a small network, a minute or so
  tips search runs/quick-tips-1        step 3: which of its subnetworks are worth running
  tips models                          the networks of the zoo
  tips describe resnet50               layers, width groups, blocks, costs
  tips analyze resnet50 --svg FILE     the same analysis for another network
  tips reproduce fig4a                 a figure of the paper, recomputed
`)
	return err
}

// shortForm keeps the text form of a subnetwork on a line of a table.
func shortForm(s supernet.Subnet) string {
	text := s.String()
	if len(text) > 34 {
		return text[:33] + "…"
	}
	return text
}
