// Package zoo describes well-known networks as supernets: the layer tables of
// their papers, with the parameter counts of the torchvision models of the same
// name.
//
// A model is asked for by a reference, a name and optional settings:
//
//	mobilenet_v2
//	mobilenet_v2:width=1.4,data=cifar100
//	mlp:depth=80,width=80,span=2
//
// The same reference is the network's name, so that a file that holds it tells
// how to build the network again.
package zoo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tips/supernet"
)

// Model is an entry of the zoo.
type Model struct {
	Name     string
	Summary  string   // one line
	Settings []string // the settings it takes, as key=default
	build    func(*settings) (supernet.Description, error)
}

// TakesData tells whether the model can be built for different image data.
func (m Model) TakesData() bool {
	return slices.ContainsFunc(m.Settings, func(s string) bool { return strings.HasPrefix(s, "data=") })
}

// Models lists the zoo in a fixed order.
func Models() []Model { return slices.Clone(models) }

var models = []Model{
	{"mlp", "multilayer perceptron with residual connections", append([]string{"depth=8", "width=80", "span=2", "inputs=784", "classes=10"}, elasticSettings...), mlp},
	{"mobilenet_v2", "inverted residual blocks with depthwise convolutions", imageModel("width=1.0"), mobileNetV2},
	{"resnet_small", "residual network of 6 basic blocks for small images", imageModel("width=32"), resNetSmall},
	{"resnet18", "residual network of 8 basic blocks", imageModel(), resNet18},
	{"resnet34", "residual network of 16 basic blocks", imageModel(), resNet34},
	{"resnet50", "residual network of 16 bottleneck blocks", imageModel(), resNet50},
	{"wide_resnet50_2", "resnet50 with bottlenecks of twice the width", imageModel(), wideResNet50},
	{"resnext50_32x4d", "resnet50 with bottlenecks in 32 groups", imageModel(), resNeXt50},
	{"efficientnet_b0", "inverted residual blocks with squeeze-and-excite", imageModel(), efficientNetB0},
}

var elasticSettings = []string{
	"min=" + strconv.FormatFloat(supernet.DefaultMinRatio, 'g', -1, 64),
	"divisor=" + strconv.Itoa(supernet.DefaultDivisor),
}

// imageModel lists the settings of a network that classifies images.
func imageModel(own ...string) []string {
	return append(append(own, "data=imagenet", "classes=(of data)", "size=(of data)", "channels=(of data)"), elasticSettings...)
}

// Data is what a network is built for: the images and, where small ones need
// it, a stem that does not shrink them at once.
type Data struct {
	Name     string
	Size     int // height and width of an image
	Classes  int
	Channels int // of an image: 3, or 1 where it has no colours
}

var dataSets = []Data{
	{"imagenet", 224, 1000, 3},
	{"tiny-imagenet", 64, 200, 3},
	{"cifar100", 32, 100, 3},
	{"cifar10", 32, 10, 3},
	{"fashion-mnist", 28, 10, 1}, // and MNIST, which has the same form
}

// DataSets lists what image models can be built for.
func DataSets() []Data { return slices.Clone(dataSets) }

// New builds the network that a reference asks for.
func New(reference string) (*supernet.Network, error) {
	name, list, hasSettings := strings.Cut(reference, ":")
	at := slices.IndexFunc(models, func(m Model) bool { return m.Name == name })
	if at < 0 {
		var names []string
		for _, m := range models {
			names = append(names, m.Name)
		}
		return nil, fmt.Errorf("zoo: unknown model %q; want one of %s", name, strings.Join(names, ", "))
	}
	m := models[at]
	s, err := parseSettings(list, hasSettings)
	if err != nil {
		return nil, fmt.Errorf("zoo: model %q: %w; %s takes %s", reference, err, name, strings.Join(m.Settings, ", "))
	}
	elastic := supernet.Elastic{MinRatio: s.float("min", supernet.DefaultMinRatio), Divisor: s.int("divisor", supernet.DefaultDivisor)}
	d, err := m.build(s)
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("zoo: model %q: %w; %s takes %s", reference, err, name, strings.Join(m.Settings, ", "))
	}
	d.Name = reference
	d.Elastic = elastic
	n, err := supernet.New(d)
	if err != nil {
		return nil, fmt.Errorf("zoo: model %q: %w", reference, err)
	}
	return n, nil
}

// settings are the key=value pairs of a reference. Models take what they know;
// finish then reports the first value that was wrong, or a key that nobody took.
type settings struct {
	values map[string]string
	taken  map[string]bool
	err    error
}

func parseSettings(list string, present bool) (*settings, error) {
	s := &settings{values: map[string]string{}, taken: map[string]bool{}}
	if !present {
		return s, nil
	}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("setting %q is not key=value", pair)
		}
		if _, twice := s.values[key]; twice {
			return nil, fmt.Errorf("setting %q stands twice", key)
		}
		s.values[key] = value
	}
	return s, nil
}

func (s *settings) take(key string) (string, bool) {
	s.taken[key] = true
	v, ok := s.values[key]
	return v, ok
}

func (s *settings) fail(key, value, want string) {
	if s.err == nil {
		s.err = fmt.Errorf("setting %s=%s; want %s", key, value, want)
	}
}

func (s *settings) int(key string, otherwise int) int {
	value, ok := s.take(key)
	if !ok {
		return otherwise
	}
	v, err := strconv.Atoi(value)
	if err != nil || v < 1 {
		s.fail(key, value, "a whole number above 0")
		return otherwise
	}
	return v
}

func (s *settings) float(key string, otherwise float64) float64 {
	value, ok := s.take(key)
	if !ok {
		return otherwise
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !(v > 0 && v <= 1000) {
		s.fail(key, value, "a number above 0")
		return otherwise
	}
	return v
}

// data reads the settings that all image models share.
func (s *settings) data() Data {
	name, ok := s.take("data")
	if !ok {
		name = dataSets[0].Name
	}
	at := slices.IndexFunc(dataSets, func(d Data) bool { return d.Name == name })
	if at < 0 {
		var names []string
		for _, d := range dataSets {
			names = append(names, d.Name)
		}
		s.fail("data", name, "one of "+strings.Join(names, ", "))
		at = 0
	}
	d := dataSets[at]
	d.Classes = s.int("classes", d.Classes)
	d.Size = s.int("size", d.Size)
	d.Channels = s.int("channels", d.Channels)
	return d
}

// isSmall tells whether the stem must keep images of 32×32 and less whole.
func (d Data) isSmall() bool {
	return d.Name == "cifar10" || d.Name == "cifar100" || d.Name == "fashion-mnist"
}

func (s *settings) finish() error {
	if s.err != nil {
		return s.err
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !s.taken[key] {
			return fmt.Errorf("unknown setting %q", key)
		}
	}
	return nil
}
