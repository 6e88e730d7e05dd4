package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// countTask counts how often each part ran and who ran it.
type countTask struct {
	ran     []atomic.Int32
	workers [8]atomic.Int32
	nap     time.Duration
}

func (c *countTask) Part(part, worker int) {
	c.ran[part].Add(1)
	c.workers[worker].Add(1)
	if c.nap > 0 {
		time.Sleep(c.nap)
	}
}

func TestPoolRunsEachPartOnce(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, 8} {
		p := NewPool(size)
		for parts := range 40 {
			c := &countTask{ran: make([]atomic.Int32, parts)}
			if parts%13 == 5 {
				c.nap = 200 * time.Microsecond // long enough for waiters to sleep
			}
			p.Run(parts, c)
			for i := range c.ran {
				if n := c.ran[i].Load(); n != 1 {
					t.Fatalf("%d workers: part %d of %d ran %d times", size, i, parts, n)
				}
			}
			for w := p.Size(); w < len(c.workers); w++ {
				if c.workers[w].Load() != 0 {
					t.Fatalf("a pool of %d has worker %d", p.Size(), w)
				}
			}
		}
		p.Close()
		p.Close() // closing twice does nothing
	}
}

// TestPoolTurns runs tasks from several goroutines on one pool, with pauses
// that let the workers fall asleep at any moment.
func TestPoolTurns(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				c := &countTask{ran: make([]atomic.Int32, 7)}
				p.Run(7, c)
				for j := range c.ran {
					if c.ran[j].Load() != 1 {
						t.Errorf("part %d ran %d times", j, c.ran[j].Load())
					}
				}
				if i%(5+g) == 0 {
					time.Sleep(time.Duration(i) * time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
}

func TestPoolLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		p := NewPool(4)
		p.Run(9, &countTask{ran: make([]atomic.Int32, 9)})
		p.Close()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestPoolClosed(t *testing.T) {
	p := NewPool(2)
	p.Close()
	mustPanic(t, "closed", func() { p.Run(2, &countTask{ran: make([]atomic.Int32, 2)}) })
}

type emptyTask struct{}

func (emptyTask) Part(int, int) {}

func BenchmarkPoolDispatch(b *testing.B) {
	p := NewPool(2)
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		p.Run(2, emptyTask{})
	}
}

// BenchmarkPoolWake dispatches to workers that have gone to sleep.
func BenchmarkPoolWake(b *testing.B) {
	p := NewPool(2)
	defer p.Close()
	for b.Loop() {
		b.StopTimer()
		time.Sleep(time.Millisecond)
		b.StartTimer()
		p.Run(2, &countTask{ran: make([]atomic.Int32, 2), nap: time.Microsecond})
	}
}

// TestCloseAfterRun: a worker that is just looking for the next task when the pool
// is closed must not miss that. Many pools at once, so that workers lose the
// processor at any place.
func TestCloseAfterRun(t *testing.T) {
	lasting := time.Second
	if testing.Short() {
		lasting = 200 * time.Millisecond
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var pools sync.WaitGroup
		start := time.Now()
		for range 8 * runtime.GOMAXPROCS(0) {
			pools.Go(func() {
				task := &countTask{ran: make([]atomic.Int32, 4)}
				for i := 0; time.Since(start) < lasting; i++ {
					p := NewPool(2 + i%3)
					for range i % 4 {
						p.Run(4, task)
					}
					p.Close()
				}
			})
		}
		pools.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a pool does not close")
	}
}
