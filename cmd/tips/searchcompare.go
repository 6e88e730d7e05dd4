package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"tips/judge"
	"tips/search"
	"tips/search/cost"
	"tips/supernet"
)

// Files that a comparison leaves in its folder.
const (
	comparePicture = "compare.svg"
	compareData    = "compare.json"
	compareCurves  = "compare.csv"
)

func newSearchCompare() *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare RUN",
		Short: "Hold the strategies of search against each other",
		Long: `Search a trained network with every strategy and several seeds, and compare the
hypervolumes of their frontiers after the same numbers of evaluations, and how many
evaluations each needs to reach what Algorithm 1 has at its end.

Hypervolumes are measured from a reference point, ACCURACY or ACCURACY@MACS as in
0.8@4M; without MACS it is at the cap on MACs or else at the whole network's.

The folder --out gets the curves as a picture, as CSV and as JSON. A subnetwork is
judged once, however many searches ask for it, and kept in --cache. Interrupted or
killed, the same command goes on.`,
		Example: `  tips search compare runs/quick-tips-1
  tips search compare runs/quick-tips-1 --evaluations 1000 --guided 250 --seeds 5 --images 1000 --json
  tips search compare runs/quick-tips-1 --reference 0.8@1M --out compared`,
		Args: exactly("RUN"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "`folder` of the results (default RUN)")
	o.judging.add(cmd)
	f.StringVar(&o.budget, "budget", "", "caps on exact costs, as in macs<=30M")
	f.IntVar(&o.evaluations, "evaluations", 500, "subnetworks that each search judges")
	f.IntVar(&o.guided, "guided", 0, "subnetworks that guided searches judge, if fewer (default as the others)")
	f.IntVar(&o.evolution, "evolution", 0, "subnetworks that evolutions judge, if fewer (default as the others)")
	f.IntVar(&o.seeds, "seeds", 5, "searches of each strategy")
	f.StringVar(&o.reference, "reference", "0", "the `POINT` that hypervolumes are measured from")
	f.BoolVar(&o.asJSON, "json", false, "write the standings as JSON")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

type compareOptions struct {
	judging                               judgingFlags
	out, budget, reference                string
	evaluations, guided, evolution, seeds int
	asJSON                                bool
}

// maxSeeds bounds the searches of each strategy, whose curves are kept in memory.
const maxSeeds = 10_000

func (o *compareOptions) run(cmd *cobra.Command, run string) error {
	if err := positive(cmd, "guided", "evolution"); err != nil {
		return err
	}
	if err := o.judging.check(least{"evaluations", o.evaluations, 1}, least{"guided", o.guided, 0}, least{"evolution", o.evolution, 0}, least{"seeds", o.seeds, 1}); err != nil {
		return err
	}
	if o.seeds > maxSeeds {
		return fmt.Errorf("--seeds %d; want 1 to %d", o.seeds, maxSeeds)
	}
	budget, err := cost.ParseBudget(o.budget, cost.Exact()...)
	if err != nil {
		return err
	}
	reference, err := parseReference(o.reference)
	if err != nil {
		return err
	}
	o.judging.run = run
	if o.out == "" {
		o.out = run
	}
	// Statistics are of no use here, and thousands of them are large.
	defer o.judging.done()
	j, err := o.judging.open(judge.Options{Counts: true}, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer j.Close()
	if err := searchable(j, run); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return failed(err)
	}
	c := search.CompareOptions{
		Search: search.Options{
			Network: j.Network(), Judge: j, Budget: budget, Depths: j.Depths(),
			Reference: referenceFor(j.Network(), budget, reference), Parallel: o.judging.together(),
		},
		Evaluations: o.evaluations, Fewer: map[search.Strategy]int{search.Guided: o.guided, search.Evolution: o.evolution},
		Together: o.judging.together(), // while one breeds, others judge
	}
	for seed := range o.seeds {
		c.Seeds = append(c.Seeds, uint64(seed+1))
	}
	show := newCompareProgress(cmd.ErrOrStderr())
	c.Observe = show.observe
	ctx, stop := interruptible()
	defer stop()
	result, err := search.Compare(ctx, c)
	_ = show.bar.Clear()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return stopped{errors.New("search: compare: interrupted; run the same command again to go on")}
	}
	if err != nil {
		return failed(err)
	}
	return failed(o.finish(cmd.OutOrStdout(), result, budget.String(), c.Search.Reference))
}

// parseReference reads ACCURACY or ACCURACY@MACS; a cost of 0 is none given.
func parseReference(text string) (search.Reference, error) {
	accuracy, macs, at := strings.Cut(text, "@")
	var r search.Reference
	var err error
	if r.Accuracy, err = strconv.ParseFloat(accuracy, 64); err != nil || !(r.Accuracy >= 0 && r.Accuracy < 1) {
		return r, fmt.Errorf("--reference %q; want an accuracy of 0 or more and below 1, as in 0.8 or 0.8@4M", text)
	}
	if at {
		b, err := cost.ParseBudget(cost.MACsName+"<="+macs, cost.MACs())
		if err != nil {
			return r, fmt.Errorf("--reference %q: %w", text, err)
		}
		r.Cost = b[0].Most
	}
	return r, nil
}

// referenceFor puts in the cost that a reference means by itself.
func referenceFor(n *supernet.Network, budget cost.Budget, r search.Reference) search.Reference {
	if r.Cost == 0 {
		r.Cost, _ = cost.MACs().Of(n.Full()) // cannot fail
		if most, ok := budget.Cap(cost.MACsName); ok {
			r.Cost = most
		}
	}
	return r
}

// compareProgress shows how far a comparison is.
type compareProgress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar
	line time.Time // of the last line, and what it said
	said int
}

func newCompareProgress(w io.Writer) *compareProgress {
	return &compareProgress{out: w, bar: countBar(w, 1, ""), line: time.Now()}
}

func (p *compareProgress) observe(now search.CompareProgress) {
	text := fmt.Sprintf("%d of %d searches", now.Over, now.Searches)
	p.bar.ChangeMax(now.Total)
	p.bar.Describe(text)
	_ = p.bar.Set(now.Evaluations)
	if since := time.Since(p.line); !isTerminal(p.out) && since >= quiet {
		// At the pace of late: what is known already is passed over in no time.
		left := since.Seconds() / float64(max(now.Evaluations-p.said, 1)) * float64(now.Total-now.Evaluations)
		p.line, p.said = time.Now(), now.Evaluations
		fmt.Fprintf(p.out, "%d/%d evaluations, %s, about %s left\n", now.Evaluations, now.Total, text, duration(left))
	}
}

func (o *compareOptions) finish(w io.Writer, c *search.Comparison, budget string, reference search.Reference) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{comparePicture, c.Chart(budget).WriteSVG},
		{compareCurves, c.WriteCSV},
		{compareData, func(w io.Writer) error { return writeJSON(w, c) }},
	} {
		if err := writeFile(filepath.Join(o.out, f.name), f.write); err != nil {
			return err
		}
	}
	standings := c.Standings()
	if o.asJSON {
		return writeJSON(w, standings)
	}
	fmt.Fprintf(w, "hypervolume within %s MACs, above an accuracy of %v, mean and deviation of %s:\n\n",
		cost.Format(cost.MACsName, reference.Cost), reference.Accuracy, plural(o.seeds, "seed"))
	header := []string{"STRATEGY"}
	stops := o.stops()
	for _, n := range stops {
		header = append(header, fmt.Sprintf("AFTER %d", n))
	}
	t := newTable(w, append(header, "REACHES RANDOM'S LAST AFTER", "PREDICTOR'S τ")...)
	for _, s := range standings {
		row := []string{string(s.Strategy)}
		for _, n := range stops {
			cell := "-"
			if mean, deviation, ok := c.After(s.Strategy, s.Budget, n); ok {
				cell = fmt.Sprintf("%.4f ± %.4f", mean, deviation)
			}
			row = append(row, cell)
		}
		needed := "-"
		if s.Reached > 0 {
			needed = fmt.Sprintf("%.0f of %d, in %d of %d", s.Needed, s.RandomsEvaluate, s.Reached, s.Searches)
		}
		t.row(append(row, needed, fmt.Sprintf("%.3f", s.Kendall))...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nwrote %s, %s and %s to %s\n", comparePicture, compareCurves, compareData, o.out)
	return err
}

// stops are the numbers of evaluations that the table has columns for: a twentieth, a
// tenth, … of them, and where strategies with fewer end.
func (o *compareOptions) stops() []int {
	var list []int
	for _, n := range []int{o.evaluations / 20, o.evaluations / 10, o.evaluations / 5, o.evaluations / 2, o.guided, o.evolution, o.evaluations} {
		if n > 0 && n <= o.evaluations {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
