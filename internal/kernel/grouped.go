package kernel

import "unsafe"

// groupKind is how a grouped convolution runs.
type groupKind uint8

const (
	// groupPanels runs each group as a dense convolution of its own: its
	// output channels are whole tiles.
	groupPanels groupKind = iota
	// groupLanes runs several groups in one vector, spreading the channels of
	// each over its lanes.
	groupLanes
	// groupPlain is for all others, in plain Go.
	groupPlain
)

// kindOfGroup decides by the shape alone, so that results do not depend on
// anything else.
func (p *convPlan) kindOfGroup(c *Conv) groupKind {
	in, out := c.Cin/p.groups, c.Cout/p.groups
	switch {
	case out%panelWidth == 0:
		return groupPanels
	case p.v == NEON && (out == 4 || out == 8): // products by a lane: no need to spread
		return groupPanels
	case p.v != NEON && in == out && 8%in == 0 && in > 1 && p.kernel == 3 && p.stride <= 2 && p.pad <= 1:
		return groupLanes
	case out == 8:
		return groupPanels
	}
	return groupPlain
}

// groupIndex[cg/2] is, for each lane of a vector, the first lane of its group
// of cg channels.
var groupIndex = func() (index [5][panelWidth]int32) {
	for _, group := range []int{2, 4, 8} {
		for lane := range index[group/2] {
			index[group/2][lane] = int32(lane / group * group)
		}
	}
	return index
}()

// groupedStrip computes output rows y0 to y1 of image n from their strip, a
// group at a time.
func (p *convPlan) groupedStrip(c *Conv, s strip, n, y0, y1 int) {
	args := p.args
	p.source(&args, s.ld, s.row)
	p.fetchNext(c, &args, 0, 0)
	in, out := c.Cin/p.groups, c.Cout/p.groups
	for g := range p.groups {
		for ch := g * out; ch < (g+1)*out; {
			width := out
			if out%panelWidth == 0 {
				width = p.v.tileWidth((g+1)*out - ch)
			}
			p.channelStrip(c, &args, s, g*in, n, y0, y1, ch, width)
			ch += width
		}
	}
}

// groupedLanes computes output rows y0 to y1 of image n with the kernels for
// several groups in a vector, straight from the input.
func (p *convPlan) groupedLanes(c *Conv, n, y0, y1 int) {
	g := window{
		kernel: 3, stride: p.stride, pad: p.pad, top: p.pad,
		h: c.H, w: c.W, oh: p.oh, ow: p.ow,
		xld: p.xld, xrow: p.xrow, yld: p.yld,
		wtap: c.Weights.Cin * panelWidth,
	}
	args := windowArgs{
		row: uintptr(4 * p.xrow), pix: uintptr(4 * p.xld), ypix: uintptr(4 * p.yld),
		wtap: uintptr(4 * g.wtap), wrow: uintptr(4 * 2 * g.wtap),
		group: uintptr(c.Weights.Cin),
		index: unsafe.Pointer(&groupIndex[c.Weights.Cin/2]),
	}
	args.lo, args.hi = c.Activation.limits()
	for ch := 0; ch < p.channels; {
		v, lanes := p.v, 8
		if v == AVX512 && p.channels-ch >= 16 {
			lanes = 16
		} else if v == AVX512 {
			v = AVX2 // half a vector: computes the same
		}
		x := c.X[n*c.H*p.xrow+ch:]
		y := c.Y[n*p.oh*p.ow*p.yld+ch:]
		w := c.Weights.Data[ch/panelWidth*c.Weights.panelLen()+ch%panelWidth:]
		args.scale, args.bias = unsafe.Pointer(&c.Scale[ch]), unsafe.Pointer(&c.Bias[ch])
		for r := y0; r < y1; r++ {
			g.rowArgs(&args, x, w, y, r)
			g.row(v, &args, lanes)
		}
		ch += lanes
	}
}

// groupedPlain computes output rows y0 to y1 of image n for groups of any size.
func (p *convPlan) groupedPlain(c *Conv, n, y0, y1 int) {
	in, out := c.Cin/p.groups, c.Cout/p.groups
	lo, hi := c.Activation.limits()
	for y := y0; y < y1; y++ {
		for x := range p.ow {
			dst := c.Y[((n*p.oh+y)*p.ow+x)*p.yld:]
			for o := range c.Cout {
				sum := p.groupedSum(c, n, y, x, o, o/out*in, in)
				dst[o] = clamp(float32(sum*c.Scale[o])+c.Bias[o], lo, hi)
			}
			clear(dst[c.Cout:p.channels])
		}
	}
}

// groupedSum is one output of groupedPlain, for input channels first to
// first+in.
func (p *convPlan) groupedSum(c *Conv, n, y, x, o, first, in int) (sum float32) {
	w := c.Weights.Data[o/panelWidth*c.Weights.panelLen()+o%panelWidth:]
	for ky := range p.kernel {
		iy := y*p.stride - p.pad + ky
		if iy < 0 || iy >= c.H {
			continue
		}
		for kx := range p.kernel {
			ix := x*p.stride - p.pad + kx
			if ix < 0 || ix >= c.W {
				continue
			}
			src := c.X[(n*c.H+iy)*p.xrow+ix*p.xld+first:]
			tap := w[(ky*p.kernel+kx)*in*panelWidth:]
			for i := range in {
				sum += float32(src[i] * tap[i*panelWidth])
			}
		}
	}
	return sum
}
