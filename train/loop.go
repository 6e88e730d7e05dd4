package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"tips/dataset"
	"tips/supernet"
	"tips/train/method"
)

// trainer is a run under way.
type trainer struct {
	options    Options
	recipe     *Recipe // resolved
	recipeText string
	observer   Observer

	network  *supernet.Network
	method   method.Method
	executor Executor
	average  bool // whether the executor keeps one
	threads  int
	judged   []supernet.Subnet // evaluate.subnets

	data       // what it learns from
	schedule   Schedule
	perEpoch   int // steps
	steps      int // of the whole run
	batches    func() (*dataset.Batch, error, bool)
	endBatches func()
	ahead      *pulled // a batch that an executor has asked for before its step; nil: none

	Position
	lock     *os.File // of the folder
	metrics  *metricsLog
	saved    *Checkpoint    // the last one, without its state
	probe    *dataset.Batch // what weights are tried on before they are saved; nil before the first time
	savedAt  time.Time
	worked   time.Time // up to when Seconds counts
	first    int       // step that this process began with
	finished bool      // all steps were taken before this process began
}

// loop takes the steps that are left. Between two steps come the hooks.
func (t *trainer) loop(ctx context.Context) error {
	t.first, t.worked, t.savedAt = t.Step, time.Now(), time.Now()
	between := []func(context.Context) error{t.closeEpoch, t.evaluate, t.saveIfDue, t.stopIfTold}
	for {
		for _, hook := range between {
			if err := hook(ctx); err != nil {
				return err
			}
		}
		if t.Step == t.steps {
			return nil
		}
		if err := t.takeStep(ctx); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				continue // nothing has happened; the hooks save and stop
			}
			var bad *NotFiniteError
			if errors.As(err, &bad) {
				return fmt.Errorf("train: step %d, epoch %d: %w; the last good checkpoint is %s, of step %d", t.Step, t.epoch()+1, bad, t.file(CheckpointFile), t.saved.Step)
			}
			return fmt.Errorf("train: step %d, epoch %d: %w; the last checkpoint is %s, of step %d", t.Step, t.epoch()+1, err, t.file(CheckpointFile), t.saved.Step)
		}
	}
}

// epoch is the one under way, counted from 0.
func (t *trainer) epoch() int { return t.Step / t.perEpoch }

// takeStep plans a step, has it done, and takes it down. When ctx is cancelled a
// review is left, as if it had not begun: late in a run it takes as long as many
// steps.
func (t *trainer) takeStep(ctx context.Context) error {
	if tau := t.method.Interval(); tau > 0 && t.Step%tau == 0 {
		if err := t.method.Review(ctx, t.Step, t.recipe.random(viewStream, t.Step), validation{t}); err != nil {
			return err
		}
	}
	// An interrupted step would have to be forgotten, with all that the method
	// thought of it: it is finished instead.
	ctx = context.WithoutCancel(ctx)
	batch, err := t.nextBatch(ctx)
	if err != nil {
		return err
	}
	plan, err := t.method.Step(ctx, t.Step, t.recipe.StepRandom(t.Step), judge{t.executor, batch})
	if err != nil {
		return err
	}
	if err := t.act(plan.Before); err != nil {
		return err
	}
	rate, images := t.schedule.At(t.Step), batch.N
	out, err := t.executor.Step(ctx, Step{Batch: batch, Lessons: plan.Lessons, Rate: rate, Next: t.lookAhead})
	if err != nil {
		return err
	}
	r := StepRecord{Number: t.Step, Epoch: t.epoch(), Rate: rate, Loss: out.Loss(), Norm: out.Norm, Seconds: t.tick()}
	t.Epoch.Steps++
	t.Epoch.Loss += out.Loss()
	for i, l := range out.Lessons {
		r.Lessons = append(r.Lessons, LessonRecord{
			Subnet: plan.Lessons[i].Subnet.String(), Loss: l.Loss, Label: l.Label, Soft: l.Soft,
			Accuracy: float64(l.Correct) / float64(images),
		})
		if plan.Lessons[i].Subnet.IsFull() {
			t.Epoch.Full++
			t.Epoch.Label += l.Label
			t.Epoch.Correct += l.Correct
			t.Epoch.Images += images
		}
	}
	t.Step++
	t.observer.Stepped(r)
	if r.Number%t.recipe.Metrics.Every == 0 {
		return t.metrics.add(Record{Step: &r})
	}
	return nil
}

// tick adds the time since the last tick to that of the run.
func (t *trainer) tick() float64 {
	now := time.Now()
	seconds := now.Sub(t.worked).Seconds()
	t.worked = now
	t.Seconds += seconds
	return seconds
}

// nextBatch is that of the step to be taken. It is the loader's until the next
// one.
func (t *trainer) nextBatch(ctx context.Context) (*dataset.Batch, error) {
	if p := t.ahead; p != nil {
		t.ahead = nil
		return p.batch, p.err
	}
	if t.batches == nil || t.Step%t.perEpoch == 0 {
		t.leaveEpoch()
		t.batches, t.endBatches = iter.Pull2(t.train.Epoch(ctx, t.epoch(), t.Step%t.perEpoch))
	}
	return t.pull()
}

// pulled is what pull gave.
type pulled struct {
	batch *dataset.Batch
	err   error
}

// pull takes the next batch of the epoch under way.
func (t *trainer) pull() (*dataset.Batch, error) {
	batch, err, more := t.batches()
	if err == nil && !more {
		err = fmt.Errorf("the data ends before epoch %d does", t.epoch()+1)
	}
	return batch, err
}

// lookAhead is Step.Next: the batch after the one of the step under way, within the
// epoch.
func (t *trainer) lookAhead() *dataset.Batch {
	if (t.Step+1)%t.perEpoch == 0 || t.ahead != nil {
		return nil
	}
	batch, err := t.pull()
	t.ahead = &pulled{batch, err}
	if err != nil {
		return nil // the next step tells
	}
	return batch
}

func (t *trainer) leaveEpoch() {
	t.ahead = nil
	if t.endBatches != nil {
		t.endBatches()
		t.batches, t.endBatches = nil, nil
	}
}

// act does what a method wants done to the weights, outside the executor: it is
// rare, and executors have less to know.
func (t *trainer) act(actions []method.Action) error {
	if len(actions) == 0 {
		return nil
	}
	s, err := t.executor.State()
	if err != nil {
		return err
	}
	for _, a := range actions {
		switch a {
		case method.Freeze:
			s.Frozen = s.Weights.Clone()
		case method.SortChannels:
			sortChannels(s)
		default:
			return fmt.Errorf("method %s: unknown action %v", t.method.Name(), a)
		}
	}
	return t.executor.Restore(s)
}

// judge measures subnetworks on one batch.
type judge struct {
	executor Executor
	batch    *dataset.Batch
}

func (j judge) Losses(ctx context.Context, subs []supernet.Subnet) ([]float64, error) {
	return j.executor.Losses(ctx, j.batch, subs)
}

// validation measures subnetworks on one batch of the images kept back, another
// one at each review.
type validation struct{ t *trainer }

func (v validation) Losses(ctx context.Context, subs []supernet.Subnet) ([]float64, error) {
	t := v.t
	review := t.Step / t.method.Interval()
	for batch, err := range t.held.Epoch(ctx, review/t.held.Batches(), review%t.held.Batches()) {
		if err != nil {
			return nil, err
		}
		return t.executor.Losses(ctx, batch, subs)
	}
	return nil, errors.New("no images kept back")
}

// closeEpoch writes the record of an epoch that has just ended.
func (t *trainer) closeEpoch(context.Context) error {
	if t.Step%t.perEpoch != 0 || t.Closed == t.epoch() {
		return nil
	}
	e := t.Epoch
	r := EpochRecord{
		Number: t.epoch(), Steps: t.Step, Loss: e.Loss / float64(max(e.Steps, 1)), Label: e.Label / float64(max(e.Full, 1)),
		Accuracy: float64(e.Correct) / float64(max(e.Images, 1)), Full: e.Full, Seconds: t.Seconds,
	}
	if err := t.metrics.add(Record{Epoch: &r}); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	t.Epoch, t.Closed = Tally{}, t.epoch()
	t.observer.EpochEnded(r)
	return nil
}

// evaluate judges the subnetworks of the recipe, after epochs as it says, and at
// the end.
func (t *trainer) evaluate(ctx context.Context) error {
	every := t.recipe.Evaluate.Every
	due := t.Step == t.steps || every > 0 && t.Step%t.perEpoch == 0 && t.epoch()%every == 0
	if t.Step == 0 || !due || t.Evaluated == t.Step || ctx.Err() != nil {
		return nil
	}
	t.observer.Evaluating(len(t.judged))
	scores, err := t.executor.Evaluate(ctx, Examination{
		Subnets: t.judged, Average: t.recipe.Evaluate.Weights == "average",
		Calibration: t.calibration.Epoch(ctx, 0, 0), Test: t.test.Epoch(ctx, 0, 0),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // the run stops here, and judges when it goes on
		}
		return fmt.Errorf("train: evaluation after step %d: %w", t.Step, err)
	}
	r := EvaluationRecord{Epoch: t.epoch(), Steps: t.Step, On: t.recipe.Evaluate.Set}
	for i, s := range scores {
		if !finite(s.Loss) {
			return fmt.Errorf("train: evaluation after step %d: the loss of subnetwork %v is %v; the last checkpoint is %s, of step %d", t.Step, t.judged[i], s.Loss, t.file(CheckpointFile), t.saved.Step)
		}
		view, err := t.network.View(t.judged[i], t.network.Input())
		if err != nil {
			return err
		}
		r.Results = append(r.Results, Result{
			Name: t.recipe.Evaluate.Subnets[i], Subnet: t.judged[i].String(), MACs: view.Costs().MACs,
			Loss: s.Loss, Accuracy: s.Accuracy(), Images: s.Images,
		})
	}
	if err := t.metrics.add(Record{Evaluation: &r}); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	t.tick()
	t.Evaluated, t.Results = t.Step, r.Results
	t.observer.Evaluated(r)
	return nil
}

// saveIfDue saves a checkpoint when the recipe says so, at the end, and when the
// run is to stop.
func (t *trainer) saveIfDue(ctx context.Context) error {
	if t.saved.Step == t.Step && t.saved.Evaluated == t.Evaluated && t.saved.Closed == t.Closed {
		return nil
	}
	c := t.recipe.Checkpoint
	switch {
	case t.Step == t.steps, t.told(ctx):
	case c.Steps > 0 && t.Step-t.saved.Step >= c.Steps:
	case c.Seconds > 0 && time.Since(t.savedAt) >= time.Duration(c.Seconds)*time.Second:
	case c.Epochs > 0 && t.Step%t.perEpoch == 0 && t.epoch()%c.Epochs == 0:
	default:
		return nil
	}
	if err := t.tryWeights(ctx); err != nil {
		return err
	}
	return t.save()
}

// probeImages are as many as tell finite from not, and few enough to be kept.
const probeImages = 64

// tryWeights refuses weights that no run could go on from: what the last update
// made of them nobody has seen yet, and they would take the place of a checkpoint
// that is good. It does not end early for ctx: what is saved on an interruption is
// tried too.
func (t *trainer) tryWeights(ctx context.Context) error {
	if t.Step == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if t.probe == nil {
		for batch, err := range t.calibration.Epoch(ctx, 0, 0) {
			if err != nil {
				return fmt.Errorf("train: %w", err)
			}
			n := min(batch.N, probeImages)
			t.probe = &dataset.Batch{
				N: n, Labels: slices.Clone(batch.Labels[:n]),
				Images: slices.Clone(batch.Images[:n*(len(batch.Images)/batch.N)]), // the loader's are its own
			}
			break
		}
	}
	subs := []supernet.Subnet{{}, t.network.Smallest()}
	losses, err := t.executor.Losses(ctx, t.probe, subs)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	for i, l := range losses {
		if !finite(l) {
			bad := &NotFiniteError{Lesson: i, Subnet: subs[i], Value: l}
			return fmt.Errorf("train: after step %d: %w; the last good checkpoint is %s, of step %d", t.Step, bad, t.file(CheckpointFile), t.saved.Step)
		}
	}
	return nil
}

// save writes a checkpoint.
func (t *trainer) save() error {
	c := &Checkpoint{Position: t.Position, Recipe: t.recipeText, Images: t.images}
	var err error
	if c.Method, err = t.method.State(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if c.State, err = t.executor.State(); err != nil {
		return err
	}
	if t.metrics != nil { // there are none before the first checkpoint
		if err := t.metrics.sync(); err != nil {
			return fmt.Errorf("train: %w", err)
		}
		c.Metrics = t.metrics.mark
	}
	if err := t.options.write(t.file(CheckpointFile), c.write); err != nil {
		if t.saved != nil {
			return fmt.Errorf("train: %w; the checkpoint of step %d is still there", err, t.saved.Step)
		}
		return fmt.Errorf("train: %w", err)
	}
	c.State = nil
	t.saved, t.savedAt = c, time.Now()
	t.observer.Saved(t.file(CheckpointFile), t.Step)
	return nil
}

// told tells whether the run is to stop before its end.
func (t *trainer) told(ctx context.Context) bool {
	return ctx.Err() != nil || t.options.StopAfter > 0 && t.Step-t.first >= t.options.StopAfter
}

func (t *trainer) stopIfTold(ctx context.Context) error {
	if !t.told(ctx) || t.Step == t.steps && ctx.Err() == nil {
		return nil
	}
	return t.interrupted()
}

func (t *trainer) interrupted() error {
	return &InterruptedError{Step: t.Step, Steps: t.steps, Checkpoint: t.file(CheckpointFile)}
}

func (t *trainer) close() {
	t.leaveEpoch()
	if t.metrics != nil {
		t.metrics.close()
	}
	if t.executor != nil {
		t.executor.Close()
	}
	if t.lock != nil {
		t.lock.Close()
	}
}
