package dataset

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Batch is what a network learns from at once.
type Batch struct {
	Images []float32 // N inputs: rows, columns, channels
	Labels []int32   // N classes
	Index  []int     // N indices into the source
	N      int
}

// LoaderOptions say how a loader goes through a source.
type LoaderOptions struct {
	Batch                   int // pictures a batch; required
	Height, Width, Channels int // of the network's input; required
	Pipeline                Pipeline
	Seed                    uint64
	Shuffle                 bool // a new order each epoch; otherwise the source's
	DropLast                bool // leave out the pictures that do not fill a batch
	Workers                 int  // goroutines that decode and augment; 0: as many as there are processors
	Prefetch                int  // batches made ready ahead; 0: 2
}

// Loader goes through a source in batches. Epochs may run at the same time.
type Loader struct {
	source Source
	o      LoaderOptions
	chunk  int // pictures that a worker takes on at a time

	mu         sync.Mutex
	slots      []*slot      // memory that no epoch is using
	transforms []*Transform // likewise
}

// NewLoader returns a loader for a source.
func NewLoader(source Source, o LoaderOptions) (*Loader, error) {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Prefetch == 0 {
		o.Prefetch = 2
	}
	const most = 1 << 31 // values
	switch {
	case source == nil || source.Len() == 0:
		return nil, fmt.Errorf("dataset: a loader of no pictures")
	case o.Batch < 1:
		return nil, fmt.Errorf("dataset: batches of %d pictures; at least 1 is needed", o.Batch)
	case o.Workers < 0 || o.Workers > 1<<12:
		return nil, fmt.Errorf("dataset: %d workers; 0 to %d are possible", o.Workers, 1<<12)
	case o.Prefetch < 0 || o.Prefetch > 1<<12:
		return nil, fmt.Errorf("dataset: %d batches made ready ahead; 0 to %d are possible", o.Prefetch, 1<<12)
	}
	t, err := NewTransform(o.Pipeline, o.Height, o.Width, o.Channels)
	if err != nil {
		return nil, err
	}
	if o.DropLast && source.Len() < o.Batch {
		return nil, fmt.Errorf("dataset: %d pictures fill no batch of %d", source.Len(), o.Batch)
	}
	// A batch larger than the source holds the source.
	o.Batch = min(o.Batch, source.Len())
	if o.Batch > most/(o.Height*o.Width*o.Channels) {
		return nil, fmt.Errorf("dataset: batches of %d inputs of %d×%d×%d are too large", o.Batch, o.Height, o.Width, o.Channels)
	}
	// Small enough that all workers have a share in every batch.
	chunk := min(max(o.Batch/(2*o.Workers), 1), 32)
	return &Loader{source: source, o: o, chunk: chunk, transforms: []*Transform{t}}, nil
}

// Batches is how many there are in an epoch.
func (l *Loader) Batches() int {
	if l.o.DropLast {
		return l.source.Len() / l.o.Batch
	}
	return (l.source.Len() + l.o.Batch - 1) / l.o.Batch
}

// Epoch goes through the source once, beginning with batch number from: the earlier
// ones cost nothing. A batch is the loop's until its next iteration or its end.
// After an error the loop ends, and so do, before it is left in whatever way, the
// goroutines that work for it.
func (l *Loader) Epoch(ctx context.Context, epoch, from int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if epoch < 0 || from < 0 || from > l.Batches() {
			yield(nil, fmt.Errorf("dataset: batch %d of epoch %d; an epoch has %d batches", from, epoch, l.Batches()))
			return
		}
		if from == l.Batches() {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		r := l.start(ctx, epoch, from)
		defer func() {
			cancel()
			r.group.Wait()
			l.put(r)
		}()
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			var s *slot
			var more bool
			select {
			case s, more = <-r.ordered:
				if !more {
					return
				}
			case <-ctx.Done():
				continue
			}
			select {
			case <-s.done:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // workers that noticed left gaps
				continue
			}
			if s.err != nil {
				yield(nil, s.err)
				return
			}
			if !yield(&s.batch, nil) {
				return
			}
			r.free <- s
		}
	}
}

// run is one pass through the source. A dispatcher hands out the batches that
// there is memory for, in parts; workers fill them, in whatever order; the loop takes
// them in theirs.
type run struct {
	epoch      int
	order      []int32 // nil: the source's
	slots      []*slot
	transforms []*Transform
	free       chan *slot
	ordered    chan *slot
	tasks      chan task
	group      sync.WaitGroup
}

// slot is a batch in the making.
type slot struct {
	batch   Batch
	images  []float32 // the memory of a full batch
	first   int       // its first picture's place in the order
	pending atomic.Int32
	done    chan struct{} // holds a token once all of it is there

	mu   sync.Mutex
	err  error
	errI int // the place of the picture that err is about
}

// task is a part of a batch.
type task struct {
	slot     *slot
	from, to int
}

func (l *Loader) start(ctx context.Context, epoch, from int) *run {
	r := &run{epoch: epoch}
	l.take(r, min(l.o.Prefetch+1, l.Batches()-from))
	r.free = make(chan *slot, len(r.slots))
	r.ordered = make(chan *slot, len(r.slots))
	r.tasks = make(chan task)
	for _, s := range r.slots {
		r.free <- s
	}
	if l.o.Shuffle {
		r.order = shuffled(l.source.Len(), l.o.Seed, epoch)
	}
	r.group.Go(func() { l.dispatch(ctx, r, from) })
	for _, t := range r.transforms {
		r.group.Go(func() { l.work(ctx, r, t) })
	}
	return r
}

func (l *Loader) dispatch(ctx context.Context, r *run, from int) {
	defer close(r.tasks)
	for b := from; b < l.Batches(); b++ {
		var s *slot
		select {
		case s = <-r.free:
		case <-ctx.Done():
			return
		}
		n := min(l.o.Batch, l.source.Len()-b*l.o.Batch)
		s.reset(b*l.o.Batch, n, len(s.images)/l.o.Batch)
		s.pending.Store(int32((n + l.chunk - 1) / l.chunk))
		r.ordered <- s
		for i := 0; i < n; i += l.chunk {
			select {
			case r.tasks <- task{s, i, min(i+l.chunk, n)}:
			case <-ctx.Done():
				return
			}
		}
	}
	close(r.ordered)
}

func (l *Loader) work(ctx context.Context, r *run, t *Transform) {
	pcg := new(rand.PCG)
	rng := rand.New(pcg)
	for task := range r.tasks {
		s := task.slot
		for k := task.from; k < task.to && ctx.Err() == nil; k++ {
			i := s.first + k
			if r.order != nil {
				i = int(r.order[i])
			}
			s.batch.Index[k], s.batch.Labels[k] = i, int32(l.source.Label(i))
			size := len(s.images) / l.o.Batch
			pcg.Seed(pictureSeed(l.o.Seed, r.epoch, i))
			pic, err := l.source.Image(i)
			if err == nil {
				err = t.Apply(s.batch.Images[k*size:(k+1)*size], pic, rng)
			}
			if err != nil {
				s.fail(k, err)
			}
		}
		if s.pending.Add(-1) == 0 {
			s.done <- struct{}{}
		}
	}
}

// take finds memory for a run, of epochs before if there is some.
func (l *Loader) take(r *run, slots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range slots {
		if n := len(l.slots); n > 0 {
			r.slots, l.slots = append(r.slots, l.slots[n-1]), l.slots[:n-1]
			continue
		}
		r.slots = append(r.slots, &slot{
			images: make([]float32, l.o.Batch*l.o.Height*l.o.Width*l.o.Channels),
			batch:  Batch{Labels: make([]int32, l.o.Batch), Index: make([]int, l.o.Batch)},
			done:   make(chan struct{}, 1),
		})
	}
	for range l.o.Workers {
		if n := len(l.transforms); n > 0 {
			r.transforms, l.transforms = append(r.transforms, l.transforms[n-1]), l.transforms[:n-1]
			continue
		}
		t, err := NewTransform(l.o.Pipeline, l.o.Height, l.o.Width, l.o.Channels)
		if err != nil {
			panic(err) // NewLoader made one
		}
		r.transforms = append(r.transforms, t)
	}
}

func (l *Loader) put(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots, l.transforms = append(l.slots, r.slots...), append(l.transforms, r.transforms...)
}

// reset makes a slot ready for n pictures of the given size.
func (s *slot) reset(first, n, size int) {
	s.first, s.err = first, nil
	s.batch.N = n
	s.batch.Images, s.batch.Labels, s.batch.Index = s.images[:n*size], s.batch.Labels[:n], s.batch.Index[:n]
	select {
	case <-s.done: // of a run that was left
	default:
	}
}

// fail keeps the error of the earliest picture, so that what is reported does not
// depend on timing.
func (s *slot) fail(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || i < s.errI {
		s.err, s.errI = err, i
	}
}

// shuffled is the order of an epoch.
func shuffled(n int, seed uint64, epoch int) []int32 {
	rng := rand.New(rand.NewPCG(mix(seed, 0x6f72646572), uint64(epoch))) // "order"
	order := make([]int32, n)
	for i := range order {
		j := rng.IntN(i + 1)
		order[i] = order[j]
		order[j] = int32(i)
	}
	return order
}

// pictureSeed is where the random numbers of one picture in one epoch begin.
func pictureSeed(seed uint64, epoch, index int) (uint64, uint64) {
	a := mix(seed, uint64(epoch))
	return a, mix(a, uint64(index))
}

// mix hashes two numbers into one that looks random (the finaliser of splitmix64).
func mix(a, b uint64) uint64 {
	z := a + 0x9e3779b97f4a7c15*(b+1)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
