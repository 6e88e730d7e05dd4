package train

import (
	"fmt"

	"tips/dataset"
	"tips/supernet"
)

// data is the loaders of a run.
type data struct {
	train       *dataset.Loader
	calibration *dataset.Loader
	test        *dataset.Loader
	held        *dataset.Loader // the images kept back; nil if there are none
	images      int             // that train goes through
	testImages  int
}

// openData opens the data of the recipe, and completes the recipe with what is
// usual for that data.
func (t *trainer) openData() error {
	r := t.recipe
	d, err := dataset.Open(r.Data, t.options.Formats...)
	if err != nil {
		return err
	}
	full := t.network.Full()
	if classes := full.Shape(full.Output()).Elements(); classes != int64(d.Classes) {
		return fmt.Errorf("network %s tells %d classes apart, and data %s has %d", t.network.Name(), classes, d.Name, d.Classes)
	}
	if r.Augment == nil {
		usual := d.Pipeline()
		r.Augment = &usual
	} else {
		own := r.Augment.Normalised(d)
		r.Augment = &own
	}
	if r.Holdout > d.Train.Len()-r.Batch {
		return fmt.Errorf("holdout is %d of the %d images of %s; want a batch of %d left to train on", r.Holdout, d.Train.Len(), d.Name, r.Batch)
	}
	train, judgedOn := d.Train, d.Test
	in := t.network.Input()
	if in.Height == 1 && in.Width == 1 && in.Channels == d.Size*d.Size*d.Channels {
		// A perceptron, which takes pixels for channels: they lie in memory alike.
		in = supernet.Shape{Channels: d.Channels, Height: d.Size, Width: d.Size}
	}
	plain := dataset.LoaderOptions{
		Batch: r.Evaluate.Batch, Height: in.Height, Width: in.Width, Channels: in.Channels,
		Pipeline: r.Augment.Evaluation(), Seed: r.Seed, Workers: t.threads,
	}
	if r.Holdout > 0 {
		var held dataset.Source
		train, held = dataset.Holdout(d.Train, r.Holdout, r.Seed)
		o := plain
		o.Batch, o.Shuffle, o.DropLast = min(r.Batch, r.Holdout), true, true
		if t.held, err = dataset.NewLoader(held, o); err != nil {
			return err
		}
		if r.Evaluate.Set == "holdout" {
			judgedOn = held
		}
	}
	judgedOn = dataset.Evenly(judgedOn, r.Evaluate.Images)
	if t.test, err = dataset.NewLoader(judgedOn, plain); err != nil {
		return err
	}
	// Statistics are taken of training images as a test shows them, without
	// chance; mixed, because sources may be sorted by class.
	mixed := plain
	mixed.Shuffle = true
	if t.calibration, err = dataset.NewLoader(dataset.Evenly(train, r.Evaluate.Calibration), mixed); err != nil {
		return err
	}
	learn := plain
	learn.Batch, learn.Pipeline, learn.Shuffle, learn.DropLast = r.Batch, *r.Augment, true, true
	if t.train, err = dataset.NewLoader(train, learn); err != nil {
		return err
	}
	t.images, t.testImages = train.Len(), judgedOn.Len()
	t.perEpoch = t.train.Batches()
	t.steps = r.Epochs * t.perEpoch
	t.schedule = r.schedule(t.perEpoch)
	return nil
}
