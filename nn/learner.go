package nn

import (
	"fmt"
	"math"

	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// Learner runs subnetworks forwards with the statistics of their batch, and back
// to the gradients of the shared weights. It owns threads and the memory of
// feature maps; one goroutine at a time may use it.
//
// The images of a batch are divided among the threads, the same for a given number
// of threads, and each thread goes through an operation a few images at a time:
// what it reads is normalised, used and its statistics taken while it is in the
// cache. Results depend on the number of threads in the last digits only, and on
// nothing else.
type Learner struct {
	pool    *kernel.Pool
	variant kernel.Variant
	pass    *pass
	memory  []float32
	logits  []float32
	slots   []slot
	sums    slab[float64]
	vectors slab[float32]
	ones    []float32
	zeros   []float32
	adjoint adjoint
}

// NewLearner makes a learner with a number of threads; fewer than 1 is taken as
// 1, more than 128 as 128.
func NewLearner(threads int) *Learner {
	threads = min(max(threads, 1), maxThreads)
	l := &Learner{pool: kernel.NewPool(threads), slots: make([]slot, threads)}
	for i := range l.slots {
		l.slots[i] = slot{l: l, index: i}
	}
	return l
}

// Close ends the learner's threads.
func (l *Learner) Close() { l.pool.Close() }

// Threads is the number of threads.
func (l *Learner) Threads() int { return len(l.slots) }

// Forward runs a subnetwork on a batch of images, height, width and channels in
// this order, with the batch's own statistics, and keeps what Backward needs. The
// logits, those of one image after the other, are the learner's until its next
// Forward.
func (l *Learner) Forward(p *Parameters, s supernet.Subnet, images []float32, batch int) (logits []float32, err error) {
	input := p.network.Input()
	if n := batch * int(input.Elements()); batch < 1 || len(images) != n {
		return nil, fmt.Errorf("nn: %d values for a batch of %d inputs of %v", len(images), batch, input)
	}
	v, err := p.network.View(s, input)
	if err != nil {
		return nil, err
	}
	l.pass = newPass(p, v, batch)
	l.sums.reset()
	l.vectors.reset()
	if len(l.memory) < l.pass.floats {
		l.memory = nil // before the larger one is there
		l.memory = kernel.Alloc(l.pass.floats)
	}
	widest := 0
	for i := range l.pass.maps {
		widest = max(widest, l.pass.maps[i].ld)
	}
	for len(l.ones) < widest {
		l.ones, l.zeros = append(l.ones, 1), append(l.zeros, 0)
	}

	in := &l.pass.maps[0]
	stored := in.stored.in(l.memory)
	l.each(batch, func(_ *slot, from, to int) {
		c := input.Channels * in.pixels
		spread(stored[from*in.image:to*in.image], images[from*c:to*c], input)
	})
	for i := range v.Ops {
		if v.Ops[i].Runs {
			l.forward(i)
		}
	}

	out := &l.pass.maps[v.Output()+1]
	classes := int(out.Elements())
	if len(l.logits) < batch*classes {
		l.logits = make([]float32, batch*classes)
	}
	logits = l.logits[:batch*classes]
	l.each(batch, func(s *slot, from, to int) {
		x := s.load(0, out, from, to)
		gather(logits[from*classes:to*classes], x.values, out.Shape)
	})
	return logits, nil
}

// Statistics are those of the batch of the last Forward: mean and variance, the
// latter divided by the number of values.
func (l *Learner) Statistics() *weights.Statistics {
	n := len(l.pass.view.Ops)
	t := &weights.Statistics{Mean: make([][]float32, n), Variance: make([][]float32, n)}
	for i := range n {
		m := &l.pass.maps[i+1]
		if !m.norm {
			continue
		}
		t.Mean[i], t.Variance[i] = make([]float32, m.Channels), make([]float32, m.Channels)
		for c := range m.Channels {
			t.Mean[i][c], t.Variance[i][c] = float32(m.meanExact[c]), float32(m.variance[c])
		}
	}
	return t
}

// each calls f for all images, chunk at a time of each slot's share, on all
// threads.
func (l *Learner) each(chunk int, f func(s *slot, from, to int)) {
	l.pool.Run(len(l.slots), slotTask{l, max(chunk, 1), f})
}

type slotTask struct {
	l     *Learner
	chunk int
	f     func(s *slot, from, to int)
}

func (t slotTask) Part(part, _ int) {
	s := &t.l.slots[part]
	first, end := s.share(t.l.pass.batch)
	s.border = [2]int{}
	for from := first; from < end; from += t.chunk {
		t.f(s, from, min(from+t.chunk, end))
	}
}

// slot is the share of a thread in a batch, and what it works with.
type slot struct {
	l     *Learner
	index int

	buffers  [2][]float32 // maps as they are read, or their gradients
	border   [2]int       // images in them whose border is zero, in the geometry of this operation
	gradient []float32    // of weights; the first slot adds to the caller's
	scratch  []float32
	first    []float32 // sums of a chunk
	second   []float32

	conv      kernel.Conv
	depthwise kernel.Depthwise
}

// share is the images of a batch that the slot works on.
func (s *slot) share(batch int) (from, to int) {
	n := len(s.l.slots)
	return batch * s.index / n, batch * (s.index + 1) / n
}

// plane is images that are ready to be read: values begin at the first pixel,
// border included.
type plane struct {
	values          []float32
	h, w            int // border included
	ld, row, image  int
	interior, count int // where the first pixel within the border is; images
}

func (p plane) strides() kernel.Strides {
	return kernel.Strides{Pixel: p.ld, Row: p.row, Image: p.image}
}

// room makes sure that a slice has n floats. What it held is lost.
func room(b *[]float32, n int) []float32 {
	if len(*b) < n {
		*b = nil
		*b = kernel.Alloc(n + n/4)
	}
	return (*b)[:n]
}

// bordered prepares a buffer for n images of a map with a border of zeros, pixels
// ld floats apart.
func (s *slot) bordered(buffer int, m *learntMap, n, border, ld int) plane {
	p := plane{h: m.Height + 2*border, w: m.Width + 2*border, ld: ld, count: n}
	p.row = p.w * ld
	p.image = p.h * p.row
	p.interior = border * (p.row + p.ld)
	if len(s.buffers[buffer]) < n*p.image {
		s.border[buffer] = 0
	}
	p.values = room(&s.buffers[buffer], n*p.image)
	if border > 0 && s.border[buffer] < n {
		// Later chunks of this operation write the same pixels, and no others.
		clear(p.values)
		s.border[buffer] = n
	}
	return p
}

// dense is some images of a map, or of its gradient, where they are.
func dense(values []float32, m *learntMap, from, to int) plane {
	return plane{values: values[from*m.image : to*m.image], h: m.Height, w: m.Width, ld: m.ld, row: m.Width * m.ld, image: m.image, count: to - from}
}

// stored is some images of a map as they are kept.
func (s *slot) stored(m *learntMap, from, to int) plane {
	return dense(m.stored.in(s.l.memory), m, from, to)
}

// apart is how far the pixels of a map are kept from each other for a convolution:
// powers of two would put them all into the same few places of the cache.
func (m *learntMap) apart() int {
	if m.ld%256 == 0 {
		return m.ld + alignment
	}
	return m.ld
}

// load gives some images of a map as its readers see them, one pixel after the
// other.
func (s *slot) load(buffer int, m *learntMap, from, to int) plane {
	if !m.finish {
		return s.stored(m, from, to)
	}
	return s.loadBordered(buffer, m, from, to, 0, m.ld)
}

// loadBordered gives them with a border of zeros, and pixels ld floats apart.
func (s *slot) loadBordered(buffer int, m *learntMap, from, to, border, ld int) plane {
	z := s.stored(m, from, to)
	if !m.finish && border == 0 {
		return z
	}
	p := s.bordered(buffer, m, to-from, border, ld)
	k := kernel.Normalise{
		Variant: s.l.variant, N: to - from, H: m.Height, W: m.Width, C: m.Channels,
		Z: z.values, Y: p.values[p.interior:], YStrides: p.strides(),
		Scale: s.l.ones[:m.ld], Shift: s.l.zeros[:m.ld],
	}
	if m.finish {
		k.Scale, k.Shift, k.Activation = m.scale, m.shift, m.activation
	}
	k.Run()
	return p
}

// slab gives out zeroed slices until it is reset.
type slab[T float32 | float64] struct {
	values []T
	used   int
}

func (b *slab[T]) reset() { b.used = 0 }

func (b *slab[T]) take(n int) []T {
	if b.used+n > len(b.values) {
		// What was given out keeps the old memory.
		b.values, b.used = make([]T, max(2*len(b.values), n, 1<<14)), 0
	}
	s := b.values[b.used : b.used+n : b.used+n]
	b.used += n
	clear(s)
	return s
}

// accumulators makes one for each slot.
func (l *Learner) accumulators(channels int) []accumulator {
	a := make([]accumulator, len(l.slots))
	for i := range a {
		a[i] = accumulator{first: l.sums.take(channels), second: l.sums.take(channels)}
	}
	return a
}

// add takes over the sums of a chunk.
func (a *accumulator) add(first, second []float32) {
	for c := range first {
		a.first[c] += float64(first[c])
		a.second[c] += float64(second[c])
	}
}

// chunk is how many images are worked on at a time, given the floats of an image
// that are read and written, its output pixels and the weights: as many as stay in
// the second-level cache, but not so few that the weights are read for nothing.
func (l *Learner) chunk(floats, pixels, weights int) int {
	const (
		cache  = 112 << 10
		heavy  = 32 << 10
		enough = 256 // pixels for which it pays to read heavy weights
	)
	n := max(1, cache/max(floats, 1))
	if weights > heavy {
		n = max(n, (enough+pixels-1)/pixels)
	}
	return min(n, (l.pass.batch+len(l.slots)-1)/len(l.slots))
}

// statistics of a map's batch norm from the moments of all slots.
func (l *Learner) statistics(i int) {
	m := &l.pass.maps[i+1]
	op, o := l.pass.view.Network.Ops()[i], &l.pass.params.ops[i]
	m.meanExact, m.variance, m.inverse = l.sums.take(m.Channels), l.sums.take(m.Channels), l.sums.take(m.Channels)
	m.scale, m.shift, m.mean = l.vectors.take(m.ld), l.vectors.take(m.ld), l.vectors.take(m.ld)
	for c := range m.Channels {
		count, mean, squares := 0.0, 0.0, 0.0
		for j := range l.slots {
			from, to := l.slots[j].share(l.pass.batch)
			n := float64((to - from) * m.pixels)
			if n == 0 {
				continue
			}
			a := &m.moments[j]
			offset := a.first[c] / n
			delta := float64(a.around[c]) + offset - mean
			squares += math.Max(0, a.second[c]-offset*a.first[c]) + delta*delta*count*n/(count+n)
			count += n
			mean += delta * n / count
		}
		variance := squares / count
		inverse := 1 / math.Sqrt(variance+op.Eps())
		scale := float64(o.scale[c]) * inverse
		m.meanExact[c], m.variance[c], m.inverse[c] = mean, variance, inverse
		m.mean[c], m.scale[c], m.shift[c] = float32(mean), float32(scale), float32(float64(o.shift[c])-mean*scale)
	}
}
