package nn

import (
	"slices"

	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// strips is an expansion, a depthwise convolution and, where it follows at once,
// a projection, computed a strip of rows at a time: the wide maps between them
// then never leave the cache. Early blocks of mobile networks have maps of
// megabytes there, and so little arithmetic on each value that memory decides.
//
// Threads take bands of the image, each with strips of its own: one strip is too
// little work to share.
type strips struct {
	expand, filter step
	project        *step // nil: the filter writes a map of its own
	rows           int   // of the filter's output in a strip

	// Floats of a row of the wide and of the filtered map, and of a strip of each.
	wideRow, outRow int
	wide, filtered  int
}

const (
	// stripFloats is the size of the maps of a strip: well within the
	// second-level cache, with room for weights and what is read and written.
	stripFloats = 128 << 10
	// stripsPay is the size of a wide map from which strips do.
	stripsPay = 192 << 10
)

// stripsFrom tells whether operation i is an expansion to be computed in strips,
// and which depthwise convolution filters it.
func (b *builder) stripsFrom(i int) (filter int, ok bool) {
	if b.keep || !b.isPointwise(i) || b.joined[i] >= 0 || len(b.readers[i+1]) != 1 {
		return 0, false
	}
	wide := b.view.Ops[i].Out
	if b.place[b.view.Ops[i].Operands[0]+1] == callersInput || wide.Height*wide.Width*kernel.PadChannels(wide.Channels) < b.model.stripsPay {
		return 0, false
	}
	filter = b.readers[i+1][0]
	return filter, b.model.network.Ops()[filter].Kind == supernet.Depthwise
}

// isPointwise tells whether operation i is a dense 1×1 convolution.
func (b *builder) isPointwise(i int) bool {
	op := b.model.network.Ops()[i]
	return op.Kind == supernet.Conv && b.isDense(i) && op.Kernel == 1 && op.Stride == 1
}

// strips adds the operations from an expansion on as one step.
func (b *builder) strips(i, filter int, expand step, t *weights.Statistics) error {
	expand.kind = stepConv
	f, err := b.step(filter, t)
	if err != nil {
		return err
	}
	f.kind = stepDepthwise
	b.skipped[filter] = true
	s := &strips{
		expand: expand, filter: f,
		wideRow: f.in.Width * kernel.PadChannels(f.in.Channels), outRow: f.out.Width * kernel.PadChannels(f.out.Channels),
	}
	// As many rows as fit, but of similar size, and not so few that rows under
	// two strips are moved around more than they are worth.
	s.rows = max(2, (stripFloats-(f.window.kernel-f.window.stride)*s.wideRow)/(f.window.stride*s.wideRow+s.outRow))
	if b.model.stripRows > 0 {
		s.rows = b.model.stripRows
	}
	count := (f.out.Height + s.rows - 1) / s.rows
	s.rows = (f.out.Height + count - 1) / count
	s.wide = (s.rows*f.window.stride + f.window.kernel) * s.wideRow

	from := b.view.Ops[i].Operands[0]
	if next, ok := b.projection(i, filter); ok {
		p, err := b.step(next, t)
		if err != nil {
			return err
		}
		s.filtered = s.rows * s.outRow
		b.place[filter+1] = nowhere // it is never there as a whole
		p.x = nowhere
		b.inStrips = true
		b.convolution(next, &p)
		b.inStrips = false
		s.project = &p
		b.skipped[next] = true
	} else {
		s.filter.y = b.write(filter)
	}
	b.done(from) // not before the outputs have their place: it is read to the end
	b.add(step{kind: stepStrips, x: expand.x, z: none, y: none, strips: s})
	return nil
}

// projection is the 1×1 convolution that alone reads a filtered expansion i, if it
// can be computed along with it: what it is added to, if anything, must be there
// before the expansion.
func (b *builder) projection(i, filter int) (next int, ok bool) {
	readers := b.readers[filter+1]
	if len(readers) != 1 || !b.isPointwise(readers[0]) {
		return 0, false
	}
	next = readers[0]
	if sum := b.joined[next]; sum >= 0 {
		return next, slices.Min(b.view.Ops[sum].Operands) < i
	}
	return next, true
}

// floats is the scratch memory of one thread.
func (t *strips) floats() int { return t.wide + t.filtered }

// stripTask is strips at work: the bands of all images of a batch.
type stripTask struct {
	strips  *strips
	variant kernel.Variant
	memory  []float32
	scratch []float32
	bands   int
	workers []stripWorker // by thread
}

// stripWorker is the kernels of one thread.
type stripWorker struct {
	conv      kernel.Conv
	depthwise kernel.Depthwise
}

// runStrips computes the operations of strips for every image of a batch.
func (s *Session) runStrips(t *strips, batch int, memory []float32) {
	k := &s.strip
	k.strips, k.variant, k.memory, k.scratch = t, s.variant, memory, s.scratch
	k.bands = 1
	if batch < 2*s.pool.Size() {
		k.bands = min(s.pool.Size(), t.filter.out.Height)
	}
	s.pool.Run(batch*k.bands, k)
	k.strips, k.memory, k.scratch = nil, nil, nil
	for i := range k.workers {
		k.workers[i] = stripWorker{} // which point into memory too
	}
}

// Part computes one band of one image.
func (k *stripTask) Part(part, worker int) {
	t := k.strips
	out := t.filter.out
	n, band := part/k.bands, part%k.bands
	scratch := k.scratch[worker*t.floats() : (worker+1)*t.floats()]
	b := stripBand{
		stripTask: k, w: &k.workers[worker], image: n,
		wide: scratch[:t.wide], filtered: scratch[t.wide:],
	}
	b.run(out.Height*band/k.bands, out.Height*(band+1)/k.bands)
}

// stripBand is one thread's work on a band.
type stripBand struct {
	*stripTask
	w              *stripWorker
	image          int
	wide, filtered []float32
}

// run computes output rows from to end.
func (b *stripBand) run(from, end int) {
	t := b.strips
	in, out, window := t.expand.in, t.filter.out, t.filter.window
	inRow := in.Width * kernel.PadChannels(in.Channels)
	x := t.expand.x.in(b.memory)[b.image*in.Height*inRow:]
	top, done := 0, 0 // rows of the wide map that are held
	for y0 := from; y0 < end; y0 += t.rows {
		y1 := min(y0+t.rows, end)
		// The rows that the window looks at, and of these those in the image.
		above, below := y0*window.stride-window.padding, (y1-1)*window.stride-window.padding+window.kernel
		first, last := max(above, 0), min(below, in.Height)
		if first < done { // what the strip before computed too
			copy(b.wide, b.wide[(first-top)*t.wideRow:(done-top)*t.wideRow])
		}
		top = first
		if next := max(done, first); next < last {
			b.conv(&t.expand, last-next, x[next*inRow:], b.wide[(next-first)*t.wideRow:], nil)
		}
		done = last

		d := &b.w.depthwise
		t.filter.fillDepthwise(d)
		d.Variant = b.variant
		d.N, d.H, d.Strip, d.PadTop, d.PadBottom = 1, last-first, true, first-above, below-last
		d.X = b.wide
		if t.project == nil {
			d.Y = t.filter.y.in(b.memory)[(b.image*out.Height+y0)*t.outRow:]
			d.Run(nil)
			continue
		}
		d.Y = b.filtered
		d.Run(nil)
		p := t.project
		at := (b.image*out.Height + y0) * p.out.Width * kernel.PadChannels(p.out.Channels)
		var residual []float32
		if p.z != none {
			residual = p.z.in(b.memory)[at:]
		}
		b.conv(p, y1-y0, b.filtered, p.y.in(b.memory)[at:], residual)
	}
}

// conv runs a 1×1 convolution on some rows.
func (b *stripBand) conv(t *step, rows int, x, y, residual []float32) {
	c := &b.w.conv
	t.fill(c, 1)
	c.Variant = b.variant
	c.H, c.X, c.Y, c.Residual = rows, x, y, residual
	c.Run(nil)
}
