package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tips/internal/kernel/peak"
)

// layer is one operation of a network at 224×224, batch 1.
type layer struct {
	net                                      string
	h, cin, cout, kernel, stride, pad, group int // group: channels of one, -1: depthwise
	act                                      Activation
}

func (l layer) String() string {
	kind := ""
	if l.group < 0 {
		kind = "dw"
	} else if l.group > 0 {
		kind = fmt.Sprintf("g%d-", l.group)
	}
	return fmt.Sprintf("%s/%s%dx%d-s%d-%d-%d-at%d", l.net, kind, l.kernel, l.kernel, l.stride, l.cin, l.cout, l.h)
}

var layers = []layer{
	// shared/design/KERNELS.md: cout×cin×pixels
	{"gemm", 112, 16, 96, 1, 1, 0, 0, ReLU6},
	{"gemm", 28, 32, 192, 1, 1, 0, 0, ReLU6},
	{"gemm", 14, 96, 576, 1, 1, 0, 0, ReLU6},
	{"gemm", 7, 320, 1280, 1, 1, 0, 0, ReLU6},
	{"gemm", 32, 1024, 1024, 1, 1, 0, 0, None},

	{"mobilenet_v2", 224, 3, 32, 3, 2, 1, 0, ReLU6},
	{"mobilenet_v2", 112, 32, 32, 3, 1, 1, -1, ReLU6},
	{"mobilenet_v2", 112, 32, 16, 1, 1, 0, 0, None},
	{"mobilenet_v2", 112, 96, 96, 3, 2, 1, -1, ReLU6},
	{"mobilenet_v2", 56, 96, 24, 1, 1, 0, 0, None},
	{"mobilenet_v2", 56, 24, 144, 1, 1, 0, 0, ReLU6},
	{"mobilenet_v2", 56, 144, 144, 3, 1, 1, -1, ReLU6},
	{"mobilenet_v2", 56, 144, 24, 1, 1, 0, 0, None},
	{"mobilenet_v2", 56, 144, 144, 3, 2, 1, -1, ReLU6},
	{"mobilenet_v2", 28, 192, 192, 3, 1, 1, -1, ReLU6},
	{"mobilenet_v2", 28, 192, 32, 1, 1, 0, 0, None},
	{"mobilenet_v2", 14, 384, 384, 3, 1, 1, -1, ReLU6},
	{"mobilenet_v2", 14, 384, 64, 1, 1, 0, 0, None},
	{"mobilenet_v2", 14, 576, 576, 3, 2, 1, -1, ReLU6},
	{"mobilenet_v2", 7, 960, 960, 3, 1, 1, -1, ReLU6},
	{"mobilenet_v2", 7, 960, 160, 1, 1, 0, 0, None},
	{"mobilenet_v2", 1, 1280, 1000, 1, 1, 0, 0, None},

	{"resnet34", 224, 3, 64, 7, 2, 3, 0, ReLU},
	{"resnet34", 56, 64, 64, 3, 1, 1, 0, ReLU},
	{"resnet34", 56, 64, 128, 3, 2, 1, 0, ReLU},
	{"resnet34", 28, 128, 128, 3, 1, 1, 0, ReLU},
	{"resnet34", 14, 256, 256, 3, 1, 1, 0, ReLU},
	{"resnet34", 7, 512, 512, 3, 1, 1, 0, ReLU},
	{"resnet34", 56, 64, 128, 1, 2, 0, 0, None},

	{"resnet50", 56, 64, 256, 1, 1, 0, 0, ReLU},
	{"resnet50", 28, 128, 512, 1, 1, 0, 0, ReLU},
	{"resnet50", 56, 256, 64, 1, 1, 0, 0, ReLU},
	{"resnet50", 14, 1024, 256, 1, 1, 0, 0, ReLU},
	{"resnet50", 7, 512, 2048, 1, 1, 0, 0, ReLU},
	{"resnet50", 56, 256, 512, 1, 2, 0, 0, None},
	{"resnet50", 28, 256, 256, 3, 2, 1, 0, ReLU},
	{"resnet50", 14, 512, 512, 3, 2, 1, 0, ReLU},
	{"resnet50", 1, 2048, 1000, 1, 1, 0, 0, None},

	{"efficientnet_b0", 112, 16, 96, 1, 1, 0, 0, SiLU},
	{"efficientnet_b0", 56, 144, 144, 5, 2, 2, -1, SiLU},
	{"efficientnet_b0", 28, 240, 240, 5, 1, 2, -1, SiLU},
	{"efficientnet_b0", 28, 240, 240, 3, 2, 1, -1, SiLU},
	{"efficientnet_b0", 14, 672, 672, 5, 1, 2, -1, SiLU},
	{"efficientnet_b0", 7, 1152, 1152, 5, 1, 2, -1, SiLU},
	{"efficientnet_b0", 7, 1152, 192, 1, 1, 0, 0, None},

	{"resnext50", 56, 128, 128, 3, 1, 1, 4, ReLU},
	{"resnext50", 56, 256, 256, 3, 2, 1, 8, ReLU},
	{"resnext50", 28, 256, 256, 3, 1, 1, 8, ReLU},
	{"resnext50", 14, 512, 512, 3, 1, 1, 16, ReLU},
	{"resnext50", 7, 1024, 1024, 3, 1, 1, 32, ReLU},
}

// operation is what the benchmarks run.
type operation interface{ Run(*Pool) }

// build makes the operation and returns its floating-point operations.
func (l layer) build(v Variant, workers int) (operation, float64) {
	r := rand.New(rand.NewPCG(1, 1))
	x := Alloc(l.h * l.h * max(8, PadChannels(l.cin)))
	copy(x, random(r, len(x)))
	channels := PadChannels(l.cout)
	oh := outSize(l.h, l.kernel, l.stride, l.pad)
	y, scale, bias := Alloc(oh*oh*channels), Alloc(channels), Alloc(channels)
	taps := l.kernel * l.kernel
	if l.group < 0 {
		op := &Depthwise{Variant: v, N: 1, H: l.h, W: l.h, C: l.cin, Kernel: l.kernel, Stride: l.stride, Pad: l.pad, X: x, Y: y, Scale: scale, Bias: bias, Activation: l.act}
		op.Weights = PackDepthwise(l.cin, taps, random(r, l.cin*taps))
		return op, float64(2 * oh * oh * l.cin * taps)
	}
	op := &Conv{Variant: v, N: 1, H: l.h, W: l.h, Cin: l.cin, Cout: l.cout, Kernel: l.kernel, Stride: l.stride, Pad: l.pad, X: x, Y: y, Scale: scale, Bias: bias, Activation: l.act}
	cin := l.cin
	if l.group > 0 {
		cin, op.Groups = l.group, l.cin/l.group
	}
	if l.cin == 3 {
		op.XLd = 3
	}
	op.Weights = PackConv(l.cout, cin, taps, random(r, l.cout*cin*taps))
	op.Scratch = Alloc(op.ScratchLen(workers))
	return op, float64(2 * oh * oh * l.cout * cin * taps)
}

func benchmarkLayers(b *testing.B, workers int) {
	pool := NewPool(workers)
	defer pool.Close()
	for _, l := range layers {
		for _, v := range Variants() {
			if v == Generic && Best() != Generic {
				continue // two orders of magnitude slower
			}
			b.Run(l.String()+"/"+v.String(), func(b *testing.B) {
				op, flops := l.build(v, workers)
				most := peakOf(v)
				b.ReportAllocs()
				for b.Loop() {
					op.Run(pool)
				}
				rate := flops * float64(b.N) / b.Elapsed().Seconds() / 1e9
				b.ReportMetric(rate, "GFLOP/s")
				if most > 0 {
					b.ReportMetric(100*rate/most, "%peak") // of one core; Winograd computes fewer products than it is counted for
				}
			})
		}
	}
}

// peakOf measures the GFLOP/s that one core's FMA units reach with the vectors
// of a variant, right now: the frequency depends on what else runs. It is 0 for
// variants that package peak does not know.
func peakOf(v Variant) float64 {
	const steps = 2000
	var most float64
	for _, u := range peak.Units() {
		if u.Name != v.String() {
			continue
		}
		for range 20 {
			start := time.Now()
			u.Run(steps)
			most = max(most, float64(u.FLOPs)*steps/time.Since(start).Seconds()/1e9)
		}
	}
	return most
}

func BenchmarkLayers(b *testing.B)           { benchmarkLayers(b, 1) }
func BenchmarkLayersTwoThreads(b *testing.B) { benchmarkLayers(b, 2) }

// BenchmarkBytes reports operations that compute little as the bytes they read
// and write.
func BenchmarkBytes(b *testing.B) {
	const h, c = 56, 144
	x, z, y := Alloc(h*h*c), Alloc(h*h*c), Alloc(h*h*c)
	for _, v := range Variants() {
		for name, op := range map[string]operation{
			"add":        &Map{Variant: v, Op: Sum, N: h * h, C: c, X: x, Z: z, Y: y, Activation: ReLU},
			"mul":        &Map{Variant: v, Op: Product, N: h * h, C: c, X: x, Z: z, Y: y, Period: h * h},
			"silu":       &Map{Variant: v, N: h * h, C: c, X: x, Y: y, Activation: SiLU},
			"sigmoid":    &Map{Variant: v, N: h * h, C: c, X: x, Y: y, Activation: Sigmoid},
			"maxpool":    &Pooling{Variant: v, N: 1, H: h, W: h, C: c, Kernel: 3, Stride: 2, Pad: 1, X: x, Y: y},
			"globalmean": &GlobalMean{Variant: v, N: 1, Pixels: h * h, C: c, X: x, Y: y},
		} {
			b.Run(name+"/"+v.String(), func(b *testing.B) {
				b.SetBytes(4 * h * h * c) // of the input
				b.ReportAllocs()
				for b.Loop() {
					op.Run(nil)
				}
			})
		}
	}
}
