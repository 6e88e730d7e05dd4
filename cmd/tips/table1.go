package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tips/reproduce"
	"tips/search/cost"
)

func newTable1() *cobra.Command {
	var out figureOutput
	o := reproduce.Table1Options{FrontierFile: frontierFile, SearchFile: searchState}
	var judging judgingFlags
	var at string
	cmd := &cobra.Command{
		Use:   "table1-cifar100 RUN...",
		Short: "Accuracy within budgets of MACs, by method, on CIFAR-100",
		Long: `The CIFAR-100 parts of the paper's Tables 1 and 2: top-1 test accuracy within budgets
of MACs (FLOPs in papers), mobilenet_v2 or resnet34, by training method, beside the
paper's rows; for mobilenet_v2 trained by OFA, beside its table of one-shot NAS too.

RUN is the folder of a finished training run in which 'tips search' has left a
frontier. Runs of one network and recipe are compared, by method and seed; seeds of a
method are averaged. Within each budget the subnetwork that is most accurate on the
held-out images is taken, and judged by the test images, its batch norm re-estimated
on training images. The smallest subnetworks are judged too, the network's and that of
the method, if it never trains the former.

What counts as ahead is told from chance by the deviation of runs of a method from each
other: it takes two seeds of at least one. Where seeds are few, --noise names a folder of
more runs, which are not in the table: those that differ in method, seed and epochs alone
tell of chance as well.

Settings of a method are to be chosen by the held-out accuracies, which the table has
below; the lower chart has the frontiers by them, over all costs. "tips" is the method as
published, "tips, smallest" as recipes have it by default.

Verdicts are kept in RUN/` + judgedFile + `: interrupted, the same command goes on.

--keep writes each run without its weights to a folder: recipe, network, metrics of
epochs, frontier, what it was chosen of, and verdicts, some 100 KB. Such a folder can
stand for the run here and in fig4b, so that tables can be checked and added to when the
weights are gone.`,
		Example: `  tips reproduce table1-cifar100 runs/cifar100-mobilenet_v2-*
  tips reproduce table1-cifar100 runs/cifar100-resnet34-* --data cifar-100-binary --out figures
  tips reproduce table1-cifar100 runs/quick-tips-1 runs/quick-joslim-1 --at 0.5M,1M,2M
  tips reproduce table1-cifar100 runs/*-200 --noise runs`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := judging.checkForRuns(); err != nil {
				return err
			}
			o.Runs = args
			var err error
			if o.At, err = parseBudgets(at); err != nil {
				return err
			}
			o.Judge = func(run string) (reproduce.Judge, error) {
				return judging.openRun(run, out.dir, cmd.ErrOrStderr())
			}
			return judging.figure(cmd, &out, func(ctx context.Context, progress func(done, total int)) (reproduce.Figure, error) {
				o.Progress = progress
				return reproduce.Table1(ctx, o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "budgets of MACs, as in 20M,30M (default those of the paper for the network)")
	f.StringVar(&o.Noise, "noise", "", "`folder` of more runs, by whose seeds chance is known")
	f.StringVar(&o.Keep, "keep", "", "`folder` that gets the runs, without their weights")
	judging.addForRuns(cmd)
	_ = cmd.MarkFlagDirname("keep")
	_ = cmd.MarkFlagDirname("noise")
	out.register(cmd)
	return cmd
}

// parseBudgets reads what --at has; nil if that is nothing.
func parseBudgets(at string) (list []int64, err error) {
	if at == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(at, ",") {
		b, err := cost.ParseBudget(cost.MACsName+"<="+text, cost.MACs())
		if err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
		if b[0].Most >= 1<<60 { // no network has as many, and 1<<63 would be below zero
			return nil, fmt.Errorf("--at: %s MACs; want less than 2^60", text)
		}
		list = append(list, int64(b[0].Most))
	}
	return list, nil
}
