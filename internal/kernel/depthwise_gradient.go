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
					end: uintptr(4 * channels),
				}
				v.tapGradient(d.Kernel, &args)
			}
		}
	}
}

// depthwiseMACs bounds one call of the kernels of depthwise gradients.
const depthwiseMACs = 1 << 20

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
	p.plain()
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
