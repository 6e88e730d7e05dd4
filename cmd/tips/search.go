package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tips/frontier"
	"tips/internal/folder"
	"tips/judge"
	"tips/search"
	"tips/search/cost"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// Files that a search leaves in its folder.
const (
	frontierFile    = "net.frontier"
	frontierPicture = "frontier.svg"
	searchState     = "search.state"
	latencyFile     = "latency.json"
)

func newSearch() *cobra.Command {
	var o searchOptions
	cmd := &cobra.Command{
		Use:   "search RUN",
		Short: "Find the subnetworks worth running",
		Long: `Find the subnetworks of a trained network that no other one beats in both cost and
accuracy (step 3 of the paper), within a budget.

RUN is the folder of a training run. A budget is caps on any costs, as in
'macs<=30M,memory<=1MiB,latency<=20ms'; no subnetwork above a cap is ever judged.
Costs are macs (FLOPs in papers), params, weights and memory (of feature maps) in
bytes, latency and energy by the table of --latency, and any of --cost. Accuracy is
traded for the cost of --by.

Strategies: random is Algorithm 1 of the paper; evolution breeds the best so far;
guided, the default, judges only those of their children that a predictor, fitted to
all subnetworks judged so far, expects the most of.

A search starts from the subnetworks of --start: those that training tried, where its
method keeps them (joslim). They are judged first, in the order of the file, as far
as they are within the budget, and take up to half of the evaluations.

The folder --out gets net.frontier, which programs run by, a picture, and a state
file. Interrupted with Ctrl-C or killed, the frontier so far is there and valid, and
the same command goes on. While it does, no other search can save to that folder.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted and saved.`,
		Example: `  tips search runs/quick-tips-1
  tips search runs/quick-tips-1 --budget macs<=2M,memory<=128KiB --evaluations 100
  tips search runs/quick-tips-1 --latency latency.json --by latency --budget latency<=2ms
  tips search runs/quick-tips-1 --cost price=price.csv --by price --strategy evolution --json`,
		Args: exactly("RUN"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "`folder` of the results (default RUN)")
	o.judging.add(cmd)
	f.StringVar(&o.by, "by", cost.MACsName, "the `cost` to trade accuracy for")
	f.StringVar(&o.budget, "budget", "", "caps on costs, as in macs<=30M,latency<=20ms")
	f.StringVar(&o.at, "at", "", "amounts of --by to tell the best subnetwork for, as in 20M,30M")
	f.StringVar(&o.latency, "latency", "", "latency table of 'tips profile' (default RUN/latency.json, if it is there)")
	f.StringArrayVar(&o.costs, "cost", nil, "a cost of your own, as `NAME=FILE.csv` (docs/search.md); may be repeated")
	f.StringVar(&o.start, "start", "", "`file` of subnetworks to start from, one a line, or none (default RUN/"+train.TriedFile+", if it is there)")
	f.StringVar(&o.strategy, "strategy", string(search.Guided), "random, evolution or guided")
	f.IntVar(&o.evaluations, "evaluations", 200, "subnetworks to judge")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything left to chance")
	f.IntVar(&o.depths, "depths", 0, "blocks of a stage that may be left out (default as the training method trained it)")
	f.BoolVar(&o.fresh, "fresh", false, "forget what an earlier search in the folder has judged")
	f.BoolVar(&o.asJSON, "json", false, "write the results as JSON")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("latency", "json")
	_ = cmd.MarkFlagFilename("start", "txt")
	_ = cmd.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions([]string{"guided", "evolution", "random"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newSearchCompare())
	return cmd
}

// searchOptions are the flags of tips search.
type searchOptions struct {
	judging                      judgingFlags
	out, by, budget, at, latency string
	strategy, start              string
	costs                        []string
	evaluations                  int
	seed                         uint64
	depths                       int
	depthsGiven                  bool
	fresh, asJSON                bool
	table                        *cost.Table
	options                      search.Options
	amounts                      []float64
	frontier                     *frontier.Frontier
}

func (o *searchOptions) run(cmd *cobra.Command, run string) error {
	if err := o.judging.check(least{"evaluations", o.evaluations, 1}, least{"depths", o.depths, 0}); err != nil {
		return err
	}
	if !slices.Contains(search.Strategies(), search.Strategy(o.strategy)) {
		return fmt.Errorf("--strategy %q; want one of random, evolution, guided", o.strategy)
	}
	o.judging.run, o.depthsGiven = run, cmd.Flags().Changed("depths")
	if o.out == "" {
		o.out = run
	}
	defer o.judging.done()
	j, err := o.judging.open(judge.Options{Fresh: o.fresh}, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer j.Close()
	if err := searchable(j, run); err != nil {
		return err
	}
	if err := o.prepare(j); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return failed(err)
	}
	// Two searches that save to one folder would lose each other's work. The folder is made
	// and locked only now, so that a wrong RUN leaves none behind.
	lock, err := folder.Lock(o.out)
	if err != nil {
		return failed(fmt.Errorf("search: %w", err))
	}
	defer lock.Close()
	ctx, stop := interruptible()
	defer stop()
	return o.search(ctx, cmd, j)
}

// searchable refuses runs without subnetworks to find.
func searchable(j *judge.Judge, run string) error {
	if j.Recipe().Method.Name == "static" {
		return failed(fmt.Errorf("search: %s was trained by method static, as one subnetwork; there are no others to find", run))
	}
	return nil
}

// mostTogether is how many subnetworks a search judges at once, at most: as many as a
// judge gives to a device at once.
const mostTogether = 8

// together is how many subnetworks a search judges at once on the processor: enough
// that no thread waits for the last batch of one.
func together(threads int) int { return min(threads, mostTogether) }

// prepare turns flags into the options of a search.
func (o *searchOptions) prepare(j *judge.Judge) error {
	n := j.Network()
	costs, err := o.openCosts(n)
	if err != nil {
		return err
	}
	by, err := cost.Find(o.by, costs...)
	if err != nil {
		return err
	}
	budget, err := cost.ParseBudget(o.budget, costs...)
	if err != nil {
		return err
	}
	if o.at != "" {
		for text := range strings.SplitSeq(o.at, ",") {
			b, err := cost.ParseBudget(by.Name()+"<="+text, by)
			if err != nil {
				return err
			}
			o.amounts = append(o.amounts, b[0].Most)
		}
	}
	depths := o.depths
	if !o.depthsGiven {
		depths = j.Depths()
	}
	start, err := o.openStart(n)
	if err != nil {
		return err
	}
	o.options = search.Options{
		Network: n, Judge: j, Start: start, By: by, Costs: costs[len(cost.Exact()):], Budget: budget, Strategy: search.Strategy(o.strategy),
		Evaluations: o.evaluations, Seed: o.seed, Depths: depths, State: filepath.Join(o.out, searchState), Identity: j.Identity(),
		Parallel: o.judging.together(),
	}
	kind, err := frontier.ParseKind(by.Name())
	if err != nil {
		kind = frontier.Own
	}
	f := j.Frontier()
	f.By = []frontier.Kind{kind}
	if kind == frontier.Own {
		f.OwnName = by.Name()
	} else if len(o.costs) > 0 { // a frontier has room for one
		f.OwnName, _, _ = strings.Cut(o.costs[0], "=")
	}
	if o.table != nil {
		f.CPU, f.Threads = o.table.Machine.CPU, o.table.Machine.Threads
	}
	o.frontier = &f
	return nil
}

// openStart reads the subnetworks to start from, and names their file in o.start.
func (o *searchOptions) openStart(n *supernet.Network) ([]supernet.Subnet, error) {
	switch o.start {
	case "none":
		return nil, nil
	case "":
		o.start = filepath.Join(o.judging.run, train.TriedFile)
		if _, err := os.Stat(o.start); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	lines, err := readList(o.start)
	if err != nil {
		return nil, failed(err)
	}
	start := make([]supernet.Subnet, len(lines))
	for i, l := range lines {
		if start[i], err = train.ParseSubnet(n, l.text); err != nil {
			return nil, failed(fmt.Errorf("list %s: line %d: %w", o.start, l.number, err))
		}
	}
	return start, nil
}

// openCosts lists the costs that can be named: exact ones, those of a latency
// table, one's own.
func (o *searchOptions) openCosts(n *supernet.Network) ([]cost.Cost, error) {
	costs := cost.Exact()
	file := o.latency
	if file == "" {
		file = filepath.Join(o.judging.run, latencyFile)
		if _, err := os.Stat(file); err != nil {
			file = ""
		}
	}
	if file != "" {
		t, err := cost.Open(file)
		if err != nil {
			return nil, failed(err)
		}
		if err := t.Covers(cost.ThisMachine(t.Machine.Threads)); err != nil {
			return nil, failed(err)
		}
		o.table = t
		costs = append(costs, t.Costs()...)
	}
	for _, flag := range o.costs {
		name, file, ok := strings.Cut(flag, "=")
		if !ok {
			return nil, fmt.Errorf("--cost %q; want NAME=FILE.csv", flag)
		}
		for _, c := range costs {
			if c.Name() == name {
				return nil, fmt.Errorf("--cost %s: there is a cost of that name already", name)
			}
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, failed(err)
		}
		c, err := cost.ReadCSV(name, f, n)
		f.Close()
		if err != nil {
			return nil, failed(fmt.Errorf("%w (%s)", err, file))
		}
		costs = append(costs, c)
	}
	return costs, nil
}

func (o *searchOptions) search(ctx context.Context, cmd *cobra.Command, j *judge.Judge) error {
	stderr := cmd.ErrOrStderr()
	file := filepath.Join(o.out, frontierFile)
	if o.fresh {
		if err := os.Remove(o.options.State); err != nil && !errors.Is(err, os.ErrNotExist) {
			return failed(err)
		}
	}
	// Statistics of what an interrupted search has judged are in its frontier.
	if old, err := frontier.Open(file, o.options.Network); err == nil && old.Weights == o.frontier.Weights {
		o.options.Recall = func(s supernet.Subnet) *weights.Statistics {
			if i := old.Index(s); i >= 0 {
				return old.Points[i].Statistics
			}
			return nil
		}
	}
	bar := countBar(stderr, o.evaluations, "")
	var saving error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line := time.Now()
	o.options.Observe = func(p search.Progress) {
		if p.Evaluations == 1 { // the budget is feasible
			from := ""
			if len(o.options.Start) > 0 {
				from = fmt.Sprintf(", starting from %s of %s", plural(len(o.options.Start), "subnetwork"), o.start)
			}
			fmt.Fprintf(stderr, "searching %s by %s on %d %s images: %s, %d evaluations, budget %s%s\n",
				o.options.Network.Name(), o.by, j.Images(), j.On(), o.strategy, o.evaluations, o.options.Budget, from)
		}
		text := fmt.Sprintf("frontier %d  hypervolume %.4f", len(p.Frontier), p.Hypervolume)
		if p.Quality != nil {
			text += fmt.Sprintf("  predictor τ %.2f", p.Quality.Kendall)
		}
		bar.Describe(text)
		_ = bar.Set(p.Evaluations)
		if !isTerminal(stderr) && time.Since(line) >= quiet {
			line = time.Now()
			fmt.Fprintf(stderr, "%d/%d  %s\n", p.Evaluations, p.Total, text)
		}
		// The file holds all that was recalled already.
		if p.Added && !p.Recalled && saving == nil && calibrated(o.frontier, p.Frontier) {
			if saving = o.save(file, p.Frontier); saving != nil {
				cancel()
			}
		}
	}
	r, err := search.Run(ctx, o.options)
	_ = bar.Clear()
	switch {
	case saving != nil:
		return failed(saving)
	case r == nil:
		return failed(freshHint(err))
	}
	// One that was interrupted before it had asked for all statistics has nothing that
	// the file has not.
	if err == nil || calibrated(o.frontier, r.Frontier) {
		if err := o.finish(file, r); err != nil {
			return failed(err)
		}
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		holds := ""
		if len(r.Frontier) > 0 {
			holds = fmt.Sprintf("; %s holds the frontier so far", file)
		}
		return stopped{fmt.Errorf("search: interrupted after %s%s; run the same command again to go on", plural(r.Evaluations, "evaluation"), holds)}
	}
	if err != nil {
		return failed(err)
	}
	if o.asJSON {
		return failed(o.writeResult(cmd.OutOrStdout(), r))
	}
	return failed(o.print(cmd.OutOrStdout(), r, file))
}

// calibrated tells whether points of a frontier can run: answers that an earlier search
// has left come without statistics until somebody asks for them.
func calibrated(f *frontier.Frontier, points []frontier.Point) bool {
	return !slices.ContainsFunc(points, func(p frontier.Point) bool {
		is, err := f.Calibrated(p)
		return err != nil || !is
	})
}

// freshHint says what to do about a state file that cannot be gone on from.
func freshHint(err error) error {
	if errors.Is(err, search.ErrOther) || errors.Is(err, search.ErrCorrupt) || errors.Is(err, search.ErrVersion) {
		return fmt.Errorf("%w; want --fresh to forget it, or another --out", err)
	}
	return err
}

// save writes the frontier file.
func (o *searchOptions) save(file string, points []frontier.Point) error {
	o.frontier.Points = points
	return o.frontier.Save(file)
}

// finish writes what a search found, if it found anything.
func (o *searchOptions) finish(file string, r *search.Result) error {
	if len(r.Frontier) == 0 {
		return nil
	}
	if err := o.save(file, r.Frontier); err != nil {
		return err
	}
	chart := r.Chart(o.options.Network.Name(), o.options.By, o.options.Budget, o.amounts...)
	return writeFile(filepath.Join(o.out, frontierPicture), chart.WriteSVG)
}

// bestAt is the best subnetwork for an amount.
type bestAt struct {
	Most   float64          `json:"most"`
	Subnet *supernet.Subnet `json:"subnet"` // null: none is that cheap
}

func (o *searchOptions) writeResult(w io.Writer, r *search.Result) error {
	at := []bestAt{}
	for _, most := range o.amounts {
		b := bestAt{Most: most}
		if p, ok := r.Best(most); ok {
			b.Subnet = &p.Subnet
		}
		at = append(at, b)
	}
	return writeJSON(w, struct {
		Strategy    string             `json:"strategy"`
		Seed        uint64             `json:"seed"`
		Budget      string             `json:"budget"`
		Evaluations int                `json:"evaluations"`
		Exhausted   bool               `json:"exhausted"`
		Hypervolume float64            `json:"hypervolume"`
		Reference   search.Reference   `json:"reference"`
		Predictor   *search.Quality    `json:"predictor,omitempty"`
		At          []bestAt           `json:"at,omitempty"`
		Frontier    *frontier.Frontier `json:"frontier"`
	}{o.strategy, o.seed, o.options.Budget.String(), r.Evaluations, r.Exhausted, r.Hypervolume, r.Reference, r.Quality, at, o.frontier})
}

func (o *searchOptions) print(w io.Writer, r *search.Result, file string) error {
	if err := o.frontier.WriteTable(w); err != nil {
		return err
	}
	if len(o.amounts) > 0 {
		fmt.Fprintln(w)
		t := newTable(w, "AT MOST", "ACCURACY", "SUBNETWORK")
		for _, most := range o.amounts {
			p, ok := r.Best(most)
			if !ok {
				t.row(cost.Format(o.by, most), "-", "none is that cheap")
				continue
			}
			t.row(cost.Format(o.by, most), fmt.Sprintf("%.2f ± %.2f %%", 100*p.Accuracy, 100*p.Error()), p.Subnet.String())
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s, hypervolume %.4f (within %s %s)\n", plural(r.Evaluations, "evaluation"), r.Hypervolume, o.by, cost.Format(o.by, r.Reference.Cost))
	if q := r.Quality; q != nil {
		fmt.Fprintf(w, "a predictor orders subnetworks it has not seen with Kendall's τ %.3f, Spearman's ρ %.3f, error %.2f %%\n", q.Kendall, q.Spearman, 100*q.Error)
	}
	if r.Exhausted {
		fmt.Fprintln(w, "every subnetwork that could be found within the budget was judged")
	}
	_, err := fmt.Fprintf(w, "wrote %s and %s\n", file, filepath.Join(o.out, frontierPicture))
	return err
}
