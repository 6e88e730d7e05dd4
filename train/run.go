package train

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tips/dataset"
	"tips/internal/atomicfile"
	"tips/internal/folder"
	"tips/supernet"
	"tips/train/method"
	"tips/weights"
)

// The files of a run's folder.
const (
	RecipeFile     = "recipe.yaml"         // with every key, as the run was carried out
	NetworkFile    = "network.json"        // the network's description
	MetricsFile    = "metrics.jsonl"       // a Record a line
	CheckpointFile = "checkpoint.tips"     // where the run goes on from
	WeightsFile    = "weights.safetensors" // the result, with the full network's batch-norm statistics
	TriedFile      = "tried.txt"           // the subnetworks that the method tried, the most promising first; only where it is a method.Recorder
	CurvesFile     = "curves.svg"          // the metrics as a picture
)

// Options say how a recipe is carried out.
type Options struct {
	Recipe *Recipe
	Out    string // folder of the results; made if it does not exist

	// Fresh starts again where Out holds a checkpoint. Otherwise a run goes on from
	// it if it is of the same recipe, and is refused if it is of another.
	Fresh bool
	// StopAfter is a number of steps after which the run stops as if it were
	// interrupted; 0 for none.
	StopAfter int
	// Formats are data formats beyond those of package dataset.
	Formats []dataset.Format
	// Executor makes what does the arithmetic; nil means NewCPU with the recipe's
	// threads.
	Executor func(Settings) (Executor, error)
	// Observer is told what happens; nil if nobody wants to know.
	Observer Observer
	// Program is what runs, its version and for which machine: metrics keep it.
	Program string

	write func(name string, write func(io.Writer) error) error // atomicfile.Write, but in tests
}

// Observer is told what happens in a run, by one goroutine. Embed [Nobody] to
// hear of some of it only.
type Observer interface {
	Started(Start)
	Stepped(StepRecord)
	EpochEnded(EpochRecord)
	Evaluating(subnets int) // an Evaluated follows
	Evaluated(EvaluationRecord)
	Saved(file string, step int)
}

// Start is what is known when the first step is taken.
type Start struct {
	Network       *supernet.Network
	Method        string
	Step, Steps   int // the first to take, counted from 0, and how many the run has in all
	StepsPerEpoch int
	Batch         int
	Threads       int
	TrainImages   int
	JudgedOn      int  // images that evaluations judge by
	Resumed       bool // from a checkpoint
}

// Nobody is an Observer that does not care.
type Nobody struct{}

func (Nobody) Started(Start)              {}
func (Nobody) Stepped(StepRecord)         {}
func (Nobody) EpochEnded(EpochRecord)     {}
func (Nobody) Evaluating(int)             {}
func (Nobody) Evaluated(EvaluationRecord) {}
func (Nobody) Saved(string, int)          {}

// Summary is what came of a run.
type Summary struct {
	Steps   int     `json:"steps"`
	Epochs  int     `json:"epochs"`
	Seconds float64 `json:"seconds"` // all of the run, also before it was resumed
	Results Results `json:"results"` // of the last evaluation
	Out     string  `json:"out"`
}

// InterruptedError is a run that stopped before its end, because its context was
// cancelled or it was told to, and can go on.
type InterruptedError struct {
	Step, Steps int // taken, of how many
	Checkpoint  string
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("train: interrupted after step %d of %d; all of it is saved in %s", e.Step, e.Steps, e.Checkpoint)
}

// Run carries out a recipe, from its start or from the checkpoint in the folder of
// results. When ctx is cancelled it finishes the step under way, but for a
// review of the method before it, saves a checkpoint, and returns an *InterruptedError.
func Run(ctx context.Context, o Options) (*Summary, error) {
	t, err := prepare(o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.start(); err != nil {
		return nil, err
	}
	if err := t.loop(ctx); err != nil {
		return nil, err
	}
	if err := t.finish(ctx); err != nil {
		return nil, err
	}
	return &Summary{Steps: t.Step, Epochs: t.recipe.Epochs, Seconds: t.Seconds, Results: t.Results, Out: o.Out}, nil
}

// prepare makes everything that a run needs but the state it starts from.
func prepare(o Options) (_ *trainer, err error) {
	recipe := *o.Recipe
	if err := recipe.Validate(); err != nil {
		return nil, fmt.Errorf("train: recipe: %w", err)
	}
	if o.StopAfter < 0 {
		return nil, fmt.Errorf("train: stop after %d steps; want 0 or more", o.StopAfter)
	}
	if o.write == nil {
		o.write = atomicfile.Write
	}
	t := &trainer{options: o, recipe: &recipe, observer: o.Observer}
	if t.observer == nil {
		t.observer = Nobody{}
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.threads = recipe.Threads; t.threads == 0 {
		t.threads = runtime.GOMAXPROCS(0)
	}
	if t.network, err = recipe.OpenNetwork(); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if t.judged, err = recipe.subnets(t.network); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if err := t.openData(); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if t.method, err = recipe.NewMethod(t.network, t.steps); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if t.method.Interval() > 0 && t.held == nil {
		return nil, fmt.Errorf("train: method %s judges widths on images it does not train on: holdout is 0; want some, as in --set holdout=5000", t.method.Name())
	}
	settings := Settings{Network: t.network, Update: recipe.SGD.update(), Smoothing: recipe.Smoothing, Average: recipe.Average}
	if decay := t.method.EMA(); decay != 0 {
		if recipe.Average != 0 && recipe.Average != decay {
			return nil, fmt.Errorf("train: average is %v, and method %s with loss %s learns from an average of decay %v; want 0 or %v",
				recipe.Average, t.method.Name(), recipe.Method.Loss, decay, decay)
		}
		settings.Average = decay
	}
	if settings.Average == 0 && recipe.Evaluate.Weights == "average" {
		return nil, errors.New("train: evaluate.weights is average, and no average is kept; want average above 0, such as 0.999")
	}
	t.average = settings.Average != 0
	make := o.Executor
	if make == nil {
		make = func(s Settings) (Executor, error) { return NewCPU(s, t.threads), nil }
	}
	if t.executor, err = make(settings); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return t, nil
}

func (s SGDRecipe) update() Update {
	return Update{
		Momentum: s.Momentum, Nesterov: s.Nesterov, WeightDecay: s.WeightDecay,
		DecayNorm: s.DecayNorm, DecayBias: s.DecayBias, ClipNorm: s.ClipNorm,
	}
}

// schedule is that of a run of so many steps.
func (r *Recipe) schedule(perEpoch int) Schedule {
	s := Schedule{
		Rate: r.SGD.Rate, Decay: r.Schedule.Decay, Steps: r.Epochs * perEpoch, FinalPer: r.Schedule.Final,
		Warmup: int(r.Schedule.Warmup*float64(perEpoch) + 0.5), DropBy: r.Schedule.DropBy,
	}
	for _, epoch := range r.Schedule.Drops {
		s.Drops = append(s.Drops, epoch*perEpoch)
	}
	return s
}

// file names a file of the results.
func (t *trainer) file(name string) string { return filepath.Join(t.options.Out, name) }

// start takes over the state of the checkpoint in the folder of results, or makes
// a new one and saves it: a folder that cannot be written to is found out before
// any work is done.
func (t *trainer) start() error {
	if err := os.MkdirAll(t.options.Out, 0o755); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	var err error
	if t.lock, err = folder.Lock(t.options.Out); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	for _, name := range []string{RecipeFile, NetworkFile, CheckpointFile, WeightsFile, TriedFile, CurvesFile} {
		if err := atomicfile.Clean(t.file(name)); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	var text bytes.Buffer
	if err := t.recipe.Write(&text); err != nil {
		return err
	}
	t.recipeText = text.String()
	resumed := false
	if !t.options.Fresh {
		if resumed, err = t.resume(); err != nil {
			return err
		}
	}
	if !resumed {
		if err := t.begin(); err != nil {
			return err
		}
	}
	if t.finished = t.Step == t.steps; !t.finished {
		// Results of the run before this one would pass for its own until it ends.
		for _, name := range []string{WeightsFile, TriedFile} {
			if err := os.Remove(t.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("train: %w", err)
			}
		}
	}
	if t.metrics, err = openMetrics(t.file(MetricsFile), t.saved.Metrics); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	for name, write := range map[string]func(io.Writer) error{RecipeFile: t.recipe.Write, NetworkFile: t.network.Write} {
		if err := t.options.write(t.file(name), write); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	if !t.finished {
		start := StartRecord{Step: t.Step, Time: time.Now().UTC().Truncate(time.Second), Executor: t.by(), Program: t.options.Program}
		if err := t.metrics.add(Record{Start: &start}); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	t.observer.Started(Start{
		Network: t.network, Method: t.method.Name(), Step: t.Step, Steps: t.steps, StepsPerEpoch: t.perEpoch,
		Batch: t.recipe.Batch, Threads: t.threads, TrainImages: t.images, JudgedOn: t.testImages, Resumed: resumed,
	})
	return nil
}

// by says what computes.
func (t *trainer) by() string {
	if named, ok := t.executor.(fmt.Stringer); ok {
		return named.String()
	}
	if t.threads == 1 {
		return "processor, 1 thread"
	}
	return fmt.Sprintf("processor, %d threads", t.threads)
}

// begin starts a run from random weights.
func (t *trainer) begin() error {
	if _, err := os.Stat(t.file(MetricsFile)); err == nil && !t.options.Fresh {
		return fmt.Errorf("train: %s holds %s and no checkpoint; choose another folder, or start again with --fresh", t.options.Out, MetricsFile)
	}
	if err := t.executor.Restore(NewState(weights.Random(t.network, t.recipe.Seed), t.average)); err != nil {
		return err
	}
	return t.save()
}

// resume goes on from the checkpoint in the folder, if there is one.
func (t *trainer) resume() (bool, error) {
	name := t.file(CheckpointFile)
	c, err := OpenCheckpoint(name, t.network)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("train: %w", err)
	}
	other, err := ReadRecipe(bytes.NewReader([]byte(c.Recipe)))
	if err != nil {
		return false, fmt.Errorf("train: checkpoint %s: its recipe: %w", name, err)
	}
	const instead = "go on with that recipe, choose another folder, or start again with --fresh"
	if d := t.recipe.difference(other); d != "" {
		return false, fmt.Errorf("train: %s is of another recipe: %s; %s", name, d, instead)
	}
	if c.Images != t.images {
		return false, fmt.Errorf("train: %s trained on %d images, the data here has %d; %s", name, c.Images, t.images, instead)
	}
	if c.Step > t.steps {
		return false, fmt.Errorf("train: %s: %w: step %d of %d", name, ErrCorrupt, c.Step, t.steps)
	}
	if err := t.method.Restore(c.Method); err != nil {
		return false, fmt.Errorf("train: checkpoint %s: %w", name, err)
	}
	if err := t.executor.Restore(c.State); err != nil {
		return false, fmt.Errorf("train: checkpoint %s: %w", name, err)
	}
	c.State = nil // its sets are large, and nobody needs them any more
	t.Position = c.Position
	t.saved = c
	return true, nil
}

// finish writes the results of a run whose steps are all taken.
func (t *trainer) finish(ctx context.Context) error {
	// Before the weights, without which nobody searches.
	if r, ok := t.method.(method.Recorder); ok {
		if err := t.options.write(t.file(TriedFile), func(w io.Writer) error { return writeTried(w, r.Tried()) }); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	// A run that was finished before has its weights, and whoever has searched them
	// wants them as they are: statistics taken by another number of threads would differ
	// in their last bits.
	if t.finished {
		if _, err := weights.Open(t.file(WeightsFile), t.network); err == nil {
			return Plot(t.options.Out)
		}
	}
	set, err := t.calibrated(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return t.interrupted() // the last checkpoint has all steps; it goes on to here
		}
		return err
	}
	if err := t.options.write(t.file(WeightsFile), set.Write); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return Plot(t.options.Out)
}

// writeTried writes subnetworks one a line, as 'tips eval --list' and 'tips search
// --start' read them.
func writeTried(w io.Writer, subs []supernet.Subnet) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# Subnetworks that were tried in training, the most promising first.")
	for _, s := range subs {
		fmt.Fprintln(b, s)
	}
	return b.Flush()
}

// calibrated is the trained weights with the full network's batch-norm statistics.
func (t *trainer) calibrated(ctx context.Context) (*weights.Set, error) {
	nothing := func(func(*dataset.Batch, error) bool) {}
	average := t.recipe.Evaluate.Weights == "average"
	scores, err := t.executor.Evaluate(ctx, Examination{
		Subnets: []supernet.Subnet{{}}, Average: average, Calibration: t.calibration.Epoch(ctx, 0, 0), Test: nothing,
	})
	if err != nil {
		return nil, fmt.Errorf("train: statistics: %w", err)
	}
	state, err := t.executor.State()
	if err != nil {
		return nil, err
	}
	set := state.Weights
	if average {
		set = state.Average
	}
	for i := range set.Ops {
		copy(set.Ops[i].Mean, scores[0].Statistics.Mean[i])
		copy(set.Ops[i].Variance, scores[0].Statistics.Variance[i])
	}
	return set, nil
}
