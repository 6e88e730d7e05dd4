package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tips/judge"
	"tips/reproduce"
	"tips/search/cost"
)

func newTable3() *cobra.Command {
	var out figureOutput
	o := reproduce.Table3Options{LatencyFile: latencyFile, FrontierFile: frontierFile}
	var data string
	var images int
	var heldOut bool
	cmd := &cobra.Command{
		Use:   "table3 [RUN...]",
		Short: "Accuracy and measured latency of a frontier's subnetworks",
		Long: `The paper's Table 3: top-1 accuracy against latency, on this machine, of a few
subnetworks of a trained network, at evenly spaced latencies. The latency that was
predicted stands beside the one measured.

RUN is the folder of a training run in which 'tips search' has left a frontier. Several
runs of one network, by method and seed, are compared at equal latencies; seeds of a
method are averaged.

Accuracy is counted on the test images, which have not chosen the subnetworks. With
--held-out, and for files without a run, it is the one that the frontier holds.`,
		Example: `  tips reproduce table3 runs/quick-tips-1
  tips reproduce table3 runs/quick-tips-1 runs/quick-joslim-1 --rows 6
  tips reproduce table3 --weights net.safetensors --frontier net.frontier --threads 2`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("threads") && o.Threads < 1 {
				return fmt.Errorf("--threads %d; want 1 or more", o.Threads)
			}
			if o.Time <= 0 {
				return fmt.Errorf("--time %v; want more than 0", o.Time)
			}
			if images < 0 {
				return fmt.Errorf("--images %d; want 1 or more, or 0 for all", images)
			}
			o.Runs = args
			if !heldOut {
				o.Judge = func(run string) (reproduce.Judge, error) {
					return judge.Open(judge.Options{Run: run, Weights: o.Weights, Data: data, Test: true, Images: images, Formats: formats()})
				}
			}
			o.Machine = fmt.Sprintf("%s (%s kernels)", cost.CPU(), cost.ThisMachine(1).Kernels)
			const parts = 1000
			bar := countBar(cmd.ErrOrStderr(), parts, "measuring")
			o.Progress = func(share float64) { _ = bar.Set(int(parts * share)) }
			ctx, stop := interruptible()
			defer stop()
			f, err := reproduce.Table3(ctx, o)
			_ = bar.Clear() // so that an error has a line of its own
			if errors.Is(err, context.Canceled) {
				err = errors.New("table3: interrupted; nothing was written")
			}
			return out.finish(cmd, f, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Weights, "weights", "", "safetensors `file` of the weights (default those of RUN)")
	f.StringVar(&o.Frontier, "frontier", "", "`file` of the frontier (default that of RUN)")
	f.IntVar(&o.Rows, "rows", 5, "latencies to take a subnetwork for")
	f.IntVar(&o.Threads, "threads", 0, "threads of an inference (default as the frontier's latencies, or 1)")
	f.IntVar(&o.Repeats, "repeats", 60, "measurements of each subnetwork, at least")
	f.DurationVar(&o.Time, "time", 5*time.Second, "time to measure for, at least")
	f.StringVar(&data, "data", "", "the `DATA` of the runs (default what their recipes say)")
	f.IntVar(&images, "images", 0, "test images to judge by, evenly chosen; 0 for all")
	f.BoolVar(&heldOut, "held-out", false, "leave the accuracies of the frontier, by the images that chose it")
	_ = cmd.MarkFlagFilename("weights", "safetensors")
	_ = cmd.MarkFlagFilename("frontier", "frontier")
	out.register(cmd)
	return cmd
}
