package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pipeline is what happens to a picture on its way to a network, in this order:
//
//  1. RandomResizedCrop cuts out a part of random size and shape and scales it to
//     the input. Otherwise the picture is scaled as Resize says, unless its shorter
//     side has the input's size already, and the input's size is cut out: at a random
//     place that may reach Pad pixels beyond the edges, where all is black, or at
//     the centre if Pad is 0.
//  2. Flip mirrors every second picture.
//  3. Brightness, Contrast, Saturation and Hue change colours, in random order.
//  4. Grey becomes three equal channels, or colours grey, if the network's input
//     asks for it.
//  5. Mean and Std normalise.
//
// Names, ranges and defaults are torchvision's; scaling is bilinear and antialiased.
// The zero value only scales, crops, and maps 0…255 to 0…1.
type Pipeline struct {
	Pad  int  `yaml:"pad,omitempty" json:"pad,omitempty"`
	Flip bool `yaml:"flip,omitempty" json:"flip,omitempty"`

	RandomResizedCrop bool      `yaml:"random_resized_crop,omitempty" json:"random_resized_crop,omitempty"`
	Scale             []float64 `yaml:"scale,omitempty,flow" json:"scale,omitempty"` // least and largest part of the area; empty: 0.08 and 1
	Ratio             []float64 `yaml:"ratio,omitempty,flow" json:"ratio,omitempty"` // least and largest width by height; empty: 3/4 and 4/3

	Brightness float64 `yaml:"brightness,omitempty" json:"brightness,omitempty"` // factor of 1−b to 1+b, not below 0
	Contrast   float64 `yaml:"contrast,omitempty" json:"contrast,omitempty"`     // likewise
	Saturation float64 `yaml:"saturation,omitempty" json:"saturation,omitempty"` // likewise
	Hue        float64 `yaml:"hue,omitempty" json:"hue,omitempty"`               // moved by −h to h, h up to 0.5; 1 is the whole circle

	// Resize is the length that the shorter side is scaled to before the input's
	// size is cut out; 0: just so that the picture covers the input.
	Resize int `yaml:"resize,omitempty" json:"resize,omitempty"`

	// Mean and Std have one value, or one a channel; empty: 0 and 1.
	Mean []float32 `yaml:"mean,omitempty,flow" json:"mean,omitempty"`
	Std  []float32 `yaml:"std,omitempty,flow" json:"std,omitempty"`
}

// Pipeline is what pictures of the set usually go through when a network learns
// from them: nothing for the synthetic set, pad-and-crop by 2 for MNIST, and a
// flip for Fashion-MNIST; pad-and-crop by 4 and a flip for CIFAR, by 8 for
// Tiny-ImageNet; a random resized crop and a flip for folders. Means and standard
// deviations are the set's own where it is known, ImageNet's for Tiny-ImageNet and
// folders.
func (d *Data) Pipeline() Pipeline {
	return d.augment.Normalised(d)
}

// Normalised fills in the mean and standard deviation of d where p has none.
func (p Pipeline) Normalised(d *Data) Pipeline {
	if len(p.Mean) == 0 && len(p.Std) == 0 {
		p.Mean, p.Std = slices.Clone(d.Mean), slices.Clone(d.Std)
	}
	return p
}

// Evaluation is p without chance: scaling, the centre, normalisation.
func (p Pipeline) Evaluation() Pipeline {
	return Pipeline{Resize: p.Resize, Mean: p.Mean, Std: p.Std}
}

// Random reports whether chance plays a part.
func (p Pipeline) Random() bool {
	return p.Pad > 0 || p.Flip || p.RandomResizedCrop || p.jitters()
}

func (p Pipeline) jitters() bool {
	return p.Brightness > 0 || p.Contrast > 0 || p.Saturation > 0 || p.Hue > 0
}

// maxInput bounds the sides of what networks take in.
const maxInput = 1 << 12

// Validate says what is wrong with a pipeline, in one line.
func (p Pipeline) Validate() error {
	switch {
	case p.Pad < 0 || p.Pad > maxInput:
		return fmt.Errorf("dataset: pad %d; 0 to %d are possible", p.Pad, maxInput)
	case p.Resize < 0 || p.Resize > maxInput:
		return fmt.Errorf("dataset: resize %d; 0 to %d are possible", p.Resize, maxInput)
	case p.RandomResizedCrop && p.Pad > 0:
		return fmt.Errorf("dataset: pad %d with random_resized_crop; only one of them can place the crop", p.Pad)
	case !p.RandomResizedCrop && (len(p.Scale) > 0 || len(p.Ratio) > 0):
		return errors.New("dataset: scale or ratio without random_resized_crop, which they belong to")
	case len(p.Mean) != len(p.Std):
		return fmt.Errorf("dataset: %d values of mean and %d of std; as many are expected", len(p.Mean), len(p.Std))
	case len(p.Mean) != 0 && len(p.Mean) != 1 && len(p.Mean) != 3:
		return fmt.Errorf("dataset: %d values of mean and std; 1 or 3 are expected", len(p.Mean))
	}
	if err := validRange("scale", p.Scale, 1); err != nil {
		return err
	}
	if err := validRange("ratio", p.Ratio, 1000); err != nil {
		return err
	}
	for _, v := range []struct {
		name        string
		value, most float64
	}{{"brightness", p.Brightness, 10}, {"contrast", p.Contrast, 10}, {"saturation", p.Saturation, 10}, {"hue", p.Hue, 0.5}} {
		if !(v.value >= 0 && v.value <= v.most) {
			return fmt.Errorf("dataset: %s %v; 0 to %v are possible", v.name, v.value, v.most)
		}
	}
	for c := range p.Mean {
		if m := float64(p.Mean[c]); math.IsNaN(m) || math.IsInf(m, 0) {
			return fmt.Errorf("dataset: mean %v; a number is expected", m)
		}
		if s := float64(p.Std[c]); !(s > 0) || math.IsInf(s, 0) {
			return fmt.Errorf("dataset: std %v; a number above 0 is expected", s)
		}
	}
	return nil
}

func validRange(name string, r []float64, most float64) error {
	if len(r) == 0 {
		return nil
	}
	if len(r) != 2 || !(r[0] > 0 && r[0] <= r[1] && r[1] <= most) {
		return fmt.Errorf("dataset: %s %v; two numbers above 0 and up to %v, the smaller first, are expected", name, r, most)
	}
	return nil
}

// String is one line for logs, in the words of a recipe.
func (p Pipeline) String() string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	if p.RandomResizedCrop {
		scale, ratio := p.cropRanges()
		add("random_resized_crop scale %.3g–%.3g ratio %.3g–%.3g", scale[0], scale[1], ratio[0], ratio[1])
	}
	if p.Pad > 0 {
		add("pad %d", p.Pad)
	}
	if p.Flip {
		add("flip")
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"brightness", p.Brightness}, {"contrast", p.Contrast}, {"saturation", p.Saturation}, {"hue", p.Hue}} {
		if v.value > 0 {
			add("%s %v", v.name, v.value)
		}
	}
	if p.Resize > 0 {
		add("resize %d", p.Resize)
	}
	if len(p.Mean) > 0 {
		add("mean %v", p.Mean)
		add("std %v", p.Std)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// cropRanges are Scale and Ratio with their defaults.
func (p Pipeline) cropRanges() (scale, ratio [2]float64) {
	scale, ratio = [2]float64{0.08, 1}, [2]float64{3. / 4, 4. / 3}
	copy(scale[:], p.Scale)
	copy(ratio[:], p.Ratio)
	return scale, ratio
}
