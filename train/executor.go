package train

import (
	"context"
	"fmt"
	"iter"

	"tips/dataset"
	"tips/supernet"
	"tips/train/method"
	"tips/weights"
)

// Executor does the arithmetic of training: it owns the parameters and what goes
// with them. Its interface is coarse, a whole step at a time, so that one that
// compiles a step into a program for a device fits as well as one that calls a
// function for each operation. One goroutine at a time may use it.
type Executor interface {
	// Step runs the lessons on a batch, adds up their gradients, and updates the
	// parameters once. A loss or gradient that is not finite is a *NotFiniteError,
	// and with it, as with every error, the parameters stay as they were.
	Step(ctx context.Context, s Step) (Outcome, error)

	// Losses are the cross-entropies of subnetworks with the labels of a batch:
	// forward only, with the statistics of the batch.
	Losses(ctx context.Context, batch *dataset.Batch, subs []supernet.Subnet) ([]float64, error)

	// Evaluate judges subnetworks with batch-norm statistics of their own.
	Evaluate(ctx context.Context, e Examination) ([]Score, error)

	// State copies out all that the next step depends on. Restore takes over such
	// a state, of this executor or another, and does not keep it.
	State() (*State, error)
	Restore(s *State) error

	// Close gives back threads, memory and devices.
	Close() error
}

// Settings is what an executor is made with: the parts of a recipe that hold for
// every step.
type Settings struct {
	Network *supernet.Network
	Update  Update
	// Smoothing is the part of the labels' probability that is spread evenly over
	// all classes.
	Smoothing float64
	// Average is the decay, a step, of a moving average of the parameters; 0 for
	// none.
	Average float64
}

// Step is what an executor does at once.
type Step struct {
	Batch   *dataset.Batch
	Lessons []method.Lesson
	Rate    float64 // the learning rate

	// Next, unless it is nil, gives the batch of the step after this one, or nil if
	// there is none yet. An executor may call it once, from any goroutine while it does
	// the step, to make that batch ready meanwhile. Batch is lost with the call.
	Next func() *dataset.Batch
}

// Outcome is what a step tells.
type Outcome struct {
	Lessons []LessonOutcome // as Step.Lessons
	Norm    float64         // of the gradient, before it was clipped
}

// Loss is what the step minimised: the sum over its lessons.
func (o Outcome) Loss() float64 {
	sum := 0.0
	for _, l := range o.Lessons {
		sum += l.Loss
	}
	return sum
}

// LessonOutcome is how one lesson went, before the update.
type LessonOutcome struct {
	Loss    float64 // weighted as the lesson says, averaged over the batch
	Label   float64 // the cross-entropy with the labels, unweighted; with smoothing
	Soft    float64 // the divergence from the teachers, unweighted; 0 without any
	Correct int     // images whose label had the largest logit
}

// NotFiniteError is a step whose loss or gradient is not finite.
type NotFiniteError struct {
	Lesson   int             // its number in the step; −1 for the gradient of all, where no lesson's alone is to blame
	Subnet   supernet.Subnet // of the lesson
	Value    float64
	Gradient bool // whether Value is the norm of the gradient, and not the loss
}

func (e *NotFiniteError) Error() string {
	if e.Lesson < 0 {
		return fmt.Sprintf("the norm of the gradient is %v", e.Value)
	}
	if e.Gradient {
		return fmt.Sprintf("the norm of the gradient of subnetwork %v is %v", e.Subnet, e.Value)
	}
	return fmt.Sprintf("the loss of subnetwork %v is %v", e.Subnet, e.Value)
}

// Examination is what subnetworks are judged by.
type Examination struct {
	Subnets []supernet.Subnet
	Average bool // of the moving average of the parameters

	// Calibration batches are those whose statistics are averaged, Test those whose
	// images are classified. Each is gone through once, on any goroutine; a batch is
	// lost when the next is asked for.
	Calibration, Test iter.Seq2[*dataset.Batch, error]
}

// Score is how well a subnetwork did.
type Score struct {
	Loss            float64 // mean cross-entropy with the labels, not smoothed
	Correct, Images int
	Statistics      *weights.Statistics // of its batch norm, as calibrated
}

// Accuracy is the part of the images that was classified as labelled.
func (s Score) Accuracy() float64 { return float64(s.Correct) / float64(max(s.Images, 1)) }

// State is all that the next step of an executor depends on. Momentum is shaped
// like the weights; its batch-norm statistics mean nothing, nor do those of the
// others.
type State struct {
	Weights, Momentum *weights.Set
	Average           *weights.Set // nil where no average is kept
	Frozen            *weights.Set // the teacher that a method froze; nil before
}

// NewState is the state at the start of a run. Momentum is zero, and the average
// of the weights so far is the weights.
func NewState(s *weights.Set, average bool) *State {
	state := &State{Weights: s, Momentum: zeros(s.Network)}
	if average {
		state.Average = s.Clone()
	}
	return state
}

// zeros are parameters of value zero, also where weights.New has ones.
func zeros(n *supernet.Network) *weights.Set {
	s := weights.New(n)
	for i := range s.Ops {
		clear(s.Ops[i].Scale)
	}
	return s
}
