package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"tips/search"
	"tips/search/cost"
)

// Files that a comparison leaves in its folder.
const (
	comparePicture = "compare.svg"
	compareData    = "compare.json"
	compareState   = "compare.state"
)

func newSearchCompare() *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare RUN",
		Short: "Hold the strategies of search against each other",
		Long: `Search a trained network with every strategy and several seeds, and compare the
hypervolumes of their frontiers after the same numbers of evaluations.

The folder --out gets the curves as a picture and as JSON. A subnetwork that several
searches ask for is judged once. Interrupted or killed, the same command goes on.`,
		Example: `  tips search compare runs/quick-tips-1
  tips search compare runs/quick-tips-1 --evaluations 1000 --guided 250 --seeds 5 --images 1000 --json`,
		Args: exactly("RUN"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "`folder` of the results (default RUN)")
	f.StringVar(&o.judging.data, "data", "", "the `DATA` to judge by (default that of RUN)")
	f.IntVar(&o.judging.images, "images", 0, "images to judge by, evenly chosen; 0 for all")
	f.IntVar(&o.judging.calibration, "calibration", 0, "training images to re-estimate batch-norm statistics on (default as RUN's recipe)")
	f.StringVar(&o.budget, "budget", "", "caps on exact costs, as in macs<=30M")
	f.IntVar(&o.evaluations, "evaluations", 500, "subnetworks that each search judges")
	f.IntVar(&o.guided, "guided", 0, "subnetworks that guided searches judge, if fewer (default as the others)")
	f.IntVar(&o.seeds, "seeds", 5, "searches of each strategy")
	f.Float64Var(&o.accuracy, "reference", 0, "accuracy that hypervolumes are measured from, 0 to 1")
	f.IntVar(&o.judging.threads, "threads", runtime.GOMAXPROCS(0), "threads")
	f.BoolVar(&o.asJSON, "json", false, "write the standings as JSON")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

type compareOptions struct {
	judging                    judgingOptions
	out, budget                string
	evaluations, guided, seeds int
	accuracy                   float64
	asJSON                     bool
}

func (o *compareOptions) run(cmd *cobra.Command, run string) error {
	for _, f := range []struct {
		name         string
		value, least int
	}{{"evaluations", o.evaluations, 1}, {"guided", o.guided, 0}, {"seeds", o.seeds, 1}, {"threads", o.judging.threads, 1}, {"images", o.judging.images, 0}, {"calibration", o.judging.calibration, 0}} {
		if f.value < f.least {
			return fmt.Errorf("--%s %d; want %d or more", f.name, f.value, f.least)
		}
	}
	if !(o.accuracy >= 0 && o.accuracy < 1) {
		return fmt.Errorf("--reference %v; want 0 or more and below 1", o.accuracy)
	}
	budget, err := cost.ParseBudget(o.budget, cost.Exact()...)
	if err != nil {
		return err
	}
	o.judging.run = run
	if o.out == "" {
		o.out = run
	}
	j, err := openJudging(o.judging)
	if err != nil {
		return err
	}
	defer j.Close()
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return failed(err)
	}
	c := search.CompareOptions{
		Search: search.Options{
			Network: j.set.Network, Judge: j, Budget: budget, Depths: j.depths,
			State: filepath.Join(o.out, compareState), Identity: j.identity,
		},
		Evaluations: o.evaluations, Fewer: map[search.Strategy]int{search.Guided: o.guided},
	}
	for seed := range o.seeds {
		c.Seeds = append(c.Seeds, uint64(seed+1))
	}
	if o.accuracy > 0 {
		full, _ := cost.MACs().Of(j.set.Network.Full()) // cannot fail
		if most, ok := budget.Cap(cost.MACsName); ok {
			full = most
		}
		c.Search.Reference = search.Reference{Cost: full, Accuracy: o.accuracy}
	}
	bar := countBar(cmd.ErrOrStderr(), 1, "")
	defer bar.Clear()
	now := 0
	c.Observe = func(run, of int) { now = run; bar.ChangeMax(of * o.evaluations) }
	c.Search.Observe = func(p search.Progress) {
		bar.Describe(fmt.Sprintf("search %d  hypervolume %.4f", now+1, p.Hypervolume))
		_ = bar.Set(now*o.evaluations + p.Evaluations)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	result, err := search.Compare(ctx, c)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return stopped{errors.New("search: compare: interrupted; run the same command again to go on")}
	}
	if err != nil {
		return failed(err)
	}
	return failed(o.finish(cmd.OutOrStdout(), result, budget.String()))
}

func (o *compareOptions) finish(w io.Writer, c *search.Comparison, budget string) error {
	if err := writeFile(filepath.Join(o.out, comparePicture), c.Chart(budget).WriteSVG); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(o.out, compareData), func(w io.Writer) error { return writeJSON(w, c) }); err != nil {
		return err
	}
	standings := c.Standings()
	if o.asJSON {
		return writeJSON(w, standings)
	}
	t := newTable(w, "STRATEGY", "EVALUATIONS", "HYPERVOLUME", "REACHES RANDOM'S AFTER", "PREDICTOR'S τ")
	for _, s := range standings {
		needed := "-"
		if s.Reached > 0 {
			needed = fmt.Sprintf("%.0f evaluations, in %d of %d", s.Needed, s.Reached, s.Searches)
		}
		t.row(string(s.Strategy), fmt.Sprint(s.Evaluations), fmt.Sprintf("%.4f ± %.4f", s.Mean, s.Deviation), needed, fmt.Sprintf("%.3f", s.Kendall))
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nwrote %s and %s\n", filepath.Join(o.out, comparePicture), filepath.Join(o.out, compareData))
	return err
}
