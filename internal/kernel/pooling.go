package kernel

import (
	"fmt"
	"math"
	"unsafe"
)

// poolOp is a reduction over pixels; see poolGeneric.
type poolOp uint8

const (
	poolMax poolOp = iota
	poolSum
	poolMean
)

// poolArgs is what a pooling kernel is called with: n outputs along a row, each
// reducing ny by nx pixels, for end bytes of channels. Strides are in bytes.
type poolArgs struct {
	x        unsafe.Pointer
	row, pix uintptr // between rows and pixels of a window
	step     uintptr // between windows
	y        unsafe.Pointer
	ypix     uintptr
	n        uintptr
	ny, nx   uintptr
	end      uintptr
	factor   float32 // the result is multiplied by it; for max: -Inf, the start
}

// poolGeneric is the loop nest that every pooling kernel computes: for output
// o and channel c,
//
//	y[o][c] = max or sum over i < ny, j < nx of x[o*step + i*row + j*pix + c]
//
// in that order, sums multiplied by factor. A NaN makes the maximum NaN. The
// mean is a sum of one row in four parts: s[j%4] += x[j*pix + c], then
// (s[0]+s[1]) + (s[2]+s[3]).
func poolGeneric(op poolOp, p *poolArgs) {
	for o := range p.n {
		for c := uintptr(0); c < p.end; c += 4 {
			var s [4]float32
			top := p.factor
			for i := range p.ny {
				for j := range p.nx {
					x := *at(p.x, o*p.step+i*p.row+j*p.pix+c)
					switch {
					case op == poolSum:
						s[0] += x
					case op == poolMean:
						s[j%4] += x
					case x > top || x != x:
						top = x
					}
				}
			}
			if op != poolMax {
				top = ((s[0] + s[1]) + (s[2] + s[3])) * p.factor
			}
			*at(p.y, o*p.ypix+c) = top
		}
	}
}

// Pooling reduces windows of pixels, each channel by itself, to their maximum
// or mean. X is [N][H][W][PadChannels(C)], Y [N][OH][OW][PadChannels(C)];
// they may not overlap.
type Pooling struct {
	Variant             Variant
	Op                  PoolOp
	N, H, W, C          int
	Kernel, Stride, Pad int // Stride 0 means 1
	// Ceil rounds the output size up instead of down; windows that would start
	// beyond the input and its padding are left out.
	Ceil bool
	X, Y []float32

	v      Variant
	stride int
	oh, ow int
	rows   int // output rows a part
	strips int
}

// PoolOp is what Pooling reduces by.
type PoolOp uint8

const (
	// Max takes the maximum; padding does not count.
	Max PoolOp = iota
	// Mean divides the sum by the pixels of the window that are in the image.
	Mean
	// MeanPadded divides it by the whole window, padding included.
	MeanPadded
)

// OutSize returns the height and width of the output.
func (q *Pooling) OutSize() (h, w int) { return q.out(q.H), q.out(q.W) }

func (q *Pooling) out(n int) int {
	s := max(q.Stride, 1)
	o := outSize(n, q.Kernel, s, q.Pad)
	if q.Ceil && n+2*q.Pad > (o-1)*s+q.Kernel && o*s-q.Pad < n {
		o++
	}
	return o
}

type poolingTask Pooling

// Run computes the reduction on the pool of threads.
func (q *Pooling) Run(p *Pool) {
	q.v, q.stride = q.Variant.resolve(), max(q.Stride, 1)
	q.oh, q.ow = q.OutSize()
	ld := PadChannels(q.C)
	if q.N < 0 || q.H < 1 || q.W < 1 || q.C < 1 || q.Kernel < 1 || q.Stride < 0 || q.Pad < 0 || 2*q.Pad > q.Kernel || q.Op > MeanPadded {
		panic(fmt.Sprintf("kernel: Pooling of %d images of %d×%d×%d, kernel %d, stride %d, pad %d", q.N, q.H, q.W, q.C, q.Kernel, q.Stride, q.Pad))
	}
	if x, y := q.N*q.H*q.W*ld, q.N*q.oh*q.ow*ld; len(q.X) < x || len(q.Y) < y {
		panic(fmt.Sprintf("kernel: Pooling: %d inputs of %d, %d outputs of %d", len(q.X), x, len(q.Y), y))
	}
	if q.oh == 0 || q.ow == 0 {
		return
	}
	q.rows = q.oh
	if p.Size() > 1 {
		q.rows = max(1, q.oh/(2*p.Size()))
	}
	q.strips = evenly(q.oh, q.rows)
	p.Run(q.N*q.strips, (*poolingTask)(q))
}

func (t *poolingTask) Part(part, _ int) {
	q := (*Pooling)(t)
	n, y0 := part/q.strips, part%q.strips*q.rows
	for y := y0; y < min(y0+q.rows, q.oh); y++ {
		for x := 0; x < q.ow; {
			x += q.run(n, y, x)
		}
	}
}

// clip returns the part of window o that lies in an image of n pixels.
func (q *Pooling) clip(o, n int) (from, count int) {
	start := o*q.stride - q.Pad
	from = max(start, 0)
	return from, min(start+q.Kernel, n) - from
}

// run computes outputs of one row from x on that have windows of the same
// shape and returns how many.
func (q *Pooling) run(n, y, x int) int {
	iy, ny := q.clip(y, q.H)
	ix, nx := q.clip(x, q.W)
	count := 1
	if nx == q.Kernel { // whole windows follow each other
		count = min(q.ow-x, (q.W-q.Kernel-ix)/q.stride+1)
	}
	ld := PadChannels(q.C)
	args := poolArgs{
		x:   unsafe.Pointer(&q.X[((n*q.H+iy)*q.W+ix)*ld]),
		row: uintptr(4 * q.W * ld), pix: uintptr(4 * ld), step: uintptr(4 * q.stride * ld),
		y:    unsafe.Pointer(&q.Y[((n*q.oh+y)*q.ow+x)*ld]),
		ypix: uintptr(4 * ld), n: uintptr(count), ny: uintptr(ny), nx: uintptr(nx),
	}
	op := poolSum
	switch q.Op {
	case Max:
		op, args.factor = poolMax, float32(math.Inf(-1))
	case Mean:
		args.factor = 1 / float32(ny*nx)
	case MeanPadded:
		args.factor = 1 / float32(q.Kernel*q.Kernel)
	}
	q.v.reduceChannels(op, args, ld)
	return count
}

// reduceChannels reduces the given number of channels, a multiple of 8.
func (v Variant) reduceChannels(op poolOp, args poolArgs, channels int) {
	// AVX-512 has no kernel for half a vector; that of AVX2 computes the same.
	if v == AVX512 && channels%16 != 0 {
		half := args
		off := uintptr(4 * (channels - 8))
		half.x, half.y, half.end = unsafe.Add(args.x, off), unsafe.Add(args.y, off), 32
		AVX2.reduce(op, &half)
		channels -= 8
	}
	if channels > 0 {
		args.end = uintptr(4 * channels)
		v.reduce(op, &args)
	}
}

// GlobalMean averages each channel over the pixels of each image. X is
// [N][Pixels][PadChannels(C)], Y [N][PadChannels(C)].
type GlobalMean struct {
	Variant      Variant
	N, Pixels, C int
	X, Y         []float32

	v      Variant
	chunks int // parts an image
}

// meanChunk is the channels of one part of GlobalMean.
const meanChunk = 64

type globalMeanTask GlobalMean

// Run computes the means on the pool.
func (g *GlobalMean) Run(p *Pool) {
	g.v = g.Variant.resolve()
	ld := PadChannels(g.C)
	if g.N < 0 || g.Pixels < 1 || g.C < 1 || len(g.X) < g.N*g.Pixels*ld || len(g.Y) < g.N*ld {
		panic(fmt.Sprintf("kernel: GlobalMean of %d×%d×%d on %d inputs and %d outputs", g.N, g.Pixels, g.C, len(g.X), len(g.Y)))
	}
	g.chunks = evenly(ld, meanChunk)
	p.Run(g.N*g.chunks, (*globalMeanTask)(g))
}

func (t *globalMeanTask) Part(part, _ int) {
	g := (*GlobalMean)(t)
	ld := PadChannels(g.C)
	n, c := part/g.chunks, part%g.chunks*meanChunk
	args := poolArgs{
		x: unsafe.Pointer(&g.X[n*g.Pixels*ld+c]), y: unsafe.Pointer(&g.Y[n*ld+c]),
		pix: uintptr(4 * ld), n: 1, ny: 1, nx: uintptr(g.Pixels), factor: 1 / float32(g.Pixels),
	}
	g.v.reduceChannels(poolMean, args, min(meanChunk, ld-c))
}
