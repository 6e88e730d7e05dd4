//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/google/go-cmp/cmp"

	"tips/dataset"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
)

// watch is a backend that keeps account of what is on it. Programs tell it by their
// runs.
type watch struct {
	compute.Backend
	mu     sync.Mutex
	made   []compute.Buffer
	begun  int                 // runs of programs
	during func(run int) error // called in each, unless it is nil
}

func (w *watch) BufferFromFlatData(n compute.DeviceNum, flat any, s shapes.Shape) (compute.Buffer, error) {
	b, err := w.Backend.BufferFromFlatData(n, flat, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, b)
	return b, err
}

// runs is how many have begun.
func (w *watch) runs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

type watched struct {
	compute.Executable
	by *watch
}

func (p watched) Execute(inputs []compute.Buffer, donate []bool, n compute.DeviceNum) ([]compute.Buffer, error) {
	p.by.mu.Lock()
	run, during := p.by.begun, p.by.during
	p.by.begun++
	p.by.mu.Unlock()
	if during != nil {
		if err := during(run); err != nil {
			return nil, err
		}
	}
	outputs, err := p.Executable.Execute(inputs, donate, n)
	p.by.mu.Lock()
	defer p.by.mu.Unlock()
	p.by.made = append(p.by.made, outputs...)
	return outputs, err
}

// turnsOfBatch is how many turns the subnetworks of newWatched take.
const turnsOfBatch = 2

// newWatched makes an executor on a device of its own that is watched, and what it
// can be examined by, for which the programs are compiled.
func newWatched(t *testing.T) (*Executor, *watch, func(list ...*dataset.Batch) train.Examination) {
	t.Helper()
	d, err := Open(GoName, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w := &watch{Backend: d.backend}
	d.backend = w
	n := network(t, networks[0])
	x, err := d.newExecutor(train.Settings{Network: n})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Restore(train.NewState(randomSet(n, 1), false)); err != nil {
		t.Fatal(err)
	}
	subs := subnets(n, together+2, 3, false)
	examination := func(list ...*dataset.Batch) train.Examination {
		return train.Examination{Subnets: subs, Calibration: batches(list...), Test: batches(list...)}
	}
	if _, err := x.Evaluate(context.Background(), examination(randomBatch(n, 8, 1))); err != nil {
		t.Fatal(err)
	}
	for _, p := range x.forwards {
		p.run = watched{p.run, w}
	}
	return x, w, examination
}

// lent gives batches as a loader does, in memory that it takes back: every batch is
// spoilt when the next is asked for. It counts what it was asked for, and tells of its
// end.
func lent(list []*dataset.Batch, asked func(i int) error, ended *bool) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		defer func() { *ended = true }()
		b := &dataset.Batch{}
		for i, from := range list {
			if err := asked(i); err != nil {
				yield(nil, err)
				return
			}
			b.N, b.Images, b.Labels = from.N, append(b.Images[:0], from.Images...), append(b.Labels[:0], from.Labels...)
			if !yield(b, nil) {
				return
			}
			for k := range b.Images {
				b.Images[k] = float32(math.NaN())
			}
			clear(b.Labels)
			b.N = 0
		}
	}
}

// TestEvaluateAhead: while a batch is computed the next is loaded, and no more than
// that; batches may be lost with the next, and results are the same bits.
func TestEvaluateAhead(t *testing.T) {
	x, w, examination := newWatched(t)
	defer x.Close()
	var list []*dataset.Batch
	for i := range 4 {
		list = append(list, randomBatch(x.layout.network, 8-i, uint64(i)))
	}
	e := examination(list...)
	want, err := x.Evaluate(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	loaded, first := 0, w.runs()
	asked := func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		// What is done meanwhile may begin just before the turn does.
		if begun := (w.runs() - first) % (turnsOfBatch * len(list)); i > 0 && begun < turnsOfBatch*i-1 {
			t.Errorf("batch %d is loaded after %d turns; want %d", i, begun, turnsOfBatch*i-1)
		}
		loaded++
		return nil
	}
	w.during = func(run int) error {
		run -= first
		// All of an exam's are loaded before its last batch begins.
		wanted := run/turnsOfBatch + 1 + run%turnsOfBatch
		if batch := run / turnsOfBatch; batch == len(list)-1 || batch == 2*len(list)-1 {
			wanted = batch + 1
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			mu.Lock()
			enough := loaded >= wanted
			mu.Unlock()
			if enough {
				return nil
			}
		}
		return fmt.Errorf("run %d: nothing is loaded meanwhile", run)
	}
	var ended [2]bool
	e.Calibration, e.Test = lent(list, asked, &ended[0]), lent(list, asked, &ended[1])
	got, err := x.Evaluate(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("other results:", diff)
	}
	if ended != [2]bool{true, true} {
		t.Error("batches have not come to their end")
	}
}

// TestEvaluateEnds: an exam that is left half way says why, leaves its batches too,
// and gives back all memory.
func TestEvaluateEnds(t *testing.T) {
	bad := errors.New("bad")
	at := func(place int, does func() error) func(int) error {
		return func(i int) error {
			if i == place {
				return does()
			}
			return nil
		}
	}
	for _, c := range []struct {
		name         string
		asked, begun func(cancel func()) func(i int) error // what happens when a batch is asked for, and when a turn begins
		want         error
	}{
		{"the first batch fails", func(func()) func(int) error { return at(0, func() error { return bad }) }, nil, bad},
		{"a batch fails", func(func()) func(int) error { return at(2, func() error { return bad }) }, nil, bad},
		{"cancelled", func(cancel func()) func(int) error { return at(2, func() error { cancel(); return nil }) }, nil, context.Canceled},
		{"the device fails", nil, func(func()) func(int) error { return at(3, func() error { return bad }) }, errors.New("accel: bad")},
		{"nothing", nil, nil, nil},
	} {
		for phase, name := range []string{"calibration", "test"} {
			t.Run(c.name+","+name, func(t *testing.T) {
				x, w, examination := newWatched(t)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var list []*dataset.Batch
				for i := range 4 {
					list = append(list, randomBatch(x.layout.network, 8, uint64(i)))
				}
				asked := func(int) error { return nil }
				if c.asked != nil {
					asked = c.asked(cancel)
				}
				if c.begun != nil {
					first, fails := phase*turnsOfBatch*len(list), c.begun(cancel)
					w.during = func(run int) error { return fails(run - first) }
				}
				e := examination(list...)
				ended := false
				if phase == 0 {
					e.Calibration = lent(list, asked, &ended)
				} else {
					e.Test = lent(list, asked, &ended)
				}
				if _, err := x.Evaluate(ctx, e); !errors.Is(err, c.want) && fmt.Sprint(err) != fmt.Sprint(c.want) {
					t.Errorf("error %v; want %v", err, c.want)
				}
				if !ended {
					t.Error("batches have not come to their end")
				}
				if err := x.Close(); err != nil {
					t.Error(err)
				}
				for i, b := range w.made {
					if b.Finalize() == nil {
						t.Errorf("buffer %d of %d was not given back", i, len(w.made))
					}
				}
			})
		}
	}
}

// TestForwardProgram: the smallest program that fits is taken, and one that leaves out
// no blocks before one that can.
func TestForwardProgram(t *testing.T) {
	d := openTestDevice(t)
	x, err := d.newExecutor(train.Settings{Network: network(t, networks[0])})
	if err != nil {
		t.Fatal(err)
	}
	all := []*forwardProgram{{batch: 8, depth: true}, {batch: 32}, {batch: 8}, {batch: 64, depth: true}, {batch: 64}, {batch: 16, given: true}, {batch: 32, given: true, depth: true}}
	for _, order := range []func(){func() {}, func() { slices.Reverse(all) }} {
		order()
		x.forwards = slices.Clone(all)
		for _, c := range []struct {
			batch        int
			given, depth bool
			want         forwardProgram
		}{
			{8, false, false, forwardProgram{batch: 8}},
			{1, false, true, forwardProgram{batch: 8, depth: true}},
			{9, false, false, forwardProgram{batch: 32}},
			{9, false, true, forwardProgram{batch: 64, depth: true}},
			{33, false, false, forwardProgram{batch: 64}},
			{3, true, false, forwardProgram{batch: 16, given: true}},
			{3, true, true, forwardProgram{batch: 32, given: true, depth: true}},
			{20, true, false, forwardProgram{batch: 32, given: true, depth: true}},
		} {
			p, err := x.forwardProgram(&exam{calibrated: c.given, depth: c.depth}, c.batch)
			if err != nil {
				t.Fatal(err)
			}
			if *p != c.want {
				t.Errorf("%d images, %v, %v: %+v; want %+v", c.batch, c.given, c.depth, *p, c.want)
			}
		}
		if len(x.forwards) != len(all) {
			t.Errorf("%d programs were compiled", len(x.forwards)-len(all))
		}
	}
}

// TestLossesShareProgram: what is asked about a few images, as before a checkpoint, is
// computed by the program that calibration needs too; and an evaluation by smaller
// batches than those of a step does not pay for them.
func TestLossesShareProgram(t *testing.T) {
	d := openTestDevice(t)
	n := network(t, networks[0])
	p := newPair(t, d, train.Settings{Network: n}, train.NewState(randomSet(n, 1), false))
	x, ctx := p.device, context.Background()
	evaluate := func(images int) {
		t.Helper()
		e := train.Examination{Subnets: []supernet.Subnet{{}}, Calibration: batches(randomBatch(n, images, 1)), Test: batches(randomBatch(n, images, 2))}
		if _, err := x.Evaluate(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	sizes := func(want ...int) {
		t.Helper()
		var got []int
		for _, p := range x.forwards {
			got = append(got, p.batch)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("programs for %d images; want %d", got, want)
		}
	}
	if _, err := x.Step(ctx, train.Step{Batch: randomBatch(n, 16, 1), Rate: 0.1, Lessons: []method.Lesson{{Label: 1}}}); err != nil {
		t.Fatal(err)
	}
	evaluate(6)
	sizes(6, 6)
	if _, err := x.Losses(ctx, randomBatch(n, 7, 1), []supernet.Subnet{{}}); err != nil {
		t.Fatal(err)
	}
	sizes(6, 6, 16)
	evaluate(16)
	sizes(6, 6, 16, 16)
}
