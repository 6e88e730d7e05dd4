package dataset

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	nan, inf := math.NaN(), float32(math.Inf(1))
	for want, p := range map[string]Pipeline{
		"pad -1":                              {Pad: -1},
		"pad 4 with random_resized_crop":      {Pad: 4, RandomResizedCrop: true},
		"resize -2":                           {Resize: -2},
		"resize 100000":                       {Resize: 100000},
		"scale or ratio without":              {Scale: []float64{0.5, 1}},
		"scale [0.5]; two numbers":            {RandomResizedCrop: true, Scale: []float64{0.5}},
		"scale [0.5 2]; two numbers":          {RandomResizedCrop: true, Scale: []float64{0.5, 2}},
		"scale [0 1]; two numbers":            {RandomResizedCrop: true, Scale: []float64{0, 1}},
		"scale [NaN 1]; two numbers":          {RandomResizedCrop: true, Scale: []float64{nan, 1}},
		"ratio [2 1]; two numbers":            {RandomResizedCrop: true, Ratio: []float64{2, 1}},
		"brightness -0.1; 0 to 10 are":        {Brightness: -0.1},
		"contrast NaN":                        {Contrast: nan},
		"saturation 11":                       {Saturation: 11},
		"hue 0.6; 0 to 0.5 are":               {Hue: 0.6},
		"2 values of mean and std; 1 or 3":    {Mean: []float32{1, 2}, Std: []float32{1, 2}},
		"1 values of mean and 0 of std":       {Mean: []float32{1}},
		"std 0; a number above 0 is expected": {Mean: []float32{1}, Std: []float32{0}},
		"std NaN":                             {Mean: []float32{1}, Std: []float32{float32(nan)}},
		"mean +Inf":                           {Mean: []float32{inf}, Std: []float32{1}},
	} {
		oneLine(t, want, p.Validate(), want)
		_, err := NewTransform(p, 8, 8, 3)
		oneLine(t, want, err, want)
	}
	for want, f := range map[string]func() (*Transform, error){
		"an input of 0×8":              func() (*Transform, error) { return NewTransform(Pipeline{}, 0, 8, 3) },
		"an input of 8×5000":           func() (*Transform, error) { return NewTransform(Pipeline{}, 8, 5000, 3) },
		"an input of 2 channels":       func() (*Transform, error) { return NewTransform(Pipeline{}, 8, 8, 2) },
		"resize 7 for an input of 8×8": func() (*Transform, error) { return NewTransform(Pipeline{Resize: 7}, 8, 8, 3) },
		"3 values of mean and std for an input of 1": func() (*Transform, error) {
			return NewTransform(Pipeline{Mean: []float32{1, 1, 1}, Std: []float32{1, 1, 1}}, 8, 8, 1)
		},
	} {
		_, err := f()
		oneLine(t, want, err, want)
	}
}

func TestPipelineString(t *testing.T) {
	for want, p := range map[string]Pipeline{
		"none":                                {},
		"pad 4, flip, mean [0.5], std [0.25]": {Pad: 4, Flip: true, Mean: []float32{0.5}, Std: []float32{0.25}},
		"random_resized_crop scale 0.08–1 ratio 0.75–1.33, resize 256": {RandomResizedCrop: true, Resize: 256},
		"brightness 0.4, contrast 0.3, saturation 0.2, hue 0.1":        {Brightness: 0.4, Contrast: 0.3, Saturation: 0.2, Hue: 0.1},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// TestPipelineKeys: every field has a key, the same in YAML and JSON, and comes back.
func TestPipelineKeys(t *testing.T) {
	full := Pipeline{
		Pad: 1, Flip: true, RandomResizedCrop: true, Scale: []float64{0.1, 1}, Ratio: []float64{0.5, 2},
		Brightness: 0.1, Contrast: 0.2, Saturation: 0.3, Hue: 0.4, Resize: 9, Mean: []float32{1}, Std: []float32{2},
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		yaml, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		js, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if yaml == "" || yaml != js || yaml != strings.ToLower(yaml) || v.Field(i).IsZero() {
			t.Errorf("%s has keys %q and %q", f.Name, yaml, js)
		}
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var back Pipeline
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(full, back) {
		t.Errorf("%s came back as %+v: %v", text, back, err)
	}
}

// TestUsual: what is usual for a set is possible with it, in one size and another.
func TestUsual(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/a/1.png", "val/a/1.png"} {
		writeImage(t, dir+"/"+name, 9, 7)
	}
	for spec, want := range map[string]string{
		"synthetic": "mean [0.5], std [0.25]",
		"mnist:" + writeFiles(t, t.TempDir(), smallMNIST()):         "pad 2, mean [0.1307], std [0.3081]",
		"fashion-mnist:" + writeFiles(t, t.TempDir(), smallMNIST()): "pad 2, flip, mean [0.286], std [0.353]",
		"cifar10:" + writeFiles(t, t.TempDir(), smallCIFAR10()):     "pad 4, flip, mean [0.4914 0.4822 0.4465], std [0.247 0.2435 0.2616]",
		"tiny-imagenet:" + smallTiny(t):                             "pad 8, flip, mean [0.485 0.456 0.406], std [0.229 0.224 0.225]",
		"folder:" + dir:                                             "random_resized_crop scale 0.08–1 ratio 0.75–1.33, flip, resize 256, mean [0.485 0.456 0.406], std [0.229 0.224 0.225]",
	} {
		d, err := Open(spec)
		if err != nil {
			t.Fatal(err)
		}
		p := d.Pipeline()
		if p.String() != want {
			t.Errorf("%s: %s; want %s", d.Name, p, want)
		}
		for _, p := range []Pipeline{p, p.Evaluation()} {
			if _, err := NewTransform(p, d.Size, d.Size, d.Channels); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
			if _, err := NewTransform(p, 20, 24, 3); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
		p.Mean[0] = 7
		if d.Mean[0] == 7 {
			t.Errorf("%s: the pipeline shares its mean", d.Name)
		}
		if p := (Pipeline{Flip: true}).Normalised(d); !p.Flip || len(p.Mean) != d.Channels || p.Normalised(&Data{Mean: []float32{9}, Std: []float32{9}}).Mean[0] == 9 {
			t.Errorf("%s: %s", d.Name, p)
		}
	}
}
