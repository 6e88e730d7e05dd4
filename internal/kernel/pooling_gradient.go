package kernel

import "fmt"

// PoolingGradient goes back through Pooling: it spreads each output gradient of
// DY, [N][OH][OW][PadChannels(C)], over its window in DX,
// [N][H][W][PadChannels(C)]. Of a maximum all of it goes to the first pixel of
// the window, row by row, that has the maximum in X.
type PoolingGradient struct {
	Op                  PoolOp
	N, H, W, C          int
	Kernel, Stride, Pad int // Stride 0 means 1
	Ceil                bool
	X                   []float32 // the input of Pooling, for Max
	DY, DX              []float32
	Accumulate          bool // add to DX; else it is overwritten

	pool Pooling
}

// Run computes the gradient.
func (g *PoolingGradient) Run() {
	q := &g.pool
	*q = Pooling{Op: g.Op, N: g.N, H: g.H, W: g.W, C: g.C, Kernel: g.Kernel, Stride: g.Stride, Pad: g.Pad, Ceil: g.Ceil}
	if g.N < 0 || g.H < 1 || g.W < 1 || g.C < 1 || g.Kernel < 1 || g.Stride < 0 || g.Pad < 0 || 2*g.Pad > g.Kernel || g.Op > MeanPadded {
		panic(fmt.Sprintf("kernel: PoolingGradient of %d images of %d×%d×%d, kernel %d, stride %d, pad %d", g.N, g.H, g.W, g.C, g.Kernel, g.Stride, g.Pad))
	}
	q.stride = max(g.Stride, 1)
	q.oh, q.ow = q.OutSize()
	ld := PadChannels(g.C)
	if x, y := g.N*g.H*g.W*ld, g.N*q.oh*q.ow*ld; len(g.DX) < x || len(g.DY) < y || g.Op == Max && len(g.X) < x {
		panic(fmt.Sprintf("kernel: PoolingGradient: %d and %d inputs of %d, %d outputs of %d", len(g.X), len(g.DX), x, len(g.DY), y))
	}
	if !g.Accumulate {
		clear(g.DX[:g.N*g.H*g.W*ld])
	}
	for n := range g.N {
		for y := range q.oh {
			for x := range q.ow {
				dy := g.DY[((n*q.oh+y)*q.ow+x)*ld:][:ld]
				if g.Op == Max {
					g.spreadMax(dy, n, y, x, ld)
				} else {
					g.spreadMean(dy, n, y, x, ld)
				}
			}
		}
	}
}

func (g *PoolingGradient) spreadMean(dy []float32, n, y, x, ld int) {
	iy, ny := g.pool.clip(y, g.H)
	ix, nx := g.pool.clip(x, g.W)
	factor := 1 / float32(ny*nx)
	if g.Op == MeanPadded {
		factor = 1 / float32(g.Kernel*g.Kernel)
	}
	for i := iy; i < iy+ny; i++ {
		for j := ix; j < ix+nx; j++ {
			dx := g.DX[((n*g.H+i)*g.W+j)*ld:][:len(dy)]
			for c, d := range dy {
				dx[c] += float32(d * factor)
			}
		}
	}
}

// spreadMax works on blocks of channels, so that where their maxima are fits
// into registers or nearly so.
func (g *PoolingGradient) spreadMax(dy []float32, n, y, x, ld int) {
	const block = 8
	iy, ny := g.pool.clip(y, g.H)
	ix, nx := g.pool.clip(x, g.W)
	for c := 0; c < ld; c += block {
		first := ((n*g.H+iy)*g.W+ix)*ld + c
		top := *(*[block]float32)(g.X[first:])
		var where [block]int
		for l := range where {
			where[l] = first + l
		}
		for i := range ny {
			for j := range nx {
				pixel := first + (i*g.W+j)*ld
				for l, v := range (*[block]float32)(g.X[pixel:]) {
					if v > top[l] || v != v {
						top[l], where[l] = v, pixel+l
					}
				}
			}
		}
		for l, w := range where {
			g.DX[w] += dy[c+l]
		}
	}
}

// GlobalMeanGradient goes back through GlobalMean: every pixel of DX,
// [N][Pixels][PadChannels(C)], gets its share of DY, [N][PadChannels(C)].
type GlobalMeanGradient struct {
	N, Pixels, C int
	DY, DX       []float32
	Accumulate   bool // add to DX; else it is overwritten
}

// Run computes the gradient.
func (g *GlobalMeanGradient) Run() {
	ld := PadChannels(g.C)
	if g.N < 0 || g.Pixels < 1 || g.C < 1 || len(g.DX) < g.N*g.Pixels*ld || len(g.DY) < g.N*ld {
		panic(fmt.Sprintf("kernel: GlobalMeanGradient of %d×%d×%d on %d inputs and %d outputs", g.N, g.Pixels, g.C, len(g.DX), len(g.DY)))
	}
	factor := 1 / float32(g.Pixels)
	for n := range g.N {
		dy := g.DY[n*ld:][:ld]
		for i := range g.Pixels {
			dx := g.DX[(n*g.Pixels+i)*ld:][:len(dy)]
			if g.Accumulate {
				for c, d := range dy {
					dx[c] += float32(d * factor)
				}
			} else {
				for c, d := range dy {
					dx[c] = float32(d * factor)
				}
			}
		}
	}
}
