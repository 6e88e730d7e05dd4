package kernel

import (
	"fmt"
	"unsafe"
)

// DepthwiseGradient adds to G the gradient of a depthwise convolution's weights,
//
//	G[ky][kx][c] += Σ over n, y, x of DY[n][y][x][c] * X[n][y*Stride+ky][x*Stride+kx][c]
//
// for its first C channels, rounded up to 8. There is no padding: X comes with
// its border of zeros. Kernels of 3 and 5 are fast.
type DepthwiseGradient struct {
	Variant             Variant
	N, OH, OW, C        int // of the output
	Kernel, Stride      int // Stride 0 means 1
	X, DY               []float32
	XStrides, DYStrides Strides
	G                   *DepthwiseWeights
}

// tapGradientArgs is what a kernel of depthwise weight gradients is called with.
// Strides are in bytes.
type tapGradientArgs struct {
	x, y         unsafe.Pointer
	xwalk, ywalk walk    // between the first taps of outputs; between outputs
	pix, row     uintptr // between taps
	nx, ny, nn   uintptr // pixels of a row, rows, images
	g            unsafe.Pointer
	gtap         uintptr // between taps of the gradient
	end          uintptr // bytes of channels, whole vectors
	left         uintptr // images left, counted by the kernel
}

// tapGradientGeneric is the loop nest that every kernel of depthwise weight
// gradients computes: for tap (i, j) and channel c,
//
//	for n < nn, v < ny, u < nx:
//		sum += x[n][v][u][i][j][c] * y[n][v][u][c]
//	g[i][j][c] += sum
func tapGradientGeneric(kernel int, p *tapGradientArgs) {
	for t := range uintptr(kernel * kernel) {
		tap := t/uintptr(kernel)*p.row + t%uintptr(kernel)*p.pix
		for c := uintptr(0); c < p.end; c += 4 {
			var sum float32
			x, y := tap+c, c
			for range p.nn {
				for range p.ny {
					for range p.nx {
						sum += float32(*at(p.x, x) * *at(p.y, y))
						x += p.xwalk.pixel
						y += p.ywalk.pixel
					}
					x += p.xwalk.row
					y += p.ywalk.row
				}
				x += p.xwalk.image
				y += p.ywalk.image
			}
			*at(p.g, t*p.gtap+c) += sum
		}
	}
}

// Run computes the gradient.
func (d *DepthwiseGradient) Run() {
	fail := func(format string, args ...any) {
		panic("kernel: DepthwiseGradient: " + fmt.Sprintf(format, args...))
	}
	v, stride, channels := d.Variant.resolve(), max(d.Stride, 1), PadChannels(d.C)
	switch {
	case d.N < 0 || d.OH < 1 || d.OW < 1 || d.C < 1 || d.Kernel < 1 || d.Stride < 0:
		fail("%d images of %d×%d×%d, kernel %d, stride %d", d.N, d.OH, d.OW, d.C, d.Kernel, d.Stride)
	case d.G == nil:
		fail("no gradient")
	case d.G.Taps != d.Kernel*d.Kernel || d.G.Channels < d.C || len(d.G.Data) < d.G.Taps*PadChannels(d.G.Channels):
		fail("%d gradients of %d×%d taps for %d×%d", len(d.G.Data), d.G.Channels, d.G.Taps, d.C, d.Kernel*d.Kernel)
	}
	h, w := (d.OH-1)*stride+d.Kernel, (d.OW-1)*stride+d.Kernel
	xs, ys := d.XStrides.of(h, w, d.C), d.DYStrides.of(d.OH, d.OW, d.C)
	if !xs.fit(d.N, h, w, channels, len(d.X)) || !ys.fit(d.N, d.OH, d.OW, channels, len(d.DY)) {
		fail("%d inputs %v of %d×%d×%d×%d, %d outputs %v of %d×%d", len(d.X), xs, d.N, h, w, channels, len(d.DY), ys, d.OH, d.OW)
	}
	step := Strides{stride * xs.Pixel, stride * xs.Row, xs.Image}
	b := boxOf(d.N, d.OH, d.OW, max(1, depthwiseMACs/(d.G.Taps*channels)))
	for n := 0; n < d.N; n += b.n {
		for y := 0; y < d.OH; y += b.y {
			for x := 0; x < d.OW; x += b.x {
				now := box{min(b.n, d.N-n), min(b.y, d.OH-y), min(b.x, d.OW-x)}
				args := tapGradientArgs{
					x: pointer(d.X, step.at(n, y, x)), y: pointer(d.DY, ys.at(n, y, x)),
					xwalk: step.walk(now.y, now.x), ywalk: ys.walk(now.y, now.x),
					pix: uintptr(4 * xs.Pixel), row: uintptr(4 * xs.Row),
					nx: uintptr(now.x), ny: uintptr(now.y), nn: uintptr(now.n),
					g: pointer(d.G.Data, 0), gtap: uintptr(4 * PadChannels(d.G.Channels)),
					end: uintptr(4 * channels), left: uintptr(now.n),
				}
				if d.Kernel != 3 && d.Kernel != 5 {
					tapGradientGeneric(d.Kernel, &args)
					continue
				}
				// AVX-512 has no kernel for half a vector; that of AVX2 computes the same.
				if whole := channels &^ 15; v == AVX512 && whole != channels {
					half := args
					half.x, half.y, half.g = pointer(d.X, step.at(n, y, x)+whole), pointer(d.DY, ys.at(n, y, x)+whole), pointer(d.G.Data, whole)
					half.end = 32
					AVX2.tapGradient(d.Kernel, &half)
					args.end -= 32
				}
				if args.end > 0 {
					v.tapGradient(d.Kernel, &args)
				}
			}
		}
	}
}

// depthwiseMACs bounds one call of the kernels of depthwise gradients.
const depthwiseMACs = 1 << 19

// DepthwiseInputGradient computes the gradient of a depthwise convolution's
// input DX, [N][H][W][XLd], from that of its output, or adds it to what DX
// holds. Shapes are those of the convolution itself. Kernels of 3 and 5 with
// stride 1 and 2 and (Kernel-1)/2 of padding are fast.
type DepthwiseInputGradient struct {
	Variant             Variant
	N, H, W, C          int
	Kernel, Stride, Pad int // Stride 0 means 1

	DY, DX     []float32
	DYStrides  Strides
	XLd        int               // floats a pixel takes; 0 means PadChannels(C)
	Weights    *DepthwiseWeights // reversed, see [DepthwiseWeights.Flip]
	Accumulate bool              // add to DX; else it is overwritten, with zeros where no output looks
	Scratch    []float32         // ScratchLen floats

	unit identity
}

// OutSize returns the height and width of the convolution's output.
func (d *DepthwiseInputGradient) OutSize() (h, w int) {
	s := max(d.Stride, 1)
	return outSize(d.H, d.Kernel, s, d.Pad), outSize(d.W, d.Kernel, s, d.Pad)
}

// ScratchLen returns the floats Scratch must have.
func (d *DepthwiseInputGradient) ScratchLen() int {
	if d.Accumulate && d.fast() {
		return d.W * PadChannels(d.C)
	}
	return 0
}

func (d *DepthwiseInputGradient) fast() bool {
	return (d.Kernel == 3 || d.Kernel == 5) && d.Stride <= 2 && d.Pad == (d.Kernel-1)/2
}

// Run computes the gradient.
func (d *DepthwiseInputGradient) Run() {
	fail := func(format string, args ...any) {
		panic("kernel: DepthwiseInputGradient: " + fmt.Sprintf(format, args...))
	}
	channels := PadChannels(d.C)
	oh, ow := d.OutSize()
	w := d.Weights
	switch {
	case d.N < 0 || d.H < 1 || d.W < 1 || d.C < 1:
		fail("%d images of %d×%d×%d", d.N, d.H, d.W, d.C)
	case d.Kernel < 1 || d.Stride < 0 || d.Pad < 0 || d.Pad >= d.Kernel || oh < 1 || ow < 1:
		fail("kernel %d, stride %d, pad %d on %d×%d", d.Kernel, d.Stride, d.Pad, d.H, d.W)
	case w == nil:
		fail("no weights")
	case w.Taps != d.Kernel*d.Kernel || w.Channels < d.C || len(w.Data) < w.Taps*PadChannels(w.Channels):
		fail("%d weights of %d×%d taps for %d×%d", len(w.Data), w.Channels, w.Taps, d.C, d.Kernel*d.Kernel)
	case len(d.Scratch) < d.ScratchLen():
		fail("%d floats of scratch of %d", len(d.Scratch), d.ScratchLen())
	}
	p := depthwiseInput{
		v: d.Variant.resolve(), d: d, stride: max(d.Stride, 1), oh: oh, ow: ow, channels: channels,
		ys: d.DYStrides.of(oh, ow, d.C), xs: Strides{Pixel: d.XLd}.of(d.H, d.W, d.C), wtap: PadChannels(w.Channels),
	}
	if !p.ys.fit(d.N, oh, ow, channels, len(d.DY)) || !p.xs.fit(d.N, d.H, d.W, channels, len(d.DX)) {
		fail("%d outputs %v of %d×%d×%d×%d, %d inputs %v of %d×%d", len(d.DY), p.ys, d.N, oh, ow, channels, len(d.DX), p.xs, d.H, d.W)
	}
	if !d.fast() {
		p.plain()
		return
	}
	p.run()
}

// depthwiseInput is a running DepthwiseInputGradient.
type depthwiseInput struct {
	v        Variant
	d        *DepthwiseInputGradient
	stride   int
	oh, ow   int
	channels int
	ys, xs   Strides
	wtap     int
}

// plain adds, for each input, tap after tap.
func (p *depthwiseInput) plain() {
	d := p.d
	for n := range d.N {
		for y := range d.H {
			for x := range d.W {
				dx := d.DX[p.xs.at(n, y, x):][:p.channels]
				if !d.Accumulate {
					clear(dx)
				}
				for t := range d.Weights.Taps {
					// The first tap of the reversed weights is the last.
					oy, ox := y+d.Pad-(d.Kernel-1-t/d.Kernel), x+d.Pad-(d.Kernel-1-t%d.Kernel)
					if oy < 0 || ox < 0 || oy%p.stride != 0 || ox%p.stride != 0 || oy/p.stride >= p.oh || ox/p.stride >= p.ow {
						continue
					}
					dy := d.DY[p.ys.at(n, oy/p.stride, ox/p.stride):][:len(dx)]
					w := d.Weights.Data[t*p.wtap:][:len(dx)]
					for c := range dx {
						dx[c] += float32(dy[c] * w[c])
					}
				}
			}
		}
	}
}

// depthwiseBackGeneric is the loop nest that every kernel of depthwise input
// gradients of stride 2 computes: for each tile, output o < outputs and channel
// c,
//
//	for i < ny, j for which k = b - o + 2*j is in [0, kernel):
//		sum += x[i][j][c] * w[2*i][k][c]
//	y[o][c] = sum
//
// leaving out columns outside the image, at most one on each side. b is 1 for a
// kernel of 3 and 0 for one of 5: outputs then count from an even one.
func depthwiseBackGeneric(kernel, outputs int, p *windowArgs) {
	b := (5 - kernel) / 2
	columns := (kernel-1-b+outputs-1)/2 + 1
	for t := range p.tiles {
		for o := range outputs {
			for c := uintptr(0); c < p.end; c += 4 {
				var sum float32
				for i := range p.ny {
					for j := range columns {
						k := b - o + 2*j
						if k < 0 || k >= kernel || p.outside(t, uintptr(j), uintptr(columns)) {
							continue
						}
						x := *at(p.x, p.off+t*p.next+i*p.row+uintptr(j)*p.pix+c)
						sum += float32(x * *at(p.w, i*p.wrow+uintptr(k)*p.wtap+c))
					}
				}
				*at(p.y, (t*uintptr(outputs)+uintptr(o))*p.ypix+c) = sum
			}
		}
	}
}

// run goes over groups of channels, so narrow that the rows under the window
// stay in the first-level cache.
func (p *depthwiseInput) run() {
	d := p.d
	scale, bias := d.unit.of(p.channels)
	group := min(p.channels, max(16, windowFloats/(d.Kernel*p.ow)&^15))
	for n := range d.N {
		for c := 0; c < p.channels; c += group {
			end := min(c+group, p.channels)
			whole := end
			if p.v == AVX512 {
				whole = c + (end-c)&^15
			}
			for y := range d.H {
				if whole > c {
					p.row(p.v, scale, bias, n, y, c, whole)
				}
				if end > whole { // AVX-512 has no kernel for half a vector
					p.row(AVX2, scale, bias, n, y, whole, end)
				}
			}
		}
	}
}

// row computes channels c0 to c1 of one row.
func (p *depthwiseInput) row(v Variant, scale, bias []float32, n, y, c0, c1 int) {
	d := p.d
	to, ld := d.DX[p.xs.at(n, y, 0)+c0:], p.xs.Pixel
	if d.Accumulate {
		to, ld = d.Scratch, c1-c0
	}
	args := windowArgs{
		row: uintptr(4 * p.ys.Row), pix: uintptr(4 * p.ys.Pixel), ypix: uintptr(4 * ld),
		wtap: uintptr(4 * p.wtap), end: uintptr(4 * (c1 - c0)),
		scale: unsafe.Pointer(&scale[c0]), bias: unsafe.Pointer(&bias[c0]),
	}
	args.lo, args.hi = None.limits()
	x, w := d.DY[n*p.ys.Image+c0:], d.Weights.Data[c0:]
	if p.stride == 1 {
		g := window{
			kernel: d.Kernel, stride: 1, pad: d.Pad, top: d.Pad, h: p.oh, w: p.ow, oh: d.H, ow: d.W,
			xld: p.ys.Pixel, xrow: p.ys.Row, wtap: p.wtap,
		}
		args.wrow = uintptr(4 * d.Kernel * p.wtap)
		g.rowArgs(&args, x, w, to, y)
		g.row(v, &args, 0)
	} else {
		p.back(v, &args, x, w, to, y)
	}
	if d.Accumulate {
		dx := unsafe.Pointer(&d.DX[p.xs.at(n, y, 0)+c0])
		sum := mapArgs{x: dx, y: dx, z: unsafe.Pointer(&to[0]), ldx: uintptr(4 * p.xs.Pixel), ldy: uintptr(4 * p.xs.Pixel), ldz: uintptr(4 * ld), rows: uintptr(d.W), n: uintptr(c1 - c0)}
		sum.lo, sum.hi = None.limits()
		v.rows(mapAdd, sum)
	}
}

// back computes row y of a stride of 2. Its taps are every other row of the
// reversed weights.
func (p *depthwiseInput) back(v Variant, args *windowArgs, x, w, to []float32, y int) {
	d := p.d
	first := (y + d.Pad + d.Kernel + 1) % 2 // the first tap that leads to an output at all
	from := (y + d.Pad - d.Kernel + 1 + first) / 2
	if from < 0 {
		first, from = first-2*from, 0
	}
	rows := min((d.Kernel-1-first)/2+1, p.oh-from)
	args.x = unsafe.Pointer(&x[0])
	left := d.Kernel / 4 // columns left of the image: none of a kernel of 3
	args.off = uintptr(4 * (from*p.ys.Row - left*p.ys.Pixel))
	args.w = unsafe.Pointer(&w[first*d.Kernel*p.wtap])
	args.wrow = uintptr(4 * 2 * d.Kernel * p.wtap)
	args.y = unsafe.Pointer(&to[0])
	args.ny = uintptr(rows)

	// Tiles of an even number of outputs, the last one of what is left.
	most := v.windowOutputs()
	tiles := evenly(d.W, most)
	outputs := min(most, (evenly(d.W, tiles)+1)&^1)
	whole := (d.W - 1) / outputs
	rest := d.W - whole*outputs
	args.left = uintptr(left)
	args.next = uintptr(4 * outputs / 2 * p.ys.Pixel)
	if whole > 0 {
		args.tiles = uintptr(whole)
		v.depthwiseBack(d.Kernel, outputs, args)
		args.left = 0
		args.off += args.tiles * args.next
		args.y = unsafe.Add(args.y, args.tiles*uintptr(outputs)*args.ypix)
	}
	// The last column of the last tile.
	last := (whole*outputs + rest - 1 + d.Pad) / 2
	args.right = uintptr(max(0, last-p.ow+1))
	args.tiles = 1
	v.depthwiseBack(d.Kernel, rest, args)
}
