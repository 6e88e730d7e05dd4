package nn

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"tips/dataset"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// TestImageNet: mobilenet_v2 with published weights is as accurate as published,
// on a subset of ImageNet's validation images.
func TestImageNet(t *testing.T) {
	data := filepath.Join("..", "..", "shared", "data")
	file := filepath.Join(data, "mobilenet_v2", "mobilenet_v2_imagenet.safetensors")
	if _, err := os.Stat(file); err != nil {
		t.Skip("no published weights beside the repository: ", err)
	}
	if raceEnabled || testing.Short() {
		t.Skip("takes a thousand inferences")
	}
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		t.Fatal(err)
	}
	set, err := weights.Open(file, n)
	if err != nil {
		t.Fatal(err)
	}
	images, err := dataset.Images(filepath.Join(data, "imagenet-val"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewModel(set).Program(supernet.Subnet{}, n.Input(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var right, next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			s := NewSession(1)
			defer s.Close()
			x, y := make([]float32, p.InputLen()), make([]float32, p.OutputLen())
			for {
				i := int(next.Add(1)) - 1
				if i >= len(images) {
					return
				}
				if err := dataset.ImageNet(224).Load(images[i].Path, x); err != nil {
					t.Error(err)
					return
				}
				s.Run(p, y, x)
				best := 0
				for c := range y {
					if y[c] > y[best] {
						best = c
					}
				}
				if best == images[i].Class {
					right.Add(1)
				}
			}
		})
	}
	group.Wait()
	got := 100 * float64(right.Load()) / float64(len(images))
	t.Logf("top-1 %.1f %% of %d images", got, len(images))
	if got < 69.1 || got > 69.7 {
		t.Errorf("top-1 %.1f %%; want 69.4 ± 0.3", got)
	}
}
