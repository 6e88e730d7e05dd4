package input_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tips/dataset"
	"tips/engine"
	"tips/engine/input"
	"tips/frontier"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

func open(t testing.TB, reference string, p frontier.Preprocess) (*input.Reader, error) {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return input.New(&frontier.Frontier{Network: n, Input: n.Input(), Preprocess: p})
}

// drawing is a picture with different values everywhere.
func drawing(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{uint8(5 * x), uint8(3 * y), uint8(x * y), 255})
		}
	}
	return img
}

func encode(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestImageNet compares with the other way to the same input.
func TestImageNet(t *testing.T) {
	usual := dataset.ImageNet(64)
	r, err := open(t, "mobilenet_v2:size=64", frontier.Preprocess{Resize: usual.Resize, Mean: usual.Mean[:], Std: usual.Std[:]})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Shape(); s != (supernet.Shape{Channels: 3, Height: 64, Width: 64}) {
		t.Errorf("shape %v", s)
	}
	img := drawing(97, 131)
	name := filepath.Join(t.TempDir(), "x.png")
	if err := os.WriteFile(name, encode(t, img), 0o644); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 3*64*64)
	if err := usual.Load(name, want); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 { // any number of goroutines
		group.Go(func() {
			for how, make := range map[string]func() ([]float32, error){
				"file":   func() ([]float32, error) { return r.File(name) },
				"reader": func() ([]float32, error) { return r.Read(bytes.NewReader(encode(t, img))) },
				"image":  func() ([]float32, error) { return r.Image(img) },
			} {
				if got, err := make(); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: another input, %v", how, err)
				}
			}
		})
	}
	group.Wait()
}

// TestGrey: pictures of either kind for networks of either kind, with a mean for
// all channels or for each.
func TestGrey(t *testing.T) {
	grey := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range grey.Pix {
		grey.Pix[i] = 51 // a fifth
	}
	red := image.NewNRGBA(image.Rect(0, 0, 8, 8))
	for i := range red.Pix {
		red.Pix[i] = [4]uint8{255, 0, 0, 255}[i%4]
	}
	for _, c := range []struct {
		network string
		p       frontier.Preprocess
		img     image.Image
		want    []float32 // of a pixel
	}{
		{"mobilenet_v2:data=fashion-mnist,size=8", frontier.Preprocess{}, grey, []float32{0.2}},
		{"mobilenet_v2:data=fashion-mnist,size=8", frontier.Preprocess{Mean: []float32{0.2}, Std: []float32{0.5}}, grey, []float32{0}},
		{"mobilenet_v2:data=fashion-mnist,size=8", frontier.Preprocess{}, red, []float32{76. / 255}}, // ITU-R 601
		{"mobilenet_v2:data=cifar10,size=8", frontier.Preprocess{}, grey, []float32{0.2, 0.2, 0.2}},
		{"mobilenet_v2:data=cifar10,size=8", frontier.Preprocess{Mean: []float32{0.2}}, grey, []float32{0, 0, 0}},
		{"mobilenet_v2:data=cifar10,size=8", frontier.Preprocess{Std: []float32{1, 0.5, 0.25}}, red, []float32{1, 0, 0}},
		{"mlp:inputs=64", frontier.Preprocess{}, grey, []float32{0.2}},
		{"mlp:inputs=192", frontier.Preprocess{}, red, []float32{1, 0, 0}},
	} {
		r, err := open(t, c.network, c.p)
		if err != nil {
			t.Errorf("%s: %v", c.network, err)
			continue
		}
		x, err := r.Image(c.img)
		if err != nil || len(x) != 64*len(c.want) {
			t.Errorf("%s: %d values, %v", c.network, len(x), err)
			continue
		}
		for i, v := range x {
			if d := v - c.want[i%len(c.want)]; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s, %T: value %d is %v; want %v", c.network, c.img, i, v, c.want[i%len(c.want)])
				break
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		network string
		p       frontier.Preprocess
		want    string
	}{
		{"mlp:inputs=65", frontier.Preprocess{}, "takes 65 values, which are no square picture"},
		{"mlp:inputs=64", frontier.Preprocess{Mean: []float32{1, 2, 3}}, "normalises 3 channels, and pictures have 1"},
		{"mobilenet_v2:size=64", frontier.Preprocess{Resize: 8}, "resize 8 for an input of 64×64"},
	} {
		if _, err := open(t, c.network, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.network, err, c.want)
		}
	}
	r, err := open(t, "mobilenet_v2:size=64", frontier.Preprocess{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.File("missing.png"); err == nil || !strings.Contains(err.Error(), "missing.png: no such file") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := r.Read(strings.NewReader("text")); err == nil || !strings.Contains(err.Error(), "no image") {
		t.Errorf("text: %v", err)
	}
	if _, err := r.Image(image.NewGray(image.Rectangle{})); err == nil {
		t.Error("an empty picture was taken")
	}
}

// From a picture to its classes, within a budget.
func Example() {
	network, err := zoo.New("mobilenet_v2:data=cifar10,size=16,width=0.35")
	if err != nil {
		fmt.Println(err)
		return
	}
	set := weights.Random(network, 1) // in practice engine.Open reads files
	e, err := engine.New(set, &frontier.Frontier{
		Network: network, Weights: set.Hash(), Input: network.Input(), By: []frontier.Kind{frontier.MACs},
		Preprocess: frontier.Preprocess{Mean: []float32{0.49, 0.48, 0.45}, Std: []float32{0.25, 0.24, 0.26}},
		Points:     []frontier.Point{{Accuracy: 0.9, Costs: frontier.CostsOf(network.Full().Costs())}},
	}, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()

	pictures, err := input.New(e.Frontier())
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := pictures.Image(drawing(40, 30)) // or File("cat.jpg"), or Read(request.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := e.Infer(context.Background(), x, engine.Budget{Time: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(x), len(e.Top(r.Output, 5)), r.Fits)
	// Output: 768 5 true
}
