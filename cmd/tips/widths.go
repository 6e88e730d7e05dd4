package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tips/reproduce"
)

func newWidths() *cobra.Command {
	var out figureOutput
	var o reproduce.WidthsOptions
	var judging judgingFlags
	cmd := &cobra.Command{
		Use:   "widths RUN... | FILE.csv",
		Short: "Which widths each method has taught a network to do without",
		Long: `Not a figure of the paper: how accurate a trained network is when it is made narrow in
one way or another, by training method. At each ratio of full width three subnetworks
are judged by the test images, their batch norm re-estimated on training images: with
all widths at that ratio; with those of the trunk alone, the groups that residual
additions tie together; and with the inner ones alone, which are at least as wide as
what is before and behind them, as the expansions of mobilenet_v2. The rest stays full.

RUN is the folder of a finished training run. Runs of one network and recipe are
compared, by method and seed, at most eight methods; seeds of a method are averaged.
Verdicts are kept in RUN/` + judgedFile + `: interrupted, the same command goes on.

FILE.csv is what this command wrote: table and picture are made of it again, without
the runs.`,
		Example: `  tips reproduce widths runs/cifar100-mobilenet_v2-*
  tips reproduce widths runs/quick-tips-1 runs/quick-us-nets-1 --ratios 0.5,0.75,1 --calibration 2048
  tips reproduce widths figures/widths-cifar100-mobilenet_v2.csv --out again`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := judging.checkForRuns(); err != nil {
				return err
			}
			for _, name := range args {
				if !strings.HasSuffix(name, ".csv") {
					continue
				}
				if len(args) > 1 || cmd.Flags().Changed("ratios") {
					return fmt.Errorf("%s is drawn by itself, as it is; want no runs beside it, and no --ratios", name)
				}
				f, err := readWidths(name)
				return out.finish(cmd, f, err)
			}
			o.Runs = args
			o.Judge = func(run string) (reproduce.CalibratingJudge, error) {
				return judging.openRun(run, out.dir, cmd.ErrOrStderr())
			}
			return judging.figure(cmd, &out, func(ctx context.Context, progress func(done, total int)) (reproduce.Figure, error) {
				o.Progress = progress
				return reproduce.Widths(ctx, o)
			})
		},
	}
	f := cmd.Flags()
	f.Float64SliceVar(&o.Ratios, "ratios", nil, "the `ratios` of full width to judge at, as in 0.5,0.75,1 (default the network's least, and 0.4 to 1)")
	f.Lookup("ratios").DefValue = "" // the usage has it
	judging.addForRuns(cmd)
	out.register(cmd)
	return cmd
}

// readWidths makes the figure of a file of its data.
func readWidths(name string) (reproduce.Figure, error) {
	file, err := os.Open(name)
	if err != nil {
		return reproduce.Figure{}, err
	}
	defer file.Close()
	f, err := reproduce.ReadWidths(file)
	if err != nil {
		return reproduce.Figure{}, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
