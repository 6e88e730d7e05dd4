package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tips/search/cost"
)

func newProfile() *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use:   "profile MODEL",
		Short: "Measure how long a network's subnetworks take on this machine",
		Long: `Measure how long the steps of a network take on this machine, inside runs of
random subnetworks, and write a latency table that predicts the time of any
subnetwork. The predictions are checked against whole runs of other subnetworks.

The table is for this machine, this number of threads and networks like this one;
the weights do not matter. 'tips search --latency FILE' searches by it. Where the
machine exposes energy counters (RAPL) and they may be read, energy is measured
too; where not, the command says so and the table has none.

Other programs that run at the same time make a table worse: runs that they disturb
are repeated and put aside, as far as there are others.`,
		Example: `  tips profile mobilenet_v2
  tips profile runs/quick-tips-1/network.json --threads 2 --out runs/quick-tips-1/latency.json
  tips profile mobilenet_v2:width=1.4,data=cifar100 --depths --json`,
		Args:              exactly("MODEL"),
		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "latency.json", "`file` of the table")
	f.IntVar(&o.size, "size", 0, "height and width of the input (default the network's own)")
	f.IntVar(&o.Threads, "threads", 1, "threads that networks run with")
	f.IntVar(&o.Subnets, "subnets", 60, "subnetworks to measure steps in")
	f.IntVar(&o.Runs, "runs", 20, "runs of each, at least")
	f.DurationVar(&o.Time, "time", 20*time.Second, "time to measure for, at least")
	f.IntVar(&o.Checked, "check", 50, "other subnetworks to check predictions with")
	f.BoolVar(&o.Depths, "depths", false, "subnetworks of all depths")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the subnetworks")
	f.BoolVar(&o.asJSON, "json", false, "write the check as JSON")
	_ = cmd.MarkFlagFilename("out", "json")
	return cmd
}

type profileOptions struct {
	cost.ProfileOptions
	out    string
	size   int
	asJSON bool
}

func (o *profileOptions) run(cmd *cobra.Command, model string) error {
	if o.size < 1 && cmd.Flag("size").Changed {
		return fmt.Errorf("--size %d; want 1 or more", o.size)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"threads", o.Threads}, {"subnets", o.Subnets}, {"runs", o.Runs}, {"check", o.Checked}} {
		if f.value < 1 {
			return fmt.Errorf("--%s %d; want 1 or more", f.name, f.value)
		}
	}
	if o.Time <= 0 {
		return fmt.Errorf("--time %v; want more than 0", o.Time)
	}
	if o.out == "" {
		return errors.New("--out \"\"; want the name of a file")
	}
	if err := checkOut(o.out); err != nil {
		return failed(err)
	}
	n, err := openModel(model)
	if err != nil {
		return err
	}
	o.Network, o.Input = n, n.Input()
	if o.size > 0 {
		o.Input.Height, o.Input.Width = o.size, o.size
	}
	energy := ""
	if o.Meter, err = cost.OpenMeter(cost.PowercapRoot); err != nil {
		energy = err.Error()
	}
	const parts = 1000
	bar := countBar(cmd.ErrOrStderr(), parts, "measuring")
	defer bar.Clear()
	o.Progress = func(share float64) { _ = bar.Set(int(parts * share)) }
	ctx, stop := interruptible()
	defer stop()
	table, report, err := cost.Profile(ctx, o.ProfileOptions)
	if errors.Is(err, context.Canceled) {
		return failed(errors.New("profile: interrupted; no table was written"))
	}
	if err != nil {
		return failed(err)
	}
	if o.Meter == nil {
		report.NoEnergy = energy
	}
	if err := table.Save(o.out); err != nil {
		return failed(err)
	}
	if o.asJSON {
		return failed(writeJSON(cmd.OutOrStdout(), struct {
			File    string       `json:"file"`
			Network string       `json:"network"`
			Machine cost.Machine `json:"machine"`
			Steps   int          `json:"steps"`
			Energy  *cost.Energy `json:"energy,omitempty"`
			*cost.Report
		}{o.out, table.Network, table.Machine, len(table.Steps), table.Energy, report}))
	}
	return failed(printProfile(cmd.OutOrStdout(), o, table, report))
}

// printProfile says how good a table is.
func printProfile(w io.Writer, o *profileOptions, t *cost.Table, r *cost.Report) error {
	fmt.Fprintf(w, "%s, input %s, on %s\n", t.Network, t.Input, t.Machine)
	fmt.Fprintf(w, "%s in %s; wrote %s\n\n", plural(len(t.Steps), "different step"), plural(o.Subnets, "subnetwork"), o.out)
	out := newTable(w, "MACS", "PREDICTED", "MEASURED", "ERROR", "SUBNETWORK")
	const shown = 8
	for i := range min(shown, len(r.Checks)) {
		c := r.Checks[i*(len(r.Checks)-1)/max(1, min(shown, len(r.Checks))-1)]
		out.row(count(c.MACs), c.Predicted.Round(time.Microsecond).String(), c.Measured.Round(time.Microsecond).String(),
			fmt.Sprintf("%.1f %%", 100*c.Error()), c.Subnet.String())
	}
	if err := out.flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nover %s that the table was not made from, %.1f× apart in MACs: median error %.1f %%, 95th percentile %.1f %%, Kendall's τ %.3f\n",
		plural(len(r.Checks), "subnetwork"), r.MACsSpan, 100*r.Median, 100*r.P95, r.Rank)
	if r.Quiet < 0.5 {
		fmt.Fprintf(w, "other programs disturbed %.0f %% of all runs; a quiet machine gives a better table\n", 100*(1-r.Quiet))
	}
	if t.Energy == nil {
		_, err := fmt.Fprintf(w, "no energy: %s\n", r.NoEnergy)
		return err
	}
	_, err := fmt.Fprintf(w, "energy: %.3g W and %.3g pJ a MAC, median error %.1f %%\n", t.Energy.PerSecond, 1e12*t.Energy.PerMAC, 100*t.Energy.Error)
	return err
}
