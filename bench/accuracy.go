package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"tips/dataset"
	"tips/nn"
	"tips/onnx"
	"tips/supernet/zoo"
	"tips/weights"
)

// What the weights reach elsewhere, in percent.
const wantTop1, top1Tolerance = 69.4, 0.3

// accuracy classifies the images of the validation set on both sides.
func accuracy(s settings) (table, error) {
	t := table{
		columns: []string{"network", "images", "ours top-1 %", "theirs top-1 %", "same answer %", "limit", holdsColumn},
	}
	file := filepath.Join(s.data, "mobilenet_v2", "mobilenet_v2_imagenet.safetensors")
	folder := filepath.Join(s.data, "imagenet-val")
	for _, name := range []string{file, folder} {
		if _, err := os.Stat(name); err != nil {
			t.skip("mobilenet_v2", fmt.Errorf("%s is not in the data folder", filepath.Base(name)))
			return t, nil
		}
	}
	images, err := dataset.Images(folder)
	if err != nil {
		return table{}, err
	}
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		return table{}, err
	}
	set, err := weights.Open(file, n)
	if err != nil {
		return table{}, err
	}
	p, err := prepare(set, nn.NewModel(set), onnx.Options{Input: n.Input()}, 1)
	if err != nil {
		return table{}, err
	}
	other, err := openModel(p.model, p.program.View(), 1, 1)
	if err != nil {
		return table{}, err
	}
	defer other.close()
	session := nn.NewSession(1)
	defer session.Close()

	x, y := make([]float32, p.program.InputLen()), make([]float32, p.program.OutputLen())
	var ours, theirs, same int
	preprocess := dataset.ImageNet(n.Input().Height)
	for _, image := range images {
		if err := preprocess.Load(image.Path, x); err != nil {
			return table{}, err
		}
		session.Run(p.program, y, x)
		channelsFirst(other.in.GetData(), x, n.Input())
		if err := other.run(); err != nil {
			return table{}, err
		}
		a, b := largest(y), largest(other.out.GetData())
		ours += count(a == image.Class)
		theirs += count(b == image.Class)
		same += count(a == b)
	}
	percent := func(n int) float64 { return 100 * float64(n) / float64(len(images)) }
	t.add("mobilenet_v2", fmt.Sprint(len(images)), fmt.Sprintf("%.1f", percent(ours)), fmt.Sprintf("%.1f", percent(theirs)), fmt.Sprintf("%.1f", percent(same)),
		fmt.Sprintf("%.1f ± %.1f", wantTop1, top1Tolerance), verdict(math.Abs(percent(ours)-wantTop1) <= top1Tolerance+1e-9))
	return t, nil
}

func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
