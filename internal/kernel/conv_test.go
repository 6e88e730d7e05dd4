package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// convCase is a convolution with random data. Its input has NaN wherever
// nothing may be read.
type convCase struct {
	n, h, w, cin, cout, kernel, stride, pad, groups int
	cinMax, coutMax                                 int // of the packed weights; 0: as cin, cout
	xld                                             int // 0: padded
	act                                             Activation
	residual                                        bool
	misalign                                        int
	alg                                             Algorithm
}

func (tc convCase) String() string {
	return fmt.Sprintf("%dx%dx%d %d-%d(%d-%d) k%d s%d p%d g%d ld%d act%d res%t mis%d alg%d", tc.n, tc.h, tc.w, tc.cin, tc.cout, tc.cinMax, tc.coutMax, tc.kernel, tc.stride, tc.pad, tc.groups, tc.xld, tc.act, tc.residual, tc.misalign, tc.alg)
}

// build makes the operation; raw are the weights of this subnetwork alone,
// [cout][cin/groups][taps].
func (tc convCase) build(r *rand.Rand) (c *Conv, y buffer, raw []float32) {
	groups := max(tc.groups, 1)
	cin, coutMax := tc.cin/groups, max(tc.coutMax, tc.cout)
	cinMax, taps := max(tc.cinMax, cin), tc.kernel*tc.kernel
	full := random(r, coutMax*cinMax*taps)
	for o := range tc.cout {
		for i := range cin {
			raw = append(raw, full[(o*cinMax+i)*taps:(o*cinMax+i+1)*taps]...)
		}
	}
	c = &Conv{
		N: tc.n, H: tc.h, W: tc.w, Cin: tc.cin, Cout: tc.cout,
		Kernel: tc.kernel, Stride: tc.stride, Pad: tc.pad, Groups: tc.groups, XLd: tc.xld,
		Weights:    PackConv(coutMax, cinMax, taps, full),
		Activation: tc.act, Algorithm: tc.alg,
	}
	xld := tc.xld
	if xld == 0 {
		xld = PadChannels(tc.cin)
	}
	c.X = randomPixels(r, tc.n*tc.h*tc.w, tc.cin, xld, tc.misalign).data
	c.Scale, c.Bias = padded(r, tc.cout, tc.misalign), padded(r, tc.cout, 0)
	oh, ow := c.OutSize()
	yld := PadChannels(tc.cout)
	y = newBuffer(tc.n*oh*ow*yld, tc.misalign)
	c.Y = y.data
	if tc.residual {
		c.Residual = randomPixels(r, tc.n*oh*ow, tc.cout, yld, 0).data
	}
	return c, y, raw
}

// prepare gives the operation scratch full of NaN.
func prepare(c *Conv, workers int) {
	c.Scratch = newBuffer(c.ScratchLen(workers), 0).data
}

// verify compares the output with a float64 convolution.
func (tc convCase) verify(t testing.TB, c *Conv, raw []float32) {
	t.Helper()
	oh, ow := c.OutSize()
	groups := max(tc.groups, 1)
	in, out := tc.cin/groups, tc.cout/groups
	xld, yld, taps := c.XLd, PadChannels(tc.cout), tc.kernel*tc.kernel
	if xld == 0 {
		xld = PadChannels(tc.cin)
	}
	var amplitude []float64
	if c.plan.winograd.on {
		amplitude = tc.winogradAmplitude(c, raw)
	}
	for p := range tc.n * oh * ow {
		n, y, x := p/(oh*ow), p/ow%oh, p%ow
		for o := range tc.cout {
			var sum, abs float64
			for t := range taps {
				iy, ix := y*max(tc.stride, 1)-tc.pad+t/tc.kernel, x*max(tc.stride, 1)-tc.pad+t%tc.kernel
				if iy < 0 || iy >= tc.h || ix < 0 || ix >= tc.w {
					continue
				}
				px := c.X[((n*tc.h+iy)*tc.w+ix)*xld+o/out*in:]
				for i := range in {
					v := float64(px[i]) * float64(raw[(o*in+i)*taps+t])
					sum += v
					abs += math.Abs(v)
				}
			}
			var res float64
			if tc.residual {
				res = float64(c.Residual[p*yld+o])
			}
			scale, bias := float64(c.Scale[o]), float64(c.Bias[o])
			bound := dotBound(in*taps, abs, scale, bias, res)
			if amplitude != nil {
				bound = dotBound(in+winogradRoundings, amplitude[p*tc.cout+o], scale, bias, res)
			}
			if e := off(tc.act, c.Y[p*yld+o], sum*scale+bias+res, bound); e != "" {
				t.Fatalf("%v: pixel %d channel %d: %s", tc, p, o, e)
			}
		}
	}
}

func (tc convCase) run(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	c, y, raw := tc.build(r)
	c.Variant = v
	prepare(c, 1)
	c.Run(nil)
	tc.verify(t, c, raw)
	y.checkGuards(t)
}

// TestConvTails runs matrix products with every number of pixels and of output
// channels that ends in a different tile, and every rest of input channels.
func TestConvTails(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 1)
		for pixels := range 3*14 + 2 {
			for cout := 1; cout <= 3*16+1; cout += 1 + r.IntN(4) {
				convCase{n: pixels, h: 1, w: 1, cin: 1 + r.IntN(13), cout: cout, kernel: 1, misalign: r.IntN(16), residual: r.IntN(2) == 0}.run(t, r, v)
			}
		}
		for cout := 1; cout <= 5*16+1; cout++ {
			convCase{n: 1, h: 1, w: 1, cin: 1 + cout%9, cout: cout, kernel: 1, misalign: cout % 16}.run(t, r, v)
			convCase{n: 1, h: 3, w: 5, cin: 1 + cout%9, cout: cout, kernel: 1, misalign: cout % 16}.run(t, r, v)
		}
		for cin := 1; cin <= 3*8+1; cin++ {
			convCase{n: 2, h: 3, w: 5, cin: cin, cout: 20, kernel: 1, misalign: cin % 16}.run(t, r, v)
			convCase{n: 1, h: 4, w: 5, cin: cin, cout: 24, kernel: 3, pad: 1, misalign: cin % 16}.run(t, r, v)
		}
	})
}

// convShapes are the kernels of the networks we run and some nobody would.
var convShapes = []convCase{
	{kernel: 1, stride: 2}, {kernel: 1, stride: 3},
	{kernel: 2, stride: 2}, {kernel: 2, stride: 1, pad: 1},
	{kernel: 3, stride: 1, pad: 1}, {kernel: 3, stride: 2, pad: 1}, {kernel: 3}, {kernel: 3, stride: 3, pad: 2},
	{kernel: 5, stride: 1, pad: 2}, {kernel: 5, stride: 2, pad: 2}, {kernel: 7, stride: 2, pad: 3}, {kernel: 7, stride: 4, pad: 1},
}

func TestConvShapes(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 2)
		for _, tc := range convShapes {
			for i, size := range [][2]int{{1, 1}, {3, 2}, {7, 7}, {5, 14}, {6, 31}} {
				if testing.Short() && i%2 == 1 {
					continue
				}
				for _, ch := range [][2]int{{1, 8}, {3, 24}, {8, 33}, {5, 41}} {
					tc.h, tc.w = size[0], size[1]
					tc.cin, tc.cout = ch[0], ch[1]
					tc.n, tc.misalign = 1+r.IntN(2), r.IntN(16)
					tc.act = Activation(r.IntN(5))
					tc.residual = r.IntN(2) == 0
					tc.xld = 0
					if r.IntN(2) == 0 {
						tc.xld = tc.cin + r.IntN(3)
					}
					tc.run(t, r, v)
				}
			}
		}
	})
}

func TestConvGroups(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 3)
		for _, shape := range append(convShapes, convCase{kernel: 1}) {
			for _, g := range []struct{ groups, in, out int }{
				{2, 2, 2}, {3, 4, 4}, {4, 4, 4}, {5, 4, 4}, {9, 4, 4}, {3, 8, 8}, {2, 8, 8}, {2, 16, 16}, {3, 16, 32}, {2, 48, 48},
				{2, 3, 5}, {3, 1, 1}, {2, 8, 4}, {2, 4, 8}, {3, 6, 6},
			} {
				for _, size := range [][2]int{{1, 1}, {5, 7}, {3, 15}} {
					if (g.in*g.out*shape.kernel > 16*16*3 || testing.Short()) && size[1] != 7 {
						continue // one size of the large ones is enough
					}
					tc := shape
					tc.groups, tc.cin, tc.cout = g.groups, g.groups*g.in, g.groups*g.out
					tc.h, tc.w = size[0], size[1]
					tc.n, tc.misalign, tc.act = 1, r.IntN(16), Activation(r.IntN(5))
					tc.run(t, r, v)
				}
			}
			// Every length of tile of the kernels with several groups in a vector.
			for w := 1; w <= 2*14+1 && shape.kernel == 3; w++ {
				tc := shape
				tc.n, tc.h, tc.w, tc.groups, tc.cin, tc.cout = 1, 3, w*max(shape.stride, 1), 6, 24, 24
				tc.misalign = w % 16
				tc.run(t, r, v)
			}
			// A subnetwork keeps the first groups.
			tc := shape
			tc.n, tc.h, tc.w, tc.groups, tc.cin, tc.cout, tc.coutMax = 1, 5, 6, 5, 20, 20, 64
			tc.run(t, r, v)
		}
	})
}

// TestConvSubnet runs subnetworks of larger weights, in place and packed at
// their own size: the results must be the same bits, on any number of threads.
func TestConvSubnet(t *testing.T) {
	pools := []*Pool{nil, NewPool(2), NewPool(5)}
	defer pools[1].Close()
	defer pools[2].Close()
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 4)
		shapes := append([]convCase{{kernel: 1}, {kernel: 1}, {kernel: 1}}, convShapes...)
		for i := range 6 {
			shapes = append(shapes, convCase{kernel: 3, pad: i % 3, alg: Winograd})
		}
		for i, tc := range shapes {
			tc.n, tc.h, tc.w = 1+i%2, 9, 15
			tc.cin, tc.cout = 1+r.IntN(20), 1+r.IntN(100)
			if tc.alg == Winograd { // several blocks of tiles and of channels
				tc.n, tc.cin, tc.cout = 1+i%4, 1+r.IntN(90), 1+r.IntN(70)
				if testing.Short() {
					tc.n, tc.cin, tc.cout = 1+i%2, 1+r.IntN(30), 1+r.IntN(40)
				}
			}
			tc.cinMax, tc.coutMax = tc.cin+r.IntN(9), tc.cout+r.IntN(40)
			tc.act, tc.residual = Activation(i%5), i%3 == 0
			c, y, raw := tc.build(r)
			c.Variant = v
			prepare(c, 1)
			c.Run(nil)
			tc.verify(t, c, raw)
			oh, ow := c.OutSize()
			ld := PadChannels(tc.cout)
			for _, pool := range pools {
				own := *c
				own.Weights = PackConv(tc.cout, tc.cin, tc.kernel*tc.kernel, raw)
				again := newBuffer(len(c.Y), 3)
				own.Y = again.data
				prepare(&own, pool.Size())
				own.Run(pool)
				equalBits(t, fmt.Sprintf("%v on %d", tc, pool.Size()), again.data, c.Y, tc.n*oh*ow, tc.cout, ld, ld)
				again.checkGuards(t)
			}
			y.checkGuards(t)
		}
	})
}

// TestConvTileShape computes the same pixels in tiles of every size: each
// pixel's result must not depend on the others computed with it.
func TestConvTileShape(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 5)
		const pixels, cin, cout = 45, 37, 83
		c, _, _ := convCase{n: pixels, h: 1, w: 1, cin: cin, cout: cout, kernel: 1}.build(r)
		c.Variant = v
		c.Run(nil)
		ld := PadChannels(cout)
		for n := 1; n < pixels; n++ {
			some := *c
			some.N, some.Y = n, newBuffer(n*ld, n%16).data
			some.Run(nil)
			equalBits(t, fmt.Sprintf("%d pixels", n), some.Y, c.Y, n, cout, ld, ld)
		}
		// Fewer output channels of the same weights, other widths of tile.
		for k := 1; k < cout; k++ {
			some := *c
			some.Cout, some.Y = k, newBuffer(pixels*PadChannels(k), k%16).data
			some.Run(nil)
			equalBits(t, fmt.Sprintf("%d channels", k), some.Y, c.Y, pixels, k, PadChannels(k), ld)
		}
	})
}

// TestConvPieces sums more channels than one call of assembly may take.
func TestConvPieces(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 6)
		for _, tc := range []convCase{
			{n: 1, h: 1, w: 1, cin: 9000, cout: 65, kernel: 1},
			{n: 5, h: 1, w: 1, cin: 6000, cout: 48, kernel: 1, residual: true},
			{n: 1, h: 3, w: 3, cin: 900, cout: 16, kernel: 5, pad: 2},
			{n: 84, h: 1, w: 1, cin: 1024, cout: 32, kernel: 1, residual: true},
			{n: 1, h: 5, w: 4, cin: 256, cout: 24, kernel: 3, pad: 1, residual: true},
		} {
			c, y, raw := tc.build(r)
			c.Variant = v
			prepare(c, 1)
			c.Run(nil)
			tc.verify(t, c, raw)
			y.checkGuards(t)
			if tc.residual { // in place, where sums cannot rest in the output
				want := append([]float32(nil), c.Y...)
				copy(c.Y, c.Residual)
				c.Residual = c.Y
				c.Run(nil)
				ld := PadChannels(tc.cout)
				equalBits(t, "in place", c.Y, want, tc.n, tc.cout, ld, ld)
			}
		}
	})
}

// TestConvPaddedImage runs a convolution on an image that already has its
// border: as one that pads, but without a copy.
func TestConvPaddedImage(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 7)
		c, _, _ := convCase{n: 1, h: 20, w: 23, cin: 3, cout: 24, kernel: 7, stride: 2, pad: 3, xld: 3}.build(r)
		c.Variant = v
		prepare(c, 1)
		c.Run(nil)
		const row = (23+6)*3 + 5
		border := make([]float32, (20+6)*row)
		for y := range 20 {
			copy(border[(y+3)*row+9:], c.X[y*23*3:(y+1)*23*3])
		}
		direct := *c
		direct.X, direct.XRow, direct.H, direct.W, direct.Pad, direct.Scratch = border, row, 26, 29, 0, nil
		direct.Y = newBuffer(len(c.Y), 0).data
		direct.Run(nil)
		oh, ow := c.OutSize()
		equalBits(t, "padded image", direct.Y, c.Y, oh*ow, 24, 24, 24)
	})
}

// TestConvNonFinite checks that NaN and infinities of an input reach exactly
// the outputs that look at it, through every activation.
func TestConvNonFinite(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		for _, kernel := range []int{1, 3} {
			for act := None; act <= Sigmoid; act++ {
				for _, bad := range []float32{nan32, float32(math.Inf(1)), float32(math.Inf(-1))} {
					const size, cin, cout = 8, 6, 21
					ones := make([]float32, cout*cin*kernel*kernel)
					for i := range ones {
						ones[i] = 1
					}
					c := &Conv{Variant: v, N: 1, H: size, W: size, Cin: cin, Cout: cout, Kernel: kernel, Pad: kernel / 2, Activation: act}
					c.Weights = PackConv(cout, cin, kernel*kernel, ones)
					c.X, c.Y = make([]float32, size*size*8), make([]float32, size*size*24)
					c.Scale, c.Bias = ones[:24], make([]float32, 24)
					c.X[(3*size+4)*8+5] = bad
					prepare(c, 1)
					c.Run(nil)
					for p := range size * size {
						dy, dx := p/size-3, p%size-4
						sees := max(dy, -dy) <= kernel/2 && max(dx, -dx) <= kernel/2
						for o := range cout {
							in := float64(0)
							if sees {
								in = float64(bad)
							}
							want, _ := activate64(act, in)
							if act == SiLU && math.IsInf(in, -1) {
								continue // -Inf times a sigmoid that is never 0
							}
							got := float64(c.Y[p*24+o])
							if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && math.Abs(got-want) > 1e-6 {
								t.Fatalf("%v through kernel %d, activation %d: pixel %d is %v, want %v", bad, kernel, act, p, got, want)
							}
						}
					}
				}
			}
		}
	})
}

func TestConvPanics(t *testing.T) {
	r := newRand(t, 8)
	for name, spoil := range map[string]func(*Conv){
		"short input":     func(c *Conv) { c.X = c.X[:len(c.X)-1-3] },
		"short output":    func(c *Conv) { c.Y = c.Y[:len(c.Y)-1] },
		"short residual":  func(c *Conv) { c.Residual = c.Y[1:] },
		"short scale":     func(c *Conv) { c.Scale = c.Scale[:c.Cout] },
		"short bias":      func(c *Conv) { c.Bias = nil },
		"short weights":   func(c *Conv) { c.Weights.Data = c.Weights.Data[1:] },
		"no weights":      func(c *Conv) { c.Weights = nil },
		"more channels":   func(c *Conv) { c.Cin++ },
		"more outputs":    func(c *Conv) { c.Cout += 16 },
		"no channels":     func(c *Conv) { c.Cout = 0 },
		"negative images": func(c *Conv) { c.N = -1 },
		"other kernel":    func(c *Conv) { c.Kernel = 5 },
		"much padding":    func(c *Conv) { c.Pad = 3 },
		"negative stride": func(c *Conv) { c.Stride = -1 },
		"narrow pixels":   func(c *Conv) { c.XLd = 4 },
		"narrow outputs":  func(c *Conv) { c.YLd = 13 },
		"narrow rows":     func(c *Conv) { c.XRow = 9 },
		"odd groups":      func(c *Conv) { c.Groups = 2 },
		"no scratch":      func(c *Conv) { c.Scratch = nil },
		"algorithm":       func(c *Conv) { c.Algorithm = 99 },
		"activation":      func(c *Conv) { c.Activation = 99 },
		"foreign variant": func(c *Conv) { c.Variant = 99 },
	} {
		c, _, _ := convCase{n: 1, h: 6, w: 7, cin: 5, cout: 13, kernel: 3, pad: 1}.build(r)
		prepare(c, 1)
		c.Run(nil)
		spoil(c)
		mustPanic(t, name, func() { c.Run(nil) })
	}
}

func TestConvAllocs(t *testing.T) {
	r := newRand(t, 9)
	pool := NewPool(2)
	defer pool.Close()
	for _, tc := range []convCase{
		{n: 1, h: 14, w: 14, cin: 32, cout: 64, kernel: 1, act: SiLU},
		{n: 1, h: 14, w: 14, cin: 32, cout: 40, kernel: 3, pad: 1, alg: Direct},
		{n: 1, h: 14, w: 14, cin: 33, cout: 40, kernel: 3, pad: 1, alg: Winograd, act: SiLU},
		{n: 1, h: 14, w: 14, cin: 32, cout: 32, kernel: 3, pad: 1, groups: 8},
		{n: 1, h: 1, w: 1, cin: 128, cout: 100, kernel: 1},
	} {
		for _, p := range []*Pool{nil, pool} {
			c, _, _ := tc.build(r)
			prepare(c, p.Size())
			if n := testing.AllocsPerRun(20, func() { c.Run(p) }); n != 0 {
				t.Errorf("%v on %d threads: %v allocations", tc, p.Size(), n)
			}
		}
	}
}
