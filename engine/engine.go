package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tips/frontier"
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// Errors that others can be told apart by.
var (
	ErrInfeasible = errors.New("no subnetwork fits the budget")
	ErrClosed     = errors.New("engine: closed")
)

// Options say how an engine runs. The zero value suits a machine of its own.
type Options struct {
	// Threads compute one inference together. 0: as many as the frontier's latencies
	// were taken with, or one for each processor, but no more than that.
	Threads int
	// MaxConcurrent inferences compute at a time; more wait. 0: as many as there are
	// processors for their threads.
	MaxConcurrent int
	// Batch is the most inputs that one call may take. 0: 1.
	Batch int
	// Strict returns ErrInfeasible where no subnetwork fits a budget. Otherwise the
	// one that comes closest runs, and Result.Fits is false.
	Strict bool
	// Measure is how long to measure subnetworks at the start, the cheapest first,
	// so that the first predictions are of this machine. 0: a tenth of a second;
	// less than 0: not at all.
	Measure time.Duration
}

// The most that options may ask for.
const (
	maxThreads    = 128
	maxConcurrent = 1 << 12
	maxBatch      = 1 << 12
)

func (o Options) normalise(f *frontier.Frontier) (Options, error) {
	cores := runtime.GOMAXPROCS(0)
	if o.Threads < 0 || o.Threads > maxThreads {
		return o, fmt.Errorf("engine: %d threads; want 0 to %d", o.Threads, maxThreads)
	}
	if o.MaxConcurrent < 0 || o.MaxConcurrent > maxConcurrent {
		return o, fmt.Errorf("engine: %d inferences at a time; want 0 to %d", o.MaxConcurrent, maxConcurrent)
	}
	if o.Batch < 0 || o.Batch > maxBatch {
		return o, fmt.Errorf("engine: batch of %d; want 0 to %d", o.Batch, maxBatch)
	}
	if o.Threads == 0 {
		o.Threads = min(cores, maxThreads)
		if f.Threads > 0 {
			o.Threads = min(f.Threads, o.Threads)
		}
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = max(1, cores/o.Threads)
	}
	o.Batch = max(o.Batch, 1)
	if o.Measure == 0 {
		o.Measure = 100 * time.Millisecond
	}
	return o, nil
}

// Engine runs subnetworks of one set of weights under budgets. Any number of
// goroutines may use it.
type Engine struct {
	model    *nn.Model
	front    *frontier.Frontier
	options  Options
	inputLen int // of one input
	classes  int

	candidates []*candidate // as the frontier's points
	best       []*candidate // the same, the most accurate first
	byMACs     float64      // nanoseconds a multiply-accumulate, where no latency is known
	named      map[supernet.Subnet]*candidate
	others     struct { // subnetworks that are not on the frontier
		sync.Mutex
		known map[supernet.Subnet]*candidate
	}

	current  atomic.Pointer[candidate] // for calls without a budget
	standing atomic.Pointer[Budget]    // what all limits leave
	limits   struct {
		sync.Mutex
		set map[*Limit]Budget
	}

	predictor predictor
	history   history
	sessions  *sessions
	close     sync.Once
}

// Open reads weights and the frontier that was made for them, and makes an engine
// of them. The weights must tell their network, as files that tips wrote do.
func Open(weightsFile, frontierFile string, o Options) (*Engine, error) {
	set, err := weights.Open(weightsFile, nil)
	if err != nil {
		return nil, err
	}
	f, err := frontier.Open(frontierFile, set.Network)
	if err != nil {
		return nil, err
	}
	e, err := New(set, f, o)
	if errors.Is(err, frontier.ErrMismatch) {
		return nil, fmt.Errorf("frontier %s: %w", frontierFile, err)
	}
	return e, err
}

// FromBytes is Open for files that a program carries within itself.
func FromBytes(weightsFile, frontierFile []byte, o Options) (*Engine, error) {
	set, err := weights.Read(bytes.NewReader(weightsFile), int64(len(weightsFile)), nil)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	f, err := frontier.Decode(frontierFile, set.Network)
	if err != nil {
		return nil, fmt.Errorf("frontier: %w", err)
	}
	return New(set, f, o)
}

// New makes an engine of weights and the frontier that was made for them. The
// weights are not needed afterwards; the frontier must not be changed.
func New(set *weights.Set, f *frontier.Frontier, o Options) (*Engine, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if err := f.CheckWeights(set); err != nil {
		return nil, err
	}
	o, err := o.normalise(f)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		model: nn.NewModel(set), front: f, options: o,
		inputLen: int(f.Input.Elements()),
		named:    make(map[supernet.Subnet]*candidate, len(f.Points)),
		sessions: newSessions(o.Threads, o.MaxConcurrent),
	}
	e.others.known = map[supernet.Subnet]*candidate{}
	e.limits.set = map[*Limit]Budget{}
	e.standing.Store(&Budget{})
	e.predictor.init()
	if err := e.addCandidates(); err != nil {
		return nil, err
	}
	e.current.Store(e.best[0])
	if o.Measure > 0 {
		if err := e.measure(o.Measure); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Close waits for the inferences that compute and ends everything that the engine
// has started. Calls that wait for their turn, and later ones, return ErrClosed.
func (e *Engine) Close() { e.close.Do(e.sessions.close) }

// Frontier is what the engine chooses from. It must not be changed.
func (e *Engine) Frontier() *frontier.Frontier { return e.front }

// Network is the network that the engine runs subnetworks of.
func (e *Engine) Network() *supernet.Network { return e.front.Network }

// InputLen is the number of values of one input: height, width, channels, in this
// order, normalised as Frontier.Preprocess says.
func (e *Engine) InputLen() int { return e.inputLen }

// Classes is the number of values of one output.
func (e *Engine) Classes() int { return e.classes }

// Options are those that the engine runs with, defaults filled in.
func (e *Engine) Options() Options { return e.options }

// Trim gives back the memory of feature maps, and threads, that are kept from one
// inference to the next. The next ones make their own.
func (e *Engine) Trim() { e.sessions.trim() }

// Switch makes a point of the frontier the default: what calls without a budget
// run, and what a deadline of theirs chooses up to. It is one atomic store.
func (e *Engine) Switch(point int) error {
	if point < 0 || point >= len(e.candidates) {
		return fmt.Errorf("engine: switch to point %d; the frontier has 0 to %d", point, len(e.candidates)-1)
	}
	e.current.Store(e.candidates[point])
	return nil
}

// SwitchTo is Switch to any subnetwork, which is planned first if it is not on the
// frontier.
func (e *Engine) SwitchTo(s supernet.Subnet) error {
	c, err := e.candidate(s)
	if err != nil {
		return err
	}
	e.current.Store(c)
	return nil
}

// Current is the default subnetwork.
func (e *Engine) Current() supernet.Subnet { return e.current.Load().subnet }

// Predict is how long one inference of a subnetwork is expected to take at the
// moment, for one input.
func (e *Engine) Predict(s supernet.Subnet) (time.Duration, error) {
	c, err := e.candidate(s)
	if err != nil {
		return 0, err
	}
	return e.predict(c, 1), nil
}

// Result is an answer and how it came about.
type Result struct {
	Output []float32 // the logits of one input after the other
	Subnet supernet.Subnet
	Point  int // of the frontier; -1 if the subnetwork is none

	Predicted time.Duration // to compute
	Took      time.Duration // to compute
	Waited    time.Duration // for a turn

	// Fits tells whether the subnetwork was expected to keep all limits. If not, it
	// is the one that comes closest.
	Fits bool
	// Late tells whether the answer came after the time that was asked for, or after
	// the context's deadline.
	Late bool
}

// Infer runs the most accurate subnetwork that the budget and the context's
// deadline allow on one input, or on as many as Options.Batch allows, one after the
// other in one slice. A computation that has begun is not broken off: a context
// that ends meanwhile makes the result late, no error.
func (e *Engine) Infer(ctx context.Context, input []float32, b Budget) (Result, error) {
	batch, err := e.batch(input)
	if err != nil {
		return Result{}, err
	}
	return e.InferTo(ctx, make([]float32, batch*e.classes), input, b)
}

// InferTo is Infer that writes the logits to output, which Result.Output then is.
// It allocates nothing.
func (e *Engine) InferTo(ctx context.Context, output, input []float32, b Budget) (Result, error) {
	start := time.Now()
	batch, err := e.batch(input)
	if err != nil {
		return Result{}, err
	}
	if len(output) != batch*e.classes {
		return Result{}, fmt.Errorf("engine: output of %d values; %d inputs have %d", len(output), batch, batch*e.classes)
	}
	if err := b.check(); err != nil {
		return Result{}, err
	}
	var named *candidate
	if b.Subnet != nil {
		if named, err = e.candidate(*b.Subnet); err != nil {
			return Result{}, err
		}
	}
	s, err := e.sessions.get(ctx)
	if err != nil {
		return Result{}, err
	}
	defer e.sessions.put(s)

	// Chosen now and not before the wait: what is left of the time is what counts.
	r := Result{Output: output, Waited: time.Since(start)}
	deadline, limited := ctx.Deadline()
	if b.Time > 0 {
		if own := start.Add(b.Time); !limited || own.Before(deadline) {
			deadline, limited = own, true
		}
	}
	chosen := choice{batch: batch, budget: b, named: named, deadline: deadline, hurried: limited}
	c, err := e.choose(&chosen)
	if err != nil {
		return Result{}, err
	}
	program, err := e.program(c, batch)
	if err != nil {
		return Result{}, err
	}
	r.Subnet, r.Point, r.Predicted, r.Fits = c.subnet, c.point, chosen.predicted, chosen.fits

	began := time.Now()
	s.Run(program, output, input)
	ended := time.Now()
	r.Took = ended.Sub(began)
	r.Late = limited && ended.After(deadline)
	e.predictor.learn(c.base*float64(batch), &c.plans[batch-1].habit, r.Took)
	e.history.add(past{ended.Sub(start), c.costs.MACs}, r.Late)
	return r, nil
}

// batch is the number of inputs in a slice.
func (e *Engine) batch(input []float32) (int, error) {
	n := len(input) / e.inputLen
	if n < 1 || n > e.options.Batch || n*e.inputLen != len(input) {
		return 0, fmt.Errorf("engine: input of %d values; want 1 to %d inputs of %d (%s)", len(input), e.options.Batch, e.inputLen, e.front.Input)
	}
	return n, nil
}
