package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tips/frontier"
	"tips/reproduce"
	"tips/search/cost"
	"tips/supernet"
	"tips/weights"
)

func newOverhead() *cobra.Command {
	var out figureOutput
	var o reproduce.OverheadOptions
	var model, weightsFile, frontierFile string
	cmd := &cobra.Command{
		Use:   "overhead",
		Short: "Storage of twelve subnetworks, and what it takes to change to another",
		Long: `The paper's appendix on overhead: the configurations of twelve subnetworks against
twelve networks stored separately, and a switch to another subnetwork against loading
another network: by this program itself, and by ONNX Runtime.

Weights are random, and so are the subnetworks, unless --weights and --frontier name
files; neither changes what is measured. The networks are written to the folder for
temporary files, some 400 MB, and read from the page cache.

ONNX Runtime is measured where python3 has the package onnxruntime or node has
onnxruntime-node, or where --python or --node names a program that has; where there is
none, a line says so.`,
		Example: `  tips reproduce overhead
  tips reproduce overhead --python venv/bin/python --repetitions 50
  tips reproduce overhead --weights runs/quick-tips-1/weights.safetensors --frontier runs/quick-tips-1/net.frontier`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if frontierFile != "" && weightsFile == "" {
				return fmt.Errorf("overhead: --frontier needs --weights, the file that it was made for")
			}
			if err := openOverhead(cmd, &o, model, weightsFile, frontierFile); err != nil {
				return err
			}
			o.Machine = fmt.Sprintf("%s (%s kernels)", cost.CPU(), cost.ThisMachine(o.Threads).Kernels)
			bar := countBar(cmd.ErrOrStderr(), max(o.Repetitions, 0), "repetitions")
			o.Progress = func(done, _ int) { _ = bar.Set(done) }
			ctx, stop := interruptible()
			defer stop()
			f, err := reproduce.Overhead(ctx, o)
			_ = bar.Clear() // so that an error has a line of its own
			if errors.Is(err, context.Canceled) {
				err = errors.New("overhead: interrupted; nothing was written")
			}
			return out.finish(cmd, f, err)
		},
	}
	f := cmd.Flags()
	modelFlag(cmd, &model)
	f.Lookup("model").DefValue = overheadModel
	model = overheadModel
	f.StringVar(&weightsFile, "weights", "", "safetensors `file` of weights (default random ones)")
	f.StringVar(&frontierFile, "frontier", "", "`file` with the subnetworks of these weights (default random ones)")
	f.IntVar(&o.Subnets, "subnets", 12, "subnetworks")
	f.IntVar(&o.Repetitions, "repetitions", 15, "times that each is switched to and loaded")
	f.IntVar(&o.Threads, "threads", 1, "threads of an inference")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of weights, subnetworks and order")
	f.StringVar(&o.Python, "python", "", "`program` that has Python's onnxruntime (default python3)")
	f.StringVar(&o.Node, "node", "", "`program` that has Node.js's onnxruntime-node (default node)")
	_ = cmd.MarkFlagFilename("weights", "safetensors")
	_ = cmd.MarkFlagFilename("frontier", "frontier")
	out.register(cmd)
	return cmd
}

// overheadModel is what the paper trains on ImageNet.
const overheadModel = "mobilenet_v2:width=1.4"

// openOverhead opens weights and frontier. Weights that tell their network need no
// --model.
func openOverhead(cmd *cobra.Command, o *reproduce.OverheadOptions, model, weightsFile, frontierFile string) error {
	var n *supernet.Network
	var err error
	if weightsFile == "" || cmd.Flags().Changed("model") {
		if n, err = openModel(model); err != nil {
			return err
		}
	}
	if weightsFile == "" {
		o.Weights, o.Origin = weights.Random(n, o.Seed), "random"
		o.Weights.RandomNorm(o.Seed + 1)
		return nil
	}
	if o.Weights, err = weights.Open(weightsFile, n); err != nil {
		return failed(err)
	}
	o.Origin = weightsFile
	if frontierFile == "" {
		return nil
	}
	if o.Frontier, err = frontier.Open(frontierFile, o.Weights.Network); err != nil {
		return failed(err)
	}
	if err := o.Frontier.CheckWeights(o.Weights); err != nil {
		return failed(fmt.Errorf("frontier %s: %w", frontierFile, err))
	}
	return nil
}
