package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type depthwiseCase struct {
	n, h, w, c, cMax, kernel, stride, pad int
	act                                   Activation
	misalign                              int
}

func (tc depthwiseCase) String() string {
	return fmt.Sprintf("%dx%dx%dx%d(%d) k%d s%d p%d act%d mis%d", tc.n, tc.h, tc.w, tc.c, tc.cMax, tc.kernel, tc.stride, tc.pad, tc.act, tc.misalign)
}

// build makes the operation; raw are the weights, [c][taps].
func (tc depthwiseCase) build(r *rand.Rand) (d *Depthwise, y buffer, raw []float32) {
	taps := tc.kernel * tc.kernel
	cMax := max(tc.c, tc.cMax)
	raw = random(r, cMax*taps)
	d = &Depthwise{
		N: tc.n, H: tc.h, W: tc.w, C: tc.c, Kernel: tc.kernel, Stride: tc.stride, Pad: tc.pad,
		Weights: PackDepthwise(cMax, taps, raw), Activation: tc.act,
		Scale: padded(r, tc.c, tc.misalign), Bias: padded(r, tc.c, 0),
	}
	ld := PadChannels(tc.c)
	d.X = randomPixels(r, tc.n*tc.h*tc.w, tc.c, ld, tc.misalign).data
	oh, ow := d.OutSize()
	y = newBuffer(tc.n*oh*ow*ld, tc.misalign)
	d.Y = y.data
	return d, y, raw[:tc.c*taps]
}

func (tc depthwiseCase) verify(t testing.TB, d *Depthwise, raw []float32) {
	t.Helper()
	oh, ow := d.OutSize()
	ld, taps := PadChannels(tc.c), tc.kernel*tc.kernel
	for p := range tc.n * oh * ow {
		n, y, x := p/(oh*ow), p/ow%oh, p%ow
		for c := range tc.c {
			var sum, abs float64
			for t := range taps {
				iy, ix := y*max(tc.stride, 1)-tc.pad+t/tc.kernel, x*max(tc.stride, 1)-tc.pad+t%tc.kernel
				if iy < 0 || iy >= tc.h || ix < 0 || ix >= tc.w {
					continue
				}
				v := float64(d.X[((n*tc.h+iy)*tc.w+ix)*ld+c]) * float64(raw[c*taps+t])
				sum += v
				abs += math.Abs(v)
			}
			scale, bias := float64(d.Scale[c]), float64(d.Bias[c])
			if e := off(tc.act, d.Y[p*ld+c], sum*scale+bias, dotBound(taps, abs, scale, bias, 0)); e != "" {
				t.Fatalf("%v: pixel %d channel %d: %s", tc, p, c, e)
			}
		}
	}
}

func (tc depthwiseCase) run(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	d, y, raw := tc.build(r)
	d.Variant = v
	d.Run(nil)
	tc.verify(t, d, raw)
	y.checkGuards(t)
}

// TestDepthwise runs every width of image that divides into different tiles,
// and every number of channels that ends in a different vector.
func TestDepthwise(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 11)
		for _, tc := range []depthwiseCase{
			{kernel: 3, stride: 1, pad: 1}, {kernel: 3, stride: 2, pad: 1}, {kernel: 3, stride: 2}, {kernel: 3},
			{kernel: 5, stride: 1, pad: 2}, {kernel: 5, stride: 2, pad: 2}, {kernel: 5, stride: 2, pad: 1}, {kernel: 5},
			{kernel: 3, stride: 1, pad: 2}, {kernel: 3, stride: 3, pad: 1}, {kernel: 7, stride: 1, pad: 3}, {kernel: 7, stride: 2, pad: 3}, {kernel: 2, stride: 2}, {kernel: 1},
		} {
			for w := range 3*14 + 2 {
				tc.n, tc.h, tc.w = 1, 1+r.IntN(4), w+1
				tc.c, tc.misalign, tc.act = 1+r.IntN(26), r.IntN(16), Activation(r.IntN(5))
				tc.run(t, r, v)
			}
			step := 1
			if testing.Short() {
				step = 3
			}
			for c := 0; c <= 3*16; c += step {
				tc.n, tc.h, tc.w = 1+c%2, 3, 1+r.IntN(9)
				tc.c, tc.misalign, tc.act = c+1, r.IntN(16), None
				tc.run(t, r, v)
			}
		}
	})
}

// TestDepthwiseSubnet: in place and packed at its own size, on any number of
// threads, a subnetwork gives the same bits.
func TestDepthwiseSubnet(t *testing.T) {
	pools := []*Pool{nil, NewPool(2), NewPool(5)}
	defer pools[1].Close()
	defer pools[2].Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 12)
		for i := range 24 {
			tc := depthwiseCase{n: 1 + i%2, h: 3 + r.IntN(20), w: 3 + r.IntN(20), c: 1 + r.IntN(100), kernel: 3 + i%2*2, stride: 1 + i/2%2, act: Activation(i % 5)}
			tc.pad, tc.cMax = tc.kernel/2, tc.c+r.IntN(30)
			d, _, raw := tc.build(r)
			d.Variant = v
			d.Run(nil)
			oh, ow := d.OutSize()
			ld := PadChannels(tc.c)
			for _, pool := range pools {
				own := *d
				own.Weights = PackDepthwise(tc.c, tc.kernel*tc.kernel, raw)
				again := newBuffer(len(d.Y), 5)
				own.Y = again.data
				own.Run(pool)
				equalBits(t, fmt.Sprintf("%v on %d", tc, pool.Size()), own.Y, d.Y, tc.n*oh*ow, tc.c, ld, ld)
				again.checkGuards(t)
			}
		}
	})
}

// TestDepthwiseStrips computes an image strip by strip: the same bits as at
// once.
func TestDepthwiseStrips(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 16)
		for _, tc := range []depthwiseCase{{kernel: 3, stride: 1, pad: 1}, {kernel: 3, stride: 2, pad: 1}, {kernel: 5, stride: 1, pad: 2}, {kernel: 5, stride: 2, pad: 2}, {kernel: 7, stride: 2, pad: 3}} {
			tc.n, tc.h, tc.w, tc.c, tc.act = 1, 23, 15, 37, ReLU
			d, _, _ := tc.build(r)
			d.Variant = v
			d.Run(nil)
			oh, ow := d.OutSize()
			ld := PadChannels(tc.c)
			for rows := 1; rows <= oh; rows += 3 {
				y := newBuffer(len(d.Y), 0)
				for y0 := 0; y0 < oh; y0 += rows {
					y1 := min(y0+rows, oh)
					from, to := y0*tc.stride-tc.pad, (y1-1)*tc.stride-tc.pad+tc.kernel
					s := *d
					s.Strip, s.PadTop, s.PadBottom = true, max(0, -from), max(0, to-tc.h)
					from, to = max(from, 0), min(to, tc.h)
					s.H = to - from
					s.X = d.X[from*tc.w*ld : to*tc.w*ld]
					s.Y = y.data[y0*ow*ld : y1*ow*ld]
					if h, _ := s.OutSize(); h != y1-y0 {
						t.Fatalf("%v: a strip of %d rows has %d", tc, y1-y0, h)
					}
					s.Run(nil)
				}
				equalBits(t, fmt.Sprintf("%v in strips of %d", tc, rows), y.data, d.Y, oh*ow, tc.c, ld, ld)
			}
		}
	})
}

func TestDepthwiseNonFinite(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		for _, tc := range []depthwiseCase{{kernel: 3, pad: 1}, {kernel: 5, pad: 2}, {kernel: 7, pad: 3}} {
			tc.n, tc.h, tc.w, tc.c, tc.act = 1, 12, 17, 24, ReLU6
			d, _, raw := tc.build(newRand(t, 13))
			d.Variant = v
			d.X[(5*17+8)*24+7] = nan32
			d.X[(1*17+1)*24+21] = float32(math.Inf(1))
			d.X[(11*17+16)*24+20] = float32(math.Inf(-1))
			d.Run(nil)
			tc.verify(t, d, raw)
		}
	})
}

func TestDepthwisePanics(t *testing.T) {
	r := newRand(t, 14)
	for name, spoil := range map[string]func(*Depthwise){
		"short input":   func(d *Depthwise) { d.X = d.X[:len(d.X)-1] },
		"short output":  func(d *Depthwise) { d.Y = d.Y[1:] },
		"short scale":   func(d *Depthwise) { d.Scale = d.Scale[:d.C] },
		"short bias":    func(d *Depthwise) { d.Bias = nil },
		"short weights": func(d *Depthwise) { d.Weights.Data = d.Weights.Data[1:] },
		"no weights":    func(d *Depthwise) { d.Weights = nil },
		"more channels": func(d *Depthwise) { d.C += 8 },
		"no kernel":     func(d *Depthwise) { d.Kernel = 0 },
		"other kernel":  func(d *Depthwise) { d.Kernel = 5 },
		"much padding":  func(d *Depthwise) { d.Pad = 3 },
		"strip padding": func(d *Depthwise) { d.Strip, d.PadTop = true, 3 },
		"narrow pixels": func(d *Depthwise) { d.XLd = 13 },
		"no image":      func(d *Depthwise) { d.W = 0 },
	} {
		d, _, _ := depthwiseCase{n: 1, h: 6, w: 7, c: 13, kernel: 3, pad: 1}.build(r)
		spoil(d)
		mustPanic(t, name, func() { d.Run(nil) })
	}
}

func TestDepthwiseAllocs(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	d, _, _ := depthwiseCase{n: 1, h: 14, w: 14, c: 72, kernel: 3, pad: 1, act: SiLU}.build(newRand(t, 15))
	for _, p := range []*Pool{nil, pool} {
		if n := testing.AllocsPerRun(20, func() { d.Run(p) }); n != 0 {
			t.Errorf("%v allocations on %d threads", n, p.Size())
		}
	}
}
