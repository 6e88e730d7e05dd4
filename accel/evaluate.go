//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"tips/dataset"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// together is how many subnetworks run at once where nothing is learnt. Programs
// have one size: what is not needed computes something twice.
const together = 4

// forwardProgram is a compiled way forward.
//
//	images, control, weights → scores, mean, variance    with the batch's statistics
//	images, control, weights, mean, variance → scores    with given ones
//
// Control is the number of images that count, the subnetworks and the labels;
// scores are, by subnetwork, the sum of the losses and the images that were right.
type forwardProgram struct {
	batch int
	given bool
	depth bool
	run   compute.Executable
}

func (x *Executor) buildForward(p *forwardProgram) error {
	in := x.layout.network.Input()
	var err error
	p.run, err = build(x.device.backend, "forward", func(g *graph) []node {
		images := g.parameter("images", dtypes.Float32, p.batch, in.Height, in.Width, in.Channels)
		control := g.parameter("control", dtypes.Float32, 1+together*x.columns.count+p.batch)
		params := g.parameter("weights", dtypes.Float32, x.layout.size)
		end := 1 + together*x.columns.count
		count, labels := g.reshape(g.cut(control, 0, 0, 1)), g.cut(control, 0, end, end+p.batch)
		choices := g.reshape(g.cut(control, 0, 1, end), together, x.columns.count)
		way := x.pass(g, params, images, p.batch, together, choices, p.depth)
		way.valid = g.convert(g.less(g.iota(0, p.batch), count), dtypes.Float32)
		way.count = count
		way.given, way.collect = p.given, !p.given
		if norms := x.layout.norms; p.given && norms > 0 {
			way.mean = g.parameter("mean", dtypes.Float32, together, norms)
			way.variance = g.parameter("variance", dtypes.Float32, together, norms)
		}
		a := newAnswers(g, way.forward())
		counts := func(x node) node {
			// Not times valid: what does not count may be no number.
			each := g.spread(way.valid, x.dims, 1)
			return g.sum(g.choose(g.less(g.scalar(0.5, dtypes.Float32), each), x, g.scalar(0, dtypes.Float32)), 1)
		}
		targets := g.targets(labels, a.logits.dims[2], 0)
		outputs := []node{g.join(0, counts(a.crossEntropy(targets)), counts(a.correct(labels)))}
		if !p.given && x.layout.norms > 0 {
			outputs = append(outputs, way.mean, way.variance)
		}
		return outputs
	})
	return err
}

// forwardProgram finds the smallest program for a batch of an exam, or compiles one.
func (x *Executor) forwardProgram(e *exam, batch int) (*forwardProgram, error) {
	x.batch = max(x.batch, batch)
	var best *forwardProgram
	for _, p := range x.forwards {
		fits := p.batch >= batch && p.given == e.calibrated && (p.depth || !e.depth)
		if fits && (best == nil || p.batch < best.batch || p.batch == best.batch && !p.depth) {
			best = p
		}
	}
	if best != nil {
		return best, nil
	}
	p := &forwardProgram{batch: max(x.batch, e.room), given: e.calibrated, depth: e.depth}
	if err := x.buildForward(p); err != nil {
		return nil, err
	}
	x.forwards = append(x.forwards, p)
	return p, nil
}

// Losses implements train.Executor.
func (x *Executor) Losses(ctx context.Context, batch *dataset.Batch, subs []supernet.Subnet) ([]float64, error) {
	if x.weights == nil {
		return nil, errNoState
	}
	losses := make([]float64, len(subs))
	if len(subs) == 0 {
		return losses, nil
	}
	// A few images may be all that is asked about, before a checkpoint is saved. A program
	// with room for those of a step is one that an evaluation is likely to need too.
	e := &exam{params: x.weights, subnets: subs, depth: x.anyLeavesOut(subs), room: x.stepped}
	one := func(yield func(*dataset.Batch, error) bool) { yield(batch, nil) }
	return losses, x.through(ctx, e, one, func(t *turn, scores []float32) error {
		for k := range min(together, len(subs)-t.at) {
			losses[t.at+k] = float64(scores[k]) / float64(t.count)
		}
		return nil
	})
}

func (x *Executor) anyLeavesOut(subs []supernet.Subnet) bool {
	for _, s := range subs {
		if x.leavesOut(s) {
			return true
		}
	}
	return false
}

// Evaluate implements train.Executor. Every batch is loaded and uploaded once, for
// all subnetworks, while the device is busy with the one before.
func (x *Executor) Evaluate(ctx context.Context, e train.Examination) ([]train.Score, error) {
	params := x.weights
	if e.Average {
		params = x.average
	}
	if params == nil {
		return nil, errors.New("accel: no such weights to evaluate")
	}
	if len(e.Subnets) == 0 {
		return nil, nil
	}
	judged := &exam{params: params, subnets: e.Subnets, depth: x.anyLeavesOut(e.Subnets)}
	calibrations := make([]calibration, len(e.Subnets))
	if err := x.calibrate(ctx, judged, e.Calibration, calibrations); err != nil {
		return nil, err
	}
	scores := make([]train.Score, len(e.Subnets))
	statistics := make([]compute.Buffer, 0, 2*len(e.Subnets)/together+2)
	defer func() { finalize(statistics...) }()
	for from := 0; from < len(e.Subnets); from += together {
		var mean, variance []float32
		for k := range together {
			c := &calibrations[min(from+k, len(calibrations)-1)]
			if c.images == 0 {
				return nil, errors.New("accel: no images to calibrate batch norm with")
			}
			m, v := c.statistics()
			mean, variance = append(mean, m...), append(variance, v...)
			if from+k < len(e.Subnets) {
				var err error
				if scores[from+k].Statistics, err = x.split(e.Subnets[from+k], m, v); err != nil {
					return nil, err
				}
			}
		}
		if x.layout.norms == 0 {
			continue
		}
		for _, values := range [][]float32{mean, variance} {
			b, err := x.device.upload(values, together, x.layout.norms)
			if err != nil {
				return nil, err
			}
			statistics = append(statistics, b)
		}
	}
	judged.calibrated, judged.statistics = true, statistics
	if err := x.test(ctx, judged, e.Test, scores); err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i].Loss /= float64(max(scores[i].Images, 1))
	}
	return scores, nil
}

// calibrate adds batches to the statistics of all subnetworks.
func (x *Executor) calibrate(ctx context.Context, e *exam, batches iter.Seq2[*dataset.Batch, error], to []calibration) error {
	norms := x.layout.norms
	mean, variance := make([]float32, together*norms), make([]float32, together*norms)
	return x.through(ctx, e, batches, func(t *turn, _ []float32) error {
		if norms > 0 {
			if err := errors.Join(t.outputs[1].ToFlatData(mean), t.outputs[2].ToFlatData(variance)); err != nil {
				return fmt.Errorf("accel: %w", err)
			}
		}
		for k := range min(together, len(to)-t.at) {
			to[t.at+k].add(x.layout, t.count, mean[k*norms:(k+1)*norms], variance[k*norms:(k+1)*norms])
		}
		return nil
	})
}

// test marks batches with the statistics of each subnetwork.
func (x *Executor) test(ctx context.Context, e *exam, batches iter.Seq2[*dataset.Batch, error], to []train.Score) error {
	return x.through(ctx, e, batches, func(t *turn, scores []float32) error {
		for k := range min(together, len(to)-t.at) {
			to[t.at+k].Loss += float64(scores[k])
			to[t.at+k].Correct += int(scores[together+k])
			to[t.at+k].Images += t.count
		}
		return nil
	})
}

// calibration is the cumulative average of a subnetwork's statistics, of all
// channels of the whole network, as train.CPU takes it.
type calibration struct {
	images         float64
	mean, variance []float64 // sums, weighted by the images of a batch
}

func (c *calibration) add(l *layout, images int, mean, variance []float32) {
	if c.mean == nil {
		c.mean, c.variance = make([]float64, l.norms), make([]float64, l.norms)
	}
	c.images += float64(images)
	for i, at := range l.norm {
		if at < 0 {
			continue
		}
		out := l.network.Full().Ops[i].Out
		values := float64(images * out.Height * out.Width)
		unbiased := float64(images)
		if values > 1 {
			unbiased *= values / (values - 1)
		}
		for k := at; k < at+out.Channels; k++ {
			c.mean[k] += float64(images) * float64(mean[k])
			c.variance[k] += unbiased * float64(variance[k])
		}
	}
}

func (c *calibration) statistics() (mean, variance []float32) {
	for k := range c.mean {
		mean, variance = append(mean, float32(c.mean[k]/c.images)), append(variance, float32(c.variance[k]/c.images))
	}
	return mean, variance
}

// split gives the statistics of a subnetwork by operation: those of the channels
// that it has.
func (x *Executor) split(s supernet.Subnet, mean, variance []float32) (*weights.Statistics, error) {
	n := x.layout.network
	view, err := n.View(s, n.Input())
	if err != nil {
		return nil, fmt.Errorf("accel: %w", err)
	}
	t := &weights.Statistics{Mean: make([][]float32, len(view.Ops)), Variance: make([][]float32, len(view.Ops))}
	for i, at := range x.layout.norm {
		if at < 0 || !view.Ops[i].Runs {
			continue
		}
		end := at + view.Ops[i].Out.Channels
		t.Mean[i], t.Variance[i] = mean[at:end:end], variance[at:end:end]
	}
	return t, nil
}
