package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

type depthwiseGradientCase struct {
	n, h, w, c, more, kernel, stride, pad int // h and w of the output for weights, of the input for inputs
	loose, accumulate                     bool
}

func (tc depthwiseGradientCase) String() string {
	return fmt.Sprintf("%+v", struct{ depthwiseGradientCase }{tc})
}

func (tc depthwiseGradientCase) weights(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	channels, taps := PadChannels(tc.c), tc.kernel*tc.kernel
	x := newImages(r, tc.n, (tc.h-1)*tc.stride+tc.kernel, (tc.w-1)*tc.stride+tc.kernel, tc.c, channels, tc.loose)
	dy := newImages(r, tc.n, tc.h, tc.w, tc.c, channels, tc.loose)
	ld := PadChannels(tc.c + tc.more)
	b := newBuffer(taps*ld, r.IntN(16))
	g := &DepthwiseWeights{Channels: tc.c + tc.more, Taps: taps, Data: b.data}
	before := make([]float32, len(b.data))
	for i := range before {
		if i%ld < channels {
			before[i] = float32(r.NormFloat64())
			b.data[i] = before[i]
		}
	}
	op := DepthwiseGradient{Variant: v, N: tc.n, OH: tc.h, OW: tc.w, C: tc.c, Kernel: tc.kernel, Stride: tc.stride,
		X: x.data, DY: dy.data, XStrides: x.s, DYStrides: dy.s, G: g}
	op.Run()
	b.checkGuards(t)
	for i, v := range b.data {
		if i%ld >= channels {
			if math.Float32bits(v) != math.Float32bits(guard) {
				t.Fatalf("%v: wrote %v at tap %d channel %d", tc, v, i/ld, i%ld)
			}
			continue
		}
		tap, c := i/ld, i%ld
		sum, abs := float64(before[i]), math.Abs(float64(before[i]))
		for p := range tc.n * tc.h * tc.w {
			n, y, px := p/(tc.h*tc.w), p/tc.w%tc.h, p%tc.w
			a := float64(dy.data[dy.s.at(n, y, px)+c]) * float64(x.data[x.s.at(n, y*tc.stride+tap/tc.kernel, px*tc.stride+tap%tc.kernel)+c])
			sum += a
			abs += math.Abs(a)
		}
		if !(math.Abs(float64(v)-sum) <= dotBound(tc.n*tc.h*tc.w, abs, 1, 0, 0)) {
			t.Fatalf("%v: tap %d channel %d: %v, want %v", tc, tap, c, v, sum)
		}
	}
}

func (tc depthwiseGradientCase) inputs(t testing.TB, r *rand.Rand, v Variant) {
	t.Helper()
	taps := tc.kernel * tc.kernel
	raw := random(r, (tc.c+tc.more)*taps)
	op := DepthwiseInputGradient{Variant: v, N: tc.n, H: tc.h, W: tc.w, C: tc.c, Kernel: tc.kernel, Stride: tc.stride, Pad: tc.pad,
		Weights: NewFlipped(PackDepthwise(tc.c+tc.more, taps, raw)), Accumulate: tc.accumulate}
	oh, ow := op.OutSize()
	if oh < 1 || ow < 1 {
		return
	}
	dy := newImages(r, tc.n, oh, ow, tc.c, PadChannels(tc.c), tc.loose)
	dx := newImages(r, tc.n, tc.h, tc.w, tc.c, PadChannels(tc.c), false)
	before := append([]float32(nil), dx.data...)
	if !tc.accumulate {
		dx.blank()
	}
	op.DY, op.DYStrides, op.DX = dy.data, dy.s, dx.data
	op.Scratch = newBuffer(op.ScratchLen(), 0).data
	op.Run()
	dx.checkGaps(t)
	for p := range tc.n * tc.h * tc.w {
		n, y, x := p/(tc.h*tc.w), p/tc.w%tc.h, p%tc.w
		for c := range tc.c {
			at := dx.s.at(n, y, x) + c
			var sum, abs float64
			if tc.accumulate {
				sum, abs = float64(before[at]), math.Abs(float64(before[at]))
			}
			for tap := range taps {
				oy, ox := y+tc.pad-tap/tc.kernel, x+tc.pad-tap%tc.kernel
				if oy < 0 || ox < 0 || oy%tc.stride != 0 || ox%tc.stride != 0 || oy/tc.stride >= oh || ox/tc.stride >= ow {
					continue
				}
				a := float64(dy.data[dy.s.at(n, oy/tc.stride, ox/tc.stride)+c]) * float64(raw[c*taps+tap])
				sum += a
				abs += math.Abs(a)
			}
			if got := float64(dx.data[at]); !(math.Abs(got-sum) <= dotBound(taps+1, abs, 1, 0, 0)) {
				t.Fatalf("%v: pixel %d channel %d: %v, want %v", tc, p, c, got, sum)
			}
		}
	}
}

// depthwiseShapes are kernels that are fast and some that are not.
var depthwiseShapes = []depthwiseGradientCase{
	{kernel: 3, stride: 1, pad: 1}, {kernel: 3, stride: 2, pad: 1}, {kernel: 5, stride: 1, pad: 2}, {kernel: 5, stride: 2, pad: 2},
	{kernel: 3, stride: 2}, {kernel: 5, stride: 1, pad: 1}, {kernel: 3, stride: 1, pad: 2}, {kernel: 7, stride: 1, pad: 3}, {kernel: 2, stride: 2}, {kernel: 4, stride: 3, pad: 1}, {kernel: 1, stride: 1},
}

func TestDepthwiseGradients(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 44)
		step := 1
		if testing.Short() {
			step = 5
		}
		for _, tc := range depthwiseShapes {
			for c := 1; c <= 5*16+1; c += 3*step + r.IntN(5) {
				tc.n, tc.h, tc.w, tc.c, tc.more = 1+r.IntN(2), 1+r.IntN(5), 1+r.IntN(7), c, r.IntN(20)
				tc.loose, tc.accumulate = r.IntN(2) == 0, r.IntN(2) == 0
				tc.weights(t, r, v)
				tc.inputs(t, r, v)
			}
			for w := 1; w <= 3*14+2; w += step {
				tc.n, tc.h, tc.w, tc.c, tc.more = 1, 1+r.IntN(4), w, 1+r.IntN(26), 0
				if tc.pad != tc.kernel/2 && w%4 != 0 {
					continue // plain Go
				}
				tc.inputs(t, r, v)
			}
		}
		depthwiseGradientCase{n: 2, h: 20, w: 20, c: 72, kernel: 5, stride: 1}.weights(t, r, v) // several calls
	})
}

func TestDepthwiseGradientPanics(t *testing.T) {
	for name, spoil := range map[string]func(*DepthwiseGradient){
		"short input":    func(d *DepthwiseGradient) { d.X = d.X[1:] },
		"short output":   func(d *DepthwiseGradient) { d.DY = d.DY[1:] },
		"short gradient": func(d *DepthwiseGradient) { d.G.Data = d.G.Data[1:] },
		"no gradient":    func(d *DepthwiseGradient) { d.G = nil },
		"other kernel":   func(d *DepthwiseGradient) { d.Kernel = 5 },
		"more channels":  func(d *DepthwiseGradient) { d.C += 8 },
		"narrow pixels":  func(d *DepthwiseGradient) { d.XStrides.Pixel = 4 },
	} {
		d := DepthwiseGradient{N: 2, OH: 3, OW: 4, C: 5, Kernel: 3, X: make([]float32, 2*5*6*8), DY: make([]float32, 2*3*4*8), G: PackDepthwise(5, 9, make([]float32, 45))}
		d.Run()
		spoil(&d)
		mustPanic(t, name, d.Run)
	}
	for name, spoil := range map[string]func(*DepthwiseInputGradient){
		"short input":   func(d *DepthwiseInputGradient) { d.DX = d.DX[1:] },
		"short output":  func(d *DepthwiseInputGradient) { d.DY = d.DY[1:] },
		"short weights": func(d *DepthwiseInputGradient) { d.Weights.Data = d.Weights.Data[1:] },
		"no weights":    func(d *DepthwiseInputGradient) { d.Weights = nil },
		"other kernel":  func(d *DepthwiseInputGradient) { d.Kernel = 5 },
		"much padding":  func(d *DepthwiseInputGradient) { d.Pad = 3 },
		"narrow pixels": func(d *DepthwiseInputGradient) { d.XLd = 4 },
	} {
		d := DepthwiseInputGradient{N: 2, H: 3, W: 4, C: 5, Kernel: 3, Pad: 1, DX: make([]float32, 2*3*4*8), DY: make([]float32, 2*3*4*8), Weights: PackDepthwise(5, 9, make([]float32, 45))}
		d.Run()
		spoil(&d)
		mustPanic(t, name, d.Run)
	}
}
