package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"tips/dataset"
	"tips/nn"
	"tips/supernet"
	"tips/train/method"
)

// CPU is the executor that runs on this machine's processor, without anything
// else. On one thread its results depend on nothing but their inputs.
type CPU struct {
	settings Settings
	threads  int
	learner  *nn.Learner
	session  *nn.Session

	weights, momentum, gradient *nn.Parameters
	average, frozen             *nn.Parameters // nil where there is none

	dlogits []float32
	spare   [][]float32 // softmaxes of former steps
}

// NewCPU makes an executor with a number of threads. It has no state yet: Restore
// gives it one.
func NewCPU(s Settings, threads int) *CPU {
	return &CPU{settings: s, threads: max(threads, 1), learner: nn.NewLearner(threads), session: nn.NewSession(threads)}
}

// Close ends the executor's threads.
func (c *CPU) Close() error {
	c.learner.Close()
	c.session.Close()
	return nil
}

// Step implements Executor.
func (c *CPU) Step(ctx context.Context, s Step) (Outcome, error) {
	if c.weights == nil {
		return Outcome{}, errors.New("train: an executor without a state")
	}
	teachers := c.teach(s)
	defer teachers.done()
	c.gradient.Clear()
	var out Outcome
	for i := range s.Lessons {
		if err := ctx.Err(); err != nil {
			return Outcome{}, err
		}
		o, err := c.learn(s, i, teachers)
		if err != nil {
			return Outcome{}, err
		}
		out.Lessons = append(out.Lessons, o)
	}
	out.Norm = norm(c.gradient.Values(), c.threads)
	if !finite(out.Norm) {
		return Outcome{}, c.blame(s, teachers, out.Norm)
	}
	c.settings.Update.apply(c.weights, c.gradient, c.momentum, c.average, s.Rate, out.Norm, c.settings.Average, c.threads)
	return out, nil
}

// learn runs a lesson forwards and backwards, and adds its gradient to that of the
// step.
func (c *CPU) learn(s Step, i int, teachers *teachers) (LessonOutcome, error) {
	l := s.Lessons[i]
	taught, err := teachers.of(l)
	if err != nil {
		return LessonOutcome{}, fmt.Errorf("train: lesson %d: %w", i, err)
	}
	logits, err := c.learner.Forward(c.weights, l.Subnet, s.Batch.Images, s.Batch.N)
	if err != nil {
		return LessonOutcome{}, fmt.Errorf("train: lesson %d: %w", i, err)
	}
	teachers.keep(i, logits)
	c.dlogits = atLeast(c.dlogits, len(logits))
	o := lessonLoss(l, logits, s.Batch.Labels, taught, c.settings.Smoothing, c.dlogits[:len(logits)], c.threads)
	if !finite(o.Loss) {
		return LessonOutcome{}, &NotFiniteError{Lesson: i, Subnet: l.Subnet, Value: o.Loss}
	}
	c.learner.Backward(c.gradient, c.dlogits[:len(logits)])
	return o, nil
}

// blame finds the first lesson whose gradient is not finite. The sum of a step does
// not tell, so the lessons run again, one at a time; a run that has come to this
// has the time.
func (c *CPU) blame(s Step, teachers *teachers, sum float64) error {
	for i, l := range s.Lessons {
		c.gradient.Clear()
		if _, err := c.learn(s, i, teachers); err != nil {
			return err
		}
		if g := norm(c.gradient.Values(), c.threads); !finite(g) {
			return &NotFiniteError{Lesson: i, Subnet: l.Subnet, Value: g, Gradient: true}
		}
	}
	return &NotFiniteError{Lesson: -1, Value: sum, Gradient: true}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func atLeast(x []float32, n int) []float32 {
	if len(x) < n {
		return make([]float32, n)
	}
	return x
}

// Losses implements Executor.
func (c *CPU) Losses(ctx context.Context, batch *dataset.Batch, subs []supernet.Subnet) ([]float64, error) {
	losses := make([]float64, len(subs))
	for i, s := range subs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logits, err := c.learner.Forward(c.weights, s, batch.Images, batch.N)
		if err != nil {
			return nil, err
		}
		classes := len(logits) / batch.N
		for j := range batch.N {
			l, _ := crossEntropy(logits[j*classes:(j+1)*classes], int(batch.Labels[j]), 0, nil)
			losses[i] += l / float64(batch.N)
		}
	}
	return losses, nil
}

// State implements Executor.
func (c *CPU) State() (*State, error) {
	if c.weights == nil {
		return nil, errors.New("train: an executor without a state")
	}
	s := &State{Weights: c.weights.Set(), Momentum: c.momentum.Set()}
	if c.average != nil {
		s.Average = c.average.Set()
	}
	if c.frozen != nil {
		s.Frozen = c.frozen.Set()
	}
	return s, nil
}

// Restore implements Executor.
func (c *CPU) Restore(s *State) error {
	if s.Weights == nil || s.Momentum == nil {
		return errors.New("train: a state without weights or momentum")
	}
	if (s.Average != nil) != (c.settings.Average != 0) {
		return errors.New("train: a state whose moving average is not as the settings have it")
	}
	c.weights, c.momentum = nn.NewParameters(s.Weights), nn.NewParameters(s.Momentum)
	c.gradient = c.weights.Zeros()
	c.average, c.frozen = nil, nil
	if s.Average != nil {
		c.average = nn.NewParameters(s.Average)
	}
	if s.Frozen != nil {
		c.frozen = nn.NewParameters(s.Frozen)
	}
	return nil
}

// teachers are the softmaxes that the lessons of a step learn from. Each is
// computed once, however many lessons it teaches.
type teachers struct {
	c     *CPU
	batch *dataset.Batch
	live  map[int][]float32 // by the number of the lesson; those that teach later ones
	other map[teacherKey][]float32
}

type teacherKey struct {
	source method.Source
	subnet supernet.Subnet
}

func (c *CPU) teach(s Step) *teachers {
	t := &teachers{c: c, batch: s.Batch, live: map[int][]float32{}, other: map[teacherKey][]float32{}}
	for _, l := range s.Lessons {
		for _, teacher := range l.Teachers {
			if teacher.Source == method.Live && l.Soft != 0 {
				t.live[teacher.Lesson] = nil
			}
		}
	}
	return t
}

// keep takes down the softmax of a lesson that teaches.
func (t *teachers) keep(lesson int, logits []float32) {
	if _, teaches := t.live[lesson]; teaches {
		t.live[lesson] = t.softmax(logits)
	}
}

// of is the mean softmax of a lesson's teachers, nil if it needs none. It runs
// those that have not run yet, so it comes before the lesson's own pass.
func (t *teachers) of(l method.Lesson) ([]float32, error) {
	if l.Soft == 0 {
		return nil, nil
	}
	var all [][]float32
	for _, teacher := range l.Teachers {
		p, err := t.one(teacher)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	switch len(all) {
	case 0:
		return nil, errors.New("a soft loss without a teacher")
	case 1:
		return all[0], nil
	}
	mean := t.buffer(len(all[0]))
	for i := range mean {
		sum := float32(0)
		for _, p := range all {
			sum += p[i]
		}
		mean[i] = sum / float32(len(all))
	}
	t.other[teacherKey{source: -1 - method.Source(len(t.other))}] = mean // for done to find
	return mean, nil
}

func (t *teachers) one(teacher method.Teacher) ([]float32, error) {
	var from *nn.Parameters
	switch teacher.Source {
	case method.Live:
		p := t.live[teacher.Lesson]
		if p == nil {
			return nil, fmt.Errorf("its teacher, lesson %d, has not run", teacher.Lesson)
		}
		return p, nil
	case method.Average:
		from = t.c.average
	case method.Frozen:
		from = t.c.frozen
	}
	if from == nil {
		return nil, fmt.Errorf("its teacher has the %v weights, and there are none", teacher.Source)
	}
	key := teacherKey{teacher.Source, teacher.Subnet}
	if p, ran := t.other[key]; ran {
		return p, nil
	}
	logits, err := t.c.learner.Forward(from, teacher.Subnet, t.batch.Images, t.batch.N)
	if err != nil {
		return nil, err
	}
	t.other[key] = t.softmax(logits)
	return t.other[key], nil
}

func (t *teachers) softmax(logits []float32) []float32 {
	p := t.buffer(len(logits))
	softmax(p, logits, t.batch.N, t.c.threads)
	return p
}

// buffer takes a former step's memory if it is large enough.
func (t *teachers) buffer(n int) []float32 {
	if last := len(t.c.spare) - 1; last >= 0 && cap(t.c.spare[last]) >= n {
		p := t.c.spare[last][:n]
		t.c.spare = t.c.spare[:last]
		return p
	}
	return make([]float32, n)
}

// done gives the memory back.
func (t *teachers) done() {
	t.c.spare = t.c.spare[:0]
	for _, p := range t.live {
		if p != nil {
			t.c.spare = append(t.c.spare, p)
		}
	}
	for _, p := range t.other {
		t.c.spare = append(t.c.spare, p)
	}
}
