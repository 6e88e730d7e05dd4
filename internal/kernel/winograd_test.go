package kernel

import (
	"fmt"
	"math"
	"testing"
)

// winogradRoundings is how many roundings besides those of the sum over cin
// input channels a result of Winograd's algorithm has: each of the two passes
// of a transform rounds at most three times for inputs, three for weights and
// five (a constant, a product, three additions) for outputs, and the terms of
// the sum are products.
const winogradRoundings = 2*3 + 2*3 + 2*5

// winogradAmplitude returns what the error of each output [pixels][cout] is
// relative to: the value of Winograd's formula with every term positive,
//
//	|A|ᵀ [ Σ (|G| |w| |G|ᵀ) ⊙ (|B|ᵀ |x| |B|) ] |A|
//
// Every rounding changes a term by at most eps, and no term takes part in more
// than cin + winogradRoundings of them, so that the sums are off by at most
//
//	1.01 (cin + winogradRoundings + 1) eps · amplitude
//
// whatever their order, fused or not. That is dotBound with the amplitude for
// the sum of magnitudes.
func (tc convCase) winogradAmplitude(c *Conv, raw []float32) []float64 {
	const a, b, a2, b2 = winogradA, winogradB, winogradA2, winogradB2
	const al, be = -alpha, beta // magnitudes
	B := [][]float64{{a2 * b2, 0, a2 + b2, 0, 1, 0}, {0, a * b2, b2, a, 1, 0}, {0, a * b2, b2, a, 1, 0}, {0, b * a2, a2, b, 1, 0}, {0, b * a2, a2, b, 1, 0}, {0, a2 * b2, 0, a2 + b2, 0, 1}}
	G := [][]float64{{1, 0, 0}, {1, a, a2}, {1, a, a2}, {1, b, b2}, {1, b, b2}, {0, 0, 1}}
	A := [][]float64{{1 / (a2 * b2), al, al, be, be, 0}, {0, al * a, al * a, be * b, be * b, 0}, {0, al * a2, al * a2, be * b2, be * b2, 0}, {0, al * a2 * a, al * a2 * a, be * b2 * b, be * b2 * b, 1}}
	// both multiplies the square matrix x by m from the left and mᵀ from the right.
	both := func(m [][]float64, x []float64) []float64 {
		k := len(m[0])
		half := make([]float64, len(m)*k)
		for i := range m {
			for j := range k {
				for l := range k {
					half[i*k+j] += m[i][l] * x[l*k+j]
				}
			}
		}
		out := make([]float64, len(m)*len(m))
		for i := range m {
			for j := range m {
				for l := range k {
					out[i*len(m)+j] += half[i*k+l] * m[j][l]
				}
			}
		}
		return out
	}
	u := make([][]float64, tc.cout*tc.cin)
	for i := range u {
		w := make([]float64, 9)
		for t := range w {
			w[t] = math.Abs(float64(raw[i*9+t]))
		}
		u[i] = both(G, w)
	}
	oh, ow := c.OutSize()
	xld := c.XLd
	if xld == 0 {
		xld = PadChannels(tc.cin)
	}
	amplitude := make([]float64, tc.n*oh*ow*tc.cout)
	v := make([][]float64, tc.cin)
	for n := range tc.n {
		for y := 0; y < oh; y += 4 {
			for x := 0; x < ow; x += 4 {
				for i := range v {
					d := make([]float64, 36)
					for p := range d {
						if iy, ix := y-tc.pad+p/6, x-tc.pad+p%6; iy >= 0 && iy < tc.h && ix >= 0 && ix < tc.w {
							d[p] = math.Abs(float64(c.X[((n*tc.h+iy)*tc.w+ix)*xld+i]))
						}
					}
					v[i] = both(B, d)
				}
				for o := range tc.cout {
					m := make([]float64, 36)
					for i := range v {
						for p, d := range v[i] {
							m[p] += d * u[o*tc.cin+i][p]
						}
					}
					for p, s := range both(A, m) {
						if oy, ox := y+p/4, x+p%4; oy < oh && ox < ow {
							amplitude[((n*oh+oy)*ow+ox)*tc.cout+o] = s
						}
					}
				}
			}
		}
	}
	return amplitude
}

// TestWinogradTails runs tiles that overhang the image in every way, every rest
// of input and of output channels, and images of fewer outputs than a tile.
func TestWinogradTails(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 3
	}
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 20)
		tc := convCase{kernel: 3, alg: Winograd}
		vary := func() {
			tc.n, tc.misalign, tc.act, tc.residual = 1+r.IntN(2), r.IntN(16), Activation(r.IntN(5)), r.IntN(2) == 0
			tc.xld = 0
			if r.IntN(2) == 0 {
				tc.xld = tc.cin + r.IntN(3)
			}
			tc.cinMax, tc.coutMax = tc.cin+r.IntN(3), tc.cout+r.IntN(20)
			tc.run(t, r, v)
		}
		for h := 1; h <= 9; h += step {
			for w := 1; w <= 9; w++ {
				tc.h, tc.w, tc.pad = h, w, r.IntN(3)
				tc.cin, tc.cout = 1+r.IntN(9), 1+r.IntN(17)
				if h+2*tc.pad < 3 || w+2*tc.pad < 3 {
					tc.pad = 1
				}
				vary()
			}
		}
		tc.pad = 1
		for cout := 1; cout <= 5*16+1; cout += step {
			tc.h, tc.w, tc.cin, tc.cout = 3, 6, 1+r.IntN(18), cout
			vary()
		}
		for cin := 1; cin <= 2*16+9; cin += step {
			tc.h, tc.w, tc.cin, tc.cout = 5, 4, cin, 1+r.IntN(24)
			vary()
		}
		// More input channels than are transformed at once, more tiles than a block.
		tc.h, tc.w, tc.cin, tc.cout = 4, 5, 2*winogradK+5, 9
		vary()
		tc.h, tc.w, tc.cin, tc.cout = 33, 37, 3, 8
		vary()
	})
}

// TestWinogradShape computes outputs among others: the bits of an output must
// not depend on the output channels, the images or the tiles that are computed
// with it, nor on who computes them.
func TestWinogradShape(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 21)
		const h, w, cin, cout = 14, 15, 37, 83
		n := 7
		if testing.Short() {
			n = 4
		}
		c, _, _ := convCase{n: n, h: h, w: w, cin: cin, cout: cout, kernel: 3, pad: 1, alg: Winograd}.build(r)
		c.Variant = v
		prepare(c, 1)
		c.Run(nil)
		ld := PadChannels(cout)
		for images := 1; images < n; images += 2 {
			some := *c
			some.N, some.Y = images, newBuffer(images*h*w*ld, 0).data
			prepare(&some, pool.Size())
			some.Run(pool)
			equalBits(t, fmt.Sprintf("%d images", images), some.Y, c.Y, images*h*w, cout, ld, ld)
		}
		for k := 1; k < cout; k += 9 {
			some := *c
			some.N, some.Cout, some.Y = 1, k, newBuffer(h*w*PadChannels(k), k%16).data
			prepare(&some, pool.Size())
			some.Run(pool)
			equalBits(t, fmt.Sprintf("%d channels", k), some.Y, c.Y, h*w, k, PadChannels(k), ld)
		}
	})
}

// TestWinogradChoice checks that the algorithm depends on the shape that runs
// alone, and that it is what the shapes of the networks should have.
func TestWinogradChoice(t *testing.T) {
	on := func(c Conv, workers int) bool {
		c.plan.shape(&c)
		c.plan.divide(&c, workers)
		return c.plan.winograd.on
	}
	for _, tc := range []struct {
		c    Conv
		want bool
	}{
		{Conv{H: 56, W: 56, Cin: 64, Cout: 64, Kernel: 3, Pad: 1}, true},
		{Conv{H: 14, W: 14, Cin: 256, Cout: 256, Kernel: 3, Pad: 1}, true},
		{Conv{H: 14, W: 14, Cin: 256, Cout: 256, Kernel: 3, Pad: 1, Algorithm: Direct}, false},
		{Conv{H: 7, W: 7, Cin: 512, Cout: 512, Kernel: 3, Pad: 1}, false},
		{Conv{H: 7, W: 7, Cin: 512, Cout: 512, Kernel: 3, Pad: 1, Algorithm: Winograd}, true},
		{Conv{H: 56, W: 56, Cin: 64, Cout: 64, Kernel: 3, Pad: 1, Stride: 2}, false},
		{Conv{H: 56, W: 56, Cin: 64, Cout: 64, Kernel: 1, Algorithm: Winograd}, false},
		{Conv{H: 56, W: 56, Cin: 64, Cout: 64, Kernel: 5, Pad: 2}, false},
		{Conv{H: 56, W: 56, Cin: 3, Cout: 64, Kernel: 3, Pad: 1}, false},
		{Conv{H: 56, W: 56, Cin: 64, Cout: 64, Kernel: 3, Pad: 1, Groups: 2}, false},
	} {
		for _, n := range []int{1, 8} {
			for _, workers := range []int{1, 2, 16} {
				tc.c.N = n
				if got := on(tc.c, workers); got != tc.want {
					t.Errorf("%d×%d, %d-%d, kernel %d, %d workers: Winograd %t", tc.c.H, tc.c.W, tc.c.Cin, tc.c.Cout, tc.c.Kernel, workers, got)
				}
			}
		}
	}
}

// TestWinogradError measures the error of a layer against the direct sum in
// float64, relative to the size of its outputs. The bound is what the networks
// rely on; TestWinogradTails' is what no input can exceed.
func TestWinogradError(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 22)
		for _, cin := range []int{8, 64, 256} {
			if cin == 256 && testing.Short() {
				continue
			}
			tc := convCase{n: 1, h: 8, w: 8, cin: cin, cout: 16, kernel: 3, pad: 1, alg: Winograd}
			c, _, raw := tc.build(r)
			c.Variant = v
			prepare(c, 1)
			c.Run(nil)
			var err, size float64
			for p := range 64 {
				for o := range 16 {
					var sum float64
					for k := range 9 {
						y, x := p/8-1+k/3, p%8-1+k%3
						if y < 0 || y >= 8 || x < 0 || x >= 8 {
							continue
						}
						for i := range cin {
							sum += float64(c.X[(y*8+x)*cin+i]) * float64(raw[(o*cin+i)*9+k])
						}
					}
					want := sum*float64(c.Scale[o]) + float64(c.Bias[o])
					d := float64(c.Y[p*16+o]) - want
					err, size = err+d*d, size+want*want
				}
			}
			rms, most := math.Sqrt(err/size), winogradError(cin)
			t.Logf("%d channels: relative error %.2g, bound %.2g", cin, rms, most)
			if rms > most {
				t.Errorf("%d channels: relative error %.2g above %.2g", cin, rms, most)
			}
		}
	})
}

// winogradError bounds the root mean square of the error of a layer of random
// weights and inputs, relative to that of its outputs.
func winogradError(cin int) float64 { return 2 * eps * (4 + math.Sqrt(float64(cin))) }

// TestWinogradNonFinite checks that a NaN or infinity reaches the tiles that
// look at it, and no other.
func TestWinogradNonFinite(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		for _, bad := range []float32{nan32, float32(math.Inf(1))} {
			r := newRand(t, 23)
			const size = 16
			c, _, _ := convCase{n: 1, h: size, w: size, cin: 8, cout: 16, kernel: 3, pad: 1, alg: Winograd}.build(r)
			c.Variant = v
			c.X[(5*size+6)*8+3] = bad
			prepare(c, 1)
			c.Run(nil)
			for p, y := range c.Y {
				py, px := p/16/size, p/16%size
				finite := !math.IsNaN(float64(y)) && !math.IsInf(float64(y), 0)
				sees := py >= 4 && py <= 6 && px >= 5 && px <= 7
				if tile := py/4 == 1 && px/4 == 1; sees && finite || !tile && !finite {
					t.Fatalf("%v at 5, 6: output %d, %d is %v", bad, py, px, y)
				}
			}
		}
	})
}
