package kernel

import (
	"fmt"
	"unsafe"
)

// ConvInputGradient computes the gradient of a convolution's input,
//
//	DX[n][y*Stride+ky-Pad][x*Stride+kx-Pad][i] = Σ over o, ky, kx of DY[n][y][x][o] * W[o][i][ky][kx]
//
// or adds it to what DX holds. Shapes are those of the convolution itself: H and
// W are of its input DX, [N][H][W][XLd]. DY is [N][OH][OW][YLd]; with a Border it
// has that many zeros around each image, [N][OH+2*Border][OW+2*Border][YLd],
// which a convolution of stride 1 then need not put there: it must be
// Kernel-1-Pad. Pad channels of DY are not read.
type ConvInputGradient struct {
	Variant             Variant
	N, H, W             int
	Cin, Cout           int
	Kernel, Stride, Pad int // 0 means 1 for the first two
	Groups              int // 0 means 1

	DY, DX     []float32
	YLd, XLd   int          // floats a pixel takes; 0 means PadChannels of its channels
	Border     int          // zeros around the images of DY
	Weights    *ConvWeights // transposed, see [ConvWeights.Transpose]
	Accumulate bool         // add to DX; else it is overwritten, with zeros where no output looks
	Scratch    []float32    // ScratchLen floats

	conv Conv
	unit identity
}

// identity holds the scale and bias of an epilogue that changes nothing.
type identity struct{ scale, bias []float32 }

func (u *identity) of(n int) (scale, bias []float32) {
	if len(u.scale) < n {
		u.scale, u.bias = make([]float32, n), make([]float32, n)
		for i := range u.scale {
			u.scale[i] = 1
		}
	}
	return u.scale, u.bias
}

// OutSize returns the height and width of the convolution's output.
func (c *ConvInputGradient) OutSize() (h, w int) {
	k, s := max(c.Kernel, 1), max(c.Stride, 1)
	return outSize(c.H, k, s, c.Pad), outSize(c.W, k, s, c.Pad)
}

// ScratchLen returns the floats Scratch must have.
func (c *ConvInputGradient) ScratchLen() int {
	if c.taps() {
		return 0
	}
	c.describe()
	return c.conv.ScratchLen(1)
}

// taps reports whether the gradient is summed tap by tap. Otherwise it is a
// convolution.
func (c *ConvInputGradient) taps() bool {
	return c.Stride > 1 || c.Groups > 1 && c.Accumulate
}

// describe sets up the convolution that leads from DY to DX.
func (c *ConvInputGradient) describe() {
	k := max(c.Kernel, 1)
	oh, ow := c.OutSize()
	c.conv = Conv{
		Variant: c.Variant, N: c.N, H: oh + 2*c.Border, W: ow + 2*c.Border, Cin: c.Cout, Cout: c.Cin,
		Kernel: k, Groups: c.Groups, X: c.DY, Y: c.DX, XLd: c.YLd, YLd: c.XLd,
		Weights: c.Weights, Scratch: c.Scratch,
	}
	if c.Border == 0 {
		c.conv.Pad = k - 1 - c.Pad
	}
	if c.Accumulate {
		c.conv.Residual = c.DX
	}
}

// Run computes the gradient.
func (c *ConvInputGradient) Run() {
	fail := func(format string, args ...any) {
		panic("kernel: ConvInputGradient: " + fmt.Sprintf(format, args...))
	}
	k, groups := max(c.Kernel, 1), max(c.Groups, 1)
	oh, ow := c.OutSize()
	switch {
	case c.N < 0 || c.H < 1 || c.W < 1 || c.Cin < 1 || c.Cout < 1 || c.Groups < 0:
		fail("%d images of %d×%d, %d to %d channels in %d groups", c.N, c.H, c.W, c.Cin, c.Cout, c.Groups)
	case c.Kernel < 0 || c.Stride < 0 || c.Pad < 0 || c.Pad >= k || oh < 1 || ow < 1:
		fail("kernel %d, stride %d, pad %d on %d×%d", c.Kernel, c.Stride, c.Pad, c.H, c.W)
	case c.Border != 0 && c.Border != k-1-c.Pad:
		fail("border %d, want 0 or %d", c.Border, k-1-c.Pad)
	}
	if c.N == 0 {
		return
	}
	if !c.taps() {
		c.describe()
		c.conv.Scale, c.conv.Bias = c.unit.of(PadChannels(c.Cin))
		c.conv.Run(nil)
		return
	}
	w := c.Weights
	switch {
	case w == nil:
		fail("no weights")
	case c.Cin%groups != 0 || c.Cout%groups != 0:
		fail("%d to %d channels in %d groups", c.Cin, c.Cout, groups)
	case w.Taps != k*k || w.Cin < c.Cout/groups || w.Cout < c.Cin || groups > 1 && w.Cin != c.Cout/groups:
		fail("weights of %d×%d×%d taps for %d×%d×%d, transposed", w.Cout, w.Cin, w.Taps, c.Cin, c.Cout/groups, k*k)
	case len(w.Data) < PackedLen(w.Cout, w.Cin, w.Taps):
		fail("%d packed weights of %d", len(w.Data), PackedLen(w.Cout, w.Cin, w.Taps))
	}
	p := tapPlan{
		v: c.Variant.resolve(), c: c, kernel: k, stride: max(c.Stride, 1), groups: groups, oh: oh, ow: ow,
		ys: Strides{Pixel: c.YLd}.of(oh+2*c.Border, ow+2*c.Border, c.Cout),
		xs: Strides{Pixel: c.XLd}.of(c.H, c.W, c.Cin),
	}
	channels := PadChannels(c.Cin)
	if !p.ys.fit(c.N, oh+2*c.Border, ow+2*c.Border, c.Cout, len(c.DY)) || !p.xs.fit(c.N, c.H, c.W, channels, len(c.DX)) {
		fail("%d outputs %v of %d×%d×%d×%d, %d inputs %v of %d×%d×%d×%d", len(c.DY), p.ys, c.N, oh, ow, c.Cout, len(c.DX), p.xs, c.N, c.H, c.W, channels)
	}
	if !c.Accumulate {
		clearPixels(c.DX, c.N*c.H*c.W, channels, p.xs.Pixel)
	}
	p.first = c.Border * (p.ys.Row + p.ys.Pixel)
	in := c.Cin / groups
	if groups == 1 || in%panelWidth == 0 || in == 8 {
		p.run()
	} else {
		p.plain()
	}
}

// clearPixels sets n pixels of c floats, ld apart, to zero.
func clearPixels(x []float32, n, c, ld int) {
	if c == ld {
		clear(x[:n*c])
		return
	}
	for i := range n {
		clear(x[i*ld:][:c])
	}
}

// tapPlan is a ConvInputGradient that goes tap by tap. A tap leads from all
// outputs to as many inputs, a stride apart: a matrix product whose sums go on
// from what the taps before it left there.
type tapPlan struct {
	v                      Variant
	c                      *ConvInputGradient
	kernel, stride, groups int
	oh, ow                 int
	ys, xs                 Strides
	first                  int // first pixel of DY within its border
}

// clip returns the outputs o whose tap k lies in n inputs: its position is
// o*stride + k - pad.
func (p *tapPlan) clip(k, o, n int) (from, to int) {
	from = max(0, (p.c.Pad-k+p.stride-1)/p.stride)
	if n-1+p.c.Pad-k < 0 {
		return 0, 0
	}
	return from, min(o, (n-1+p.c.Pad-k)/p.stride+1)
}

func (p *tapPlan) run() {
	c, w := p.c, p.c.Weights
	in, out := c.Cin/p.groups, c.Cout/p.groups
	args := tileArgs{
		k: uintptr(out), kx: 1, ky: 1,
		panel: uintptr(4 * w.panelLen()),
		lda:   uintptr(4 * p.ys.Pixel), ldc: uintptr(4 * p.stride * p.xs.Pixel),
		resume: 1, raw: 1,
		fetch: unsafe.Pointer(&w.Data[0]),
	}
	for g := range p.groups {
		end := (g + 1) * in
		if p.groups == 1 {
			end = PadChannels(in)
		}
		for ch := g * in; ch < end; {
			width := 8
			if p.groups == 1 || in%panelWidth == 0 {
				width = p.v.tileWidth(end - ch)
			}
			args.mask = 1<<16 - 1
			if ch+width > end {
				args.mask = 1<<8 - 1
			}
			for t := range w.Taps {
				// Weights are reversed: the last tap comes first.
				args.w = unsafe.Pointer(&w.Data[ch/panelWidth*w.panelLen()+(w.Taps-1-t)*w.Cin*panelWidth+ch%panelWidth])
				p.tap(args, t/p.kernel, t%p.kernel, g*out, ch, width)
			}
			ch += width
		}
	}
}

// tap adds one tap for width input channels from ch on, of output channels from
// out on.
func (p *tapPlan) tap(args tileArgs, ky, kx, out, ch, width int) {
	c := p.c
	y0, y1 := p.clip(ky, p.oh, c.H)
	x0, x1 := p.clip(kx, p.ow, c.W)
	if x0 >= x1 {
		return
	}
	most := p.v.tileRows(width)
	pairs := most > 1 && 2*evenly(x1-x0, most) > evenly(x1-x0, most/2)
	for n := range c.N {
		for y := y0; y < y1; y++ {
			args.a = pointer(c.DY, p.first+p.ys.at(n, y, x0)+out)
			args.c = pointer(c.DX, p.xs.at(n, y*p.stride+ky-c.Pad, x0*p.stride+kx-c.Pad)+ch)
			if pairs && y+1 < y1 {
				p.v.lines(&args, x1-x0, width, uintptr(4*p.ys.Row), uintptr(4*p.stride*p.xs.Row))
				y++
			} else {
				p.v.line(&args, x1-x0, width)
			}
		}
	}
}

// plain is for groups whose input channels are no whole tiles.
func (p *tapPlan) plain() {
	c, w := p.c, p.c.Weights
	in, out := c.Cin/p.groups, c.Cout/p.groups
	for t := range w.Taps {
		ky, kx := t/p.kernel, t%p.kernel
		y0, y1 := p.clip(ky, p.oh, c.H)
		x0, x1 := p.clip(kx, p.ow, c.W)
		for i := range c.Cin {
			tap := w.Data[i/panelWidth*w.panelLen()+(w.Taps-1-t)*w.Cin*panelWidth+i%panelWidth:]
			for n := range c.N {
				for y := y0; y < y1; y++ {
					for x := x0; x < x1; x++ {
						dy := c.DY[p.first+p.ys.at(n, y, x)+i/in*out:][:out]
						var sum float32
						for o, d := range dy {
							sum += float32(d * tap[o*panelWidth])
						}
						c.DX[p.xs.at(n, y*p.stride+ky-c.Pad, x*p.stride+kx-c.Pad)+i] += sum
					}
				}
			}
		}
	}
}
