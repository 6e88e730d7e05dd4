package main

import (
	"context"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"tips/engine"
	"tips/engine/input"
	"tips/frontier"
	"tips/internal/reference"
	"tips/onnx"
	"tips/supernet"
)

// TestExportedPoint: ONNX Runtime makes of a picture and a subnetwork that 'tips
// export' writes what the engine makes of them: the same preparation, the same
// calibrated statistics.
func TestExportedPoint(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	library := peerLibrary(filepath.Join(cache, "tips-bench"))
	if _, err := os.Stat(library); err != nil {
		t.Skipf("ONNX Runtime is missing; `go run . conformance` fetches it: %v", err)
	}
	if err := startPeer(library); err != nil {
		t.Fatal(err)
	}
	set, err := loadNetwork("mobilenet_v2:size=96", 1)
	if err != nil {
		t.Fatal(err)
	}
	n := set.Network
	subs, err := randomSubnets(n, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &frontier.Frontier{
		Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs},
		Preprocess: frontier.Preprocess{Resize: 110, Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225}},
	}
	plain := make([]float64, n.Input().Elements())
	channelsFirst(plain, randomImages(n.Input(), 1, 1), n.Input())
	var points []frontier.Point
	for _, s := range append(subs, supernet.Subnet{}) {
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, frontier.Point{Subnet: s, Accuracy: float64(v.Costs().MACs) / 1e12, Costs: frontier.CostsOf(v.Costs()), Statistics: reference.Calibrate(set, v, plain)})
	}
	f.Points = frontier.Front(points, frontier.MACs)
	e, err := engine.New(set, f, engine.Options{Threads: 1, Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pictures, err := input.New(f)
	if err != nil {
		t.Fatal(err)
	}
	img := image.NewNRGBA(image.Rect(0, 0, 200, 150))
	for y := range 150 {
		for x := range 200 {
			img.SetNRGBA(x, y, color.NRGBA{uint8(x), uint8(y), uint8(x * y / 64), 255})
		}
	}
	x, err := pictures.Image(img)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Points {
		ours, err := e.Infer(context.Background(), x, engine.Budget{Subnet: &p.Subnet})
		if err != nil {
			t.Fatal(err)
		}
		alone, _, err := f.Extract(set, p)
		if err != nil {
			t.Fatal(err)
		}
		model, err := exported(alone, onnx.Options{Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		session, err := openModel(model, alone.Network.Full(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		channelsFirst(session.in.GetData(), x, n.Input())
		if err := session.run(); err != nil {
			t.Fatal(err)
		}
		if d := difference(ours.Output, session.out.GetData()); !(d <= maxDifference) {
			t.Errorf("%s: the answers differ by %.1e", p.Subnet, d)
		}
		session.close()
	}
}
