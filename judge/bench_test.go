package judge_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tips/judge"
	"tips/train"
)

// BenchmarkJudge judges eight subnetworks of a small mobilenet_v2: each batch on a
// thread of its own, or all threads within one batch; images kept as the network takes
// them, or prepared each time.
func BenchmarkJudge(b *testing.B) {
	set := someWeights(b, "mobilenet_v2:data=imagenet,size=28,channels=1,classes=10", 1)
	list := someSubnets(set.Network, 8)
	all := runtime.GOMAXPROCS(0)
	options := judge.Options{Set: set, Data: "synthetic:train=1024,test=1024,size=28", Batch: 128}
	run := func(name string, o judge.Options) {
		b.Run(name, func(b *testing.B) {
			j := open(b, o)
			images := len(list) * (j.Images() + j.Calibration())
			for b.Loop() {
				b.StopTimer()
				j.Close()
				j = open(b, o)
				b.StartTimer()
				if err := j.All(context.Background(), list, func(int, judge.Verdict) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(images)*float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
	for _, threads := range []int{1, all} {
		o := options
		o.Threads = threads
		run(fmt.Sprintf("beside/threads=%d", threads), o)
		cpu := train.NewCPU(train.Settings{Network: set.Network}, threads)
		b.Cleanup(func() { cpu.Close() })
		if err := cpu.Restore(train.NewState(set, false)); err != nil {
			b.Fatal(err)
		}
		o.Examiner = cpu
		run(fmt.Sprintf("within/threads=%d", threads), o)
		if all == 1 {
			break
		}
	}
}

// BenchmarkImages judges one subnetwork after the other, as a search does, on images
// that are kept as the network takes them, and on images that are prepared each time.
func BenchmarkImages(b *testing.B) {
	set := someWeights(b, "mobilenet_v2:data=imagenet,size=64,classes=10", 1)
	list := someSubnets(set.Network, 500)
	for _, data := range []string{"synthetic:train=256,test=256,size=64,channels=3", "folder:" + photographs(b)} {
		for _, memory := range []int64{0, -1} {
			format, _, _ := strings.Cut(data, ":")
			b.Run(fmt.Sprintf("%s/kept=%v", format, memory == 0), func(b *testing.B) {
				j := open(b, judge.Options{Set: set, Data: data, Memory: memory})
				if _, err := j.Judge(b.Context(), list[0]); err != nil { // prepares images in any case
					b.Fatal(err)
				}
				at := 1
				for b.Loop() {
					if at == len(list) {
						b.Skip("more iterations than subnetworks")
					}
					if _, err := j.Judge(b.Context(), list[at]); err != nil {
						b.Fatal(err)
					}
					at++
				}
			})
		}
	}
}

// photographs makes a folder of JPEG files of noise, 10 classes, 256 to learn from and
// 256 to be judged by.
func photographs(b *testing.B) string {
	dir := b.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 512 {
		img := image.NewRGBA(image.Rect(0, 0, 96, 96))
		for k := range img.Pix {
			img.Pix[k] = uint8(rng.Uint32())
		}
		name := filepath.Join(dir, []string{"train", "val"}[i%2], fmt.Sprint("class", i/2%10), fmt.Sprint(i, ".jpg"))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		f, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(jpeg.Encode(f, img, nil), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}
