package main

import (
	"github.com/spf13/cobra"

	"tips/reproduce"
)

func newFig4b() *cobra.Command {
	var out figureOutput
	var o reproduce.Fig4bOptions
	cmd := &cobra.Command{
		Use:   "fig4b RUN...",
		Short: "Convergence of training, by method",
		Long: `Figure 4b and c: the training loss of the full network by epoch, for several methods
in one picture. The paper draws it for mobilenet_v2 on ImageNet and Tiny-ImageNet; here
it is of the network and the data of the runs, and labelled so.

The learning rate falls to zero over the epochs of a run, and all losses fall with it
at the end: epochs to reach a loss differ less than they would at a constant rate. So it
is told for the loss that another method ends with and for that after half of its epochs.
--time shows what a run took where it ran, with compilation and whatever ran beside it.

RUN is the folder of a training run, which need not be over; weights are not read.
Seeds of a method are averaged. The CSV file has the metrics of all runs, a row an
epoch, and what was judged after it: it is what to keep of a long metrics.jsonl.`,
		Example: `  tips reproduce fig4b runs/cifar100-mobilenet_v2-*
  tips reproduce fig4b runs/quick-tips-1 runs/quick-joslim-1 --time`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Runs = args
			f, err := reproduce.Fig4b(o)
			return out.finish(cmd, f, err)
		},
	}
	cmd.Flags().BoolVar(&o.Time, "time", false, "draw against the time that training took, not against epochs")
	out.register(cmd)
	return cmd
}
