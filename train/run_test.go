package train

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tips/supernet"
	"tips/train/method"
	"tips/weights"
)

// tiny is a recipe that trains in a second or so, on one thread.
func tiny(t testing.TB, changes ...string) *Recipe {
	t.Helper()
	return synthetic(t, append([]string{
		"network=resnet_small:width=16,data=fashion-mnist,size=8,divisor=8", "data=synthetic:train=400,test=100,size=8",
		"holdout=48", "epochs=3", "batch=32", "threads=1", "evaluate.calibration=64", "checkpoint.seconds=0", "checkpoint.epochs=0",
	}, changes...)...)
}

func run(t testing.TB, o Options) *Summary {
	t.Helper()
	s, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func metricsOf(t testing.TB, dir string) []Record {
	t.Helper()
	list, err := ReadMetrics(bytes.NewReader(file(t, dir, MetricsFile)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEveryMethodLearns: each of them, on one thread and so with the same bits
// each time, brings the test loss of the full network below half of what guessing
// has, and that of the smallest network it trains below guessing.
func TestEveryMethodLearns(t *testing.T) {
	epochs := map[string]string{
		"alphanet own": "12", // its subnetworks pull at the full network's weights without knowing the labels
		"ds-net own":   "24", // its subnetworks learn from an average over some 300 steps, which knows nothing at first
	}
	for _, name := range method.Names() {
		for _, loss := range []string{"paper", "own"} {
			if testing.Short() && name+" "+loss != "tips paper" && name+" "+loss != "ds-net own" {
				continue
			}
			t.Run(name+" "+loss, func(t *testing.T) {
				t.Parallel()
				r := tiny(t, "method.name="+name, "method.loss="+loss, "epochs="+cmp.Or(epochs[name+" "+loss], "6"), "evaluate.every=0")
				if name == "joslim" { // fewer steps: it judges all widths so far before every step of so short a run
					r.Batch, r.SGD.Rate, r.Epochs = 64, 0.1, 5
				}
				r.Evaluate.Subnets = []string{"full", smallestTrained(t, r)}
				s := run(t, Options{Recipe: r, Out: t.TempDir()})
				guessing := math.Log(10)
				if full := s.Results[0]; full.Loss > guessing/2 {
					t.Errorf("the full network's test loss is %.3f; want %.3f or less", full.Loss, guessing/2)
				}
				if small := s.Results[1]; small.Loss >= guessing {
					t.Errorf("the test loss of %s is %.3f; guessing has %.3f", small.Name, small.Loss, guessing)
				}
				t.Logf("full %.3f, %s %.3f", s.Results[0].Loss, s.Results[1].Name, s.Results[1].Loss)
			})
		}
	}
}

// smallestTrained names the smallest network that the method of a recipe trains.
func smallestTrained(t *testing.T, r *Recipe) string {
	t.Helper()
	n, err := r.OpenNetwork()
	if err != nil {
		t.Fatal(err)
	}
	own, another, err := r.OwnSmallest(n)
	if err != nil {
		t.Fatal(err)
	}
	if another == (own == n.Smallest()) || another && r.Method.Name != "tips" && r.Method.Name != "static" {
		t.Fatalf("%s trains %s as its smallest, not that of the network: %v", r.Method.Name, own, another)
	}
	if !another {
		return "smallest"
	}
	return own.String()
}

// TestResults: what a run leaves behind is whole and fits together.
func TestResults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	seen := &log{}
	r := tiny(t, "average=0.9", "evaluate.weights=average")
	s := run(t, Options{Recipe: r, Out: dir, Observer: seen})
	again, err := OpenRecipe(filepath.Join(dir, RecipeFile))
	if err != nil {
		t.Fatal(err)
	}
	if again.Augment == nil || len(again.Augment.Mean) == 0 {
		t.Errorf("the recipe is not resolved: %+v", again)
	}
	n, err := r.OpenNetwork()
	if err != nil {
		t.Fatal(err)
	}
	set, err := weights.Open(filepath.Join(dir, WeightsFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range n.Ops() {
		if op.Norm && set.Ops[i].Mean[0] == 0 && set.Ops[i].Variance[0] == 1 {
			t.Errorf("%s: the statistics were not calibrated", op.Name)
		}
	}
	f, err := os.Open(filepath.Join(dir, NetworkFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := supernet.Read(f); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(file(t, dir, CurvesFile), []byte("</svg>")) {
		t.Error("no curves")
	}

	records := metricsOf(t, dir)
	starts, steps, epochs, evaluations := 0, 0, 0, 0
	for _, r := range records {
		switch {
		case r.Step != nil:
			if r.Step.Number != steps || len(r.Step.Lessons) != method.Networks || r.Step.Rate <= 0 || r.Step.Norm <= 0 {
				t.Errorf("step %d: %+v", steps, r.Step)
			}
			sum := 0.0
			for _, l := range r.Step.Lessons {
				sum += l.Loss
			}
			if math.Abs(sum-r.Step.Loss) > 1e-9 {
				t.Errorf("step %d: loss %v, its lessons sum to %v", steps, r.Step.Loss, sum)
			}
			steps++
		case r.Epoch != nil:
			epochs++
			if r.Epoch.Number != epochs || r.Epoch.Steps != steps {
				t.Errorf("epoch %d: %+v", epochs, r.Epoch)
			}
		case r.Start != nil:
			starts++
			if r.Start.Step != steps || r.Start.Executor != "processor, 1 thread" || time.Since(r.Start.Time) > time.Hour {
				t.Errorf("start %d: %+v", starts, r.Start)
			}
		default:
			evaluations++
			if r.Evaluation.Steps != steps || len(r.Evaluation.Results) != len(again.Evaluate.Subnets) || r.Evaluation.Results[0].Images != 100 {
				t.Errorf("evaluation %d: %+v", evaluations, r.Evaluation)
			}
		}
	}
	perEpoch := 352 / 32
	if starts != 1 || steps != 3*perEpoch || epochs != 3 || evaluations != 3 || s.Steps != steps {
		t.Errorf("%d steps, %d epochs, %d evaluations", steps, epochs, evaluations)
	}
	if seen.steps != steps || seen.epochs != 3 || seen.evaluations != 3 || seen.saved < 2 || seen.start.Steps != steps || seen.start.TrainImages != 352 {
		t.Errorf("the observer saw %+v", seen)
	}

	// A run that is done says so again, and takes no more steps.
	seen = &log{}
	once := run(t, Options{Recipe: r, Out: dir, Observer: seen})
	if seen.steps != 0 || !seen.start.Resumed {
		t.Errorf("%+v", seen)
	}
	if diff := gocmp.Diff(s, once); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

// log counts what happens.
type log struct {
	Nobody
	start                             Start
	steps, epochs, evaluations, saved int
	at                                func(step int)
	evaluating                        func()
}

func (l *log) Started(s Start) { l.start = s }
func (l *log) Stepped(r StepRecord) {
	l.steps++
	if l.at != nil {
		l.at(r.Number)
	}
}
func (l *log) Evaluating(int) {
	if l.evaluating != nil {
		l.evaluating()
	}
}
func (l *log) EpochEnded(EpochRecord)     { l.epochs++ }
func (l *log) Evaluated(EvaluationRecord) { l.evaluations++ }
func (l *log) Saved(string, int)          { l.saved++ }

func TestBadRuns(t *testing.T) {
	for change, want := range map[string]string{
		"network=resnet50":         "tells 1000 classes apart, and data synthetic has 10",
		"network=nothing":          "unknown model",
		"data=nothing":             "names no format",
		"holdout=390":              "holdout is 390 of the 400 images",
		"evaluate.subnets=[w3]":    "evaluate.subnets",
		"evaluate.subnets=[-1]":    "evaluate.subnets",
		"evaluate.weights=average": "no average is kept",
		"batch=500":                "holdout",
		"epochs=0":                 "epochs: 0; want",
		"network=./missing.json":   "missing.json",
		"method={name: joslim, loss: own}\nholdout=0":         "judges widths on images it does not train on: holdout is 0; want some, as in --set holdout=5000",
		"average=0.9\nmethod={name: ds-net, loss: own}":       "average is 0.9, and method ds-net with loss own learns from an average of decay 0.997; want 0 or 0.997",
		"average=0.997\nmethod={name: ds-net, loss: own}":     "-",
		"average=0.9\nmethod={name: ds-net, loss: paper}":     "-",
		"method={name: static, subnet: \"nowhere\"}":          "method.subnet",
		"method={name: static, loss: paper, subnet: \"0.5\"}": "-",
	} {
		r := tiny(t, "epochs=1")
		for line := range strings.SplitSeq(change, "\n") {
			key, value, _ := strings.Cut(line, "=")
			if err := r.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Run(context.Background(), Options{Recipe: r, Out: t.TempDir()})
		if want == "-" {
			if err != nil {
				t.Errorf("%s: %v", change, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", change, err, want)
		}
	}
}

// breaking is an executor whose loss is not finite at some step.
type breaking struct {
	Executor
	at, step int
}

func (b *breaking) Step(ctx context.Context, s Step) (Outcome, error) {
	if b.step++; b.step > b.at {
		return Outcome{}, &NotFiniteError{Lesson: 2, Subnet: s.Lessons[2].Subnet, Value: math.NaN()}
	}
	return b.Executor.Step(ctx, s)
}

func TestNotFiniteStopsTheRun(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(context.Background(), Options{
		Recipe: tiny(t, "checkpoint.steps=5", "method.name=us-nets"), Out: dir,
		Executor: func(s Settings) (Executor, error) { return &breaking{Executor: NewCPU(s, 1), at: 12}, nil },
	})
	want := `train: step 12, epoch 2: the loss of subnetwork w`
	checkpoint := fmt.Sprintf("is NaN; the last good checkpoint is %s, of step 10", filepath.Join(dir, CheckpointFile))
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), checkpoint) {
		t.Errorf("%v; want %q … %q", err, want, checkpoint)
	}
}

// TestExplodingRun: a learning rate far too high ends with that error, and not
// with weights that are no numbers.
func TestExplodingRun(t *testing.T) {
	_, err := Run(context.Background(), Options{Recipe: tiny(t, "sgd.rate=1e6", "schedule.decay=constant", "epochs=40", "evaluate.every=0"), Out: t.TempDir()})
	var bad *NotFiniteError
	if !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
}

// TestDeadWeightsAreNotSaved: a checkpoint after every step, and the one that is
// left is one that a loss can be had of, however the run went on after it.
func TestDeadWeightsAreNotSaved(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(context.Background(), Options{Recipe: tiny(t, "sgd.rate=1e5", "checkpoint.steps=1"), Out: dir})
	var bad *NotFiniteError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	name := filepath.Join(dir, CheckpointFile)
	c, err2 := OpenCheckpoint(name, nil)
	if err2 != nil {
		t.Fatal(err2)
	}
	want := fmt.Sprintf("train: after step %d: the loss of subnetwork %v is %v; the last good checkpoint is %s, of step %d", c.Step+1, bad.Subnet, bad.Value, name, c.Step)
	if c.Step == 0 || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	n := c.State.Weights.Network
	cpu := newTestCPU(t, n, Settings{}, c.State)
	subs := []supernet.Subnet{{}, n.Smallest()}
	losses, err := cpu.Losses(context.Background(), randomBatch(n, 32, 1), subs)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range losses {
		if !finite(l) {
			t.Errorf("the loss of subnetwork %v of the checkpoint is %v", subs[i], l)
		}
	}

	// The same where it is an interruption that saves, at the step that did it.
	again := t.TempDir()
	_, err = Run(context.Background(), Options{Recipe: tiny(t, "sgd.rate=1e5"), Out: again, StopAfter: c.Step + 1})
	if !errors.As(err, &bad) || !strings.HasSuffix(err.Error(), ", of step 0") {
		t.Errorf("%v", err)
	}
}

// TestDivergedJudgement: a method that asks for losses finds out first; the
// message names the checkpoint all the same.
func TestDivergedJudgement(t *testing.T) {
	dir := t.TempDir()
	_, err := Run(context.Background(), Options{Recipe: tiny(t, "method.name=attentive-nas", "sgd.rate=1e6", "schedule.decay=constant", "epochs=40", "evaluate.every=0"), Out: dir})
	if err == nil || !strings.HasPrefix(err.Error(), "train: step ") || !strings.Contains(err.Error(), "epoch ") ||
		!strings.Contains(err.Error(), "the loss of subnetwork ") || !strings.Contains(err.Error(), "checkpoint is "+filepath.Join(dir, CheckpointFile)+", of step 0") {
		t.Errorf("%v", err)
	}
}

// TestManual: the example of the manual is a recipe.
func TestManual(t *testing.T) {
	page := string(file(t, "..", "docs", "training.md"))
	_, rest, found := strings.Cut(page, "```yaml\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/training.md has no recipe")
	}
	if _, err := ReadRecipe(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{RecipeFile, NetworkFile, MetricsFile, CheckpointFile, WeightsFile, CurvesFile} {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/training.md does not tell what %s is", name)
		}
	}
}

// BenchmarkStep is a step of the recipe fashion-mnist: the full network and three
// subnetworks, on one thread.
func BenchmarkStep(b *testing.B) {
	n := network(b, "resnet_small:data=fashion-mnist,divisor=16,min=0.25")
	m, err := method.New("tips", method.Config{Network: n})
	if err != nil {
		b.Fatal(err)
	}
	c := newTestCPU(b, n, Settings{Update: Update{Momentum: 0.9, WeightDecay: 1e-4}}, NewState(weights.Random(n, 1), false))
	batch := randomBatch(n, 128, 1)
	macs, images := 0.0, 0
	for b.Loop() {
		plan, err := m.Step(context.Background(), 0, rand.New(rand.NewPCG(uint64(images), 1)), nil)
		if err != nil {
			b.Fatal(err)
		}
		step(b, c, Step{Batch: batch, Lessons: plan.Lessons, Rate: 0.01})
		for _, l := range plan.Lessons {
			v, err := n.View(l.Subnet, n.Input())
			if err != nil {
				b.Fatal(err)
			}
			macs += float64(v.Costs().MACs)
		}
		images += batch.N
	}
	// Backwards is twice forwards.
	b.ReportMetric(6*macs*float64(batch.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(float64(images)/b.Elapsed().Seconds(), "images/s")
}

func TestCurves(t *testing.T) {
	var records []Record
	if _, err := Curves(records); err == nil {
		t.Error("curves of nothing")
	}
	for i := range 1000 {
		records = append(records, Record{Step: &StepRecord{Number: i, Lessons: []LessonRecord{{Subnet: "full", Label: float64(i), Accuracy: 0.5}, {Subnet: "w8"}}}})
		if i%250 == 249 {
			records = append(records, Record{Evaluation: &EvaluationRecord{Steps: i + 1, On: "test", Results: Results{{Name: "full", Loss: 1, Accuracy: 0.25}, {Name: "0.5"}}}})
		}
	}
	charts, err := Curves(records)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range charts {
		if len(c.Series) != 3 || len(c.Series[0].X) != 200 || len(c.Series[1].X) != 4 || c.Series[1].Name != "full, test" || c.Series[1].X[0] != 250 {
			t.Errorf("chart %d: %+v", i, c)
		}
	}
	if y := charts[0].Series[0].Y; y[0] != 2 || y[199] != 997 { // means of five steps
		t.Errorf("%v … %v", y[0], y[199])
	}
	if y := charts[1].Series[1].Y[0]; y != 25 {
		t.Errorf("accuracy %v %%", y)
	}
}

// TestPlansBeforehand: what a run draws can be told without it.
func TestPlansBeforehand(t *testing.T) {
	for _, name := range []string{"tips", "us-nets", "ofa"} {
		r := tiny(t, "method.name="+name, "epochs=1", "seed=7", "metrics.every=1")
		dir := t.TempDir()
		run(t, Options{Recipe: r, Out: dir})
		n, err := r.OpenNetwork()
		if err != nil {
			t.Fatal(err)
		}
		steps := (400 - 48) / 32
		m, err := r.NewMethod(n, steps)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, record := range metricsOf(t, dir) {
			if record.Step == nil {
				continue
			}
			plan, err := m.Step(context.Background(), record.Step.Number, r.StepRandom(record.Step.Number), nil)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for _, l := range plan.Lessons {
				want = append(want, l.Subnet.String())
			}
			for _, l := range record.Step.Lessons {
				got = append(got, l.Subnet)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s, step %d (-planned +taken):\n%s", name, record.Step.Number, diff)
			}
			seen++
		}
		if seen != steps {
			t.Errorf("%s: %d steps were taken down; want %d", name, seen, steps)
		}
	}
}

// TestTriedFile: a finished run of a method that keeps what it tried leaves it in a
// file that names the network's subnetworks, and only then.
func TestTriedFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, TriedFile)
	r := tiny(t, "method.name=joslim")
	if err := os.WriteFile(name, []byte("of another run"), 0o644); err != nil {
		t.Fatal(err)
	}
	var interrupted *InterruptedError
	if _, err := Run(t.Context(), Options{Recipe: r, Out: dir, StopAfter: 3}); !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s before the run is over: %v", name, err)
	}
	run(t, Options{Recipe: r, Out: dir})
	text := string(file(t, dir, TriedFile))
	n, err := r.OpenNetwork()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[supernet.Subnet]bool{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "#") && i == 0 {
			continue
		}
		s, err := ParseSubnet(n, line)
		if err != nil || seen[s] {
			t.Errorf("line %d, %q: %v, there before: %v", i+1, line, err, seen[s])
		}
		seen[s] = true
	}
	if !seen[supernet.Subnet{}] || len(seen) < 20 {
		t.Errorf("%d subnetworks; want the full one and many others", len(seen))
	}
	// A run that was finished without the file gets it.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	run(t, Options{Recipe: r, Out: dir})
	if again := string(file(t, dir, TriedFile)); again != text {
		t.Errorf("%q when written again; want %q", again, text)
	}
	other := tiny(t)
	run(t, Options{Recipe: other, Out: dir, Fresh: true})
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s after a run of %s: %v", name, other.Method.Name, err)
	}
}
