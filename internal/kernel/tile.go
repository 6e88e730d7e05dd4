package kernel

import "unsafe"

// tileArgs is what a matrix kernel is called with: tiles of pixels by output
// channels. Strides are in bytes. A tile's pixels come in two halves, each with
// its own base, so that one tile can cover a piece of two image lines; the
// first half has (rows+1)/2 of them.
type tileArgs struct {
	a    unsafe.Pointer // first channel of the first pixel at the first tap
	lda  uintptr        // between the pixels of a half
	half uintptr        // from the first pixel to the second half
	next uintptr        // from one tile to the next

	k     uintptr // channels summed per tap
	kx    uintptr // taps in a row
	ky    uintptr // rows of taps
	askip uintptr // from the end of a tap's channels to the next tap, in the pixels
	arow  uintptr // the same from the last tap of a row to the next row

	w     unsafe.Pointer // first panel at its first row
	panel uintptr        // between panels
	wskip uintptr        // from the end of a tap's rows to the next tap

	c     unsafe.Pointer // output, as a
	ldc   uintptr
	chalf uintptr
	cnext uintptr
	res   unsafe.Pointer // residual, laid out as the output, or nil

	scale, bias unsafe.Pointer // of the tile's first channel
	lo, hi      float32
	tiles       uintptr // counted down by the kernel
	mask        uintptr // AVX-512: lanes of the last vector that exist
	resume      uintptr // not 0: sums go on from c instead of zero
	raw         uintptr // not 0: sums are stored as they are, to be resumed

	// Weights of the next tiles, fetched into the second-level cache meanwhile:
	// for every fourChannels summed, two cache lines at fetch, which then moves
	// by fetchstep. Only x86 uses it.
	fetch     unsafe.Pointer
	fetchstep uintptr
	fetchleft uintptr // bytes of them not yet fetched
}

const (
	fourChannels = 4
	fetchStep    = 128
)

// at returns the float at a byte offset from p.
func at(p unsafe.Pointer, off uintptr) *float32 {
	return (*float32)(unsafe.Add(p, off))
}

// tileGeneric is the loop nest that every matrix kernel computes, for width
// output channels (a multiple of 4): for each tile, pixel i < rows and channel
// j < width,
//
//	for y < ky, x < kx, c < k:
//		sum += a[i][y][x][c] * w[j/16][y][x][c][j%16]
//	c[i][j] = min(max(sum*scale[j] + bias[j] + res[i][j], lo), hi)
//
// with max and min keeping NaN.
func tileGeneric(rows, width int, p *tileArgs) {
	first := (rows + 1) / 2
	for t := range p.tiles {
		for i := range rows {
			a, c := t*p.next, t*p.cnext
			if i < first {
				a += uintptr(i) * p.lda
				c += uintptr(i) * p.ldc
			} else {
				a += p.half + uintptr(i-first)*p.lda
				c += p.chalf + uintptr(i-first)*p.ldc
			}
			for j := 0; j < width; j += 4 {
				w := uintptr(j/panelWidth)*p.panel + uintptr(j%panelWidth)*4
				tileLanes(p, a, w, c+uintptr(j)*4, uintptr(j)*4)
			}
		}
	}
}

// tileLanes computes four channels of one pixel. a, w, c and j are the byte
// offsets of the pixel, the weights, the output, and the channel.
func tileLanes(p *tileArgs, a, w, c, j uintptr) {
	var sum [4]float32
	if p.resume != 0 {
		sum = *(*[4]float32)(unsafe.Add(p.c, c))
	}
	for range p.ky {
		for x := range p.kx {
			for range p.k {
				v := *at(p.a, a)
				row := (*[4]float32)(unsafe.Add(p.w, w))
				for l, u := range row {
					sum[l] += float32(v * u)
				}
				a += 4
				w += 4 * panelWidth
			}
			w += p.wskip
			if x+1 < p.kx {
				a += p.askip
			}
		}
		a += p.arow
	}
	out := (*[4]float32)(unsafe.Add(p.c, c))
	if p.raw != 0 {
		*out = sum
		return
	}
	for l := range sum {
		o := uintptr(l) * 4
		v := float32(sum[l]**at(p.scale, j+o)) + *at(p.bias, j+o)
		if p.res != nil {
			v += *at(p.res, c+o)
		}
		out[l] = clamp(v, p.lo, p.hi)
	}
}

// clamp limits v to [lo, hi]; NaN stays NaN.
func clamp(v, lo, hi float32) float32 {
	if v < lo {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}
