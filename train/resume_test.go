package train

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tips/dataset"
	"tips/internal/atomicfile"
	"tips/supernet"
)

// withoutTimes is for comparing records of runs that did the same.
var withoutTimes = gocmp.Options{
	cmpopts.IgnoreSliceElements(func(r Record) bool { return r.Start != nil }), // a run that goes on starts more often
	cmpopts.IgnoreFields(StepRecord{}, "Seconds"), cmpopts.IgnoreFields(EpochRecord{}, "Seconds")}

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
			stops, judging := 0, 0
			for ; ; stops++ {
				ctx, cancel := context.WithCancel(context.Background())
				o := Options{Recipe: r, Out: parts}
				switch stops % 3 {
				case 0:
					o.StopAfter = 5
				case 1:
					o.Observer = &log{at: func(step int) {
						if step%4 == 3 || (step+1)%11 == 0 { // also just before an evaluation
							cancel()
						}
					}}
				case 2:
					o.Observer = &log{evaluating: func() {
						judging++
						cancel()
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
			if stops < 4 || judging == 0 {
				t.Errorf("%d interruptions, %d of them of evaluations", stops, judging)
			}
			wantSameRun(t, whole, parts)
		})
	}
}

// leaving is an executor that somebody interrupts at a moment of their choice.
type leaving struct {
	Executor
	cancel   context.CancelFunc
	losses   func(subnets int) bool // when Losses begins
	evaluate func(subnets int) bool // when Evaluate does
}

func (l *leaving) Losses(ctx context.Context, b *dataset.Batch, subs []supernet.Subnet) ([]float64, error) {
	if l.losses != nil && l.losses(len(subs)) {
		l.cancel()
	}
	return l.Executor.Losses(ctx, b, subs)
}

func (l *leaving) Evaluate(ctx context.Context, e Examination) ([]Score, error) {
	if l.evaluate != nil && l.evaluate(len(e.Subnets)) {
		l.cancel()
	}
	return l.Executor.Evaluate(ctx, e)
}

// interrupt runs until l says, and tells after which step that was; -1 if the run
// ended before.
func interrupt(t *testing.T, r *Recipe, dir string, l leaving) int {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Run(ctx, Options{Recipe: r, Out: dir, Executor: func(s Settings) (Executor, error) {
		l.Executor, l.cancel = NewCPU(s, 1), cancel
		return &l, nil
	}})
	if err == nil {
		return -1
	}
	var stopped *InterruptedError
	if !errors.As(err, &stopped) {
		t.Fatal(err)
	}
	return stopped.Step
}

// TestInterruptedReviews: a review does not keep somebody who wants to stop
// waiting, and is done again, with the same result, when the run goes on.
func TestInterruptedReviews(t *testing.T) {
	r := tiny(t, "method.name=joslim", "epochs=2", "evaluate.every=0", "checkpoint.steps=3")
	whole, parts := t.TempDir(), t.TempDir()
	run(t, Options{Recipe: r, Out: whole})
	// A review judges two widths for each step before it in so short a run.
	for _, step := range []int{4, 4, 12, 21} {
		if got := interrupt(t, r, parts, leaving{losses: func(subnets int) bool { return subnets == 2*step }}); got != step {
			t.Errorf("interrupted in the review before step %d, the run stopped after %d", step, got)
		}
	}
	run(t, Options{Recipe: r, Out: parts})
	wantSameRun(t, whole, parts)
}

// TestInterruptedCalibration: at the very end of a run there is still something
// to interrupt, and it is nothing but an interruption.
func TestInterruptedCalibration(t *testing.T) {
	r := tiny(t, "epochs=1")
	whole, parts := t.TempDir(), t.TempDir()
	run(t, Options{Recipe: r, Out: whole})
	if got := interrupt(t, r, parts, leaving{evaluate: func(subnets int) bool { return subnets == 1 }}); got != 11 {
		t.Errorf("stopped after step %d; want 11, the last", got)
	}
	if _, err := os.Stat(filepath.Join(parts, WeightsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("weights of a run that did not end: %v", err)
	}
	run(t, Options{Recipe: r, Out: parts})
	wantSameRun(t, whole, parts)
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
			want(Options{Recipe: r, Out: dir}, "another run or search is under way")
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

	// Started again, a folder does not hold the last run's weights beside this one's recipe.
	again := t.TempDir()
	run(t, Options{Recipe: r, Out: again})
	want(Options{Recipe: r, Out: again, Fresh: true, StopAfter: 1}, "interrupted after step 1")
	if _, err := os.Stat(filepath.Join(again, WeightsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the weights of the run before: %v", err)
	}

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
