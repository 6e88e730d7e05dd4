package kernel

import (
	"math"
	"testing"
	"unsafe"
)

func TestOptimiser(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 61)
		lengths := []int{100_000}
		for n := range 3*vectorUnit + 2 {
			lengths = append(lengths, n)
		}
		for _, n := range lengths {
			for _, nesterov := range []bool{false, true} {
				w, vel := newBuffer(n, r.IntN(16)), newBuffer(n, r.IntN(16))
				copy(w.data, random(r, n))
				copy(vel.data, random(r, n))
				g := newBuffer(n, r.IntN(16)).data
				copy(g, random(r, n))
				w0, v0 := append([]float32(nil), w.data...), append([]float32(nil), vel.data...)
				m := Momentum{Variant: v, Rate: 0.3, Momentum: 0.9, Decay: 0.25, Nesterov: nesterov, W: w.data, V: vel.data, G: g}
				m.Run()
				w.checkGuards(t)
				vel.checkGuards(t)
				for i := range n {
					a, b, c := float64(w0[i]), float64(v0[i]), float64(g[i])
					d := c + 0.25*a
					u := float64(m.Momentum)*b + d
					step := u
					if nesterov {
						step = d + float64(m.Momentum)*u
					}
					size := math.Abs(a) + math.Abs(b) + math.Abs(c)
					if got := float64(vel.data[i]); !(math.Abs(got-u) <= 4*eps*size) {
						t.Fatalf("%d of %d: velocity %v, want %v", i, n, got, u)
					}
					if got, want := float64(w.data[i]), a-float64(m.Rate)*step; !(math.Abs(got-want) <= 8*eps*size) {
						t.Fatalf("%d of %d: weight %v, want %v", i, n, got, want)
					}
				}
			}
			e, x := newBuffer(n, r.IntN(16)), random(r, n)
			copy(e.data, random(r, n))
			e0 := append([]float32(nil), e.data...)
			Average(v, e.data, x, 0.875)
			for i, got := range e.data {
				a, b := float64(e0[i]), float64(x[i])
				if want := a + (b-a)*0.125; !(math.Abs(float64(got)-want) <= 3*eps*(math.Abs(a)+math.Abs(b))) {
					t.Fatalf("%d of %d: average %v, want %v", i, n, got, want)
				}
			}
			copy(e.data, e0)
			AddScaled(v, e.data, x, -1.5)
			var total float64
			for i, got := range e.data {
				total += float64(got) * float64(got)
				a, b := float64(e0[i]), float64(x[i])
				if want := a - 1.5*b; !(math.Abs(float64(got)-want) <= 3*eps*(math.Abs(a)+2*math.Abs(b))) {
					t.Fatalf("%d of %d: sum %v, want %v", i, n, got, want)
				}
			}
			e.checkGuards(t)
			if got := SumSquares(e.data); math.Abs(got-total) > 1e-12*total {
				t.Errorf("sum of squares of %d: %v, want %v", n, got, total)
			}
			if n >= vectorUnit {
				var got, want [vectorUnit]float64
				args := vectorArgs{g: pointer(x, 0), n: uintptr(n &^ (vectorUnit - 1)), sums: unsafe.Pointer(&got)}
				squares(&args)
				args.sums = unsafe.Pointer(&want)
				squaresGeneric(&args)
				for i := range got {
					if math.Abs(got[i]-want[i]) > 1e-12*want[i] {
						t.Fatalf("%d squares, sum %d: %v, want %v", n, i, got[i], want[i])
					}
				}
			}
		}
	})
	x := make([]float32, 5)
	mustPanic(t, "velocity", (&Momentum{W: x, V: x[1:], G: x}).Run)
	mustPanic(t, "gradient", (&Momentum{W: x, V: x, G: x[1:]}).Run)
	mustPanic(t, "average", func() { Average(best, x, x[1:], 0) })
	mustPanic(t, "add", func() { AddScaled(best, x, x[1:], 0) })
}

func TestPoolingGradient(t *testing.T) {
	r := newRand(t, 62)
	for i := range 60 {
		g := PoolingGradient{Op: PoolOp(i % 3), N: 1 + r.IntN(2), H: 3 + r.IntN(8), W: 3 + r.IntN(8), C: 1 + r.IntN(20), Kernel: 2 + r.IntN(2), Stride: 1 + r.IntN(3), Ceil: r.IntN(2) == 0, Accumulate: r.IntN(2) == 0}
		g.Pad = r.IntN(g.Kernel/2 + 1)
		ld := PadChannels(g.C)
		g.X = random(r, g.N*g.H*g.W*ld)
		for j := range g.X {
			g.X[j] = float32(math.Round(float64(g.X[j]))) // maxima that occur twice
		}
		q := Pooling{Op: g.Op, N: g.N, H: g.H, W: g.W, C: g.C, Kernel: g.Kernel, Stride: g.Stride, Pad: g.Pad, Ceil: g.Ceil}
		oh, ow := q.OutSize()
		g.DY = random(r, g.N*oh*ow*ld)
		dx := newBuffer(len(g.X), 1)
		copy(dx.data, random(r, len(g.X)))
		want := make([]float64, len(g.X))
		if g.Accumulate {
			for j, v := range dx.data {
				want[j] = float64(v)
			}
		}
		g.DX = dx.data
		g.Run()
		dx.checkGuards(t)
		for p := range g.N * oh * ow {
			n, y, x := p/(oh*ow), p/ow%oh, p%ow
			for c := range g.C {
				var inside []int
				top := -1
				for k := range g.Kernel * g.Kernel {
					iy, ix := y*g.Stride-g.Pad+k/g.Kernel, x*g.Stride-g.Pad+k%g.Kernel
					if iy < 0 || iy >= g.H || ix < 0 || ix >= g.W {
						continue
					}
					at := ((n*g.H+iy)*g.W+ix)*ld + c
					inside = append(inside, at)
					if top < 0 || g.X[at] > g.X[top] {
						top = at
					}
				}
				d := float64(g.DY[p*ld+c])
				for _, at := range inside {
					switch g.Op {
					case Max:
						if at == top {
							want[at] += d
						}
					case Mean:
						want[at] += d / float64(len(inside))
					case MeanPadded:
						want[at] += d / float64(g.Kernel*g.Kernel)
					}
				}
			}
		}
		for j, v := range dx.data {
			if j%ld < g.C && math.Abs(float64(v)-want[j]) > 1e-5 {
				t.Fatalf("%+v: %d: %v, want %v", g, j, v, want[j])
			}
		}
	}
	x := make([]float32, 3*3*8)
	mustPanic(t, "short", (&PoolingGradient{N: 1, H: 3, W: 3, C: 8, Kernel: 2, X: x, DX: x[1:], DY: x}).Run)
	mustPanic(t, "short input", (&PoolingGradient{N: 1, H: 3, W: 3, C: 8, Kernel: 2, X: x[1:], DX: x, DY: x}).Run)
	mustPanic(t, "kernel", (&PoolingGradient{N: 1, H: 3, W: 3, C: 8, X: x, DX: x, DY: x}).Run)

	dy, dx := random(r, 2*16), make([]float32, 2*5*16)
	g := GlobalMeanGradient{N: 2, Pixels: 5, C: 13, DY: dy, DX: dx}
	g.Run()
	g.Accumulate = true
	g.Run()
	for i, v := range dx {
		if want := 2 * dy[i/80*16+i%16] / 5; math.Abs(float64(v-want)) > 1e-6 {
			t.Fatalf("mean: %d: %v, want %v", i, v, want)
		}
	}
	mustPanic(t, "mean", (&GlobalMeanGradient{N: 2, Pixels: 5, C: 13, DY: dy, DX: dx[1:]}).Run)
}
