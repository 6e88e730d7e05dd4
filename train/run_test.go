package train

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tips/internal/atomicfile"
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

// withoutTimes is for comparing records of runs that did the same.
var withoutTimes = gocmp.Options{cmpopts.IgnoreFields(StepRecord{}, "Seconds"), cmpopts.IgnoreFields(EpochRecord{}, "Seconds")}

// wantSameRun compares all that runs leave, but for times.
func wantSameRun(t *testing.T, want, got string) {
	t.Helper()
	if !bytes.Equal(file(t, want, WeightsFile), file(t, got, WeightsFile)) {
		t.Error("the weights differ")
	}
	if diff := gocmp.Diff(metricsOf(t, want), metricsOf(t, got), withoutTimes); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	a, err := OpenCheckpoint(filepath.Join(want, CheckpointFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenCheckpoint(filepath.Join(got, CheckpointFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(a.Position, b.Position, cmpopts.IgnoreFields(Position{}, "Seconds")); diff != "" {
		t.Errorf("position (-want +got):\n%s", diff)
	}
	if !bytes.Equal(a.Method, b.Method) {
		t.Errorf("state of the method: %s; want %s", b.Method, a.Method)
	}
	for i, s := range a.State.sets() {
		other := *b.State.sets()[i].set
		if (*s.set == nil) != (other == nil) {
			t.Errorf("%s: only one run has it", s.name)
			continue
		}
		if *s.set == nil {
			continue
		}
		var x, y bytes.Buffer
		if err := errors.Join((*s.set).Write(&x), other.Write(&y)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.Bytes(), y.Bytes()) {
			t.Errorf("%s differ", s.name)
		}
	}
}

// TestEveryMethodLearns: each of them, on one thread and so with the same bits
// each time, brings the loss of the full network below half of what guessing has.
func TestEveryMethodLearns(t *testing.T) {
	epochs := map[string]string{
		"alphanet own": "12", // its subnetworks pull at the full network's weights without knowing the labels
	}
	for _, name := range method.Names() {
		for _, loss := range []string{"paper", "own"} {
			if testing.Short() && name+" "+loss != "tips paper" && name+" "+loss != "ds-net own" {
				continue
			}
			t.Run(name+" "+loss, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				r := tiny(t, "method.name="+name, "method.loss="+loss, "epochs="+cmp.Or(epochs[name+" "+loss], "6"), "evaluate.every=0")
				if name == "joslim" { // fewer steps: it judges all widths so far before every step of so short a run
					r.Batch, r.SGD.Rate, r.Epochs = 64, 0.1, 5
				}
				s := run(t, Options{Recipe: r, Out: dir})
				records := metricsOf(t, dir)
				var last *EpochRecord
				for _, r := range records {
					if r.Epoch != nil {
						last = r.Epoch
					}
				}
				most := 0.5 * math.Log(10)
				// OFA's last steps train no full network; there the evaluation tells.
				if learnt := last.Label; learnt > most {
					t.Errorf("the training loss ends at %.3f; want %.3f or less", learnt, most)
				}
				if full := s.Results[0]; full.Loss > most {
					t.Errorf("the full network's test loss is %.3f; want %.3f or less", full.Loss, most)
				}
				t.Logf("training %.3f, test %.3f, smallest %.3f", last.Label, s.Results[0].Loss, s.Results[len(s.Results)-1].Loss)
			})
		}
	}
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
	steps, epochs, evaluations := 0, 0, 0
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
		default:
			evaluations++
			if r.Evaluation.Steps != steps || len(r.Evaluation.Results) != len(again.Evaluate.Subnets) || r.Evaluation.Results[0].Images != 100 {
				t.Errorf("evaluation %d: %+v", evaluations, r.Evaluation)
			}
		}
	}
	perEpoch := 352 / 32
	if steps != 3*perEpoch || epochs != 3 || evaluations != 3 || s.Steps != steps {
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
}

func (l *log) Started(s Start) { l.start = s }
func (l *log) Stepped(r StepRecord) {
	l.steps++
	if l.at != nil {
		l.at(r.Number)
	}
}
func (l *log) EpochEnded(EpochRecord)     { l.epochs++ }
func (l *log) Evaluated(EvaluationRecord) { l.evaluations++ }
func (l *log) Saved(string, int)          { l.saved++ }

// TestInterruptedRunsGoOn: stopped again and again, by count or by cancelling, in
// steps and in evaluations, a run ends as if it never had been. All methods that
// keep something are among them.
func TestInterruptedRunsGoOn(t *testing.T) {
	names := []string{"tips", "joslim", "ofa", "ds-net"}
	if testing.Short() {
		names = names[3:]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tiny(t, "method.name="+name, "method.loss=own")
			if name == "joslim" {
				r.Epochs = 2
			}
			whole, parts := t.TempDir(), t.TempDir()
			run(t, Options{Recipe: r, Out: whole})
			stops := 0
			for ; ; stops++ {
				ctx, cancel := context.WithCancel(context.Background())
				o := Options{Recipe: r, Out: parts, StopAfter: 5}
				if stops%2 == 1 {
					o.StopAfter = 0
					o.Observer = &log{at: func(step int) {
						if step%4 == 3 || (step+1)%11 == 0 { // also just before an evaluation
							cancel()
						}
					}}
				}
				_, err := Run(ctx, o)
				cancel()
				if err == nil {
					break
				}
				var stopped *InterruptedError
				if !errors.As(err, &stopped) {
					t.Fatal(err)
				}
			}
			if stops < 4 {
				t.Errorf("%d interruptions", stops)
			}
			wantSameRun(t, whole, parts)
		})
	}
}

// TestSeeds: the same one gives the same bits, another one others.
func TestSeeds(t *testing.T) {
	var dirs []string
	for _, seed := range []string{"seed=1", "seed=1", "seed=2"} {
		dir := t.TempDir()
		run(t, Options{Recipe: tiny(t, seed, "epochs=1"), Out: dir})
		dirs = append(dirs, dir)
	}
	wantSameRun(t, dirs[0], dirs[1])
	if bytes.Equal(file(t, dirs[0], WeightsFile), file(t, dirs[2], WeightsFile)) {
		t.Error("another seed trains the same weights")
	}
}

// childFolder names the variable that makes the test below a run of its own.
const childFolder = "TIPS_TEST_TRAIN_CHILD"

// TestChild is no test: TestKilledRunsGoOn starts it to kill it.
func TestChild(t *testing.T) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		t.Skip("only run by TestKilledRunsGoOn")
	}
	run(t, Options{Recipe: killable(t), Out: dir})
}

func killable(t testing.TB) *Recipe {
	return tiny(t, "method.name=ds-net", "method.loss=own", "checkpoint.steps=3", "epochs=6", "evaluate.every=2")
}

// TestKilledRunsGoOn kills a process with SIGKILL at any moment, again and again,
// and wants the bits of a run that nobody killed.
func TestKilledRunsGoOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs SIGKILL")
	}
	whole, parts := t.TempDir(), t.TempDir()
	began := time.Now()
	run(t, Options{Recipe: killable(t), Out: whole})
	length := time.Since(began)
	kills := 0
	for attempt := 1; ; attempt++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.count=1")
		cmd.Env = append(os.Environ(), childFolder+"="+parts)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A spread of moments that lets the run come forward, and is not the same
		// from one run of this test to the next.
		wait := 50*time.Millisecond + time.Duration(time.Now().UnixNano()%int64(length/4+1))
		if attempt > 10 || testing.Short() && attempt > 3 {
			wait = time.Minute
		}
		timer := time.AfterFunc(wait, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() {
			t.Fatalf("%v\n%s", err, out.Bytes())
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	if kills == 0 {
		t.Error("the run ended before it could be killed")
	}
	wantSameRun(t, whole, parts)
	left, err := filepath.Glob(filepath.Join(parts, ".*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("killed writes left %v", left)
	}
}

// TestRefusedFolders: what is in the folder is somebody else's, or damaged.
func TestRefusedFolders(t *testing.T) {
	want := func(o Options, what string) {
		t.Helper()
		_, err := Run(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want one line with %q", err, what)
		}
	}
	r := tiny(t, "epochs=1")
	dir := t.TempDir()
	run(t, Options{Recipe: r, Out: dir, Observer: &log{at: func(step int) {
		if step == 2 && runtime.GOOS == "linux" {
			want(Options{Recipe: r, Out: dir}, "another run is under way")
		}
	}}})
	before := file(t, dir, CheckpointFile)
	want(Options{Recipe: tiny(t, "epochs=1", "sgd.rate=0.07"), Out: dir}, "is of another recipe: sgd.rate is 0.05 there and 0.07 here; go on with")
	want(Options{Recipe: tiny(t, "epochs=1", "network=resnet_small:data=fashion-mnist,size=8,divisor=8"), Out: dir}, "these are weights of")
	if !bytes.Equal(before, file(t, dir, CheckpointFile)) {
		t.Error("a refused run touched the checkpoint")
	}

	// Metrics that are not those the checkpoint vouches for.
	if err := os.WriteFile(filepath.Join(dir, MetricsFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(Options{Recipe: r, Out: dir}, "that the checkpoint vouches for")
	run(t, Options{Recipe: r, Out: dir, Fresh: true})

	damaged := bytes.Clone(before)
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, CheckpointFile), damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	want(Options{Recipe: r, Out: dir}, "damaged file")
	if err := os.Remove(filepath.Join(dir, CheckpointFile)); err != nil {
		t.Fatal(err)
	}
	want(Options{Recipe: r, Out: dir}, "metrics.jsonl and no checkpoint")
	want(Options{Recipe: r, Out: filepath.Join(dir, RecipeFile, "x")}, "not a directory")
}

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
		"method={name: joslim, loss: own}\nholdout: 0":        "",
		"method={name: static, subnet: \"nowhere\"}":          "method.subnet",
		"method={name: static, loss: paper, subnet: \"0.5\"}": "-",
	} {
		r := tiny(t, "epochs=1")
		key, value, _ := strings.Cut(change, "=")
		if value, more, two := strings.Cut(value, "\n"); two {
			if err := r.Set(key, value); err != nil {
				t.Fatal(err)
			}
			r.Holdout, _ = strconv.Atoi(strings.TrimPrefix(more, "holdout: "))
			want = "judges widths on images it does not train on: holdout is 0"
		} else if err := r.Set(key, value); err != nil {
			t.Fatal(err)
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

// TestFullDisk: a checkpoint that cannot be written costs nothing that was saved,
// and the run goes on from there when there is room again.
func TestFullDisk(t *testing.T) {
	r := tiny(t, "checkpoint.steps=4")
	whole, dir := t.TempDir(), t.TempDir()
	run(t, Options{Recipe: r, Out: whole})
	for failing := 2; failing <= 9; failing += 3 {
		count := 0
		_, err := Run(context.Background(), Options{Recipe: r, Out: dir, write: func(name string, write func(io.Writer) error) error {
			if filepath.Base(name) == CheckpointFile {
				count++
			}
			return atomicfile.Write(name, func(w io.Writer) error {
				if count >= failing {
					return write(&fullWriter{w, 1000 * failing})
				}
				return write(w)
			})
		}})
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "is still there") {
			t.Fatalf("%v", err)
		}
		if _, err := OpenCheckpoint(filepath.Join(dir, CheckpointFile), nil); err != nil {
			t.Fatalf("the last checkpoint: %v", err)
		}
	}
	run(t, Options{Recipe: r, Out: dir})
	wantSameRun(t, whole, dir)
}

// fullWriter has room for so many bytes.
type fullWriter struct {
	to   io.Writer
	room int
}

func (w *fullWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n, _ := w.to.Write(p[:w.room])
		w.room = 0
		return n, syscall.ENOSPC
	}
	w.room -= len(p)
	return w.to.Write(p)
}

// TestReallyFullDisk is TestFullDisk on a file system that is full, where one can
// be made.
func TestReallyFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("TestFullDisk does much the same")
	}
	dir := t.TempDir()
	mount, err := exec.LookPath("mount")
	if err != nil {
		t.Skip("no mount command")
	}
	if out, err := exec.Command(mount, "-t", "tmpfs", "-o", "size=2m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no file system may be made here: %s", bytes.TrimSpace(out))
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	r := tiny(t, "checkpoint.steps=4")
	filler := filepath.Join(dir, "filler")
	_, err = Run(context.Background(), Options{Recipe: r, Out: dir, Observer: &log{at: func(step int) {
		if step == 9 {
			f, err := os.Create(filler)
			if err != nil {
				t.Error(err)
				return
			}
			for err == nil { // until nothing fits any more
				_, err = f.Write(make([]byte, 4096))
			}
			f.Close()
		}
	}}})
	if err == nil || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	run(t, Options{Recipe: r, Out: dir})
	whole := t.TempDir()
	run(t, Options{Recipe: r, Out: whole})
	wantSameRun(t, whole, dir)
}

// TestReadOnlyFolder: found out before any work is done.
func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Create(filepath.Join(dir, "x")); err == nil {
		f.Close()
		t.Skip("this user may write anywhere")
	}
	seen := &log{}
	_, err := Run(context.Background(), Options{Recipe: tiny(t), Out: dir, Observer: seen})
	if !errors.Is(err, os.ErrPermission) || seen.steps != 0 {
		t.Errorf("%v after %d steps", err, seen.steps)
	}
}

// breaking is an executor whose loss is not finite at some step.
type breaking struct {
	Executor
	at, step int
}

func (b *breaking) Step(ctx context.Context, s Step) (Outcome, error) {
	if b.step++; b.step > b.at {
		return Outcome{}, &NotFiniteError{2, s.Lessons[2].Subnet, math.NaN()}
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
