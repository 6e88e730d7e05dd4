package kernel

import (
	"math"
	"testing"
)

func TestPooling(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 31)
		for c := 1; c <= 3*16+1; c++ {
			for _, q := range []Pooling{{Kernel: 3, Stride: 2, Pad: 1}, {Kernel: 2, Stride: 2}, {Kernel: 2, Stride: 2, Ceil: true}, {Kernel: 3, Pad: 1}, {Kernel: 3, Stride: 2, Ceil: true}, {Kernel: 5, Stride: 3, Pad: 2}} {
				q.Variant, q.N, q.H, q.W, q.C, q.Op = v, 1+r.IntN(2), 5+r.IntN(4), 5+r.IntN(12), c, PoolOp(r.IntN(3))
				ld := PadChannels(c)
				q.X = randomPixels(r, q.N*q.H*q.W, c, ld, r.IntN(16)).data
				if r.IntN(3) == 0 {
					q.X[r.IntN(q.N*q.H*q.W)*ld] = nan32
					q.X[r.IntN(q.N*q.H*q.W)*ld] = float32(math.Inf(-1))
				}
				oh, ow := q.OutSize()
				y := newBuffer(q.N*oh*ow*ld, r.IntN(16))
				q.Y = y.data
				q.Run(nil)
				for p := range q.N * oh * ow {
					for ch := range c {
						want, bound := pool64(&q, p/(oh*ow), p/ow%oh, p%ow, ch)
						if e := off(None, y.data[p*ld+ch], want, bound); e != "" {
							t.Fatalf("op %d kernel %d stride %d pad %d: pixel %d channel %d of %d: %s", q.Op, q.Kernel, q.Stride, q.Pad, p, ch, c, e)
						}
					}
				}
				y.checkGuards(t)
				again := q
				again.Y = newBuffer(len(q.Y), 1).data
				again.Run(pool)
				equalBits(t, "threads", again.Y, q.Y, q.N*oh*ow, c, ld, ld)
			}
		}
	})
}

// pool64 is one output in float64, with the bound of a sum of its pixels and
// the product with a rounded reciprocal.
func pool64(q *Pooling, n, y, x, c int) (want, bound float64) {
	s, ld := max(q.Stride, 1), PadChannels(q.C)
	top, sum, abs, count := math.Inf(-1), 0.0, 0.0, 0
	for iy := y*s - q.Pad; iy < y*s-q.Pad+q.Kernel; iy++ {
		for ix := x*s - q.Pad; ix < x*s-q.Pad+q.Kernel; ix++ {
			if iy < 0 || iy >= q.H || ix < 0 || ix >= q.W {
				continue
			}
			v := float64(q.X[((n*q.H+iy)*q.W+ix)*ld+c])
			top, sum, abs, count = max(top, v), sum+v, abs+math.Abs(v), count+1
		}
	}
	switch q.Op {
	case Max:
		return top, 0
	case MeanPadded:
		count = q.Kernel * q.Kernel
	}
	return sum / float64(count), float64(count+3) * eps * abs / float64(count)
}

func TestGlobalMean(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 32)
		for pixels := 1; pixels <= 3*4+1; pixels++ {
			for c := 1; c <= 5*16+1; c++ {
				n, ld := 1+c%2, PadChannels(c)
				g := GlobalMean{Variant: v, N: n, Pixels: pixels, C: c}
				g.X = randomPixels(r, n*pixels, c, ld, c%16).data
				if c%5 == 0 {
					g.X[0] = nan32
				}
				y := newBuffer(n*ld, c%16)
				g.Y = y.data
				g.Run(nil)
				for i := range n {
					for ch := range c {
						var sum, abs float64
						for p := range pixels {
							a := float64(g.X[(i*pixels+p)*ld+ch])
							sum, abs = sum+a, abs+math.Abs(a)
						}
						if e := off(None, g.Y[i*ld+ch], sum/float64(pixels), float64(pixels+3)*eps*abs/float64(pixels)); e != "" {
							t.Fatalf("channel %d of %d over %d pixels: %s", ch, c, pixels, e)
						}
					}
				}
				y.checkGuards(t)
				again := g
				again.Y = newBuffer(n*ld, 1).data
				again.Run(pool)
				equalBits(t, "threads", again.Y, g.Y, n, c, ld, ld)
			}
		}
	})
}

func TestPoolingPanics(t *testing.T) {
	x := make([]float32, 4*4*8)
	mustPanic(t, "input", func() { (&Pooling{N: 2, H: 4, W: 4, C: 8, Kernel: 2, Stride: 2, X: x, Y: x}).Run(nil) })
	mustPanic(t, "output", func() { (&Pooling{N: 1, H: 4, W: 4, C: 8, Kernel: 2, Stride: 2, X: x, Y: x[:31]}).Run(nil) })
	mustPanic(t, "kernel", func() { (&Pooling{N: 1, H: 4, W: 4, C: 8, X: x, Y: x}).Run(nil) })
	mustPanic(t, "padding", func() { (&Pooling{N: 1, H: 4, W: 4, C: 8, Kernel: 2, Pad: 2, X: x, Y: x}).Run(nil) })
	mustPanic(t, "mean", func() { (&GlobalMean{N: 1, Pixels: 17, C: 8, X: x, Y: x}).Run(nil) })
}
