package main

import (
	"github.com/spf13/cobra"

	"tips/reproduce"
)

func newDraws() *cobra.Command {
	var out figureOutput
	var o reproduce.DrawsOptions
	var changes trainOptions
	var model, at string
	cmd := &cobra.Command{
		Use:   "draws [RECIPE]",
		Short: "Which subnetworks the methods draw to train",
		Long: `Not a figure of the paper: which subnetworks each training method draws, without
training any. The steps of tips, us-nets, ds-net, ofa (its last phase) and alphanet are
planned as 'tips train' would plan them, and so are those of variants of tips: other
factors, other rules for the important path, the groups off it favoured, one ratio for a
whole subnetwork, lower ratios, the smallest subnetwork in every step, one of three that
favours no group. Shown are the MACs of what is drawn, how much of it is within budgets,
and how wide important groups, others, residual trunks and the middles of blocks are on
average. Of joslim and attentive-nas this depends on losses, so they are left out.

RECIPE is a name of 'tips train --list', or the path of a YAML file; it has the network,
the seed, and settings of tips that all variants start from.`,
		Example: `  tips reproduce draws
  tips reproduce draws cifar100-resnet34 --steps 5000
  tips reproduce draws --model resnet50 --at 1G,2G --set method.analysis.expected=true`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("RECIPE")(cmd, args)
		},
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive(cmd, "steps"); err != nil {
				return err
			}
			name := drawsRecipe
			if len(args) > 0 {
				name = args[0]
			}
			var err error
			if o.Recipe, err = changes.resolve(cmd, name); err != nil {
				return err
			}
			if model == "" {
				model = o.Recipe.Network
			}
			n, err := openModel(model)
			if err != nil {
				return err
			}
			if o.At, err = parseBudgets(at); err != nil {
				return err
			}
			f, err := reproduce.Draws(n, o)
			return out.finish(cmd, f, err)
		},
	}
	f := cmd.Flags()
	modelFlag(cmd, &model)
	f.Lookup("model").DefValue = ""
	f.Lookup("model").Usage = "network: a zoo name or a description file (default that of the recipe)"
	model = ""
	f.IntVar(&o.Steps, "steps", 2000, "steps of each method")
	f.StringVar(&at, "at", "", "budgets of MACs, as in 20M,30M (default some for the network)")
	f.Uint64Var(&changes.seed, "seed", 0, "seed of what is drawn (default that of the recipe)")
	f.StringArrayVar(&changes.set, "set", nil, "change a key of the recipe, as in `method.factor=2`; may be repeated")
	out.register(cmd)
	return cmd
}

// drawsRecipe is that of the paper's first table.
const drawsRecipe = "cifar100-mobilenet_v2"
