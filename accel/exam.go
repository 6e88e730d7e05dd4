//go:build xla

package accel

import (
	"context"
	"fmt"
	"iter"

	"github.com/gomlx/compute"

	"tips/dataset"
	"tips/supernet"
)

// exam is what batches are put through.
type exam struct {
	params     compute.Buffer
	subnets    []supernet.Subnet
	depth      bool             // whether any of them leaves blocks out
	room       int              // images that a program has room for, at least, if one is compiled
	calibrated bool             // with statistics of their own, not those of the batch
	statistics []compute.Buffer // of that, in pairs; none where the network has no batch norm
}

// turn is one run of a program: a batch and as many subnetworks as run at once.
type turn struct {
	program      *forwardProgram
	batch        *dataset.Batch // lost when the one after it is asked for
	count        int            // its images
	at           int            // the number of the first subnetwork
	images, told compute.Buffer // images are those of all turns of the batch
	outputs      []compute.Buffer
}

// through puts batches through an exam, and gives to got what came of each turn, in
// order: the scores, and the turn for the rest. While the device does one turn the
// host reads what came of the one before and makes the next ready, with its batch
// where it begins one; so got and batches run on other goroutines, one at a time.
func (x *Executor) through(ctx context.Context, e *exam, batches iter.Seq2[*dataset.Batch, error], got func(t *turn, scores []float32) error) error {
	next, stop := iter.Pull2(batches)
	defer stop()
	now, err := x.ready(e, nil, next)
	if err != nil {
		return err
	}
	var last *turn // done, and not read yet
	defer func() {
		x.drop(last)
		if now != nil { // not done
			x.drop(now)
			x.garbage = append(x.garbage, now.images)
		}
	}()
	for now != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		inputs := []compute.Buffer{now.images, now.told, e.params}
		if len(e.statistics) > 0 {
			inputs = append(inputs, e.statistics[now.at/together*2:][:2]...)
		}
		var after *turn
		var failed error // of what is done meanwhile
		now.outputs, err = x.device.execute(now.program.run, inputs, func() {
			x.clean()
			if after, failed = x.ready(e, now, next); failed == nil {
				failed = last.read(got)
			}
		})
		x.drop(last)
		if after == nil || after.images != now.images {
			x.garbage = append(x.garbage, now.images)
		}
		last, now = now, after
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
	return last.read(got)
}

// ready uploads what the turn after another needs, or the first turn after nil. It
// gives nil if there are no more batches.
func (x *Executor) ready(e *exam, before *turn, next func() (*dataset.Batch, error, bool)) (*turn, error) {
	t := &turn{}
	if before != nil && before.at+together < len(e.subnets) {
		*t = turn{program: before.program, batch: before.batch, count: before.count, at: before.at + together, images: before.images}
	} else {
		batch, err, more := next()
		if err != nil || !more {
			return nil, err
		}
		t.batch, t.count = batch, batch.N
		if t.program, err = x.forwardProgram(e, batch.N); err != nil {
			return nil, err
		}
		if t.images, err = x.images(batch, t.program.batch); err != nil {
			return nil, err
		}
	}
	var err error
	if t.told, err = x.tell(e, t); err != nil {
		if t.at == 0 {
			x.garbage = append(x.garbage, t.images)
		}
		return nil, err
	}
	return t, nil
}

// tell uploads the control of a turn.
func (x *Executor) tell(e *exam, t *turn) (compute.Buffer, error) {
	control := append(make([]float32, 0, 1+together*x.columns.count+t.program.batch), float32(t.count))
	for k := range together {
		var err error
		if control, err = x.appendRows(control, e.subnets[min(t.at+k, len(e.subnets)-1):][:1]); err != nil {
			return nil, err
		}
	}
	control = appendLabels(control, t.batch.Labels)
	return x.device.upload(control[:cap(control)], cap(control))
}

// read gives what came of a turn to got.
func (t *turn) read(got func(t *turn, scores []float32) error) error {
	if t == nil {
		return nil
	}
	scores := make([]float32, 2*together)
	if err := t.outputs[0].ToFlatData(scores); err != nil {
		return fmt.Errorf("accel: %w", err)
	}
	return got(t, scores)
}

// drop gives up what a turn has for itself.
func (x *Executor) drop(t *turn) {
	if t != nil {
		x.garbage = append(append(x.garbage, t.told), t.outputs...)
	}
}
