package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slope64 is the derivative of an activation.
func slope64(a Activation, u float64) float64 {
	s := 1 / (1 + math.Exp(-u))
	switch a {
	case ReLU:
		if u <= 0 {
			return 0
		}
	case ReLU6:
		if u <= 0 || u >= 6 {
			return 0
		}
	case SiLU:
		return s * (1 + u*(1-s))
	case Sigmoid:
		return s * (1 - s)
	}
	return 1
}

// pixelShape is a random batch: all numbers of channels that end in a different
// vector, few and many pixels.
func pixelShape(r *rand.Rand, i int) (n, h, w, c int, loose bool) {
	n, h, w, c, loose = 1+r.IntN(3), 1+r.IntN(4), 1+r.IntN(5), i%150+1, r.IntN(2) == 0
	if i%10 == 0 {
		h, w = 15+r.IntN(20), 15+r.IntN(20)
		c = c%20 + 1
	}
	return n, h, w, c, loose
}

// forPixels runs f with random shapes.
func forPixels(t *testing.T, seed uint64, f func(t *testing.T, r *rand.Rand, v Variant, n, h, w, c int, loose bool)) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, seed)
		step := 1
		if testing.Short() {
			step = 5
		}
		for i := 0; i < 150; i += step {
			n, h, w, c, loose := pixelShape(r, i)
			f(t, r, v, n, h, w, c, loose)
		}
	})
}

// zeroPadded returns n random floats and zeros up to PadChannels(n).
func zeroPadded(r *rand.Rand, n int) []float32 {
	b := newBuffer(PadChannels(n), r.IntN(16)).data
	clear(b[copy(b, random(r, n)):])
	return b
}

func TestNormalise(t *testing.T) {
	forPixels(t, 51, func(t *testing.T, r *rand.Rand, v Variant, n, h, w, c int, loose bool) {
		z := newImages(r, n, h, w, c, PadChannels(c), loose)
		y := newImages(r, n, h, w, c, PadChannels(c), loose).blank()
		op := Normalise{Variant: v, N: n, H: h, W: w, C: c, Z: z.data, ZStrides: z.s, Y: y.data, YStrides: y.s,
			Scale: zeroPadded(r, c), Shift: zeroPadded(r, c), Activation: Activation(r.IntN(5))}
		res := newImages(r, n, h, w, c, PadChannels(c), r.IntN(2) == 0)
		if r.IntN(2) == 0 {
			op.Residual, op.ResidualStrides = res.data, res.s
		}
		op.Run()
		y.checkGaps(t)
		for p := range n * h * w {
			i, py, px := p/(h*w), p/w%h, p%w
			for ch := range c {
				a, b := float64(z.data[z.s.at(i, py, px)+ch])*float64(op.Scale[ch]), float64(op.Shift[ch])
				e := 0.0
				if op.Residual != nil {
					e = float64(res.data[res.s.at(i, py, px)+ch])
				}
				bound := 3 * eps * (math.Abs(a) + math.Abs(b) + math.Abs(e))
				if e := off(op.Activation, y.data[y.s.at(i, py, px)+ch], a+b+e, bound); e != "" {
					t.Fatalf("%dx%dx%dx%d, pixel %d channel %d: %s", n, h, w, c, p, ch, e)
				}
			}
		}
		// In place: the same bits.
		if op.Residual == nil {
			op.Y, op.YStrides = z.data, z.s
			op.Run()
			for p := range n * h * w {
				i, py, px := p/(h*w), p/w%h, p%w
				equalBits(t, "in place", z.data[z.s.at(i, py, px):], y.data[y.s.at(i, py, px):], 1, c, 0, 0)
			}
		}
	})
}

// sumBound bounds the error of a sum over pixels in pieces, of terms that sum to
// abs and have been rounded a few times.
func sumBound(pixels int, abs float64) float64 {
	return 1.01 * eps * abs * float64(min(pixels, sumPixels)+pixels/sumPixels+8)
}

func TestMoments(t *testing.T) {
	forPixels(t, 52, func(t *testing.T, r *rand.Rand, v Variant, n, h, w, c int, loose bool) {
		z := newImages(r, n, h, w, c, PadChannels(c), loose)
		near := zeroPadded(r, c)
		sum, square := newBuffer(PadChannels(c), r.IntN(16)), newBuffer(PadChannels(c), r.IntN(16))
		copy(sum.data, near)
		clear(square.data)
		op := Moments{Variant: v, N: n, H: h, W: w, C: c, Z: z.data, ZStrides: z.s, Near: near, Sum: sum.data, Square: square.data}
		op.Run()
		sum.checkGuards(t)
		square.checkGuards(t)
		for ch := range c {
			s, abs, q := float64(near[ch]), math.Abs(float64(near[ch])), 0.0
			for p := range n * h * w {
				d := float64(z.data[z.s.at(p/(h*w), p/w%h, p%w)+ch]) - float64(near[ch])
				s += d
				abs += math.Abs(d)
				q += d * d
			}
			if g := float64(sum.data[ch]); !(math.Abs(g-s) <= sumBound(n*h*w, abs)) {
				t.Fatalf("%dx%dx%dx%d, channel %d: sum %v, want %v", n, h, w, c, ch, g, s)
			}
			if g := float64(square.data[ch]); !(math.Abs(g-q) <= sumBound(n*h*w, q)) {
				t.Fatalf("%dx%dx%dx%d, channel %d: squares %v, want %v", n, h, w, c, ch, g, q)
			}
		}
	})
}

func TestNormGradient(t *testing.T) {
	forPixels(t, 53, func(t *testing.T, r *rand.Rand, v Variant, n, h, w, c int, loose bool) {
		z := newImages(r, n, h, w, c, PadChannels(c), loose)
		z.each(func(i, _ int) { z.data[i] *= 4 })
		dy := newImages(r, n, h, w, c, PadChannels(c), r.IntN(2) == 0)
		dz := newImages(r, n, h, w, c, PadChannels(c), r.IntN(2) == 0).blank()
		sum, dot := newBuffer(PadChannels(c), r.IntN(16)), newBuffer(PadChannels(c), r.IntN(16))
		clear(sum.data)
		clear(dot.data)
		op := NormGradient{Variant: v, N: n, H: h, W: w, C: c, Z: z.data, ZStrides: z.s, DY: dy.data, DYStrides: dy.s, DZ: dz.data, DZStrides: dz.s,
			Scale: zeroPadded(r, c), Shift: zeroPadded(r, c), Mean: zeroPadded(r, c), Sum: sum.data, Dot: dot.data,
			A: zeroPadded(r, c), B: zeroPadded(r, c), D: zeroPadded(r, c), Activation: Activation(r.IntN(5))}
		// Where the slope jumps, rounding decides: put the argument out of its reach.
		near := func(i, ch int) {
			for _, edge := range []float64{0, 6} {
				a, b := float64(z.data[i])*float64(op.Scale[ch]), float64(op.Shift[ch])
				if math.Abs(a+b-edge) < 8*eps*(math.Abs(a)+math.Abs(b)) {
					z.data[i] += 0.01
				}
			}
		}
		z.each(near)
		op.Reduce()
		op.Apply()
		sum.checkGuards(t)
		dot.checkGuards(t)
		dz.checkGaps(t)
		for ch := range PadChannels(c) {
			var s, abs, q, qabs float64
			for p := range n * h * w {
				i, y, x := p/(h*w), p/w%h, p%w
				zv, d := float64(z.data[z.s.at(i, y, x)+ch]), float64(dy.data[dy.s.at(i, y, x)+ch])
				u := zv*float64(op.Scale[ch]) + float64(op.Shift[ch])
				g := d * slope64(op.Activation, u)
				// The error of u reaches the slope; its derivative is below 1.
				err := 0.0
				if op.Activation.smooth() {
					err = math.Abs(d) * eps * (16 + 4*(math.Abs(zv*float64(op.Scale[ch]))+math.Abs(float64(op.Shift[ch]))))
				}
				s += g
				abs += math.Abs(g) + err/eps/8
				q += g * (zv - float64(op.Mean[ch]))
				qabs += (math.Abs(g) + err/eps/8) * (math.Abs(zv-float64(op.Mean[ch])) + eps)
				a, b, k := float64(op.A[ch]), float64(op.B[ch]), float64(op.D[ch])
				want := a*g + b*zv + k
				bound := 4*eps*(math.Abs(a*g)+math.Abs(b*zv)+math.Abs(k)) + math.Abs(a)*err
				if got := float64(dz.data[dz.s.at(i, y, x)+ch]); !(math.Abs(got-want) <= bound) {
					t.Fatalf("activation %d, %dx%dx%dx%d, pixel %d channel %d: %v, want %v ± %v (u %v)", op.Activation, n, h, w, c, p, ch, got, want, bound, u)
				}
			}
			if g := float64(sum.data[ch]); !(math.Abs(g-s) <= sumBound(n*h*w, abs)) {
				t.Fatalf("activation %d, %dx%dx%dx%d, channel %d: sum %v, want %v", op.Activation, n, h, w, c, ch, g, s)
			}
			if g := float64(dot.data[ch]); !(math.Abs(g-q) <= sumBound(n*h*w, qabs)) {
				t.Fatalf("activation %d, %dx%dx%dx%d, channel %d: dot %v, want %v", op.Activation, n, h, w, c, ch, g, q)
			}
		}
		op.DZ, op.DZStrides = dy.data, dy.s
		op.Apply()
		for p := range n * h * w {
			i, y, x := p/(h*w), p/w%h, p%w
			equalBits(t, "in place", dy.data[dy.s.at(i, y, x):], dz.data[dz.s.at(i, y, x):], 1, c, 0, 0)
		}
	})
}

// TestSlopeEdges: at its ends and at NaN a clamp has the slope that PyTorch gives
// it.
func TestSlopeEdges(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		z := []float32{-1, 0, 1, 6, 7, nan32, float32(math.Inf(1)), float32(math.Inf(-1))}
		ones, zeros, dz := []float32{1, 1, 1, 1, 1, 1, 1, 1}, make([]float32, 8), make([]float32, 8)
		for act, want := range map[Activation][]float32{
			None:  {1, 1, 1, 1, 1, 1, 1, 1},
			ReLU:  {0, 0, 1, 1, 1, 1, 1, 0},
			ReLU6: {0, 0, 1, 0, 0, 1, 0, 0},
		} {
			op := NormGradient{Variant: v, N: 1, H: 1, W: 1, C: 8, Z: z, DY: ones, DZ: dz, Scale: ones, Shift: zeros,
				Mean: zeros, Sum: make([]float32, 8), Dot: make([]float32, 8), A: ones, B: zeros, D: zeros, Activation: act}
			op.Reduce()
			equalBits(t, "slope", op.Sum, want, 1, 8, 0, 0)
		}
	})
}

func TestImageDots(t *testing.T) {
	forPixels(t, 54, func(t *testing.T, r *rand.Rand, v Variant, n, h, w, c int, loose bool) {
		x := newImages(r, n, h, w, c, PadChannels(c), loose)
		y := newImages(r, n, h, w, c, PadChannels(c), r.IntN(2) == 0)
		ld := PadChannels(c)
		sums := newBuffer(n*ld, r.IntN(16))
		copy(sums.data, random(r, n*ld))
		before := append([]float32(nil), sums.data...)
		op := ImageDots{Variant: v, N: n, H: h, W: w, C: c, X: x.data, XStrides: x.s, Y: y.data, YStrides: y.s, Sums: sums.data}
		op.Run()
		sums.checkGuards(t)
		for i := range n {
			for ch := range c {
				s := float64(before[i*ld+ch])
				abs := math.Abs(s)
				for p := range h * w {
					a := float64(x.data[x.s.at(i, p/w, p%w)+ch]) * float64(y.data[y.s.at(i, p/w, p%w)+ch])
					s += a
					abs += math.Abs(a)
				}
				if g := float64(sums.data[i*ld+ch]); !(math.Abs(g-s) <= sumBound(h*w, abs)) {
					t.Fatalf("%dx%dx%dx%d, image %d channel %d: %v, want %v", n, h, w, c, i, ch, g, s)
				}
			}
		}
	})
}

func TestPixelsPanics(t *testing.T) {
	x, few := make([]float32, 2*3*4*8), make([]float32, 7)
	p := make([]float32, 8)
	norm := Normalise{N: 2, H: 3, W: 4, C: 5, Z: x, Y: x, Scale: p, Shift: p}
	grad := NormGradient{N: 2, H: 3, W: 4, C: 5, Z: x, DY: x, DZ: x, Scale: p, Shift: p, Mean: p, Sum: p, Dot: p, A: p, B: p, D: p}
	norm.Run()
	grad.Reduce()
	grad.Apply()
	for name, spoil := range map[string]func(*Normalise){
		"input": func(o *Normalise) { o.Z = x[1:] }, "output": func(o *Normalise) { o.Y = x[1:] }, "residual": func(o *Normalise) { o.Residual = x[1:] },
		"scale": func(o *Normalise) { o.Scale = few }, "shift": func(o *Normalise) { o.Shift = few }, "pixels": func(o *Normalise) { o.YStrides.Pixel = 4 },
		"activation": func(o *Normalise) { o.Activation = 9 }, "images": func(o *Normalise) { o.H = 0 },
	} {
		o := norm
		spoil(&o)
		mustPanic(t, "norm "+name, o.Run)
	}
	for name, spoil := range map[string]func(*NormGradient){
		"input": func(o *NormGradient) { o.Z = x[1:] }, "gradient": func(o *NormGradient) { o.DY = x[1:] },
		"scale": func(o *NormGradient) { o.Scale = few }, "row": func(o *NormGradient) { o.DYStrides.Row = 8 },
	} {
		o := grad
		spoil(&o)
		mustPanic(t, "reduce "+name, o.Reduce)
		mustPanic(t, "apply "+name, o.Apply)
	}
	for name, spoil := range map[string]func(*NormGradient){
		"mean": func(o *NormGradient) { o.Mean = few }, "sum": func(o *NormGradient) { o.Sum = few }, "dot": func(o *NormGradient) { o.Dot = nil },
	} {
		o := grad
		spoil(&o)
		mustPanic(t, name, o.Reduce)
	}
	for name, spoil := range map[string]func(*NormGradient){
		"a": func(o *NormGradient) { o.A = few }, "b": func(o *NormGradient) { o.B = few }, "d": func(o *NormGradient) { o.D = nil }, "output": func(o *NormGradient) { o.DZ = x[1:] },
	} {
		o := grad
		spoil(&o)
		mustPanic(t, name, o.Apply)
	}
	mustPanic(t, "moments", (&Moments{N: 2, H: 3, W: 4, C: 5, Z: x, Near: p, Sum: p, Square: few}).Run)
	mustPanic(t, "dots", (&ImageDots{N: 2, H: 3, W: 4, C: 5, X: x, Y: x, Sums: p}).Run)
}

func TestPixelsAllocs(t *testing.T) {
	x, p := make([]float32, 2*3*4*8), make([]float32, 16)
	norm := Normalise{N: 2, H: 3, W: 4, C: 5, Z: x, Y: x, Residual: x, Scale: p, Shift: p, Activation: SiLU}
	grad := NormGradient{N: 2, H: 3, W: 4, C: 5, Z: x, DY: x, DZ: x, Scale: p, Shift: p, Mean: p, Sum: p, Dot: p, A: p, B: p, D: p}
	moments := Moments{N: 2, H: 3, W: 4, C: 5, Z: x, Near: p, Sum: p, Square: p}
	dots := ImageDots{N: 2, H: 3, W: 4, C: 5, X: x, Y: x, Sums: p}
	cg := ConvGradient{N: 2, OH: 3, OW: 4, Cin: 5, Cout: 6, X: x, DY: x, G: PackConv(6, 5, 1, make([]float32, 30))}
	ci := ConvInputGradient{N: 2, H: 3, W: 4, Cin: 6, Cout: 5, DX: x, DY: make([]float32, len(x)), Stride: 2, Weights: PackConv(6, 5, 1, make([]float32, 30))}
	ci1 := ci
	ci1.Stride = 1
	dg := DepthwiseGradient{N: 2, OH: 1, OW: 2, C: 5, Kernel: 3, X: x, DY: x, G: PackDepthwise(5, 9, make([]float32, 45))}
	di := DepthwiseInputGradient{N: 2, H: 3, W: 4, C: 5, Kernel: 3, Pad: 1, DX: x, DY: make([]float32, len(x)), Weights: dg.G}
	di2 := di
	di2.Stride = 2
	mo := Momentum{W: x, V: make([]float32, len(x)), G: make([]float32, len(x))}
	for i, run := range []func(){norm.Run, grad.Reduce, grad.Apply, moments.Run, dots.Run, cg.Run, ci.Run, ci1.Run, dg.Run, di.Run, di2.Run, mo.Run} {
		if n := testing.AllocsPerRun(10, run); n != 0 {
			t.Errorf("operation %d: %v allocations", i, n)
		}
	}
}
