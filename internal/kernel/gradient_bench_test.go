package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// trained is one operation of a network as training runs it: a chunk of n images
// of h by h outputs.
type trained struct{ n, h, cin, cout, kernel, stride int }

func (l trained) String() string {
	return fmt.Sprintf("%dx%dx%d-k%d-s%d-%d-%d", l.n, l.h, l.h, l.kernel, l.stride, l.cin, l.cout)
}

// pixel returns the floats between the pixels of a copied input: tight if there
// are few, and never a power of two, of which the first-level cache holds few.
func (l trained) pixel() int {
	switch {
	case l.cin < 8:
		return l.cin
	case l.cin%256 == 0:
		return l.cin + 16
	}
	return PadChannels(l.cin)
}

var trainedConvs = []trained{
	{1, 32, 24, 136, 1, 1}, {1, 32, 136, 24, 1, 1}, {1, 32, 16, 96, 1, 1}, {1, 32, 32, 16, 1, 1}, {4, 8, 48, 288, 1, 1}, {1, 8, 136, 816, 1, 1}, {4, 8, 136, 816, 1, 1}, {4, 8, 816, 136, 1, 1},
	{32, 2, 448, 1792, 1, 1}, {64, 1, 1792, 100, 1, 1}, {128, 2, 448, 1792, 1, 1}, {128, 2, 512, 512, 3, 1},
	{1, 32, 3, 32, 3, 1}, {1, 16, 64, 64, 3, 1}, {1, 16, 64, 128, 3, 2}, {4, 8, 128, 128, 3, 1}, {8, 4, 256, 256, 3, 1}, {16, 2, 512, 512, 3, 1}, {32, 4, 256, 256, 3, 1}, {8, 4, 512, 512, 3, 1}, {32, 4, 512, 512, 3, 1},
}

// benchmarkRate runs an operation of so many floating-point operations on every
// variant but plain Go.
func benchmarkRate(b *testing.B, name string, flops float64, build func(v Variant) func()) {
	for _, v := range Variants() {
		if v == Generic && Best() != Generic {
			continue // two orders of magnitude slower
		}
		b.Run(name+"/"+v.String(), func(b *testing.B) {
			run := build(v)
			most := peakOf(v)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			rate := flops * float64(b.N) / b.Elapsed().Seconds() / 1e9
			b.ReportMetric(rate, "GFLOP/s")
			if most > 0 {
				b.ReportMetric(100*rate/most, "%peak")
			}
		})
	}
}

func filled(r *rand.Rand, n int) []float32 {
	x := Alloc(n)
	copy(x, random(r, n))
	return x
}

func BenchmarkConvGradient(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range trainedConvs {
		w := (l.h-1)*l.stride + l.kernel
		flops := float64(2*l.n*l.h*l.h*l.cin*l.cout) * float64(l.kernel*l.kernel)
		benchmarkRate(b, l.String(), flops, func(v Variant) func() {
			op := ConvGradient{Variant: v, N: l.n, OH: l.h, OW: l.h, Cin: l.cin, Cout: l.cout, Kernel: l.kernel, Stride: l.stride,
				XStrides: Strides{Pixel: l.pixel()}, X: filled(r, l.n*w*w*max(8, l.pixel())), DY: filled(r, l.n*l.h*l.h*PadChannels(l.cout)),
				G: PackConv(l.cout, l.cin, l.kernel*l.kernel, make([]float32, l.cout*l.cin*l.kernel*l.kernel))}
			op.Scratch = Alloc(op.ScratchLen())
			return op.Run
		})
	}
}

// BenchmarkPixels reports the loops over pixels as the bytes they read and
// write, on a chunk that stays in the second-level cache.
func BenchmarkPixels(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][3]int{{1, 32, 24}, {1, 16, 136}, {8, 4, 448}} {
		n, h, c := shape[0], shape[1], shape[2]
		x, y := filled(r, n*h*h*c), filled(r, n*h*h*c)
		border := Alloc(n * (h + 2) * (h + 2) * c)
		inside := Strides{c, (h + 2) * c, (h + 2) * (h + 2) * c}
		p := filled(r, c)
		for _, v := range Variants() {
			for _, act := range []Activation{ReLU6, SiLU} {
				norm := Normalise{Variant: v, N: n, H: h, W: h, C: c, Z: x, Y: border[(h+3)*c:], YStrides: inside, Scale: p, Shift: p, Activation: act}
				grad := NormGradient{Variant: v, N: n, H: h, W: h, C: c, Z: x, DY: y, DZ: border[(h+3)*c:], DZStrides: inside, Scale: p, Shift: p,
					Mean: p, Sum: Alloc(c), Dot: Alloc(c), A: p, B: p, D: p, Activation: act}
				moments := Moments{Variant: v, N: n, H: h, W: h, C: c, Z: x, Near: p, Sum: Alloc(c), Square: Alloc(c)}
				dots := ImageDots{Variant: v, N: n, H: h, W: h, C: c, X: x, Y: y, Sums: Alloc(n * c)}
				for _, op := range []struct {
					name  string
					maps  int
					run   func()
					plain bool // does not depend on the activation
				}{
					{"normalise", 2, norm.Run, false}, {"reduce", 2, grad.Reduce, false}, {"apply", 3, grad.Apply, false},
					{"moments", 1, moments.Run, true}, {"dots", 2, dots.Run, true},
				} {
					if op.plain && act != ReLU6 {
						continue
					}
					b.Run(fmt.Sprintf("%s-act%d/%dx%dx%dx%d/%s", op.name, act, n, h, h, c, v), func(b *testing.B) {
						b.SetBytes(int64(4 * op.maps * n * h * h * c))
						b.ReportAllocs()
						for b.Loop() {
							op.run()
						}
					})
				}
			}
		}
	}
}

var trainedDepthwise = []trained{
	{1, 32, 32, 32, 3, 1}, {1, 32, 136, 136, 3, 1}, {1, 16, 136, 136, 3, 2}, {1, 16, 144, 144, 3, 1}, {4, 8, 384, 384, 3, 1}, {8, 4, 816, 816, 3, 1}, {16, 2, 1344, 1344, 3, 2},
	{1, 16, 240, 240, 5, 1}, {1, 8, 240, 240, 5, 2}, {4, 4, 672, 672, 5, 1},
}

func (l trained) depthwise(r *rand.Rand, v Variant) (weights, inputs func(), flops float64) {
	w, ld, taps := (l.h-1)*l.stride+l.kernel, PadChannels(l.cin), l.kernel*l.kernel
	dy, packed := filled(r, l.n*l.h*l.h*ld), PackDepthwise(l.cin, taps, random(r, l.cin*taps))
	g := DepthwiseGradient{Variant: v, N: l.n, OH: l.h, OW: l.h, C: l.cin, Kernel: l.kernel, Stride: l.stride, X: filled(r, l.n*w*w*ld), DY: dy, G: NewFlipped(packed)}
	size := l.h * l.stride
	d := DepthwiseInputGradient{Variant: v, N: l.n, H: size, W: size, C: l.cin, Kernel: l.kernel, Stride: l.stride, Pad: l.kernel / 2, DY: dy, DX: Alloc(l.n * size * size * ld), Weights: packed}
	return g.Run, d.Run, float64(2 * l.n * l.h * l.h * l.cin * taps)
}

func BenchmarkDepthwiseGradients(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range trainedDepthwise {
		_, _, flops := l.depthwise(r, Generic)
		benchmarkRate(b, "weights/"+l.String(), flops, func(v Variant) func() { run, _, _ := l.depthwise(r, v); return run })
		benchmarkRate(b, "inputs/"+l.String(), flops, func(v Variant) func() { _, run, _ := l.depthwise(r, v); return run })
	}
}

// inputGradient makes the input gradient of a convolution.
func (l trained) inputGradient(r *rand.Rand, v Variant) func() {
	size := l.h * l.stride
	d := ConvInputGradient{Variant: v, N: l.n, H: size, W: size, Cin: l.cin, Cout: l.cout, Kernel: l.kernel, Stride: l.stride, Pad: l.kernel / 2,
		DX: Alloc(l.n * size * size * PadChannels(l.cin)), DY: filled(r, l.n*l.h*l.h*PadChannels(l.cout)),
		Weights: NewTransposed(PackConv(l.cout, l.cin, l.kernel*l.kernel, random(r, l.cout*l.cin*l.kernel*l.kernel)), 1)}
	d.Scratch = Alloc(d.ScratchLen())
	return d.Run
}

func BenchmarkConvInputGradient(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range append([]trained{{1, 16, 64, 128, 1, 2}, {4, 4, 128, 256, 3, 2}, {8, 2, 256, 512, 3, 2}, {4, 4, 256, 512, 1, 2}}, trainedConvs...) {
		if l.cin == 3 {
			continue // images need no gradient
		}
		flops := float64(2*l.n*l.h*l.h*l.cin*l.cout) * float64(l.kernel*l.kernel)
		benchmarkRate(b, l.String(), flops, func(v Variant) func() { return l.inputGradient(r, v) })
	}
}

// BenchmarkOptimiser reports the bytes read and written of slices that do not
// fit the caches.
func BenchmarkOptimiser(b *testing.B) {
	const n = 6 << 20
	w, v, g := Alloc(n), Alloc(n), Alloc(n)
	for _, variant := range Variants() {
		m := Momentum{Variant: variant, Rate: 0.1, Momentum: 0.9, Decay: 1e-4, Nesterov: true, W: w, V: v, G: g}
		for name, op := range map[string]struct {
			maps int
			run  func()
		}{
			"momentum": {5, m.Run}, "average": {3, func() { Average(variant, w, g, 0.99) }}, "addscaled": {3, func() { AddScaled(variant, w, g, 0.5) }},
			"squares": {1, func() { SumSquares(g) }},
		} {
			b.Run(name+"/"+variant.String(), func(b *testing.B) {
				b.SetBytes(int64(4 * op.maps * n))
				for b.Loop() {
					op.run()
				}
			})
		}
	}
	src := PackConv(512, 512, 9, make([]float32, 512*512*9))
	dst := NewTransposed(src, 1)
	b.Run("transpose", func(b *testing.B) {
		b.SetBytes(int64(4 * 2 * len(src.Data)))
		for b.Loop() {
			dst.Transpose(src, 1)
		}
	})
}
