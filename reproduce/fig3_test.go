package reproduce

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"tips/dataset"
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// fig3Options are a small network with random weights and images labelled with
// what it says of them, so that pruning can only make it worse.
func fig3Options(t *testing.T, images int) Fig3Options {
	t.Helper()
	set := weights.Random(network(t, "mobilenet_v2:data=cifar10,size=16,width=0.35"), 1)
	set.RandomNorm(2)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	o := Fig3Options{Weights: set, Threads: 2, Ratios: []float64{0.3, 0.9}}
	program, err := nn.NewModel(set).Program(supernet.Subnet{}, set.Network.Input(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := nn.NewSession(1)
	defer session.Close()
	x, y := make([]float32, program.InputLen()), make([]float32, program.OutputLen())
	for i := range images {
		img := image.NewRGBA(image.Rect(0, 0, 16, 16))
		for j := range img.Pix {
			img.Pix[j] = uint8(rng.IntN(256)) | uint8(255*btoi(j%4 == 3))
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.png", i))
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(png.Encode(f, img), f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := dataset.ImageNet(16).Load(name, x); err != nil {
			t.Fatal(err)
		}
		session.Run(program, y, x)
		o.Images = append(o.Images, dataset.LabelledImage{Path: name, Class: argmax(y)})
	}
	return o
}

// TestFig3 compares pruning by trace with pruning by weights: scale and shift of
// the pruned channels set to zero.
func TestFig3(t *testing.T) {
	o := fig3Options(t, 20)
	f, err := Fig3(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	n := o.Weights.Network
	ops := len(n.Ops()) - 1 // all but the classifier
	if want := ops * len(o.Ratios); len(f.Rows) != want {
		t.Fatalf("%d rows; want %d", len(f.Rows), want)
	}
	checked := 0
	for _, row := range f.Rows {
		name, ratio, top1 := row[0], row[3], row[4]
		if name != "block3.expand" && name != "block4.project" && name != "head" {
			continue
		}
		checked++
		i, _ := n.Index(name)
		pruned := weights.Random(n, 1)
		pruned.RandomNorm(2)
		p := &pruned.Ops[i]
		var share float64
		if _, err := fmt.Sscan(ratio, &share); err != nil {
			t.Fatal(err)
		}
		for c := len(p.Scale) - int(share*float64(len(p.Scale))+1e-9); c < len(p.Scale); c++ {
			p.Scale[c], p.Shift[c] = 0, 0
		}
		program, err := nn.NewModel(pruned).Program(supernet.Subnet{}, n.Input(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		session := nn.NewSession(1)
		x, y := make([]float32, program.InputLen()), make([]float32, program.OutputLen())
		right := 0
		for _, img := range o.Images {
			if err := dataset.ImageNet(16).Load(img.Path, x); err != nil {
				t.Fatal(err)
			}
			session.Run(program, y, x)
			right += btoi(argmax(y) == img.Class)
		}
		session.Close()
		if want := number(100 * float64(right) / float64(len(o.Images))); top1 != want {
			t.Errorf("%s at %s: top-1 %s; want %s", name, ratio, top1, want)
		}
	}
	if checked != 6 {
		t.Errorf("%d rows were checked; want 6", checked)
	}
}

// TestFig3Resumes: interrupted after a chunk and run again, the figure is the
// same; a state of something else is not taken for its own.
func TestFig3Resumes(t *testing.T) {
	o := fig3Options(t, fig3Chunk+3)
	want, err := Fig3(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.State = filepath.Join(t.TempDir(), "state.json")
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(done, _ int) {
		if done == fig3Chunk {
			cancel()
		}
	}
	if _, err := Fig3(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v; want that it was cancelled", err)
	}
	first := -1
	o.Progress = func(done, _ int) {
		if first < 0 {
			first = done
		}
	}
	got, err := Fig3(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if first != fig3Chunk {
		t.Errorf("went on from %d; want %d", first, fig3Chunk)
	}
	if !reflect.DeepEqual(got.Rows, want.Rows) {
		t.Error("the resumed figure differs")
	}
	o.Ratios = []float64{0.5}
	first = -1
	if _, err := Fig3(context.Background(), o); err != nil || first != 0 {
		t.Errorf("with other ratios it went on from %d, %v", first, err)
	}
	if err := os.WriteFile(o.State, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Fig3(context.Background(), o); err == nil {
		t.Error("a damaged state was taken")
	}
	key, err := fig3Key(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`"done":-1,"right":0,"pruned":[]`, `"done":1,"right":2,"pruned":[]`, `"done":99,"right":2,"pruned":[]`, `"done":1,"right":1,"pruned":[[1]]`} {
		if err := os.WriteFile(o.State, []byte(`{"format":"tips-fig3","version":1,"key":"`+key+`",`+bad+`}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Fig3(context.Background(), o); err == nil {
			t.Errorf("a state with %s was taken", bad)
		}
	}
	for _, change := range []func(*Fig3Options){
		func(o *Fig3Options) { o.Images = nil },
		func(o *Fig3Options) { o.Weights = weights.New(network(t, "mlp")) },
		func(o *Fig3Options) { o.Images = []dataset.LabelledImage{{Path: o.Images[0].Path, Class: 10}} },
	} {
		bad := o
		bad.State = ""
		change(&bad)
		if _, err := Fig3(context.Background(), bad); err == nil {
			t.Error("options that make no figure were taken")
		}
	}
	o.State = ""
	o.Images[0].Path = "missing.png"
	if _, err := Fig3(context.Background(), o); err == nil {
		t.Error("a missing image went unnoticed")
	}
}
