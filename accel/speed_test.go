//go:build xla

package accel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"tips/dataset"
	"tips/sampling"
	"tips/train"
	"tips/train/method"
)

// TestSpeed times steps. TIPS_SPEED lists what to time, separated by spaces:
// network/precision, and /f for the way forward and evaluations too. TIPS_SPEED_SECONDS bounds the
// time.
func TestSpeed(t *testing.T) {
	list := strings.Fields(os.Getenv("TIPS_SPEED"))
	if len(list) == 0 {
		t.Skip("TIPS_SPEED lists nothing to time")
	}
	seconds, err := strconv.Atoi(os.Getenv("TIPS_SPEED_SECONDS"))
	if err != nil {
		seconds = 300
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	d, err := Open(os.Getenv("TIPS_DEVICE"), Options{Precision: TF32})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fmt.Println("device:", d.Description())
	fmt.Println("XLA_FLAGS:", os.Getenv("XLA_FLAGS"))
	timeTransfers(t, d)
	for _, what := range list {
		if time.Now().After(end) {
			fmt.Println("no time left for", what)
			continue
		}
		timeSteps(t, d, what)
	}
}

func median(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/2].Seconds() * 1e3
}

func timeTransfers(t *testing.T, d *Device) {
	for _, n := range []int{16, 4096, 256 * 32 * 32 * 3} {
		values, back := make([]float32, n), make([]float32, n)
		var up, down []time.Duration
		for range 20 {
			start := time.Now()
			b, err := d.upload(values, n)
			if err != nil {
				t.Fatal(err)
			}
			up = append(up, time.Since(start))
			start = time.Now()
			if err := b.ToFlatData(back); err != nil {
				t.Fatal(err)
			}
			down = append(down, time.Since(start))
			b.Finalize()
		}
		fmt.Printf("%d floats: up %.3f ms, down %.3f ms\n", n, median(up), median(down))
	}
	nothing, err := build(d.backend, "nothing", func(g *graph) []node { return []node{g.addTo(g.parameter("x", dtypes.Float32, 16), 1)} })
	if err != nil {
		t.Fatal(err)
	}
	x, _ := d.upload(make([]float32, 16), 16)
	var times []time.Duration
	for range 50 {
		start := time.Now()
		out, err := d.execute(nothing, []compute.Buffer{x}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(start))
		finalize(out...)
	}
	fmt.Printf("an empty program: %.3f ms\n", median(times))
}

func timeSteps(t *testing.T, d *Device, what string) {
	part := strings.Split(what, "/")
	n := network(t, part[0])
	batch := 256
	if v, err := strconv.Atoi(os.Getenv("TIPS_SPEED_BATCH")); err == nil {
		batch = v
	}
	x, err := d.newExecutor(train.Settings{Network: n, Update: train.Update{Momentum: 0.9, WeightDecay: 5e-5}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if part[1] == "bf16" {
		x.narrow = dtypes.BFloat16
	}
	if err := x.Restore(train.NewState(randomSet(n, 1), false)); err != nil {
		t.Fatal(err)
	}
	var batches []*dataset.Batch
	for i := range 4 {
		batches = append(batches, randomBatch(n, batch, uint64(i)))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	draw := sampling.PerGroup(n)
	steps := 50
	var times []time.Duration
	loss := ""
	for i := range steps + 10 {
		next := batches[(i+1)%4]
		s := train.Step{Batch: batches[i%4], Rate: 0.05, Next: func() *dataset.Batch { return next }, Lessons: []method.Lesson{{Label: 1}}}
		for range 3 {
			s.Lessons = append(s.Lessons, method.Lesson{Subnet: draw.Draw(rng), Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}})
		}
		start := time.Now()
		o, err := x.Step(context.Background(), s)
		if err != nil {
			t.Error(what, err)
			return
		}
		took := time.Since(start)
		if i == 0 {
			fmt.Printf("%s: compiled and first step %.1f s\n", what, took.Seconds())
		}
		if i >= 10 {
			times = append(times, took)
		}
		if i == 0 || i == steps+9 {
			loss += fmt.Sprintf(" %.4f", o.Loss())
		}
	}
	slices.Sort(times)
	fmt.Printf("STEP %s: median %.3f ms, fastest %.3f, slowest %.3f; loss%s\n", what, median(times), times[0].Seconds()*1e3, times[len(times)-1].Seconds()*1e3, loss)

	x.timeParts(t, batches[0])
	if len(part) > 2 {
		var forward []time.Duration
		for range 20 {
			start := time.Now()
			subs := subnets(n, together, 1, false)
			if _, err := x.Losses(context.Background(), batches[0], subs); err != nil {
				t.Fatal(err)
			}
			forward = append(forward, time.Since(start))
		}
		fmt.Printf("  forward of %d subnetworks %.3f ms\n", together, median(forward))
		x.timeEvaluation(t, batches)
	}
}

// timeEvaluation times evaluations, as many batches of calibration as of test.
func (x *Executor) timeEvaluation(t *testing.T, list []*dataset.Batch) {
	const count = 40
	many := func(yield func(*dataset.Batch, error) bool) {
		for i := range count {
			if !yield(list[i%len(list)], nil) {
				return
			}
		}
	}
	e := train.Examination{Subnets: subnets(x.layout.network, together, 1, false), Calibration: many, Test: many}
	var times []time.Duration
	for range 6 { // the first compiles
		start := time.Now()
		if _, err := x.Evaluate(context.Background(), e); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(start)/(2*count))
	}
	fmt.Printf("  evaluation of %d subnetworks %.3f ms a batch\n", together, median(times[1:]))
}

// timeParts times what a step consists of. The step it takes has a rate of zero.
func (x *Executor) timeParts(t *testing.T, b *dataset.Batch) {
	p := x.steps[0]
	names := []string{"images", "control", "program", "report", "memory"}
	parts := make([][]time.Duration, len(names))
	for range 20 {
		var at []time.Time
		tick := func() { at = append(at, time.Now()) }
		tick()
		images, err := x.images(b, p.batch)
		if err != nil {
			t.Fatal(err)
		}
		tick()
		control, err := x.device.upload(make([]float32, p.controls(x.columns)), p.controls(x.columns))
		if err != nil {
			t.Fatal(err)
		}
		tick()
		out, err := x.device.execute(p.run, []compute.Buffer{images, control, x.weights, x.momentum}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		tick()
		if err := out[0].ToFlatData(make([]float32, p.reports())); err != nil {
			t.Fatal(err)
		}
		tick()
		finalize(append(out, images, control)...)
		tick()
		for i := range parts {
			parts[i] = append(parts[i], at[i+1].Sub(at[i]))
		}
	}
	for i, name := range names {
		fmt.Printf("  %s %.3f ms", name, median(parts[i]))
	}
	fmt.Println()
}

// TestEpoch times whole epochs, with data, evaluation and checkpoints, on synthetic
// images in the form of CIFAR-100. TIPS_EPOCH names the network.
func TestEpoch(t *testing.T) {
	reference := os.Getenv("TIPS_EPOCH")
	if reference == "" {
		t.Skip("TIPS_EPOCH names no network")
	}
	d, err := Open(os.Getenv("TIPS_DEVICE"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := train.ReadRecipe(strings.NewReader(`
version: 2
name: epoch
network: "` + reference + `"
data: "synthetic:train=50000,test=10000,size=32,channels=3,classes=100"
holdout: 5000
epochs: 4
batch: 256
augment: {pad: 4, flip: true}
sgd: {rate: 0.08, momentum: 0.9, nesterov: true, weight_decay: 5.0e-4}
evaluate: {every: 1, subnets: [full, 0.7, 0.5, smallest], calibration: 8192}
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := train.Run(context.Background(), train.Options{Recipe: r, Out: t.TempDir(), Executor: d.NewExecutor, Observer: &epochs{last: time.Now()}}); err != nil {
		t.Fatal(err)
	}
}

// epochs prints when things happen.
type epochs struct {
	train.Nobody
	last  time.Time
	steps []time.Duration
}

func (e *epochs) tell(what string, args ...any) {
	now := time.Now()
	fmt.Printf("  %.3f s: %s\n", now.Sub(e.last).Seconds(), fmt.Sprintf(what, args...))
	e.last = now
}

func (e *epochs) Started(s train.Start) { e.tell("started, %d steps an epoch", s.StepsPerEpoch) }
func (e *epochs) Stepped(r train.StepRecord) {
	e.steps = append(e.steps, time.Duration(r.Seconds*1e9))
}
func (e *epochs) EpochEnded(r train.EpochRecord) {
	e.tell("epoch %d, loss %.3f, median step %.3f ms", r.Number, r.Loss, median(e.steps))
	e.steps = nil
}
func (e *epochs) Evaluating(n int)                 { e.tell("evaluating %d", n) }
func (e *epochs) Evaluated(train.EvaluationRecord) { e.tell("evaluated") }
func (e *epochs) Saved(string, int)                { e.tell("saved") }
