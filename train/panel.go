package train

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"tips/dataset"
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// Panel evaluates subnetworks of one set of weights, many batches at once: each
// batch of each subnetwork is run on a thread of its own, by one packed copy of the
// weights. A thread by itself gives the same bits whatever the others do, and what
// they find is added up in order, so that scores do not depend on the number of
// threads. Any number of goroutines may use a panel, and share its threads.
type Panel struct {
	params *nn.Parameters
	model  *nn.Model
	size   int
	free   chan *examiner
}

// examiner is what a thread needs to run a batch.
type examiner struct {
	learner *nn.Learner
	session *nn.Session
	logits  []float32
}

// NewPanel makes a panel with a number of threads. It copies the weights.
func NewPanel(s *weights.Set, threads int) *Panel {
	p := &Panel{params: nn.NewParameters(s), size: max(threads, 1)}
	p.model = p.params.Model()
	p.free = make(chan *examiner, p.size)
	for range p.size {
		p.free <- &examiner{learner: nn.NewLearner(1), session: nn.NewSession(1)}
	}
	return p
}

// Close gives back threads and memory, once nobody uses the panel any more.
func (p *Panel) Close() error {
	for range p.size {
		x := <-p.free
		x.learner.Close()
		x.session.Close()
	}
	return nil
}

// Evaluate is that of an Executor whose weights are the panel's.
func (p *Panel) Evaluate(ctx context.Context, e Examination) ([]Score, error) {
	if e.Average {
		return nil, errors.New("train: no such weights to evaluate")
	}
	statistics, err := p.calibrate(ctx, e)
	if err != nil {
		return nil, err
	}
	scores := make([]Score, len(e.Subnets))
	programs := programs{panel: p, made: map[plan]*nn.Program{}}
	parts := make([]inOrder[Score], len(e.Subnets))
	for i := range parts {
		scores[i].Statistics = statistics[i]
		parts[i].take = func(part Score) {
			scores[i].Loss += part.Loss
			scores[i].Correct += part.Correct
			scores[i].Images += part.Images
		}
	}
	err = p.each(ctx, e.Test, len(e.Subnets), func(x *examiner, i, number int, batch *dataset.Batch) error {
		program, err := programs.of(plan{i, batch.N}, e.Subnets[i], statistics[i])
		if err != nil {
			return err
		}
		x.logits = atLeast(x.logits, program.OutputLen())
		logits := x.logits[:program.OutputLen()]
		x.session.Run(program, logits, batch.Images)
		var part Score
		part.mark(logits, batch)
		parts[i].add(number, part)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i].Loss /= float64(max(scores[i].Images, 1))
	}
	return scores, nil
}

// calibrate re-estimates the batch-norm statistics of every subnetwork.
func (p *Panel) calibrate(ctx context.Context, e Examination) ([]*weights.Statistics, error) {
	type part struct {
		statistics *weights.Statistics
		images     int
	}
	calibrations := make([]*calibration, len(e.Subnets))
	parts := make([]inOrder[part], len(e.Subnets))
	for i, s := range e.Subnets {
		v, err := p.params.Network().View(s, p.params.Network().Input())
		if err != nil {
			return nil, err
		}
		calibrations[i] = newCalibration(v)
		parts[i].take = func(t part) { calibrations[i].add(t.statistics, t.images) }
	}
	err := p.each(ctx, e.Calibration, len(e.Subnets), func(x *examiner, i, number int, batch *dataset.Batch) error {
		if _, err := x.learner.Forward(p.params, e.Subnets[i], batch.Images, batch.N); err != nil {
			return err
		}
		parts[i].add(number, part{x.learner.Statistics(), batch.N})
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := make([]*weights.Statistics, len(calibrations))
	for i, c := range calibrations {
		if list[i], err = c.statistics(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// each calls f for all batches of all subnetworks, on as many threads as are free.
func (p *Panel) each(ctx context.Context, batches iter.Seq2[*dataset.Batch, error], subnets int, f func(x *examiner, i, number int, b *dataset.Batch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	number := 0
dispatch:
	for batch, err := range batches {
		if err != nil {
			cancel(err)
			break
		}
		// The loop's own batch is gone with its next iteration.
		own := &dataset.Batch{N: batch.N, Images: slices.Clone(batch.Images), Labels: slices.Clone(batch.Labels)}
		at := number
		for i := range subnets {
			select {
			case x := <-p.free:
				group.Go(func() {
					defer func() { p.free <- x }()
					if ctx.Err() != nil {
						return
					}
					if err := f(x, i, at, own); err != nil {
						cancel(err)
					}
				})
			case <-ctx.Done():
				break dispatch
			}
		}
		number++
	}
	group.Wait()
	return context.Cause(ctx)
}

// inOrder takes parts in the order of their numbers, in whatever order they come.
type inOrder[T any] struct {
	take    func(T)
	mu      sync.Mutex
	next    int
	waiting map[int]T
}

func (o *inOrder[T]) add(number int, part T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting == nil {
		o.waiting = map[int]T{}
	}
	o.waiting[number] = part
	for {
		part, there := o.waiting[o.next]
		if !there {
			return
		}
		delete(o.waiting, o.next)
		o.next++
		o.take(part)
	}
}

// programs are those of subnetworks at the sizes that batches have: the last one
// may be smaller.
type programs struct {
	panel *Panel
	mu    sync.Mutex
	made  map[plan]*nn.Program
}

type plan struct{ subnet, batch int }

func (p *programs) of(k plan, s supernet.Subnet, t *weights.Statistics) (*nn.Program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made := p.made[k]; made != nil {
		return made, nil
	}
	made, err := p.panel.model.Program(s, p.panel.params.Network().Input(), k.batch, t)
	p.made[k] = made
	return made, err
}
