//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"

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

// forwardProgram finds a program, or compiles it.
func (x *Executor) forwardProgram(batch int, given, depth bool) (*forwardProgram, error) {
	x.batch = max(x.batch, batch)
	for _, p := range x.forwards {
		if p.batch >= batch && p.given == given && (p.depth || !depth) {
			return p, nil
		}
	}
	p := &forwardProgram{batch: x.batch, given: given, depth: depth}
	if err := x.buildForward(p); err != nil {
		return nil, err
	}
	x.forwards = append([]*forwardProgram{p}, x.forwards...)
	return p, nil
}

// forward runs up to together subnetworks on a batch that is on the device.
func (x *Executor) forward(p *forwardProgram, params, images compute.Buffer, b *dataset.Batch, subnets []supernet.Subnet, statistics ...compute.Buffer) (scores []float32, rest []compute.Buffer, err error) {
	control := append(make([]float32, 0, 1+together*x.columns.count+p.batch), float32(b.N))
	for k := range together {
		if control, err = x.appendRows(control, subnets[min(k, len(subnets)-1):][:1]); err != nil {
			return nil, nil, err
		}
	}
	control = appendLabels(control, b.Labels)
	told, err := x.device.upload(control[:cap(control)], cap(control))
	if err != nil {
		return nil, nil, err
	}
	defer told.Finalize()
	outputs, err := x.device.execute(p.run, append([]compute.Buffer{images, told, params}, statistics...))
	if err != nil {
		return nil, nil, err
	}
	scores = make([]float32, 2*together)
	if err := outputs[0].ToFlatData(scores); err != nil {
		return nil, nil, errors.Join(err, finalize(outputs...))
	}
	return scores, outputs[1:], finalize(outputs[0])
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
	e := round{params: x.weights, batch: batch, subnets: subs, depth: x.anyLeavesOut(subs)}
	return losses, x.through(ctx, e, func(at int, marks []float32, _ []compute.Buffer) error {
		for k := range min(together, len(subs)-at) {
			losses[at+k] = float64(marks[k]) / float64(batch.N)
		}
		return nil
	})
}

// round is a batch that goes through subnetworks.
type round struct {
	params     compute.Buffer
	batch      *dataset.Batch
	subnets    []supernet.Subnet
	depth      bool             // whether any of them leaves blocks out
	calibrated bool             // with statistics of their own, not those of the batch
	statistics []compute.Buffer // of that, in pairs; none where the network has no batch norm
}

// through carries out a round, several subnetworks at a time, and gives to got what came
// of those from a number on. What it gets is not to be kept.
func (x *Executor) through(ctx context.Context, e round, got func(at int, marks []float32, rest []compute.Buffer) error) error {
	p, err := x.forwardProgram(e.batch.N, e.calibrated, e.depth)
	if err != nil {
		return err
	}
	images, err := x.images(e.batch, p.batch)
	if err != nil {
		return err
	}
	defer images.Finalize()
	for at := 0; at < len(e.subnets); at += together {
		if err := ctx.Err(); err != nil {
			return err
		}
		var given []compute.Buffer
		if len(e.statistics) > 0 {
			given = e.statistics[at/together*2:][:2]
		}
		marks, rest, err := x.forward(p, e.params, images, e.batch, e.subnets[at:min(at+together, len(e.subnets))], given...)
		if err != nil {
			return err
		}
		if err := errors.Join(got(at, marks, rest), finalize(rest...)); err != nil {
			return err
		}
	}
	return nil
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
// all subnetworks.
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
	depth := x.anyLeavesOut(e.Subnets)
	calibrations := make([]calibration, len(e.Subnets))
	for batch, err := range e.Calibration {
		if err != nil {
			return nil, err
		}
		if err := x.calibrate(ctx, round{params: params, batch: batch, subnets: e.Subnets, depth: depth}, calibrations); err != nil {
			return nil, err
		}
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
	for batch, err := range e.Test {
		if err != nil {
			return nil, err
		}
		judged := round{params: params, batch: batch, subnets: e.Subnets, depth: depth, calibrated: true, statistics: statistics}
		if err := x.test(ctx, judged, scores); err != nil {
			return nil, err
		}
	}
	for i := range scores {
		scores[i].Loss /= float64(max(scores[i].Images, 1))
	}
	return scores, nil
}

// calibrate adds a batch to the statistics of all subnetworks.
func (x *Executor) calibrate(ctx context.Context, e round, to []calibration) error {
	norms := x.layout.norms
	mean, variance := make([]float32, together*norms), make([]float32, together*norms)
	return x.through(ctx, e, func(at int, _ []float32, rest []compute.Buffer) error {
		if norms > 0 {
			if err := errors.Join(rest[0].ToFlatData(mean), rest[1].ToFlatData(variance)); err != nil {
				return err
			}
		}
		for k := range min(together, len(to)-at) {
			to[at+k].add(x.layout, e.batch.N, mean[k*norms:(k+1)*norms], variance[k*norms:(k+1)*norms])
		}
		return nil
	})
}

// test marks a batch with the statistics of each subnetwork.
func (x *Executor) test(ctx context.Context, e round, to []train.Score) error {
	return x.through(ctx, e, func(at int, marks []float32, _ []compute.Buffer) error {
		for k := range min(together, len(to)-at) {
			to[at+k].Loss += float64(marks[k])
			to[at+k].Correct += int(marks[together+k])
			to[at+k].Images += e.batch.N
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
