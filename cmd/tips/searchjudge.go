package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tips/dataset"
	"tips/frontier"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// judgingOptions say whom to judge, and by what.
type judgingOptions struct {
	run, weights, data  string
	images, calibration int
	threads             int
}

// judging is a judge of a run's subnetworks, and what is known of it.
type judging struct {
	set      *weights.Set
	frontier frontier.Frontier // all but its points and costs
	identity string            // what its answers depend on
	images   int               // that it judges by
	on       string            // which those are
	depths   int               // blocks of a stage that training left out at most

	executor          *train.CPU
	calibration, test *dataset.Loader
}

// openJudging opens the weights and the data of a training run.
func openJudging(o judgingOptions) (*judging, error) {
	recipe, err := train.OpenRecipe(filepath.Join(o.run, train.RecipeFile))
	if err != nil {
		return nil, failed(fmt.Errorf("%w; want the folder of a training run", err))
	}
	description, err := os.Open(filepath.Join(o.run, train.NetworkFile))
	if err != nil {
		return nil, failed(err)
	}
	defer description.Close()
	n, err := supernet.Read(description)
	if err != nil {
		return nil, failed(err)
	}
	if o.weights == "" {
		o.weights = filepath.Join(o.run, train.WeightsFile)
	}
	j := &judging{depths: method.Depths(recipe.Method.Name)}
	if recipe.Method.Name == "static" {
		return nil, failed(fmt.Errorf("search: %s was trained by method static, as one subnetwork; there are no others to find", o.run))
	}
	if j.set, err = weights.Open(o.weights, n); err != nil {
		return nil, failed(err)
	}
	if o.data != "" {
		if recipe.Data, err = dataSpec(recipe.Data, o.data); err != nil {
			return nil, err
		}
	}
	if o.calibration == 0 {
		o.calibration = recipe.Evaluate.Calibration
	}
	if err := j.openData(recipe, o); err != nil {
		return nil, failed(err)
	}
	j.executor = train.NewCPU(train.Settings{Network: n}, o.threads)
	if err := j.executor.Restore(&train.State{Weights: j.set, Momentum: weights.New(n)}); err != nil {
		return nil, failed(err)
	}
	return j, nil
}

// openData takes images that were kept back from training to judge by, or those of
// the test where there are none.
func (j *judging) openData(r *train.Recipe, o judgingOptions) error {
	d, err := dataset.Open(r.Data, formats()...)
	if err != nil {
		return err
	}
	n := j.set.Network
	full := n.Full()
	if classes := full.Shape(full.Output()).Elements(); classes != int64(d.Classes) {
		return fmt.Errorf("search: network %s tells %d classes apart, and data %s has %d", n.Name(), classes, d.Name, d.Classes)
	}
	pipeline := d.Pipeline()
	if r.Augment != nil {
		pipeline = r.Augment.Normalised(d)
	}
	pipeline = pipeline.Evaluation()
	in := n.Input()
	if in.Height == 1 && in.Width == 1 && in.Channels == d.Size*d.Size*d.Channels { // pixels are channels
		in = supernet.Shape{Channels: d.Channels, Height: d.Size, Width: d.Size}
	}
	learnt, judged := d.Train, d.Test
	j.on = "test"
	if r.Holdout > 0 {
		learnt, judged = dataset.Holdout(d.Train, r.Holdout, r.Seed)
		j.on = "held-out"
	}
	judged, learnt = dataset.Evenly(judged, o.images), dataset.Evenly(learnt, o.calibration)
	plain := dataset.LoaderOptions{
		Batch: r.Evaluate.Batch, Height: in.Height, Width: in.Width, Channels: in.Channels, Pipeline: pipeline, Seed: r.Seed, Workers: o.threads,
	}
	if j.test, err = dataset.NewLoader(judged, plain); err != nil {
		return err
	}
	plain.Shuffle = true // sources may be sorted by class
	if j.calibration, err = dataset.NewLoader(learnt, plain); err != nil {
		return err
	}
	j.images = judged.Len()
	hash := j.set.Hash()
	j.identity = strings.Join([]string{hash.String(), r.Data, j.on, fmt.Sprint(j.images), fmt.Sprint(learnt.Len()), fmt.Sprint(r.Seed)}, " ")
	j.frontier = frontier.Frontier{
		Network: n, Weights: hash, Input: n.Input(), ClassNames: d.ClassNames,
		Preprocess: frontier.Preprocess{Resize: pipeline.Resize, Mean: pipeline.Mean, Std: pipeline.Std},
	}
	return nil
}

// Accuracy implements search.Judge.
func (j *judging) Accuracy(ctx context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	scores, err := j.executor.Evaluate(ctx, train.Examination{
		Subnets: []supernet.Subnet{s}, Calibration: j.calibration.Epoch(ctx, 0, 0), Test: j.test.Epoch(ctx, 0, 0),
	})
	if err != nil {
		return 0, 0, nil, err
	}
	return scores[0].Correct, scores[0].Images, scores[0].Statistics, nil
}

// Close ends its threads.
func (j *judging) Close() { _ = j.executor.Close() }
