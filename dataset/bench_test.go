package dataset

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTransform is one picture on one core. The trainer has few cores, and
// these must be left to it: a small picture may cost about 10 µs.
func BenchmarkTransform(b *testing.B) {
	for _, bench := range []struct {
		name             string
		p                Pipeline
		w, h, c, to, toC int
	}{
		{"cifar", Pipeline{Pad: 4, Flip: true}, 32, 32, 3, 32, 3},
		{"mnist", Pipeline{Pad: 2, Flip: true}, 28, 28, 1, 28, 1},
		{"mnist-as-colour", Pipeline{Pad: 2, Flip: true}, 28, 28, 1, 28, 3},
		{"cifar-evaluation", Pipeline{}, 32, 32, 3, 32, 3},
		{"cifar-jitter", Pipeline{Pad: 4, Flip: true, Brightness: 0.4, Contrast: 0.4, Saturation: 0.4, Hue: 0.1}, 32, 32, 3, 32, 3},
		{"imagenet", Pipeline{RandomResizedCrop: true, Flip: true}, 500, 375, 3, 224, 3},
		{"imagenet-evaluation", Pipeline{Resize: 256}, 500, 375, 3, 224, 3},
	} {
		b.Run(bench.name, func(b *testing.B) {
			t, err := NewTransform(bench.p, bench.to, bench.to, bench.toC)
			if err != nil {
				b.Fatal(err)
			}
			to := make([]float32, bench.to*bench.to*bench.toC)
			pic := pattern(bench.w, bench.h, bench.c)
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for b.Loop() {
				if err := t.Apply(to, pic, rng); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoader is a picture of a set like CIFAR by way of the loader.
func BenchmarkLoader(b *testing.B) {
	l := loader(b, synthetic(b, "train=10000,size=32,channels=3").Train, LoaderOptions{
		Batch: 128, Height: 32, Width: 32, Channels: 3, Shuffle: true, DropLast: true, Workers: 1,
		Pipeline: Pipeline{Pad: 4, Flip: true},
	})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for batch, err := range l.Epoch(b.Context(), 0, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n += batch.N
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/picture")
}
