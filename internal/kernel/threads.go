package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Task is work in independent parts. Part is called once for each part below
// the number given to Pool.Run, from several goroutines at once; worker, below
// Pool.Size, tells them apart, for scratch memory.
type Task interface {
	Part(part, worker int)
}

// Pool is a fixed set of goroutines that run the parts of one task at a time.
// The goroutine that calls Run is one of them, so a pool of one has none of its
// own, and a nil Pool is a pool of one. Its owner calls Close when done.
type Pool struct {
	size int
	spin bool // worth waiting busily: there is a core for every worker

	running sync.Mutex // held by Run
	task    Task
	parts   int64
	next    atomic.Int64 // next part to take

	// state is the sequence number of the task, whether it is open to workers,
	// and how many are in it. A worker that comes late, because it had to be
	// woken, finds the task closed and is not waited for.
	state atomic.Uint64

	workers []worker
	waiting atomic.Bool   // Run sleeps until the last worker leaves
	left    chan struct{} // wakes it
	done    sync.WaitGroup
	closed  atomic.Bool
}

type worker struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [40]byte // a cache line each
}

const (
	stateBusy = 1<<16 - 1 // mask of the workers in the task
	stateOpen = 1 << 16
	stateNext = 1 << 17 // one task

	// spinTime is how long a worker waits busily for the next task before it
	// sleeps. Layers of a network follow each other within microseconds, and
	// waking a sleeper takes tens of them.
	spinTime = 60 * time.Microsecond
)

// NewPool starts a pool of n workers, at least one.
func NewPool(n int) *Pool {
	n = min(max(n, 1), 1024)
	p := &Pool{
		size:    n,
		spin:    n <= runtime.GOMAXPROCS(0),
		workers: make([]worker, n-1),
		left:    make(chan struct{}, 1),
	}
	p.done.Add(n - 1)
	for i := range p.workers {
		p.workers[i].wake = make(chan struct{}, 1)
		go p.work(i)
	}
	return p
}

// Size returns the number of workers.
func (p *Pool) Size() int {
	if p == nil {
		return 1
	}
	return p.size
}

// Close ends the workers and returns when they are gone. The pool cannot run
// anything afterwards.
func (p *Pool) Close() {
	if p == nil || p.closed.Swap(true) {
		return
	}
	p.running.Lock()
	defer p.running.Unlock()
	p.state.Add(stateNext)
	p.wakeAll()
	p.done.Wait()
}

// Run runs the parts of t and returns when all are done. Calls from several
// goroutines take turns; a task must not call Run on its own pool.
func (p *Pool) Run(parts int, t Task) {
	if p.Size() == 1 || parts <= 1 {
		for i := range parts {
			t.Part(i, 0)
		}
		return
	}
	p.running.Lock()
	defer p.running.Unlock()
	if p.closed.Load() {
		panic("kernel: Run on a closed Pool")
	}
	p.task, p.parts = t, int64(parts)
	p.next.Store(0)
	p.state.Add(stateNext | stateOpen)
	p.wakeAll()

	p.take(p.size - 1)
	p.state.And(^uint64(stateOpen))
	p.wait()
	p.task = nil
}

// take runs parts until none is left.
func (p *Pool) take(worker int) {
	for {
		i := p.next.Add(1) - 1
		if i >= p.parts {
			return
		}
		p.task.Part(int(i), worker)
	}
}

// wait returns when no worker is in the task.
func (p *Pool) wait() {
	busy := func() bool { return p.state.Load()&stateBusy != 0 }
	if p.spin && spinWhile(busy) {
		return
	}
	p.waiting.Store(true)
	for busy() {
		<-p.left
	}
	p.waiting.Store(false)
	select { // a worker may have signalled after the last look
	case <-p.left:
	default:
	}
}

func (p *Pool) wakeAll() {
	for i := range p.workers {
		w := &p.workers[i]
		if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// work is the life of one worker: join each task that is open, sleep between.
func (p *Pool) work(id int) {
	defer p.done.Done()
	w := &p.workers[id]
	var seen uint64 // sequence number of the last task looked at
	fresh := func() bool { return p.state.Load()/stateNext != seen }
	idle := func() bool { return !fresh() }
	for {
		if !p.spin || !spinWhile(idle) {
			w.asleep.Store(true)
			if fresh() {
				if !w.asleep.CompareAndSwap(true, false) {
					<-w.wake // the waker was faster
				}
			} else {
				<-w.wake
			}
		}
		s := p.state.Load()
		if p.closed.Load() { // asked after the state: who has seen that Close changed it must not wait for another change
			return
		}
		seen = s / stateNext
		if s&stateOpen == 0 || !p.state.CompareAndSwap(s, s+1) {
			if s&stateOpen != 0 {
				seen-- // lost a race with another worker: look again
			}
			continue
		}
		p.take(id)
		if p.state.Add(^uint64(0))&stateBusy == 0 && p.waiting.Load() {
			select {
			case p.left <- struct{}{}:
			default:
			}
		}
	}
}

// spinWhile waits busily while cond holds and reports whether it stopped
// holding within spinTime.
func spinWhile(cond func() bool) bool {
	for range 128 {
		if !cond() {
			return true
		}
	}
	for start := time.Now(); time.Since(start) < spinTime; {
		for range 64 {
			if !cond() {
				return true
			}
		}
	}
	return false
}
