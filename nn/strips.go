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
type strips struct {
	expand, filter  step
	project         *step // nil: the filter writes a map of its own
	rows            int   // of the filter's output in a strip
	wide, filtered  span  // one strip each; filtered is none without a projection
	wideRow, outRow int   // floats of a row of each
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
	if b.place[b.view.Ops[i].Operands[0]+1] == callersInput || wide.Height*wide.Width*kernel.PadChannels(wide.Channels) < b.stripsPay {
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
		expand: expand, filter: f, filtered: none,
		wideRow: f.in.Width * kernel.PadChannels(f.in.Channels), outRow: f.out.Width * kernel.PadChannels(f.out.Channels),
	}
	// As many rows as fit, but of similar size, and not so few that rows under
	// two strips are moved around more than they are worth.
	s.rows = max(2, (stripFloats-(f.window.kernel-f.window.stride)*s.wideRow)/(f.window.stride*s.wideRow+s.outRow))
	if b.stripRows > 0 {
		s.rows = b.stripRows
	}
	count := (f.out.Height + s.rows - 1) / s.rows
	s.rows = (f.out.Height + count - 1) / count
	s.wide = b.arena.take((s.rows*f.window.stride + f.window.kernel) * s.wideRow)

	from := b.view.Ops[i].Operands[0]
	next := -1
	if readers := b.readers[filter+1]; len(readers) == 1 && b.isPointwise(readers[0]) {
		next = readers[0]
	}
	if next < 0 {
		s.filter.y = b.write(filter)
		b.done(from)
	} else {
		p, err := b.step(next, t)
		if err != nil {
			return err
		}
		s.filtered = b.arena.take(s.rows * s.outRow)
		b.place[filter+1] = s.filtered // which convolution frees
		p.x = s.filtered
		// The block's input is read until the last strip is done, so its place must
		// not be given away; but a sum of that input and the projection may be
		// written over it: the rows that later strips expand lie below.
		over := b.joined[next] >= 0 && slices.Contains(b.view.Ops[b.joined[next]].Operands, from)
		if over {
			b.done(from)
		}
		b.convolution(next, &p)
		if !over {
			b.done(from)
		}
		s.project = &p
		b.skipped[next] = true
	}
	b.arena.free(s.wide)
	b.add(step{kind: stepStrips, x: expand.x, z: none, y: none, strips: s})
	return nil
}

// runStrips computes the operations of strips for every image of a batch.
func (s *Session) runStrips(t *strips, batch int, memory []float32) {
	in, out := t.expand.in, t.filter.out
	window := t.filter.window
	inRow := in.Width * kernel.PadChannels(in.Channels)
	wide := t.wide.in(memory)
	for n := range batch {
		x := t.expand.x.in(memory)[n*in.Height*inRow:]
		done := 0 // rows of the wide map computed so far
		top := 0  // the first of them that is still held
		for y0 := 0; y0 < out.Height; y0 += t.rows {
			y1 := min(y0+t.rows, out.Height)
			// The rows that the window looks at, and of these those in the image.
			above, below := y0*window.stride-window.padding, (y1-1)*window.stride-window.padding+window.kernel
			first, last := max(above, 0), min(below, in.Height)
			if first < done { // what the strip before computed too
				copy(wide, wide[(first-top)*t.wideRow:(done-top)*t.wideRow])
			}
			top = first
			if from := max(done, first); from < last {
				s.runConv(&t.expand, 1, last-from, x[from*inRow:], wide[(from-first)*t.wideRow:], nil)
			}
			done = max(done, last)

			d := &s.depthwise
			s.fillDepthwise(&t.filter)
			d.N, d.H, d.Strip, d.PadTop, d.PadBottom = 1, last-first, true, first-above, below-last
			d.X = wide
			if t.project == nil {
				d.Y = t.filter.y.in(memory)[(n*out.Height+y0)*t.outRow:]
				d.Run(s.pool)
				continue
			}
			d.Y = t.filtered.in(memory)
			d.Run(s.pool)
			p := t.project
			row := p.out.Width * kernel.PadChannels(p.out.Channels)
			at := (n*out.Height + y0) * row
			var residual []float32
			if p.z != none {
				residual = p.z.in(memory)[at:]
			}
			s.runConv(p, 1, y1-y0, d.Y, p.y.in(memory)[at:], residual)
		}
	}
}
