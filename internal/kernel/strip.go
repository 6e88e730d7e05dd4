package kernel

import "unsafe"

// strip is a piece of an input image, all columns of the rows that some output
// rows look at, with any padding in place: x starts at the first tap of the
// first output.
type strip struct {
	x       []float32
	ld, row int // floats between pixels and between rows
}

// stripPart computes output rows y0 to y1 of image n.
func (p *convPlan) stripPart(c *Conv, n, y0, y1, from, to, worker int) {
	switch {
	case p.group == groupLanes:
		p.groupedLanes(c, n, y0, y1)
	case p.group == groupPlain:
		p.groupedPlain(c, n, y0, y1)
	case p.groups > 1:
		p.groupedStrip(c, p.input(c, n, y0, y1, worker), n, y0, y1)
	default:
		s := p.input(c, n, y0, y1, worker)
		args := p.args
		p.source(&args, s.ld, s.row)
		for ch := from; ch < to; {
			width := p.v.tileWidth(to - ch)
			p.fetchNext(c, &args, ch+width, to)
			p.channelStrip(c, &args, s, 0, n, y0, y1, ch, width)
			ch += width
		}
	}
	if c.Activation.smooth() {
		p.v.activate(c.Activation, c.Y[(n*p.oh+y0)*p.ow*p.yld+from:], p.yld, (y1-y0)*p.ow, to-from)
	}
}

// batchPart computes some small images whose weights are large: each tile of
// output channels for all of them before the next, so that weights are read once.
func (p *convPlan) batchPart(c *Conv, from, to int) {
	args := p.args
	p.source(&args, p.xld, p.xrow)
	for ch := 0; ch < p.channels; {
		width := p.v.tileWidth(p.channels - ch)
		p.fetchNext(c, &args, ch+width, p.channels)
		for n := from; n < to; n++ {
			p.channelStrip(c, &args, p.input(c, n, 0, p.oh, 0), 0, n, 0, p.oh, ch, width)
		}
		ch += width
	}
	if c.Activation.smooth() {
		p.v.activate(c.Activation, c.Y[from*p.oh*p.ow*p.yld:], p.yld, (to-from)*p.oh*p.ow, p.channels)
	}
}

// channelStrip computes width output channels from ch on of a strip, from the
// input channels that start at in.
func (p *convPlan) channelStrip(c *Conv, args *tileArgs, s strip, in, n, y0, y1, ch, width int) {
	most := p.v.tileRows(width)
	single := float64(p.ow) / float64(evenly(p.ow, most))
	double := 0.0
	if most > 1 {
		double = 2 * float64(p.ow) / float64(evenly(p.ow, most/2))
	}
	down := p.stride * s.row
	for y := y0; y < y1; {
		args.a = unsafe.Pointer(&s.x[(y-y0)*down+in])
		p.output(c, args, (n*p.oh+y)*p.ow, ch, width)
		if double > single && y+1 < y1 {
			p.v.lines(args, p.ow, width, uintptr(4*down), uintptr(4*p.ow*p.yld))
			y += 2
		} else {
			p.v.line(args, p.ow, width)
			y++
		}
	}
}

// input returns the strip for output rows y0 to y1 of image n: the input
// itself when there is no padding, else a copy in the worker's scratch.
func (p *convPlan) input(c *Conv, n, y0, y1, worker int) strip {
	image := c.X[n*c.H*p.xrow:]
	if p.pad == 0 {
		return strip{x: image[y0*p.stride*p.xrow:], ld: p.xld, row: p.xrow}
	}
	ld := p.stripLd(c)
	line := (c.W + 2*p.pad) * ld
	dst := c.Scratch[worker*p.scratch : (worker+1)*p.scratch]
	rows := (y1-1-y0)*p.stride + p.kernel
	for r := range rows {
		d := dst[r*line : (r+1)*line]
		y := y0*p.stride - p.pad + r
		if y < 0 || y >= c.H {
			clear(d)
			continue
		}
		clear(d[:p.pad*ld])
		clear(d[(p.pad+c.W)*ld:])
		src := image[y*p.xrow:]
		d = d[p.pad*ld:]
		if p.xld == ld {
			copy(d[:c.W*ld], src)
			continue
		}
		for x := range c.W {
			copy(d[x*ld:x*ld+c.Cin], src[x*p.xld:])
		}
	}
	return strip{x: dst, ld: ld, row: line}
}

// stripLd returns the floats a pixel of a copied strip takes: its channels, and
// a cache line more where all pixels would otherwise fall into the same few
// places of the first-level cache.
func (p *convPlan) stripLd(c *Conv) int {
	if c.Cin%256 == 0 {
		return c.Cin + 16
	}
	return c.Cin
}
