package kernel

import (
	"math"
	"testing"
)

func TestMap(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 21)
		for c := 1; c <= 3*16+1; c++ {
			for _, op := range []MapOp{Identity, Sum, Product} {
				act := Activation(r.IntN(5))
				n, ld, period := 1+r.IntN(9), PadChannels(c), r.IntN(4)
				z := randomPixels(r, (n+max(period, 1)-1)/max(period, 1), c, ld, r.IntN(16)).data
				x := randomPixels(r, n, c, ld, r.IntN(16)).data
				y := newBuffer(n*ld, r.IntN(16))
				m := Map{Variant: v, Op: op, N: n, C: c, X: x, Z: z, Y: y.data, Period: period, Activation: act}
				m.Run(nil)
				for i := range n {
					for j := range c {
						want := float64(x[i*ld+j])
						second := float64(z[i/max(period, 1)*ld+j])
						switch op {
						case Sum:
							want += second
						case Product:
							want *= second
						}
						if e := off(act, y.data[i*ld+j], want, 2*eps*math.Abs(want)); e != "" {
							t.Fatalf("op %d row %d of %d, channel %d of %d: %s", op, i, n, j, c, e)
						}
					}
				}
				y.checkGuards(t)
			}
		}
		// Large enough for several parts: the same bits on several threads, and in place.
		const n, c = 1000, 72
		for _, act := range []Activation{ReLU, SiLU, Sigmoid} {
			x := random(r, n*c)
			z := random(r, n*c)
			once, again := make([]float32, n*c), make([]float32, n*c)
			(&Map{Variant: v, Op: Sum, N: n, C: c, X: x, Z: z, Y: once, Activation: act}).Run(nil)
			(&Map{Variant: v, Op: Sum, N: n, C: c, X: x, Z: z, Y: again, Activation: act}).Run(pool)
			equalBits(t, "threads", again, once, n, c, c, c)
			(&Map{Variant: v, Op: Sum, N: n, C: c, X: x, Z: z, Y: x, Activation: act}).Run(pool)
			equalBits(t, "in place", x, once, n, c, c, c)
		}
	})
}

// TestSmooth holds the smooth functions to their bound over their whole range.
func TestSmooth(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		var x []float32
		for a := -100.0; a <= 100; a += 0.0137 {
			x = append(x, float32(a))
		}
		x = append(x, 0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, 3e38, float32(math.Inf(1)), nan32)
		for len(x)%8 != 0 {
			x = append(x, 1)
		}
		y := make([]float32, len(x))
		for _, act := range []Activation{SiLU, Sigmoid} {
			(&Map{Variant: v, N: 1, C: len(x), X: x, Y: y, Activation: act}).Run(nil)
			for i, a := range x {
				if e := off(act, y[i], float64(a), 0); e != "" {
					t.Fatalf("activation %d of %v: %s", act, a, e)
				}
			}
		}
		(&Map{Variant: v, N: 1, C: 8, X: []float32{float32(math.Inf(-1)), 0, 0, 0, 0, 0, 0, 0}, Y: y, Activation: Sigmoid}).Run(nil)
		if !(y[0] >= 0 && y[0] < 1e-30) {
			t.Errorf("sigmoid(-Inf) = %v", y[0])
		}
	})
}

func TestSoftmax(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 22)
		for c := 1; c <= 3*16+1; c++ {
			n, ld := 3, PadChannels(c)
			x := randomPixels(r, n, c, ld, c%16).data
			for i := range c {
				x[i] *= 30
				x[ld+i] += 1000
			}
			y := newBuffer(n*ld, c%7)
			Softmax(v, n, c, y.data, x)
			y.checkGuards(t)
			for row := range n {
				top, sum := math.Inf(-1), 0.0
				for _, a := range x[row*ld : row*ld+c] {
					top = max(top, float64(a))
				}
				for _, a := range x[row*ld : row*ld+c] {
					sum += math.Exp(float64(a) - top)
				}
				for i, a := range x[row*ld : row*ld+c] {
					// The difference is exact or rounds once, exp is good to six
					// roundings, the sum is in float64; below exp(-80) it stops.
					want := math.Exp(float64(a)-top) / sum
					if got := float64(y.data[row*ld+i]); math.Abs(got-want) > (8+math.Abs(float64(a)-top))*eps*want+2e-35 {
						t.Fatalf("%d of %d values: %v, want %v", i, c, got, want)
					}
				}
			}
		}
		x := []float32{1, 2, nan32, 4, 5, 6, 7, 8}
		Softmax(v, 1, 8, x, x)
		for i, a := range x {
			if a == a {
				t.Errorf("value %d of a row with a NaN is %v", i, a)
			}
		}
	})
}

func TestElementwisePanics(t *testing.T) {
	x := make([]float32, 16)
	mustPanic(t, "map input", func() { (&Map{N: 3, C: 8, X: x, Y: make([]float32, 24)}).Run(nil) })
	mustPanic(t, "map output", func() { (&Map{N: 2, C: 8, X: x, Y: x[:15]}).Run(nil) })
	mustPanic(t, "map second input", func() { (&Map{Op: Sum, N: 2, C: 8, X: x, Y: x, Z: x[:8]}).Run(nil) })
	mustPanic(t, "map channels", func() { (&Map{N: 2, X: x, Y: x}).Run(nil) })
	mustPanic(t, "softmax", func() { Softmax(best, 2, 9, x, x) })
}
