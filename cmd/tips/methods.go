package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"tips/dataset"
	"tips/dataset/fashion"
	"tips/reproduce"
)

func newMethods() *cobra.Command {
	var out figureOutput
	var o reproduce.MethodsOptions
	cmd := &cobra.Command{
		Use:   "methods RUN...",
		Short: "Training methods beside each other: curves and frontiers",
		Long: `Compare finished runs of 'tips train' on one network, several methods and seeds:
test accuracy of the full and the smallest subnetwork by epoch, and the accuracy
that each method reaches within budgets of MACs, mean and deviation over the seeds.
This is the form of the paper's Table 1 and Figure 4b.`,
		Example: `  tips train fashion-mnist --data DIR --method tips --seed 1
  tips train fashion-mnist --data DIR --method us-nets --seed 1
  tips reproduce methods runs/fashion-mnist-* --data fashion-mnist:DIR`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Runs, o.Formats = args, []dataset.Format{fashion.Format()}
			bar := countBar(cmd.ErrOrStderr(), -1, "subnetworks")
			o.Progress = func(done, total int) {
				bar.ChangeMax(total)
				_ = bar.Set(done)
			}
			ctx, stop := interruptible()
			defer stop()
			curves, frontiers, err := reproduce.Methods(ctx, o)
			_ = bar.Clear() // so that an error has a line of its own
			if errors.Is(err, context.Canceled) {
				err = errors.New("interrupted")
			}
			if err := out.finish(cmd, curves, err); err != nil {
				return err
			}
			return out.finish(cmd, frontiers, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "the `DATA` of the runs (default what their recipes say)")
	f.IntVar(&o.Candidates, "candidates", 100, "subnetworks that frontiers are chosen from")
	f.IntVar(&o.Images, "images", 2000, "training images that they are chosen by")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the candidates")
	f.IntVar(&o.Threads, "threads", runtime.GOMAXPROCS(0), "threads")
	out.register(cmd)
	return cmd
}
