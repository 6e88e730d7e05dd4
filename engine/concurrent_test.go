package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestManyGoroutines has 64 goroutines infer under budgets of all kinds while
// defaults, limits and controllers change, and compares every answer with that of
// one goroutine alone. Memory must not grow. TIPS_SOAK=1m, say, makes it run for as
// long.
func TestManyGoroutines(t *testing.T) {
	lasting := 2 * time.Second
	if testing.Short() {
		lasting = 500 * time.Millisecond
	}
	if soak := os.Getenv("TIPS_SOAK"); soak != "" {
		var err error
		if lasting, err = time.ParseDuration(soak); err != nil {
			t.Fatalf("TIPS_SOAK: %v", err)
		}
	}
	const goroutines = 64
	goroutinesBefore := runtime.NumGoroutine()
	set, f := newNet(t)
	e, err := New(set, f, Options{Threads: 2, MaxConcurrent: 4})
	if err != nil {
		t.Fatal(err)
	}

	// Of every input, what every point answers.
	var inputs [8][]float32
	var want [8][][]float32
	for i := range inputs {
		inputs[i] = newInput(e, uint64(i))
		for _, p := range f.Points {
			want[i] = append(want[i], expected(t, p, inputs[i]))
		}
	}

	ctx, stop := context.WithTimeout(t.Context(), lasting)
	defer stop()
	var work sync.WaitGroup
	var runs, hurried, unlucky [5]atomic.Int64
	for g := range goroutines {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			output := make([]float32, e.Classes())
			for ctx.Err() == nil {
				var b Budget
				switch p := f.Points[rng.IntN(len(f.Points))]; rng.IntN(6) {
				case 0:
					b.MACs = p.Costs.MACs
				case 1:
					b.Memory = p.Costs.PeakBytes
				case 2:
					b.Time = time.Duration(1 + rng.IntN(int(20*time.Millisecond)))
				case 3:
					b.Subnet = &p.Subnet
				case 4: // a deadline
				}
				call, cancel := ctx, func() {}
				if rng.IntN(4) == 0 {
					call, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(int(50*time.Millisecond))))
				}
				i := rng.IntN(len(inputs))
				r, err := e.InferTo(call, output, inputs[i], b)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					unlucky[0].Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if r.Point < 0 || !slices.Equal(r.Output, want[i][r.Point]) {
					t.Errorf("input %d: point %d answers otherwise than alone", i, r.Point)
					return
				}
				if b.Subnet != nil && r.Subnet != *b.Subnet || r.Fits && b.MACs > 0 && f.Points[r.Point].Costs.MACs > b.MACs {
					t.Errorf("budget %s: %s runs", b, r.Subnet)
					return
				}
				runs[r.Point].Add(1)
				if r.Late {
					hurried[r.Point].Add(1)
				}
			}
		})
	}
	// Someone who changes everything meanwhile, and two controllers.
	work.Go(func() {
		rng := rand.New(rand.NewPCG(100, 9))
		limit := e.NewLimit()
		defer limit.Release()
		for ctx.Err() == nil {
			if err := e.Switch(rng.IntN(len(f.Points))); err != nil {
				t.Error(err)
			}
			b := Budget{}
			if rng.IntN(2) == 0 {
				b.MACs = f.Points[rng.IntN(len(f.Points))].Costs.MACs
			}
			if err := limit.Set(b); err != nil {
				t.Error(err)
			}
			if rng.IntN(20) == 0 {
				e.Trim()
			}
			_ = e.Stats()
			time.Sleep(time.Millisecond)
		}
	})
	latency, err := NewLatencyController(e, LatencyOptions{Target: 20 * time.Millisecond, Every: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	work.Go(func() { _ = latency.Run(ctx) })
	if cpu, err := NewCPUController(e, CPUOptions{Every: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	} else {
		work.Go(func() { _ = cpu.Run(ctx) })
	}

	// Memory after a third of the time, and at the end.
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	time.Sleep(lasting / 3)
	early := heap()
	<-ctx.Done()
	work.Wait()
	late := heap()
	if late > early+early/4+4<<20 {
		t.Errorf("memory grows: %d bytes at first, %d at last", early, late)
	}
	e.Close()
	for range 100 { // ended goroutines take a moment to be gone
		if runtime.NumGoroutine() <= goroutinesBefore {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutinesBefore {
		t.Errorf("%d goroutines at first, %d at last", goroutinesBefore, n)
	}
	total := int64(0)
	for i := range runs {
		total += runs[i].Load()
	}
	if total < goroutines && lasting > time.Second {
		t.Errorf("only %d runs", total)
	}
	t.Logf("%d runs, heap %d KiB then %d KiB", total, early>>10, late>>10)
	for i := range runs {
		t.Logf("point %d: %d runs, %d late", i, runs[i].Load(), hurried[i].Load())
	}
	t.Logf("%d calls had no turn before their deadline", unlucky[0].Load())
}

// TestAllocations: a service that infers all day makes no garbage.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	e := newEngine(t, Options{Threads: 1})
	x, y := newInput(e, 1), make([]float32, e.Classes())
	ctx := t.Context()
	budgets := []Budget{{}, {MACs: e.front.Points[2].Costs.MACs}, {Time: time.Minute}, {Subnet: &e.front.Points[1].Subnet}}
	for _, b := range budgets {
		if n := testing.AllocsPerRun(20, func() {
			if _, err := e.InferTo(ctx, y, x, b); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("budget %q: %v allocations", b, n)
		}
		if n := testing.AllocsPerRun(20, func() {
			if _, err := e.Infer(ctx, x, b); err != nil {
				t.Error(err)
			}
		}); n > 1 {
			t.Errorf("budget %q: %v allocations; want that of the output", b, n)
		}
	}
}

// TestSwitchIsFast: the paper switches in 37 µs. On a busy machine one of several
// tries has to do.
func TestSwitchIsFast(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector is slow")
	}
	e := newEngine(t, Options{Measure: -1})
	best := time.Hour
	for range 20 {
		const times = 1000
		start := time.Now()
		for i := range times {
			if err := e.Switch(i % 5); err != nil {
				t.Fatal(err)
			}
		}
		best = min(best, time.Since(start)/times)
	}
	t.Logf("%v a switch", best)
	if best >= time.Microsecond {
		t.Errorf("a switch takes %v; want less than a microsecond", best)
	}
}

func BenchmarkSwitch(b *testing.B) {
	e := newEngine(b, Options{Measure: -1})
	i := 0
	for b.Loop() {
		if err := e.Switch(i); err != nil {
			b.Fatal(err)
		}
		i = 4 - i
	}
}

// BenchmarkChoose is what a budget adds to an inference.
func BenchmarkChoose(b *testing.B) {
	e := newEngine(b, Options{Measure: -1}, apart...)
	for b.Loop() {
		q := choice{batch: 1, budget: Budget{Time: time.Second, MACs: 1}, deadline: time.Now().Add(time.Second), hurried: true}
		if _, err := e.choose(&q); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInfer(b *testing.B) {
	e := newEngine(b, Options{Threads: 1})
	x, y := newInput(e, 1), make([]float32, e.Classes())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.InferTo(b.Context(), y, x, Budget{}); err != nil {
			b.Fatal(err)
		}
	}
}
