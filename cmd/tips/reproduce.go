package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tips/reproduce"
	"tips/supernet"
)

func newReproduce() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce FIGURE",
		Short: "Recompute figures and tables of the TIPS paper",
		Long: `Recompute a figure or a table of the paper: its data as CSV, the picture as SVG and PNG,
and what it shows beside what the paper claims. The exit status tells whether the
figure could be computed, not whether the claim holds.`,
		Example: `  tips reproduce fig4a
  tips reproduce fig5 --runs 50 --out figures
  tips reproduce fig6 --model resnet50`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("reproduce: FIGURE is missing; want one of %s", strings.Join(verbs(cmd), ", "))
			}
			return fmt.Errorf("reproduce: unknown figure %q; want one of %s", args[0], strings.Join(verbs(cmd), ", "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDraws(), newFig3(), newFig4a(), newFig4b(), newFig5(), newFig6(), newMethods(), newOverhead(), newTable1(), newTable3(), newWidths())
	return cmd
}

func newFig4a() *cobra.Command {
	var out figureOutput
	var o reproduce.Fig4aOptions
	cmd := &cobra.Command{
		Use:   "fig4a",
		Short: "Mean singular values against TPS (Proposition 1)",
		Long: `Figure 4a: in perceptrons with residual connections over two layers, random paths
of equal length are drawn, and their TPS is compared with the mean singular value
of the layer-wise Jacobians along them. Proposition 1 says that both rise together.`,
		Example: `  tips reproduce fig4a
  tips reproduce fig4a --depths 80,100 --paths 500 --seed 3`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd, "path-nodes", "paths", "draws"); err != nil {
				return err
			}
			f, err := reproduce.Fig4a(o)
			return out.finish(cmd, f, err)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Depths, "depths", []int{80, 100, 120, 140}, "layers of the perceptrons")
	f.IntVar(&o.PathNodes, "path-nodes", 50, "nodes of a path")
	f.IntVar(&o.Paths, "paths", 200, "paths for each perceptron and draw")
	f.IntVar(&o.Draws, "draws", 10, "draws of subnetworks for each perceptron")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of subnetworks, paths and weights")
	out.register(cmd)
	return cmd
}

func newFig5() *cobra.Command {
	var o reproduce.Fig5Options
	cmd := modelFigure(func(n *supernet.Network) (reproduce.Figure, error) { return reproduce.Fig5(n, o) }, "runs")
	cmd.Use = "fig5"
	cmd.Short = "TPS against the number of subnetworks"
	cmd.Long = `Figure 5: the TPS of the important path for 2 to 20 subnetworks, mean and
deviation over several runs. The paper finds a deviation below 2.5 % at 8.`
	cmd.Example = `  tips reproduce fig5
  tips reproduce fig5 --runs 100 --model resnet34`
	f := cmd.Flags()
	f.IntVar(&o.Runs, "runs", 10, "runs for every number of subnetworks")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the first run")
	return cmd
}

func newFig6() *cobra.Command {
	var o reproduce.Fig6Options
	cmd := modelFigure(func(n *supernet.Network) (reproduce.Figure, error) { return reproduce.Fig6(n, o) }, "paths", "path-nodes")
	cmd.Use = "fig6"
	cmd.Short = "TPS of several paths against λ"
	cmd.Long = `Figure 6: the TPS of several paths of equal length for λ = 0.1 to 1. The paper
finds that their order never changes.`
	cmd.Example = `  tips reproduce fig6
  tips reproduce fig6 --paths 8 --path-nodes 41`
	f := cmd.Flags()
	f.IntVar(&o.Paths, "paths", 6, "paths to compare")
	f.IntVar(&o.PathNodes, "path-nodes", 0, "nodes of each path (default: halfway between the important path and the longest)")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of subnetworks and paths")
	return cmd
}

// modelFigure is a command that computes a figure of one network. Counts are flags.
func modelFigure(compute func(*supernet.Network) (reproduce.Figure, error), counts ...string) *cobra.Command {
	var out figureOutput
	var model string
	cmd := &cobra.Command{
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd, counts...); err != nil {
				return err
			}
			n, err := openModel(model)
			if err != nil {
				return err
			}
			f, err := compute(n)
			return out.finish(cmd, f, err)
		},
	}
	modelFlag(cmd, &model)
	out.register(cmd)
	return cmd
}

// positive wants flags that were given to be 1 or more: for the library 0 is its
// default, for who types it a mistake.
func positive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if n, err := cmd.Flags().GetInt(name); err != nil || n < 1 {
			return fmt.Errorf("--%s %d; want 1 or more", name, n)
		}
	}
	return nil
}

// figureOutput is what every figure does with its result.
type figureOutput struct {
	dir    string
	asJSON bool
}

func (o *figureOutput) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dir, "out", "figures", "`folder` for the CSV, SVG and PNG files")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write the findings as JSON")
	_ = cmd.MarkFlagDirname("out")
}

// finish writes the files of a figure and says what it shows.
func (o *figureOutput) finish(cmd *cobra.Command, f reproduce.Figure, err error) error {
	if reproduce.IsUsage(err) {
		return err
	}
	if err != nil {
		return failed(err)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return failed(err)
	}
	var files []string
	for _, part := range []struct {
		ending string
		write  func(io.Writer) error
	}{{".csv", f.WriteCSV}, {".svg", f.Drawn().WriteSVG}, {".png", f.Drawn().WritePNG}} {
		name := filepath.Join(o.dir, f.Name+part.ending)
		if err := writeFile(name, part.write); err != nil {
			return err
		}
		files = append(files, name)
	}
	w := cmd.OutOrStdout()
	if o.asJSON {
		return failed(writeJSON(w, struct {
			Figure   string              `json:"figure"`
			Caption  string              `json:"caption"`
			Table    [][]string          `json:"table,omitempty"`
			Findings []reproduce.Finding `json:"findings"`
			Remarks  []string            `json:"remarks"`
			Files    []string            `json:"files"`
		}{f.Name, f.Caption, f.Table, f.Findings, f.Remarks, files}))
	}
	fmt.Fprintf(w, "%s: %s\n\n", f.Name, f.Caption)
	if len(f.Table) > 0 {
		t := newTable(w, f.Table[0]...)
		for _, row := range f.Table[1:] {
			t.row(row...)
		}
		if err := t.flush(); err != nil {
			return failed(err)
		}
		fmt.Fprintln(w)
	}
	for _, finding := range f.Findings {
		verdict := "holds"
		switch {
		case finding.Open:
			verdict = "OPEN: chance may be all there is"
		case !finding.Holds:
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(w, "paper:   %s\nhere:    %s\nverdict: %s\n\n", finding.Claim, finding.Measured, verdict)
	}
	for _, r := range f.Remarks {
		fmt.Fprintln(w, r)
	}
	_, err = fmt.Fprintf(w, "\nwrote %s, %s, %s\n", files[0], files[1], files[2])
	return failed(err)
}
