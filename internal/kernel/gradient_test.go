package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// images is a batch of images in a buffer with guards, perhaps with gaps between
// pixels, rows and images; what lies in the gaps is NaN or, of outputs, a guard.
type images struct {
	buffer
	s       Strides
	n, h, w int
	c, wide int // channels, and those that may be read or written
}

// newImages makes n images of h by w pixels, with strides of their own if loose.
// Values are random, those of channels from c up to wide zero.
func newImages(r *rand.Rand, n, h, w, c, wide int, loose bool) images {
	m := images{n: n, h: h, w: w, c: c, wide: wide}
	m.s = Strides{}.of(h, w, c)
	if wide == c {
		m.s = Strides{Pixel: c}.of(h, w, c)
	}
	if loose {
		m.s.Pixel += 8 * r.IntN(3)
		m.s.Row = w*m.s.Pixel + r.IntN(20)
		m.s.Image = h*m.s.Row + r.IntN(50)
	}
	m.buffer = newBuffer(max(0, (n-1)*m.s.Image+(h-1)*m.s.Row+(w-1)*m.s.Pixel+wide), r.IntN(16))
	for i := range m.data {
		m.data[i] = nan32
	}
	m.each(func(i, _ int) { m.data[i] = float32(r.NormFloat64()) })
	return m
}

// each calls f with the index of every value and its channel; pad channels are
// set to zero.
func (m images) each(f func(i, c int)) {
	for n := range m.n {
		for y := range m.h {
			for x := range m.w {
				at := m.s.at(n, y, x)
				for c := range m.c {
					f(at+c, c)
				}
				clear(m.data[at+m.c : at+m.wide])
			}
		}
	}
}

// blank fills everything with guards.
func (m images) blank() images {
	for i := range m.data {
		m.data[i] = guard
	}
	return m
}

// checkGaps fails if anything but the images was written.
func (m images) checkGaps(t testing.TB) {
	t.Helper()
	m.checkGuards(t)
	inside := make([]bool, len(m.data))
	for n := range m.n {
		for y := range m.h {
			for x := range m.w {
				for c := range m.wide {
					inside[m.s.at(n, y, x)+c] = true
				}
			}
		}
	}
	for i, v := range m.data {
		if !inside[i] && math.Float32bits(v) != math.Float32bits(guard) {
			t.Fatalf("wrote %v at %d, between images of %d×%d×%d at %v", v, i, m.h, m.w, m.c, m.s)
		}
	}
}

type gradientCase struct {
	n, oh, ow, cin, cout, kernel, stride, groups int
	cinMore, coutMore                            int // of the gradient
	tight, loose                                 bool
}

func (tc gradientCase) String() string { return fmt.Sprintf("%+v", struct{ gradientCase }{tc}) }

func (tc gradientCase) run(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	in, out := tc.cin/tc.groups, tc.cout/tc.groups
	taps, cinMax, coutMax := tc.kernel*tc.kernel, in+tc.cinMore, tc.cout+tc.coutMore
	h, w := (tc.oh-1)*tc.stride+tc.kernel, (tc.ow-1)*tc.stride+tc.kernel
	wide := PadChannels(tc.cin)
	if tc.tight {
		wide = tc.cin
	}
	x := newImages(r, tc.n, h, w, tc.cin, wide, tc.loose)
	x.each(func(i, _ int) {})
	for n := range tc.n { // pad channels of x are not read
		for p := range h * w {
			at := x.s.at(n, p/w, p%w)
			for c := tc.cin; c < wide; c++ {
				x.data[at+c] = nan32
			}
		}
	}
	dy := newImages(r, tc.n, tc.oh, tc.ow, tc.cout, PadChannels(tc.cout), tc.loose)
	b := newBuffer(PackedLen(coutMax, cinMax, taps), r.IntN(16))
	g := &ConvWeights{Cout: coutMax, Cin: cinMax, Taps: taps, Data: b.data}
	before := make([]float64, len(b.data))
	touched := make([]bool, len(b.data))
	index := func(o, i, tap int) int { return o/16*g.panelLen() + (tap*cinMax+i)*16 + o%16 }
	for o := range PadChannels(tc.cout) {
		for i := range in {
			for tap := range taps {
				at := index(o, i, tap)
				touched[at] = true
				b.data[at] = float32(r.NormFloat64())
				if o >= tc.cout {
					b.data[at] = 0
				}
				before[at] = float64(b.data[at])
			}
		}
	}
	op := ConvGradient{Variant: v, N: tc.n, OH: tc.oh, OW: tc.ow, Cin: tc.cin, Cout: tc.cout, Kernel: tc.kernel, Stride: tc.stride, Groups: tc.groups,
		X: x.data, DY: dy.data, XStrides: x.s, DYStrides: dy.s, G: g}
	if r.IntN(4) > 0 {
		op.Scratch = newBuffer(op.ScratchLen(), r.IntN(16)).data
	}
	op.Run()
	b.checkGuards(t)
	for i, v := range b.data {
		if !touched[i] && math.Float32bits(v) != math.Float32bits(guard) {
			t.Fatalf("%v: wrote %v at %d", tc, v, i)
		}
	}
	for o := range PadChannels(tc.cout) {
		for i := range in {
			for tap := range taps {
				at := index(o, i, tap)
				sum, abs := before[at], math.Abs(before[at])
				for p := range tc.n * tc.oh * tc.ow {
					n, y, px := p/(tc.oh*tc.ow), p/tc.ow%tc.oh, p%tc.ow
					if o >= tc.cout {
						break
					}
					a := float64(dy.data[dy.s.at(n, y, px)+o]) * float64(x.data[x.s.at(n, y*tc.stride+tap/tc.kernel, px*tc.stride+tap%tc.kernel)+o/out*in+i])
					sum += a
					abs += math.Abs(a)
				}
				if got := float64(b.data[at]); !(math.Abs(got-sum) <= dotBound(tc.n*tc.oh*tc.ow, abs, 1, 0, 0)) {
					t.Fatalf("%v: output %d input %d tap %d: %v, want %v", tc, o, i, tap, got, sum)
				}
			}
		}
	}
}

func TestConvGradient(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 41)
		for cin := 1; cin <= 3*14+1; cin += 1 + r.IntN(2) {
			for cout := 1; cout <= 3*16+1; cout += 1 + r.IntN(7) {
				gradientCase{n: 1 + r.IntN(3), oh: 1 + r.IntN(3), ow: 1 + r.IntN(4), cin: cin, cout: cout, kernel: 1, stride: 1, groups: 1,
					cinMore: r.IntN(3), coutMore: r.IntN(20), loose: r.IntN(2) == 0}.run(t, r, v)
			}
		}
		for cout := 8; cout <= 136; cout += 8 {
			gradientCase{n: 1, oh: 3, ow: 5, cin: cout + 3, cout: cout, kernel: 1, stride: 1, groups: 1}.run(t, r, v)
		}
		for _, tc := range []gradientCase{
			{kernel: 1, stride: 2}, {kernel: 2, stride: 2}, {kernel: 3, stride: 1}, {kernel: 3, stride: 2}, {kernel: 5, stride: 1}, {kernel: 7, stride: 2}, {kernel: 3, stride: 3},
		} {
			for range 6 {
				tc.n, tc.oh, tc.ow, tc.groups = 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(4), 1
				tc.cin, tc.cout, tc.cinMore, tc.coutMore = 1+r.IntN(20), 1+r.IntN(50), r.IntN(2), r.IntN(9)
				tc.tight, tc.loose = r.IntN(2) == 0, r.IntN(2) == 0
				tc.run(t, r, v)
			}
			for _, group := range [][2]int{{16, 16}, {3, 32}, {4, 4}, {8, 8}, {5, 3}} {
				tc.groups, tc.cinMore = 2+r.IntN(2), 0
				tc.cin, tc.cout = group[0]*tc.groups, group[1]*tc.groups
				tc.run(t, r, v)
			}
		}
		for _, cin := range []int{16, 21, 40, 136} { // few output channels
			gradientCase{n: 2, oh: 9, ow: 9, cin: cin, cout: 1 + r.IntN(24), kernel: 1, stride: 1 + cin%2, groups: 1, cinMore: r.IntN(3), coutMore: r.IntN(20), loose: cin < 40}.run(t, r, v)
		}
		// More pixels than are summed at once, in rows and not.
		gradientCase{n: 3, oh: 20, ow: 20, cin: 15, cout: 24, kernel: 1, stride: 1, groups: 1}.run(t, r, v)
		gradientCase{n: 2, oh: 16, ow: 15, cin: 5, cout: 12, kernel: 3, stride: 1, groups: 1}.run(t, r, v)
		gradientCase{n: 1, oh: 1, ow: 600, cin: 3, cout: 16, kernel: 3, stride: 2, groups: 1, tight: true}.run(t, r, v)
		gradientCase{n: 75, oh: 2, ow: 2, cin: 30, cout: 8, kernel: 3, stride: 1, groups: 1}.run(t, r, v)
	})
}

func TestConvGradientPanics(t *testing.T) {
	for name, spoil := range map[string]func(*ConvGradient){
		"short input":    func(c *ConvGradient) { c.X = c.X[4:] },
		"short output":   func(c *ConvGradient) { c.DY = c.DY[1:] },
		"short gradient": func(c *ConvGradient) { c.G.Data = c.G.Data[1:] },
		"no gradient":    func(c *ConvGradient) { c.G = nil },
		"more channels":  func(c *ConvGradient) { c.Cout += 20 },
		"other kernel":   func(c *ConvGradient) { c.Kernel = 1 },
		"groups":         func(c *ConvGradient) { c.Groups = 2 },
		"narrow pixels":  func(c *ConvGradient) { c.XStrides.Pixel = 4 },
		"no image":       func(c *ConvGradient) { c.OW = 0 },
	} {
		c := ConvGradient{N: 2, OH: 3, OW: 4, Cin: 5, Cout: 9, Kernel: 3, X: make([]float32, 2*5*6*8), DY: make([]float32, 2*3*4*16),
			G: PackConv(9, 5, 9, make([]float32, 9*5*9))}
		c.Run()
		spoil(&c)
		mustPanic(t, name, c.Run)
	}
}

func TestTranspose(t *testing.T) {
	r := newRand(t, 42)
	for _, tc := range [][4]int{{1, 1, 1, 1}, {40, 24, 9, 1}, {32, 48, 1, 1}, {100, 35, 9, 1}, {24, 4, 9, 6}, {64, 16, 9, 4}, {6, 5, 4, 3}} {
		cout, cin, taps, groups := tc[0], tc[1], tc[2], tc[3]
		raw := random(r, cout*cin*taps)
		dst := NewTransposed(PackConv(cout, cin, taps, raw), groups)
		out := cout / groups
		want := make([]float32, len(raw))
		for o := range cout {
			for i := range cin {
				for k := range taps {
					want[((o/out*cin+i)*out+o%out)*taps+taps-1-k] = raw[(o*cin+i)*taps+k]
				}
			}
		}
		packed := PackConv(cin*groups, out, taps, want)
		equalBits(t, fmt.Sprint(tc), dst.Data, packed.Data, 1, len(packed.Data), 0, 0)
		if dst.Cout != packed.Cout || dst.Cin != packed.Cin || dst.Taps != packed.Taps {
			t.Errorf("%v: transposed to %d×%d×%d", tc, dst.Cout, dst.Cin, dst.Taps)
		}
	}
	from, got, want := random(r, 3*300), make([]float32, 3*256), make([]float32, 3*256)
	args := transposeArgs{src: pointer(from, 0), dst: pointer(got, 0), step: 4 * 300, n: 3}
	transposeBlocks(&args)
	args.dst = pointer(want, 0)
	transposeGeneric(&args)
	equalBits(t, "blocks", got, want, 1, len(want), 0, 0)

	src := PackConv(4, 6, 9, make([]float32, 216))
	mustPanic(t, "shape", func() { src.Transpose(src, 1) })
	mustPanic(t, "range", func() { NewTransposed(src, 1).TransposePanels(src, 1, 0, 2) })

	raw := random(r, 13*9)
	flipped := make([]float32, len(raw))
	for i := range raw {
		flipped[i/9*9+8-i%9] = raw[i]
	}
	want = PackDepthwise(13, 9, flipped).Data
	equalBits(t, "flip", NewFlipped(PackDepthwise(13, 9, raw)).Data, want, 1, len(want), 0, 0)
	mustPanic(t, "flip", func() { PackDepthwise(13, 9, raw).Flip(PackDepthwise(12, 9, raw[9:])) })
}

type inputGradientCase struct {
	n, h, w, cin, cout, kernel, stride, pad, groups int
	cinMore, coutMore, ldMore                       int
	accumulate, border                              bool
}

func (tc inputGradientCase) String() string {
	return fmt.Sprintf("%+v", struct{ inputGradientCase }{tc})
}

func (tc inputGradientCase) run(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	in, out, taps := tc.cin/tc.groups, tc.cout/tc.groups, tc.kernel*tc.kernel
	cinMax, coutMax := in+tc.cinMore, tc.cout+tc.coutMore
	raw := random(r, coutMax*cinMax*taps)
	op := ConvInputGradient{Variant: v, N: tc.n, H: tc.h, W: tc.w, Cin: tc.cin, Cout: tc.cout, Kernel: tc.kernel, Stride: tc.stride, Pad: tc.pad, Groups: tc.groups,
		Accumulate: tc.accumulate, Weights: NewTransposed(PackConv(coutMax, cinMax, taps, raw), tc.groups)}
	oh, ow := op.OutSize()
	if oh < 1 || ow < 1 {
		return
	}
	if tc.border {
		op.Border = tc.kernel - 1 - tc.pad
	}
	op.YLd, op.XLd = PadChannels(tc.cout)+tc.ldMore, PadChannels(tc.cin)+tc.ldMore
	// dy is zero on its border, NaN in its pad channels.
	dy := randomPixels(r, tc.n*(oh+2*op.Border)*(ow+2*op.Border), tc.cout, op.YLd, r.IntN(16)).data
	ys := Strides{Pixel: op.YLd}.of(oh+2*op.Border, ow+2*op.Border, tc.cout)
	for n := range tc.n {
		for y := range oh + 2*op.Border {
			for x := range ow + 2*op.Border {
				if y < op.Border || x < op.Border || y >= oh+op.Border || x >= ow+op.Border {
					clear(dy[ys.at(n, y, x):][:op.YLd])
				}
			}
		}
	}
	dx := randomPixels(r, tc.n*tc.h*tc.w, tc.cin, op.XLd, r.IntN(16))
	before := append([]float32(nil), dx.data...)
	op.DY, op.DX = dy, dx.data
	op.Scratch = newBuffer(op.ScratchLen(), 0).data
	op.Run()
	dx.checkGuards(t)
	winograd := op.conv.plan.winograd.on
	for p := range tc.n * tc.h * tc.w {
		n, y, x := p/(tc.h*tc.w), p/tc.w%tc.h, p%tc.w
		for i := range tc.cin {
			at := p*op.XLd + i
			var sum, abs float64
			if tc.accumulate {
				sum, abs = float64(before[at]), math.Abs(float64(before[at]))
			}
			for tap := range taps {
				oy, ox := y+tc.pad-tap/tc.kernel, x+tc.pad-tap%tc.kernel
				if oy < 0 || ox < 0 || oy%tc.stride != 0 || ox%tc.stride != 0 || oy/tc.stride >= oh || ox/tc.stride >= ow {
					continue
				}
				px := dy[ys.at(n, oy/tc.stride+op.Border, ox/tc.stride+op.Border)+i/in*out:]
				for o := range out {
					a := float64(px[o]) * float64(raw[((i/in*out+o)*cinMax+i%in)*taps+tap])
					sum += a
					abs += math.Abs(a)
				}
			}
			bound := dotBound(out*taps+1, abs, 1, 0, 0)
			if winograd {
				bound = 2 * (4 + math.Sqrt(float64(out))) * eps * 6 * (math.Sqrt(float64(9*out)) + 1) // six standard deviations
			}
			if got := float64(dx.data[at]); !(math.Abs(got-sum) <= bound) {
				t.Fatalf("%v: pixel %d channel %d: %v, want %v ± %v", tc, p, i, got, sum, bound)
			}
		}
	}
}

func TestConvInputGradient(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 43)
		for _, tc := range convShapes {
			tc := inputGradientCase{kernel: tc.kernel, stride: max(tc.stride, 1), pad: tc.pad}
			rounds := 8
			if testing.Short() {
				rounds = 4
			}
			for i := range rounds {
				tc.n, tc.h, tc.w, tc.groups = 1+r.IntN(2), 1+r.IntN(7), 1+r.IntN(12), 1
				if i%4 == 3 {
					tc.h, tc.w = 1+r.IntN(3), 20+r.IntN(20)
				}
				tc.cin, tc.cout, tc.cinMore, tc.coutMore = 1+r.IntN(50), 1+r.IntN(14), r.IntN(5), r.IntN(5)
				tc.ldMore, tc.accumulate, tc.border = 8*r.IntN(2), i%2 == 0, i%4 < 2
				tc.run(t, r, v)
			}
			for i, group := range [][2]int{{16, 16}, {32, 3}, {4, 4}, {8, 8}, {5, 3}} {
				tc.groups, tc.cinMore, tc.h, tc.w, tc.accumulate = 2+r.IntN(2), 0, 5, 9, i%2 == r.IntN(2)
				tc.cin, tc.cout, tc.coutMore = group[0]*tc.groups, group[1]*tc.groups, 0
				tc.run(t, r, v)
			}
		}
		// Winograd's algorithm.
		inputGradientCase{n: 1, h: 12, w: 12, cin: 40, cout: 36, kernel: 3, stride: 1, pad: 1, groups: 1, accumulate: true, border: true}.run(t, r, v)
		inputGradientCase{n: 1, h: 12, w: 12, cin: 40, cout: 36, kernel: 3, stride: 1, pad: 1, groups: 1}.run(t, r, v)
	})
}

func TestConvInputGradientPanics(t *testing.T) {
	for name, spoil := range map[string]func(*ConvInputGradient){
		"short input":   func(c *ConvInputGradient) { c.DX = c.DX[1:] },
		"short output":  func(c *ConvInputGradient) { c.DY = c.DY[:len(c.DY)-8] },
		"short weights": func(c *ConvInputGradient) { c.Weights.Data = c.Weights.Data[1:] },
		"no weights":    func(c *ConvInputGradient) { c.Weights = nil },
		"not turned":    func(c *ConvInputGradient) { c.Weights = PackConv(9, 5, 9, make([]float32, 9*5*9)) },
		"other kernel":  func(c *ConvInputGradient) { c.Kernel = 5 },
		"border":        func(c *ConvInputGradient) { c.Border = 3 },
		"groups":        func(c *ConvInputGradient) { c.Groups = 2 },
		"much padding":  func(c *ConvInputGradient) { c.Pad = 3 },
		"no output":     func(c *ConvInputGradient) { c.Pad, c.H = 0, 2 },
		"narrow pixels": func(c *ConvInputGradient) { c.XLd = 4 },
	} {
		for stride := 1; stride <= 2; stride++ {
			c := ConvInputGradient{N: 2, H: 5, W: 6, Cin: 5, Cout: 9, Kernel: 3, Stride: stride, Pad: 1, DX: make([]float32, 2*5*6*8),
				Weights: NewTransposed(PackConv(9, 5, 9, make([]float32, 9*5*9)), 1)}
			oh, ow := c.OutSize()
			c.DY, c.Scratch = make([]float32, 2*oh*ow*16), make([]float32, c.ScratchLen())
			c.Run()
			spoil(&c)
			mustPanic(t, name, c.Run)
		}
	}
}
