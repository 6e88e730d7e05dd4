package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func synthetic(t testing.TB, spec string) *Data {
	t.Helper()
	d, err := Open("synthetic:" + spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func loader(t testing.TB, s Source, o LoaderOptions) *Loader {
	t.Helper()
	l, err := NewLoader(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all collects an epoch's batches.
func all(t testing.TB, l *Loader, epoch, from int) []Batch {
	t.Helper()
	var batches []Batch
	for b, err := range l.Epoch(t.Context(), epoch, from) {
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Labels) != b.N || len(b.Index) != b.N {
			t.Fatalf("%d labels and %d indices of %d pictures", len(b.Labels), len(b.Index), b.N)
		}
		batches = append(batches, Batch{slices.Clone(b.Images), slices.Clone(b.Labels), slices.Clone(b.Index), b.N})
	}
	return batches
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func equal(a, b Batch) bool {
	return a.N == b.N && slices.Equal(a.Index, b.Index) && slices.Equal(a.Labels, b.Labels) && sameBits(a.Images, b.Images)
}

// busy is how a loader works hardest.
func busy() LoaderOptions {
	return LoaderOptions{
		Batch: 17, Height: 12, Width: 14, Channels: 3, Seed: 5, Shuffle: true, Workers: 1,
		Pipeline: Pipeline{Pad: 3, Flip: true, Brightness: 0.4, Contrast: 0.4, Saturation: 0.4, Hue: 0.1, Mean: []float32{0.5}, Std: []float32{0.25}},
	}
}

// TestDeterministic: neither workers nor prefetch nor where an epoch begins changes
// a bit; seed and epoch do.
func TestDeterministic(t *testing.T) {
	source := synthetic(t, "train=200,channels=3").Train
	one := loader(t, source, busy())
	want := all(t, one, 3, 0)
	for _, change := range []func(*LoaderOptions){
		func(*LoaderOptions) {},
		func(o *LoaderOptions) { o.Workers = 8 },
		func(o *LoaderOptions) { o.Workers, o.Prefetch = 8, 9 },
		func(o *LoaderOptions) { o.Workers, o.Prefetch = 3, 1 },
	} {
		o := busy()
		change(&o)
		l := loader(t, source, o)
		for _, from := range []int{0, 1, 7, l.Batches() - 1, l.Batches()} {
			got := all(t, l, 3, from)
			if !slices.EqualFunc(got, want[from:], equal) {
				t.Errorf("%d workers, %d ahead, from %d: other batches", o.Workers, o.Prefetch, from)
			}
		}
	}
	if slices.EqualFunc(all(t, one, 4, 0), want, equal) {
		t.Error("another epoch, the same batches")
	}
	o := busy()
	o.Seed++
	if slices.EqualFunc(all(t, loader(t, source, o), 3, 0), want, equal) {
		t.Error("another seed, the same batches")
	}
	// A picture's augmentation is its own, whatever batch it comes in.
	o = busy()
	o.Batch, o.Shuffle = 1, false
	single := all(t, loader(t, source, o), 3, 0)
	for _, b := range want {
		size := len(b.Images) / b.N
		for k, i := range b.Index {
			if !sameBits(b.Images[k*size:(k+1)*size], single[i].Images) {
				t.Fatalf("picture %d differs by its place", i)
			}
		}
	}
}

// TestEpochs: every picture comes once, or all but those that fill no batch.
func TestEpochs(t *testing.T) {
	source := synthetic(t, "train=103,classes=7").Train
	for _, o := range []LoaderOptions{{Batch: 10}, {Batch: 10, DropLast: true}, {Batch: 103, Shuffle: true}, {Batch: 500, Shuffle: true}, {Batch: 1, Shuffle: true, DropLast: true}} {
		o.Height, o.Width, o.Channels = 16, 16, 1
		l := loader(t, source, o)
		batches := all(t, l, 0, 0)
		if len(batches) != l.Batches() {
			t.Fatalf("%+v: %d batches; %d were promised", o, len(batches), l.Batches())
		}
		seen := make([]bool, source.Len())
		n := 0
		for _, b := range batches {
			for k, i := range b.Index {
				if seen[i] || int(b.Labels[k]) != source.Label(i) {
					t.Fatalf("%+v: picture %d again or with label %d", o, i, b.Labels[k])
				}
				if !o.Shuffle && i != n {
					t.Fatalf("%+v: picture %d at place %d", o, i, n)
				}
				seen[i] = true
				n++
			}
		}
		if want := 103; n != want && !(o.DropLast && o.Batch == 10 && n == 100) {
			t.Errorf("%+v: %d pictures; want %d", o, n, want)
		}
	}
}

func TestBadLoader(t *testing.T) {
	source := synthetic(t, "train=9").Train
	for want, o := range map[string]LoaderOptions{
		"batches of 0 pictures":    {Height: 8, Width: 8, Channels: 1},
		"an input of 0×0":          {Batch: 1},
		"-1 workers":               {Batch: 1, Height: 8, Width: 8, Channels: 1, Workers: -1},
		"-1 batches":               {Batch: 1, Height: 8, Width: 8, Channels: 1, Prefetch: -1},
		"9 pictures fill no batch": {Batch: 10, Height: 8, Width: 8, Channels: 1, DropLast: true},
		"pad -3":                   {Batch: 1, Height: 8, Width: 8, Channels: 1, Pipeline: Pipeline{Pad: -3}},
	} {
		_, err := NewLoader(source, o)
		oneLine(t, want, err, want)
	}
	_, err := NewLoader(Subset(source, nil), LoaderOptions{Batch: 1, Height: 8, Width: 8, Channels: 1})
	oneLine(t, "empty", err, "no pictures")
	l := loader(t, source, LoaderOptions{Batch: 2, Height: 8, Width: 8, Channels: 1})
	for _, at := range [][2]int{{-1, 0}, {0, -1}, {0, 6}} {
		n := 0
		for b, err := range l.Epoch(t.Context(), at[0], at[1]) {
			oneLine(t, "epoch", err, "an epoch has 5 batches")
			if n++; b != nil || n > 1 {
				t.Error("a batch")
			}
		}
	}
}

// fragile fails at some pictures, and takes its time with all.
type fragile struct {
	Source
	bad   map[int]bool
	pause time.Duration
	reads atomic.Int64
}

func (f *fragile) Image(i int) (Picture, error) {
	f.reads.Add(1)
	time.Sleep(f.pause)
	if f.bad[i] {
		return Picture{}, fmt.Errorf("image %d is bad", i)
	}
	return f.Source.Image(i)
}

// goroutines waits until there are no more than before.
func goroutines(t *testing.T, before int) {
	t.Helper()
	var now int
	for range 100 {
		if now = runtime.NumGoroutine(); now <= before {
			return
		}
		time.Sleep(10 * time.Millisecond) // one that has ended may still be counted
	}
	t.Errorf("%d goroutines; there were %d before", now, before)
}

// TestEnds: however a loop is left, nothing goes on behind it, and the loader works
// as before.
func TestEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	source := &fragile{Source: synthetic(t, "train=300").Train, pause: 50 * time.Microsecond}
	o := LoaderOptions{Batch: 10, Height: 16, Width: 16, Channels: 1, Workers: 8, Prefetch: 4, Shuffle: true}
	l := loader(t, source, o)
	want := all(t, l, 1, 0)
	goroutines(t, before)
	for range 20 {
		for range l.Epoch(t.Context(), 0, 0) {
			break
		}
		if now := source.reads.Load(); true {
			time.Sleep(2 * time.Millisecond)
			if source.reads.Load() != now {
				t.Fatal("pictures are read after the loop was left")
			}
		}
	}
	goroutines(t, before)

	for _, after := range []int{0, 1, 5} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		var last error
		if after == 0 {
			cancel()
		}
		for _, err := range l.Epoch(ctx, 0, 0) {
			last = err
			if n++; n == after {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) || n != after+1 {
			t.Errorf("cancelled after %d: %d iterations, error %v", after, n, last)
		}
		cancel()
	}
	goroutines(t, before)

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		for range l.Epoch(t.Context(), 0, 0) {
			panic("in the loop")
		}
	}()
	goroutines(t, before)
	if got := all(t, l, 1, 0); !slices.EqualFunc(got, want, equal) {
		t.Error("other batches afterwards")
	}
	goroutines(t, before)
}

// TestFailure: the error of the earliest bad picture ends the epoch after the
// batches before it, every time.
func TestFailure(t *testing.T) {
	before := runtime.NumGoroutine()
	source := &fragile{Source: synthetic(t, "train=100").Train, bad: map[int]bool{34: true, 37: true, 39: true, 71: true}}
	l := loader(t, source, LoaderOptions{Batch: 10, Height: 16, Width: 16, Channels: 1, Workers: 8, Prefetch: 8})
	for range 50 {
		n := 0
		var last error
		for _, err := range l.Epoch(t.Context(), 0, 0) {
			if last = err; err == nil {
				n++
			}
		}
		if n != 3 || last == nil || last.Error() != "image 34 is bad" {
			t.Fatalf("%d batches, then %v", n, last)
		}
	}
	goroutines(t, before)
}

// TestTogether: epochs of one loader at the same time do not share batches.
func TestTogether(t *testing.T) {
	l := loader(t, synthetic(t, "train=200,channels=3").Train, busy())
	want := [][]Batch{all(t, l, 0, 0), all(t, l, 1, 0), all(t, l, 2, 0)}
	done := make(chan bool)
	for epoch := range want {
		go func() { done <- slices.EqualFunc(all(t, l, epoch, 0), want[epoch], equal) }()
	}
	for range want {
		if !<-done {
			t.Error("other batches")
		}
	}
}

// TestAllocations: once an epoch is under way, next to nothing is allocated for a
// batch, and pictures before the first are not read.
func TestAllocations(t *testing.T) {
	source := &fragile{Source: synthetic(t, "train=4000").Train}
	l := loader(t, source, LoaderOptions{
		Batch: 20, Height: 24, Width: 24, Channels: 1, Workers: 2, Shuffle: true,
		Pipeline: Pipeline{RandomResizedCrop: true, Flip: true, Contrast: 0.3},
	})
	all(t, l, 0, 0)
	source.reads.Store(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for _, err := range l.Epoch(t.Context(), 1, 100) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	runtime.ReadMemStats(&after)
	if reads := source.reads.Load(); n != 100 || reads != 2000 {
		t.Errorf("%d batches, %d pictures read; want 100 and 2000", n, reads)
	}
	if each := float64(after.Mallocs-before.Mallocs) / 100; each > 5 {
		t.Errorf("%v allocations a batch", each)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 100_000 {
		t.Errorf("%d bytes for an epoch", bytes)
	}
}
