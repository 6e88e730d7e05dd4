package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tips/engine"
	"tips/frontier"
	"tips/internal/randnet"
	"tips/onnx"
	"tips/program"
	"tips/supernet/zoo"
	"tips/train"
	"tips/weights"
)

// writeRun leaves weights and a frontier in a folder, as training and search do.
func writeRun(t *testing.T, dir, reference string, points int) (*weights.Set, *frontier.Frontier) {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	f := &frontier.Frontier{Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs}}
	rng := rand.New(rand.NewPCG(3, 4))
	var all []frontier.Point
	for range points {
		s := randnet.Subnet(n, rng)
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		statistics := &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
		for i, op := range n.Ops() {
			if op.Norm && v.Ops[i].Runs {
				for range v.Ops[i].Out.Channels {
					statistics.Mean[i] = append(statistics.Mean[i], rng.Float32())
					statistics.Variance[i] = append(statistics.Variance[i], 0.5+rng.Float32())
				}
			}
		}
		// The dearer the more accurate, so that all of them stay.
		share := float64(v.Costs().MACs) / float64(n.Full().Costs().MACs)
		all = append(all, frontier.Judged(s, int(share*1e6), 1e6, frontier.CostsOf(v.Costs()), statistics))
	}
	f.Points = frontier.Front(all, frontier.MACs)
	if err := set.Save(filepath.Join(dir, train.WeightsFile)); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(filepath.Join(dir, frontierFile)); err != nil {
		t.Fatal(err)
	}
	return set, f
}

// TestExportedModels: a model that the verb writes is, byte for byte, what package
// onnx writes of the subnetwork within the supernet, with its calibrated statistics.
func TestExportedModels(t *testing.T) {
	dir := t.TempDir()
	set, f := writeRun(t, dir, "mobilenet_v2:data=cifar10,size=16,width=0.35", 6)
	if len(f.Points) < 4 {
		t.Fatalf("%d points", len(f.Points))
	}
	file := filepath.Join(dir, "x.onnx")
	for i, p := range f.Points {
		for _, subnet := range []string{fmt.Sprint(i + 1), p.Subnet.String(), fmt.Sprint(p.Costs.MACs)} {
			var stdout, stderr bytes.Buffer
			if status := run([]string{"export", dir, "--subnet", subnet, "--onnx", file, "--json"}, &stdout, &stderr); status != 0 {
				t.Fatalf("status %d: %s", status, &stderr)
			}
			var told struct {
				Point  int   `json:"point"`
				Params int64 `json:"params"`
				Files  []exportedFile
			}
			if err := json.Unmarshal(stdout.Bytes(), &told); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			if err := onnx.Export(&want, set, onnx.Options{Subnet: p.Subnet, Statistics: p.Statistics}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s: %d bytes; want other %d", subnet, len(got), want.Len())
			}
			if told.Point != i+1 || told.Params != p.Costs.Params || len(told.Files) != 1 || told.Files[0].Bytes != int64(len(got)) || told.Files[0].Whole <= int64(len(got)) {
				t.Errorf("%s: told %+v", subnet, told)
			}
		}
	}
}

// TestExportedAnswers: what is written answers as what it was made from, to the
// last bit.
func TestExportedAnswers(t *testing.T) {
	dir := t.TempDir()
	_, f := writeRun(t, dir, "mobilenet_v2:data=cifar10,size=16,width=0.35", 6)
	picture := filepath.Join(dir, "x.png")
	img := image.NewNRGBA(image.Rect(0, 0, 40, 30))
	for i := range img.Pix {
		img.Pix[i] = uint8(i * i >> 3)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(picture, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tips := func(args ...string) []byte {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := run(args, &stdout, &stderr); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, &stderr)
		}
		return stdout.Bytes()
	}
	top := func(args ...string) []engine.Class {
		t.Helper()
		var a struct{ Top []engine.Class }
		if err := json.Unmarshal(tips(append([]string{"run", picture, "--json", "--top", "10"}, args...)...), &a); err != nil {
			t.Fatal(err)
		}
		return a.Top
	}
	within := func(folder string) []string {
		return []string{"--weights", filepath.Join(folder, program.WeightsFile), "--frontier", filepath.Join(folder, program.FrontierFile)}
	}
	source := []string{"--weights", filepath.Join(dir, train.WeightsFile), "--frontier", filepath.Join(dir, frontierFile)}
	tips("export", dir, "--go", filepath.Join(dir, "all"))
	for i := range f.Points {
		number := fmt.Sprint(i + 1)
		want := top(append(source, "--budget", number)...)
		if got := top(append(within(filepath.Join(dir, "all")), "--budget", number)...); !slices.Equal(got, want) {
			t.Errorf("%s within the program with all: %v; want %v", number, got, want)
		}
		folder := filepath.Join(dir, number)
		tips("export", dir, "--subnet", number, "--go", folder)
		if got := top(within(folder)...); !slices.Equal(got, want) {
			t.Errorf("%s alone: %v; want %v", number, got, want)
		}
	}
}
