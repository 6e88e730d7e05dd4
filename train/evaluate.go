package train

import (
	"context"
	"errors"
	"fmt"

	"tips/dataset"
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// Evaluate implements Executor. Every batch is loaded once, for all subnetworks.
func (c *CPU) Evaluate(ctx context.Context, e Examination) ([]Score, error) {
	params := c.weights
	if e.Average {
		params = c.average
	}
	if params == nil {
		return nil, errors.New("train: no such weights to evaluate")
	}
	calibrations := make([]*calibration, len(e.Subnets))
	for i, s := range e.Subnets {
		v, err := params.Network().View(s, params.Network().Input())
		if err != nil {
			return nil, err
		}
		calibrations[i] = newCalibration(v)
	}
	for batch, err := range e.Calibration {
		if err != nil {
			return nil, err
		}
		for i, s := range e.Subnets {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if _, err := c.learner.Forward(params, s, batch.Images, batch.N); err != nil {
				return nil, err
			}
			calibrations[i].add(c.learner.Statistics(), batch.N)
		}
	}

	scores := make([]Score, len(e.Subnets))
	for i := range scores {
		var err error
		if scores[i].Statistics, err = calibrations[i].statistics(); err != nil {
			return nil, err
		}
	}
	model := params.Model()
	programs := map[plan]*nn.Program{} // the last batch may be smaller
	var logits []float32
	for batch, err := range e.Test {
		if err != nil {
			return nil, err
		}
		for i, s := range e.Subnets {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p := programs[plan{i, batch.N}]
			if p == nil {
				if p, err = model.Program(s, params.Network().Input(), batch.N, scores[i].Statistics); err != nil {
					return nil, err
				}
				programs[plan{i, batch.N}] = p
			}
			logits = atLeast(logits, p.OutputLen())
			c.session.Run(p, logits[:p.OutputLen()], batch.Images)
			scores[i].mark(logits[:p.OutputLen()], batch)
		}
	}
	for i := range scores {
		scores[i].Loss /= float64(max(scores[i].Images, 1))
	}
	return scores, nil
}

// mark adds a batch to a score, whose loss is a sum until all are in.
func (s *Score) mark(logits []float32, batch *dataset.Batch) {
	classes := len(logits) / batch.N
	for i := range batch.N {
		loss, correct := crossEntropy(logits[i*classes:(i+1)*classes], int(batch.Labels[i]), 0, nil)
		s.Loss += loss
		s.Images++
		if correct {
			s.Correct++
		}
	}
}

// calibration is the cumulative average of a subnetwork's batch-norm statistics
// over batches, as PyTorch's batch norm takes it with momentum None: means, and
// variances divided by one less than the number of values.
type calibration struct {
	view           *supernet.View
	images         float64
	mean, variance [][]float64 // sums, weighted by the images of a batch
}

func newCalibration(v *supernet.View) *calibration {
	c := &calibration{view: v, mean: make([][]float64, len(v.Ops)), variance: make([][]float64, len(v.Ops))}
	for i, op := range v.Network.Ops() {
		if op.Norm && v.Ops[i].Runs {
			c.mean[i] = make([]float64, v.Ops[i].Out.Channels)
			c.variance[i] = make([]float64, v.Ops[i].Out.Channels)
		}
	}
	return c
}

func (c *calibration) add(t *weights.Statistics, images int) {
	c.images += float64(images)
	for i := range c.mean {
		out := c.view.Ops[i].Out
		values := float64(images * out.Height * out.Width)
		unbiased := float64(images)
		if values > 1 {
			unbiased *= values / (values - 1)
		}
		for k := range c.mean[i] {
			c.mean[i][k] += float64(images) * float64(t.Mean[i][k])
			c.variance[i][k] += unbiased * float64(t.Variance[i][k])
		}
	}
}

func (c *calibration) statistics() (*weights.Statistics, error) {
	if c.images == 0 {
		return nil, fmt.Errorf("train: no images to calibrate batch norm with")
	}
	t := &weights.Statistics{Mean: make([][]float32, len(c.mean)), Variance: make([][]float32, len(c.mean))}
	for i := range c.mean {
		for k := range c.mean[i] {
			t.Mean[i] = append(t.Mean[i], float32(c.mean[i][k]/c.images))
			t.Variance[i] = append(t.Variance[i], float32(c.variance[i][k]/c.images))
		}
	}
	return t, nil
}
