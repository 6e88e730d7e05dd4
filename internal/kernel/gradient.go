package kernel

import (
	"fmt"
	"unsafe"
)

// ConvGradient adds to G the gradient of a convolution's weights,
//
//	G[o][i][ky][kx] += Σ over n, y, x of DY[n][y][x][o] * X[n][y*Stride+ky][x*Stride+kx][i]
//
// for the first Cin (of a group) and Cout channels of G. There is no padding: X
// comes with its border of zeros. The pad channels of DY must be zero, those of
// X are not read. Pixels of X that take exactly Cin floats are faster when Cin
// is small and G has no more input channels.
type ConvGradient struct {
	Variant   Variant
	N, OH, OW int // of the output
	Cin, Cout int
	Kernel    int // 0 means 1
	Stride    int // 0 means 1
	Groups    int // 0 means 1

	X, DY               []float32
	XStrides, DYStrides Strides
	G                   *ConvWeights
	// Scratch of ScratchLen floats lets large shapes run faster; it may be nil.
	Scratch []float32
}

// ScratchLen returns the floats of Scratch.
func (c *ConvGradient) ScratchLen() int {
	return max(gradientMost*3*panelWidth, exchangeLen(c.Cin, min(c.Cout, exchangeMost)))
}

// gradientArgs is what a kernel of weight gradients is called with: tiles of
// input channels by output channels, summed over boxes of pixels. Strides are
// in bytes.
type gradientArgs struct {
	x, y         unsafe.Pointer // first channels of the first pixel
	xwalk, ywalk walk
	nx, ny, nn   uintptr        // pixels of a row, rows, images
	g            unsafe.Pointer // first row of the first panel
	panel        uintptr        // between panels
	tiles        uintptr        // each as many channels of x and rows of g further
	mask         uintptr        // AVX-512: lanes of the last vector that exist
}

// gradientGeneric is the loop nest that every kernel of weight gradients
// computes, for width output channels (a multiple of 8): for each tile, input
// channel i < rows and output channel j < width,
//
//	for n < nn, v < ny, u < nx:
//		sum += x[n][v][u][i] * y[n][v][u][j]
//	g[j/16][i][j%16] += sum
func gradientGeneric(rows, width int, p *gradientArgs) {
	for t := range p.tiles * uintptr(rows) {
		for j := uintptr(0); j < uintptr(width); j += 8 {
			var sum [8]float32
			x, y := 4*t, 4*j
			for range p.nn {
				for range p.ny {
					for range p.nx {
						a := *at(p.x, x)
						b := (*[8]float32)(unsafe.Add(p.y, y))
						for l, v := range b {
							sum[l] += float32(a * v)
						}
						x += p.xwalk.pixel
						y += p.ywalk.pixel
					}
					x += p.xwalk.row
					y += p.ywalk.row
				}
				x += p.xwalk.image
				y += p.ywalk.image
			}
			g := (*[8]float32)(unsafe.Add(p.g, j/panelWidth*p.panel+4*(t*panelWidth+j%panelWidth)))
			for l, v := range sum {
				g[l] += v
			}
		}
	}
}

// Run computes the gradient.
func (c *ConvGradient) Run() {
	fail := func(format string, args ...any) {
		panic("kernel: ConvGradient: " + fmt.Sprintf(format, args...))
	}
	v := c.Variant.resolve()
	kernel, stride, groups := max(c.Kernel, 1), max(c.Stride, 1), max(c.Groups, 1)
	switch {
	case c.N < 0 || c.OH < 1 || c.OW < 1 || c.Cin < 1 || c.Cout < 1 || c.Kernel < 0 || c.Stride < 0 || c.Groups < 0:
		fail("%d images of %d×%d, %d to %d channels, kernel %d, stride %d, %d groups", c.N, c.OH, c.OW, c.Cin, c.Cout, c.Kernel, c.Stride, c.Groups)
	case c.G == nil:
		fail("no gradient")
	case c.Cin%groups != 0 || c.Cout%groups != 0:
		fail("%d to %d channels in %d groups", c.Cin, c.Cout, groups)
	case c.G.Taps != kernel*kernel || c.G.Cin < c.Cin/groups || c.G.Cout < c.Cout:
		fail("gradient of %d×%d×%d taps for %d×%d×%d", c.G.Cout, c.G.Cin, c.G.Taps, c.Cout, c.Cin/groups, kernel*kernel)
	case groups > 1 && c.G.Cin != c.Cin/groups:
		fail("groups of %d channels with a gradient for %d", c.Cin/groups, c.G.Cin)
	case len(c.G.Data) < PackedLen(c.G.Cout, c.G.Cin, c.G.Taps):
		fail("%d packed gradients of %d", len(c.G.Data), PackedLen(c.G.Cout, c.G.Cin, c.G.Taps))
	}
	h, w, channels := (c.OH-1)*stride+kernel, (c.OW-1)*stride+kernel, PadChannels(c.Cout)
	xs, ys := c.XStrides.of(h, w, c.Cin), c.DYStrides.of(c.OH, c.OW, c.Cout)
	if !xs.fit(c.N, h, w, c.Cin, len(c.X)) || !ys.fit(c.N, c.OH, c.OW, channels, len(c.DY)) {
		fail("%d images, %d inputs %v of %d×%d×%d, %d outputs %v of %d×%d×%d", c.N, len(c.X), xs, h, w, c.Cin, len(c.DY), ys, c.OH, c.OW, channels)
	}
	p := gradientPlan{v: v, c: c, kernel: kernel, stride: stride, groups: groups, xs: xs, ys: ys}
	if groups > 1 && c.Cout/groups%panelWidth != 0 {
		p.plain()
		return
	}
	if p.exchanged() {
		p.runExchanged()
	} else {
		p.run()
	}
}

// gradientPlan is a running ConvGradient.
type gradientPlan struct {
	v                      Variant
	c                      *ConvGradient
	kernel, stride, groups int
	xs, ys                 Strides
}

// reach returns how many inputs the windows of n outputs cover.
func (p *gradientPlan) reach(n int) int { return (n-1)*p.stride + p.kernel }

// gradientPixels is the pixels summed in registers before they are added to the
// gradient: enough to make that rare, few enough for the output gradients of a
// tile to stay in the first-level cache while the input channels pass by.
const (
	gradientPixels = 192
	// A gradient too large for the second-level cache is passed over less often.
	gradientMost  = 768
	gradientLarge = 256 << 10
)

func (p *gradientPlan) run() {
	c := p.c
	nn, ny, nx := c.N, c.OH, c.OW
	step := Strides{p.stride * p.xs.Pixel, p.stride * p.xs.Row, p.xs.Image}
	if p.ys.flat(ny, nx) && step.flat(ny, nx) {
		nn, ny, nx = 1, 1, nn*ny*nx
	}
	in, out := c.Cin/p.groups, c.Cout/p.groups
	rows, taps := in, p.kernel
	if p.xs.Pixel == in && c.G.Cin == in {
		// The taps of a row follow each other in the pixels and in the gradient.
		rows, taps = in*p.kernel, 1
	}
	most := gradientPixels
	if in*c.Cout*p.kernel*p.kernel > gradientLarge {
		most = gradientMost
	}
	b := boxOf(nn, ny, nx, most)
	for n := 0; n < nn; n += b.n {
		for y := 0; y < ny; y += b.y {
			for x := 0; x < nx; x += b.x {
				now := box{min(b.n, nn-n), min(b.y, ny-y), min(b.x, nx-x)}
				args := gradientArgs{
					nx: uintptr(now.x), ny: uintptr(now.y), nn: uintptr(now.n),
					xwalk: step.walk(now.y, now.x), ywalk: p.ys.walk(now.y, now.x),
					panel: uintptr(4 * c.G.panelLen()),
				}
				pixels := now.n * now.y * now.x
				from, to := n*step.Image+y*step.Row+x*step.Pixel, p.ys.at(n, y, x)
				for g := range p.groups {
					p.box(args, pixels, from+g*in, to+g*out, g*out, out, rows, taps)
				}
			}
		}
	}
}

// box sums one box of pixels that starts at x and y, for out output channels
// from first on.
func (p *gradientPlan) box(args gradientArgs, pixels, x, y, first, out, rows, taps int) {
	g := p.c.G
	end := PadChannels(out)
	// Output gradients that many tiles read are copied first: close together they
	// stay in the first-level cache.
	pack := p.kernel*taps*rows >= gradientPacked && len(p.c.Scratch) >= p.c.ScratchLen()
	for ch := 0; ch < end; {
		width := p.v.tileWidth(end - ch)
		q := args
		q.mask = 1<<16 - 1
		if ch+width > end {
			q.mask = 1<<8 - 1
		}
		if pack {
			p.pack(&q, y+ch, min(width, end-ch), width)
		} else {
			q.y = pointer(p.c.DY, y+ch)
		}
		panel := (first+ch)/panelWidth*g.panelLen() + ch%panelWidth
		for ky := range p.kernel {
			for kx := range taps {
				q.x = pointer(p.c.X, x+ky*p.xs.Row+kx*p.xs.Pixel)
				q.g = pointer(g.Data, panel+(ky*p.kernel+kx)*g.Cin*panelWidth)
				p.v.gradientRows(&q, pixels, rows, width)
			}
		}
		ch += width
	}
}

// gradientPacked is how many input channels, of all taps, must be multiplied by
// output gradients for copying those to be worth it.
const gradientPacked = 64

// pack copies the output gradients of a box, n channels from y on, into scratch,
// ld apart, and makes args read them there.
func (p *gradientPlan) pack(args *gradientArgs, y, n, ld int) {
	to := p.c.Scratch
	copies := mapArgs{ldx: uintptr(4 * p.ys.Pixel), ldy: uintptr(4 * ld), rows: args.nx, n: uintptr(n)}
	copies.lo, copies.hi = None.limits()
	for i := range int(args.nn) {
		for j := range int(args.ny) {
			copies.x, copies.y = pointer(p.c.DY, y+i*p.ys.Image+j*p.ys.Row), pointer(to, 0)
			p.v.rows(mapClamp, copies)
			to = to[int(args.nx)*ld:]
		}
	}
	args.y, args.ywalk = pointer(p.c.Scratch, 0), walk{pixel: uintptr(4 * ld)}
}

// gradientRows computes rows input channels in tiles as even as they can be, in
// calls of bounded length.
func (v Variant) gradientRows(args *gradientArgs, pixels, rows, width int) {
	tiles := evenly(rows, v.gradientTile(width))
	size, more := rows/tiles, rows%tiles
	if more > 0 {
		v.gradientTiles(args, pixels, size+1, more, width)
		args.moved(more * (size + 1))
	}
	v.gradientTiles(args, pixels, size, tiles-more, width)
}

// moved goes on by some input channels.
func (p *gradientArgs) moved(rows int) {
	p.x = unsafe.Add(p.x, 4*rows)
	p.g = unsafe.Add(p.g, 4*panelWidth*rows)
}

// gradientTiles computes some tiles of the same size.
func (v Variant) gradientTiles(args *gradientArgs, pixels, rows, tiles, width int) {
	most := max(1, callMACs/(rows*width*pixels))
	q := *args
	for tiles > 0 {
		now := min(tiles, most)
		q.tiles = uintptr(now)
		v.gradient(rows, width, &q)
		if tiles -= now; tiles > 0 {
			q.moved(now * rows)
		}
	}
}

// plain is for groups of output channels that are not whole panels.
func (p *gradientPlan) plain() {
	c, g := p.c, p.c.G
	in, out := c.Cin/p.groups, c.Cout/p.groups
	for n := range c.N {
		for y := range c.OH {
			for x := range c.OW {
				dy := c.DY[p.ys.at(n, y, x):][:c.Cout]
				for t := range g.Taps {
					px := c.X[p.xs.at(n, y*p.stride+t/p.kernel, x*p.stride+t%p.kernel):][:c.Cin]
					for o, d := range dy {
						row := g.Data[o/panelWidth*g.panelLen()+t*g.Cin*panelWidth+o%panelWidth:]
						for i, a := range px[o/out*in:][:in] {
							row[i*panelWidth] += float32(d * a)
						}
					}
				}
			}
		}
	}
}
