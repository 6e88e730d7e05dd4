package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tips/report"
	"tips/supernet"
	"tips/topology"
)

func newAnalyze() *cobra.Command {
	var o analyzeOptions
	cmd := &cobra.Command{
		Use:   "analyze MODEL",
		Short: "Find the operations that matter most to training (step 1 of TIPS)",
		Long: `Model the network as a graph of feature maps and operations, draw subnetworks,
solve the Markov chain of their joint training, and find the path with the
highest score. Operations on it are the important ones: training samples them
more.

TAS, the topological accumulated score of an operation, is that of the feature
map it writes. TPS, the topological path score, is the sum of the TAS of all maps
on a path. By default the important path is the one with the highest mean TAS; a
plain highest TPS would favour long paths.`,
		Example: `  tips analyze mobilenet_v2
  tips analyze resnet50 --svg resnet50.svg
  tips analyze efficientnet_b0 --expected --json
  tips analyze mlp:depth=80 --path-nodes 50 --seed 7
  tips analyze network.json --subnets 16 --lambda 0.5`,
		Args:              exactly("MODEL"),
		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flag("svg").Changed && o.svg == "" {
				return fmt.Errorf("--svg \"\"; want the name of a file")
			}
			options, err := o.resolve(cmd)
			if err != nil {
				return err
			}
			n, err := openModel(args[0])
			if err != nil {
				return err
			}
			return analyze(cmd.OutOrStdout(), cmd.ErrOrStderr(), n, options, o)
		},
	}
	o.register(cmd)
	return cmd
}

type analyzeOptions struct {
	topology.Options
	rule   string
	asJSON bool
	svg    string
}

func (o *analyzeOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.Subnets, "subnets", topology.DefaultSubnets, "number of subnetworks drawn, T")
	f.Float64Var(&o.Lambda, "lambda", topology.DefaultLambda, "coupling between subnetworks, above 0 and at most 1")
	f.Float64Var(&o.Kappa, "kappa", topology.DefaultKappa, "probability spread evenly over all states, above 0 and below 1")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the draw")
	f.IntVar(&o.PathNodes, "path-nodes", 0, "compare paths with this many nodes (default: any, by mean TAS)")
	f.StringVar(&o.rule, "path", "", "which path is important: mean (highest mean TAS) or total (highest TPS)")
	f.BoolVar(&o.Expected, "expected", false, "expected scores over all draws instead of one draw")
	f.BoolVar(&o.Directed, "directed", false, "let the chain follow operations forwards only")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	f.StringVar(&o.svg, "svg", "", "draw the network to this `file`")
	_ = cmd.RegisterFlagCompletionFunc("path", cobra.FixedCompletions([]string{"mean", "total"}, cobra.ShellCompDirectiveNoFileComp))
}

// resolve checks the flags. A zero that the user wrote is no default.
func (o *analyzeOptions) resolve(cmd *cobra.Command) (topology.Options, error) {
	for _, name := range []string{"subnets", "lambda", "kappa", "path-nodes"} {
		if f := cmd.Flag(name); f.Changed {
			if v, err := strconv.ParseFloat(f.Value.String(), 64); err == nil && v <= 0 {
				return topology.Options{}, fmt.Errorf("--%s %s; want a number above 0", name, f.Value)
			}
		}
	}
	options := o.Options
	switch o.rule {
	case "":
	case string(topology.ByMean), string(topology.ByTotal):
		options.Rule = topology.Rule(o.rule)
	default:
		return options, fmt.Errorf("--path %q; want mean or total", o.rule)
	}
	return options.WithDefaults()
}

func analyze(stdout, stderr io.Writer, n *supernet.Network, options topology.Options, o analyzeOptions) error {
	a, err := topology.Analyze(n, options)
	if err != nil {
		if errors.Is(err, topology.ErrNoPath) {
			return err // the number of nodes asked for
		}
		return failed(err)
	}
	if o.svg != "" {
		if err := writeFile(o.svg, report.Graph(n, a).WriteSVG); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote %s\n", o.svg)
	}
	if o.asJSON {
		return failed(writeJSON(stdout, newAnalysis(n, a)))
	}
	return failed(printAnalysis(stdout, n, a))
}

// analysis is the output of tips analyze --json; docs/analysis.md documents it.
type analysis struct {
	Model      string       `json:"model"`
	Nodes      int          `json:"nodes"`
	Edges      int          `json:"edges"`
	Subnets    int          `json:"subnets"`
	Lambda     float64      `json:"lambda"`
	Kappa      float64      `json:"kappa"`
	Seed       uint64       `json:"seed"`
	Expected   bool         `json:"expected"`
	Directed   bool         `json:"directed"`
	Path       analysisPath `json:"path"`
	Operations []analysisOp `json:"operations"`
}

type analysisPath struct {
	Rule       topology.Rule `json:"rule"`
	Nodes      int           `json:"nodes"`
	TPS        float64       `json:"tps"`
	Mean       float64       `json:"mean"`
	Operations []string      `json:"operations"`
}

type analysisOp struct {
	Name      string        `json:"name"`
	Kind      supernet.Kind `json:"kind"`
	From      int           `json:"from"` // nodes counted from 1, as in the paper
	To        int           `json:"to"`
	Important bool          `json:"important"`
	TAS       float64       `json:"tas"`
}

func newAnalysis(n *supernet.Network, a *topology.Analysis) analysis {
	out := analysis{
		Model: n.Name(), Nodes: len(a.Graph.Nodes()), Edges: len(a.Graph.Edges()),
		Subnets: a.Options.Subnets, Lambda: a.Options.Lambda, Kappa: a.Options.Kappa, Seed: a.Options.Seed,
		Expected: a.Options.Expected, Directed: a.Options.Directed,
		Path: analysisPath{
			Rule: a.Options.Rule, Nodes: len(a.Path.Nodes), TPS: a.TPS(), Mean: a.Path.Mean(a.TAS), Operations: a.Path.Operations(a.Graph),
		},
	}
	important := a.Important()
	for i, e := range a.Graph.Edges() {
		out.Operations = append(out.Operations, analysisOp{
			Name: e.Name, Kind: e.Kind, From: e.From + 1, To: e.To + 1, Important: important[i], TAS: a.TAS[e.To],
		})
	}
	return out
}

func printAnalysis(w io.Writer, n *supernet.Network, a *topology.Analysis) error {
	out := newAnalysis(n, a)
	fmt.Fprintf(w, "%s: %d feature maps, %d operations; %s\n", out.Model, out.Nodes, out.Edges, a.Options)
	rule := map[topology.Rule]string{
		topology.ByMean: "highest mean TAS", topology.ByTotal: "highest TPS", topology.ByLength: "highest TPS of that length",
	}[out.Path.Rule]
	fmt.Fprintf(w, "important path (%s): %d nodes, TPS %.6f, mean TAS %.6f\n", rule, out.Path.Nodes, out.Path.TPS, out.Path.Mean)
	fmt.Fprintf(w, "  %s\n", wrap(out.Path.Operations, " → ", 76, "  "))
	var favoured []string
	for _, g := range a.FavouredGroups(n) {
		favoured = append(favoured, n.Groups()[g].Name)
	}
	fmt.Fprintf(w, "width groups that training favours: %d of %d\n  %s\n\n", len(favoured), len(n.Groups()), wrap(favoured, ", ", 76, "  "))

	// Ranked by score; what is equal stays in the order of the network.
	slices.SortStableFunc(out.Operations, func(x, y analysisOp) int { return cmp.Compare(y.TAS, x.TAS) })
	t := newTable(w, "RANK", "OPERATION", "KIND", "NODES", "TAS", "")
	for i, op := range out.Operations {
		note := ""
		if op.Important {
			note = "important"
		}
		t.row(strconv.Itoa(i+1), op.Name, string(op.Kind), fmt.Sprintf("%d → %d", op.From, op.To), fmt.Sprintf("%.6f", op.TAS), note)
	}
	return t.flush()
}

// wrap joins words and breaks lines before they grow wider than width.
func wrap(words []string, separator string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range words {
		if i > 0 {
			if column += len([]rune(separator)); column+len(word) > width {
				b.WriteString(strings.TrimRight(separator, " ") + "\n" + indent)
				column = 0
			} else {
				b.WriteString(separator)
			}
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
