package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tips/supernet"
	"tips/supernet/zoo"
)

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func randomSet(t testing.TB, reference string) *Set {
	s := Random(network(t, reference), 1)
	s.RandomNorm(2)
	return s
}

func wantEqual(t *testing.T, what string, got, want *Set) {
	t.Helper()
	for i, op := range want.Network.Ops() {
		for _, tensor := range tensorsOf(want.Network, i) {
			if !slices.Equal(*tensor.field(&got.Ops[i]), *tensor.field(&want.Ops[i])) {
				t.Fatalf("%s: %s of %s differs", what, tensor.name, op.Name)
			}
		}
	}
}

// TestParametersAreCounted: the tensors of a set are the parameters that the
// cost model counts.
func TestParametersAreCounted(t *testing.T) {
	for _, m := range zoo.Models() {
		n := network(t, m.Name)
		total := 0
		for i := range n.Ops() {
			for _, tensor := range tensorsOf(n, i) {
				if !strings.Contains(tensor.name, "running") {
					total += tensor.elements()
				}
			}
		}
		if want := n.Full().Costs().Params; int64(total) != want {
			t.Errorf("%s: %d parameters; the cost model counts %d", m.Name, total, want)
		}
	}
}

func TestFilesRoundTrip(t *testing.T) {
	for _, reference := range []string{"mlp", "mobilenet_v2:data=cifar10,width=0.5", "efficientnet_b0:data=cifar10"} {
		s := randomSet(t, reference)
		name := filepath.Join(t.TempDir(), "weights.safetensors")
		if err := s.Save(name); err != nil {
			t.Fatal(err)
		}
		// The file tells its network.
		again, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again.Network.Name() != reference {
			t.Errorf("the file is of %s; want %s", again.Network.Name(), reference)
		}
		wantEqual(t, reference, again, s)
		if _, err := Open(name, s.Network); err != nil {
			t.Error(err)
		}
		if _, err := Open(name, network(t, "resnet18")); err == nil || !strings.Contains(err.Error(), "these are weights of "+reference+", not of resnet18") {
			t.Errorf("weights of another network: error %v", err)
		}
	}
}

// torchFile writes a set as PyTorch would, by torchvision's names and in a type.
func torchFile(t *testing.T, s *Set, dtype string) []byte {
	t.Helper()
	names, ok := torchNames(s.Network)
	if !ok {
		t.Fatalf("%s has no names in torchvision", s.Network.Name())
	}
	header := map[string]any{}
	var data []byte
	put := func(name, dtype string, shape []int, raw []byte) {
		if _, twice := header[name]; twice {
			t.Fatalf("two tensors are called %s", name)
		}
		header[name] = map[string]any{"dtype": dtype, "shape": shape, "data_offsets": [2]int{len(data), len(data) + len(raw)}}
		data = append(data, raw...)
	}
	for i, op := range s.Network.Ops() {
		for _, tensor := range tensorsOf(s.Network, i) {
			var raw []byte
			for _, v := range *tensor.field(&s.Ops[i]) {
				switch dtype {
				case "F32":
					raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
				case "BF16":
					raw = binary.LittleEndian.AppendUint16(raw, uint16(math.Float32bits(v)>>16))
				}
			}
			put(names.of(i, tensor.name), dtype, tensor.shape, raw)
		}
		if op.Norm {
			put(names.norm[i]+".num_batches_tracked", "I64", []int{}, make([]byte, 8))
		}
	}
	return container(t, header, data)
}

func container(t testing.TB, header any, data []byte) []byte {
	t.Helper()
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(file, text...), data...)
}

// TestTorchvisionNames reads checkpoints with torchvision's names. A few names
// of each family are written out here as torchvision has them.
func TestTorchvisionNames(t *testing.T) {
	for reference, samples := range map[string][]string{
		"mobilenet_v2:data=cifar10": {
			"features.0.0.weight", "features.0.1.running_mean", "features.1.conv.0.0.weight", "features.1.conv.1.weight", "features.1.conv.2.bias",
			"features.2.conv.0.0.weight", "features.2.conv.1.1.weight", "features.17.conv.2.weight", "features.17.conv.3.running_var", "features.18.1.weight", "classifier.1.bias",
		},
		"resnet34:data=cifar10":        {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "layer2.0.downsample.1.bias", "layer4.2.bn2.weight", "fc.weight"},
		"resnext50_32x4d:data=cifar10": {"layer1.0.downsample.0.weight", "layer3.5.conv3.weight", "layer3.5.bn3.running_mean", "fc.bias"},
		"efficientnet_b0:data=cifar10": {
			"features.0.0.weight", "features.1.0.block.0.0.weight", "features.1.0.block.1.fc1.weight", "features.1.0.block.2.1.bias",
			"features.2.1.block.0.0.weight", "features.4.2.block.2.fc2.bias", "features.6.3.block.3.0.weight", "features.7.0.block.1.1.running_mean", "features.8.0.weight", "classifier.1.weight",
		},
	} {
		if testing.Short() && !strings.HasPrefix(reference, "mobilenet") {
			continue // tens of millions of values each
		}
		s := randomSet(t, reference)
		file := torchFile(t, s, "F32")
		for _, name := range samples {
			if !bytes.Contains(file, []byte(`"`+name+`"`)) {
				t.Errorf("%s: no tensor is called %s", reference, name)
			}
		}
		got, err := Read(bytes.NewReader(file), int64(len(file)), s.Network)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, reference, got, s)
		if _, err := Read(bytes.NewReader(file), int64(len(file)), nil); err == nil || !strings.Contains(err.Error(), "does not tell which network") {
			t.Errorf("%s without a network: error %v", reference, err)
		}
	}
	// Values in bfloat16 are those of float32, cut off.
	s := randomSet(t, "mobilenet_v2:data=cifar10")
	file := torchFile(t, s, "BF16")
	got, err := Read(bytes.NewReader(file), int64(len(file)), s.Network)
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range got.Ops[0].Weight {
		if want := math.Float32frombits(math.Float32bits(s.Ops[0].Weight[j]) &^ 0xffff); v != want {
			t.Fatalf("weight %d is %v; want %v", j, v, want)
		}
	}
}

func TestFromHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 1.0 / (1 << 14), 0x0001: 1.0 / (1 << 24), 0x83ff: -1023.0 / (1 << 24),
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x3555: 0.333251953125,
	} {
		if got := fromHalf(bits); float64(got) != want {
			t.Errorf("%#04x: %v; want %v", bits, got, want)
		}
	}
	if got := fromHalf(0x8000); got != 0 || !math.Signbit(float64(got)) {
		t.Errorf("minus zero: %v", got)
	}
	if got := fromHalf(0x7e00); got == got {
		t.Errorf("NaN: %v", got)
	}
}

// TestExtract: the extracted set has the first channels of every tensor.
func TestExtract(t *testing.T) {
	for _, reference := range []string{"mlp", "mobilenet_v2:data=cifar10,width=0.5", "efficientnet_b0:data=cifar10", "resnext50_32x4d:data=cifar10"} {
		if testing.Short() && strings.HasPrefix(reference, "res") {
			continue
		}
		s := randomSet(t, reference)
		n := s.Network
		rng := rand.New(rand.NewPCG(1, 1))
		widths := make([]int, len(n.Groups()))
		for i, g := range n.Groups() {
			ws := g.Widths()
			widths[i] = ws[rng.IntN(len(ws))]
		}
		sub, err := n.Subnet(widths, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(sub, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		alone, err := s.Extract(sub)
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range n.Ops() {
			at, there := alone.Network.Index(op.Name)
			if there != v.Ops[i].Runs {
				t.Fatalf("%s: %s is there: %t", reference, op.Name, there)
			}
			if !there || s.Ops[i].Weight == nil {
				continue
			}
			o, full := v.Ops[i], n.Full().Ops[i]
			in, fullIn := o.In[0].Channels/o.Groups, full.In[0].Channels/full.Groups
			taps := max(op.Kernel, 1) * max(op.Kernel, 1)
			if want := o.Out.Channels * in * taps; len(alone.Ops[at].Weight) != want {
				t.Fatalf("%s: %s has %d weights; want %d", reference, op.Name, len(alone.Ops[at].Weight), want)
			}
			for c := range o.Out.Channels {
				for ci := range in {
					for k := range taps {
						if alone.Ops[at].Weight[(c*in+ci)*taps+k] != s.Ops[i].Weight[(c*fullIn+ci)*taps+k] {
							t.Fatalf("%s: %s differs at %d, %d, %d", reference, op.Name, c, ci, k)
						}
					}
				}
			}
			if op.Norm && !slices.Equal(alone.Ops[at].Variance, s.Ops[i].Variance[:o.Out.Channels]) {
				t.Fatalf("%s: statistics of %s differ", reference, op.Name)
			}
		}

		// With statistics of its own, nothing else is another.
		own := &Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
		for i, op := range alone.Network.Ops() {
			at, _ := n.Index(op.Name)
			for c := range alone.Ops[i].Mean {
				alone.Ops[i].Mean[c] += 1
				alone.Ops[i].Variance[c] *= 2
			}
			own.Mean[at], own.Variance[at] = alone.Ops[i].Mean, alone.Ops[i].Variance
		}
		calibrated, err := s.ExtractWith(sub, own)
		if err != nil {
			t.Fatal(err)
		}
		if calibrated.Hash() != alone.Hash() {
			t.Errorf("%s: extracted with statistics of its own it is another", reference)
		}
		if _, err := s.ExtractWith(sub, &Statistics{}); err == nil || !strings.Contains(err.Error(), "statistics of 0 and 0 operations") {
			t.Errorf("%s: no statistics: %v", reference, err)
		}
		if reference == "mlp" {
			continue // has no batch norm
		}
		own.Mean[0] = own.Mean[0][1:]
		if _, err := s.ExtractWith(sub, own); err == nil || !strings.Contains(err.Error(), "statistics of ") {
			t.Errorf("%s: statistics of another width: %v", reference, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	n := network(t, "mlp:depth=2,width=8,inputs=2,classes=2")
	type object = map[string]any
	tensorAt := func(at int, shape ...int) object {
		elements := 1
		for _, d := range shape {
			elements *= d
		}
		return object{"dtype": "F32", "shape": shape, "data_offsets": []int{at, at + 4*elements}}
	}
	good := func() object {
		return object{
			"stem.weight": tensorAt(0, 8, 2), "stem.bias": tensorAt(64, 8),
			"classifier.weight": tensorAt(96, 2, 8), "classifier.bias": tensorAt(160, 2),
		}
	}
	data := make([]byte, 168)
	whole := container(t, good(), data)
	if _, err := Read(bytes.NewReader(whole), int64(len(whole)), n); err != nil {
		t.Fatal(err)
	}
	change := func(f func(object)) []byte {
		h := good()
		f(h)
		return container(t, h, data)
	}
	raw := func(header string, data []byte) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
	}
	for name, c := range map[string]struct {
		file    []byte
		want    string
		corrupt bool
	}{
		"empty":         {nil, "no safetensors file", true},
		"short":         {whole[:7], "no safetensors file", true},
		"cut header":    {whole[:40], "a header of", true},
		"cut data":      {whole[:len(whole)-1], "the file is cut off", true},
		"too long":      {append(slices.Clone(whole), 0), "1 bytes after the last tensor", true},
		"huge header":   {binary.LittleEndian.AppendUint64(nil, 1<<62), "a header of", true},
		"no JSON":       {raw("hello", nil), "no JSON object", true},
		"array":         {raw("[]", nil), "no JSON object", true},
		"half JSON":     {raw(`{"a":`, nil), "", true},
		"goes on":       {raw(`{} {}`, nil), "goes on", true},
		"twice":         {raw(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, nil), `"a" stands twice`, true},
		"overlap":       {change(func(h object) { h["stem.bias"] = tensorAt(60, 8) }), "inside the one before it", true},
		"gap":           {change(func(h object) { h["classifier.bias"] = tensorAt(164, 1) }), "belong to no tensor", true},
		"wrong size":    {change(func(h object) { h["stem.bias"].(object)["shape"] = []int{9} }), "offsets", true},
		"negative":      {change(func(h object) { h["stem.bias"].(object)["shape"] = []int{-8} }), "shape [-8]", true},
		"overflow":      {change(func(h object) { h["stem.bias"].(object)["shape"] = []int{1 << 40, 1 << 40} }), "shape", true},
		"backwards":     {change(func(h object) { h["stem.bias"].(object)["data_offsets"] = []int{64, 0} }), "offsets", true},
		"one offset":    {change(func(h object) { h["stem.bias"].(object)["data_offsets"] = []int{64} }), "has 1 offsets", true},
		"null metadata": {change(func(h object) { h["__metadata__"] = nil }), "metadata is null", true},
		"dtype":         {change(func(h object) { h["stem.bias"].(object)["dtype"] = "F128" }), `unknown dtype "F128"`, true},
		"integers":      {change(func(h object) { h["stem.bias"].(object)["dtype"] = "I32" }), "dtype I32; want F32, F16 or BF16", false},
		"missing":       {change(func(h object) { h["other"] = h["stem.bias"]; delete(h, "stem.bias") }), `tensor "stem.bias" of operation "stem" is missing`, false},
		"unknown":       {change(func(h object) { h["other"] = tensorAt(168, 0) }), `tensor "other" belongs to no operation`, false},
		"other shape":   {change(func(h object) { h["stem.weight"] = tensorAt(0, 2, 8) }), "shape [2 8]; operation", false},
		"bad metadata":  {change(func(h object) { h["__metadata__"] = object{"a": 1} }), "metadata", true},
		"huge network":  {change(func(h object) { h["__metadata__"] = object{networkKey: hugeNetwork} }), "is missing", false},
		"other network": {change(func(h object) { h["__metadata__"] = object{networkKey: "{}"} }), "network description", true},
	} {
		wanted := n
		if strings.Contains(name, "huge network") {
			wanted = nil // the file's own
		}
		_, err := Read(bytes.NewReader(c.file), int64(len(c.file)), wanted)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %q in it", name, err, c.want)
		}
		if errors.Is(err, ErrCorrupt) != c.corrupt {
			t.Errorf("%s: error %v wraps ErrCorrupt: %t; want %t", name, err, errors.Is(err, ErrCorrupt), c.corrupt)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing"), n); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Open(t.TempDir(), n); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// hugeNetwork would take a petabyte of weights.
const hugeNetwork = `{"format": "tips-network", "version": 1, "name": "huge", "input": {"channels": 1048576, "height": 1, "width": 1},
 "operations": [{"name": "a", "kind": "conv", "inputs": ["input"], "channels": 1048576, "kernel": 15, "padding": 14}]}`

// FuzzRead: no file makes the reader panic or allocate more than the file and the
// network call for.
func FuzzRead(f *testing.F) {
	n := network(f, "mlp:depth=2,width=8,inputs=2,classes=2")
	var b bytes.Buffer
	if err := New(n).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(container(f, map[string]any{"a": map[string]any{"dtype": "F16", "shape": []int{3}, "data_offsets": []int{0, 6}}}, make([]byte, 6)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(bytes.NewReader(data), int64(len(data)), nil)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := s.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()), s.Network); err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
	})
}

func ExampleOpen() {
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		panic(err)
	}
	_, err = Open("checkpoint.safetensors", n) // from PyTorch, by torchvision's names
	fmt.Println(err)
	// Output: weights checkpoint.safetensors: no such file or directory
}
