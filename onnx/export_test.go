package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/internal/reference"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// everything is a network with every kind of operation and activation, batch norm
// where nobody expects it, maps that are needed in both forms, and operations
// whose names are those of other things in the file.
var everything = supernet.Description{
	Name:    "everything",
	Input:   supernet.Shape{Channels: 3, Height: 11, Width: 9},
	Elastic: supernet.Elastic{MinRatio: 0.25, Divisor: 4},
	Operations: []supernet.Op{
		{Name: "stem", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 16, Kernel: 3, Padding: 1, Norm: true, Activation: supernet.ReLU6},
		{Name: "output", Kind: supernet.Conv, Inputs: []string{"stem"}, Channels: 32, Kernel: 1, Bias: true, Norm: true, NormEps: 1e-3, Activation: supernet.SiLU},
		{Name: "stem/conv", Kind: supernet.Depthwise, Inputs: []string{"output"}, Kernel: 5, Padding: 2, Norm: true, Bias: true},
		{Name: "stem.weight", Kind: supernet.Conv, Inputs: []string{"stem/conv"}, Channels: 16, Kernel: 1, Bias: true},
		{Name: "add", Kind: supernet.Add, Inputs: []string{"stem.weight", "stem"}, Norm: true, Activation: supernet.Sigmoid},
		{Name: "grouped", Kind: supernet.Conv, Inputs: []string{"add"}, Channels: 32, Kernel: 3, Stride: 2, Padding: 1, Groups: 4, Activation: supernet.ReLU},
		{Name: "max", Kind: supernet.MaxPool, Inputs: []string{"grouped"}, Kernel: 3, Stride: 1, Padding: 1},
		{Name: "avg", Kind: supernet.AvgPool, Inputs: []string{"grouped"}, Kernel: 3, Stride: 1, Padding: 1, Norm: true},
		{Name: "three", Kind: supernet.Add, Inputs: []string{"max", "avg", "grouped"}},
		{Name: "twice", Kind: supernet.Add, Inputs: []string{"three", "three"}, Activation: supernet.ReLU6},
		{Name: "squeeze", Kind: supernet.GlobalPool, Inputs: []string{"twice"}},
		{Name: "excite", Kind: supernet.Linear, Inputs: []string{"squeeze"}, Channels: 32, Bias: true, Activation: supernet.Sigmoid},
		{Name: "scale", Kind: supernet.Mul, Inputs: []string{"twice", "excite"}, Norm: true},
		{Name: "square", Kind: supernet.Mul, Inputs: []string{"scale", "scale"}},
		{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{"square"}, Norm: true},
		{Name: "hidden", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 32, Norm: true, Activation: supernet.SiLU},
		{Name: "residual", Kind: supernet.Add, Inputs: []string{"hidden", "pool"}},
		{Name: "pixel", Kind: supernet.Conv, Inputs: []string{"residual"}, Channels: 24, Kernel: 3, Padding: 1, Activation: supernet.ReLU},
		{Name: "classifier", Kind: supernet.Linear, Inputs: []string{"pixel"}, Channels: 10, Bias: true},
	},
}

// failer is a test of either kind.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

func networkOf(t testing.TB, d supernet.Description) *supernet.Network {
	t.Helper()
	n, err := supernet.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func randomSet(n *supernet.Network) *weights.Set {
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	return set
}

// someSubnets are the whole network, its smallest subnetwork, and random ones,
// with blocks left out where it has any.
func someSubnets(t testing.TB, n *supernet.Network, random int) []supernet.Subnet {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(len(n.Ops()))))
	list := []supernet.Subnet{{}, n.Smallest()}
	for range random {
		list = append(list, randnet.Subnet(n, rng))
	}
	return list
}

func drawSubnet(t *rapid.T, n *supernet.Network) supernet.Subnet {
	var widths, without []int
	for _, g := range n.Groups() {
		widths = append(widths, rapid.SampledFrom(g.Widths()).Draw(t, g.Name))
	}
	for b, block := range n.Blocks() {
		if rapid.IntRange(0, 2).Draw(t, block.Name) == 0 {
			without = append(without, b)
		}
	}
	s, err := n.Subnet(widths, without)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func export(t failer, set *weights.Set, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, set, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// checkModel holds a model to what all models promise, and its size to that of
// the subnetwork.
func checkModel(t failer, m readModel, view *supernet.View, o Options) {
	t.Helper()
	if m.ir != 8 || m.opset != 17 || m.producer != "tips" || m.graph.name != view.Network.Name() {
		t.Errorf("IR %d, opset %d, producer %q, graph %q", m.ir, m.opset, m.producer, m.graph.name)
	}
	batch := "batch"
	if o.Batch > 0 {
		batch = fmt.Sprint(o.Batch)
	}
	last := view.Shape(view.Output())
	in := []string{batch, fmt.Sprint(view.Input.Channels), fmt.Sprint(view.Input.Height), fmt.Sprint(view.Input.Width)}
	out := []string{batch, fmt.Sprint(last.Channels)}
	if last.Height > 1 || last.Width > 1 {
		out = append(out, fmt.Sprint(last.Height), fmt.Sprint(last.Width))
	}
	if v := m.graph.inputs; len(v) != 1 || v[0].name != "input" || v[0].kind != 1 || !slices.Equal(v[0].dims, in) {
		t.Errorf("inputs %+v; want %v", v, in)
	}
	if v := m.graph.outputs; len(v) != 1 || v[0].name != "output" || v[0].kind != 1 || !slices.Equal(v[0].dims, out) {
		t.Errorf("outputs %+v; want %v", v, out)
	}

	nodes, used := map[string]bool{}, map[string]bool{}
	norms := 0
	for _, n := range m.graph.nodes {
		if nodes[n.name] {
			t.Errorf("node %q stands twice", n.name)
		}
		nodes[n.name] = true
		if n.kind == "BatchNormalization" {
			norms++
		}
		for _, in := range n.inputs {
			used[in] = true
		}
	}
	params, want := int64(0), view.Costs().Params
	for name, tensor := range m.graph.tensors {
		if !used[name] {
			t.Errorf("initialiser %q is read by nobody", name)
		}
		if name != "zero" && name != "six" {
			params += int64(len(tensor.floats))
		}
	}
	wantNorms := 0
	for i, op := range view.Network.Ops() {
		if !view.Ops[i].Runs || !op.Norm {
			continue
		}
		channels := int64(view.Ops[i].Out.Channels)
		switch folded := op.Kind.HasWeights() && !o.KeepNorm; {
		case !folded:
			wantNorms++
			want += 2 * channels // mean and variance, which are no parameters
		case op.Bias:
			want -= 2 * channels // scale and shift are gone
		default:
			want -= channels // the shift is the bias
		}
	}
	if params != want || norms != wantNorms {
		t.Errorf("%d parameters and %d batch norms; want %d and %d", params, norms, want, wantNorms)
	}
}

// checkValues compares the model with the network on random inputs.
func checkValues(t failer, m readModel, set *weights.Set, view *supernet.View, batch int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	x := newArray(batch, view.Input.Channels, view.Input.Height, view.Input.Width)
	for i := range x.values {
		x.values[i] = rng.NormFloat64()
	}
	y := evaluate(m.graph, x)
	one := len(x.values) / batch
	var want []float64
	for b := range batch {
		want = append(want, reference.Run(set, view, nil, x.values[b*one:][:one])...)
	}
	if len(y.values) != len(want) {
		t.Fatalf("%d values; want %d", len(y.values), len(want))
	}
	largest := 0.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range y.values {
		if !(math.Abs(v-want[i]) <= 1e-5*largest) {
			t.Fatalf("value %d is %v; want %v, largest %v", i, v, want[i], largest)
		}
	}
}

// TestEverything compares every kind of operation with the plain reference.
func TestEverything(t *testing.T) {
	n := networkOf(t, everything)
	if len(n.Blocks()) == 0 || len(n.Groups()) < 3 {
		t.Fatalf("%d blocks and %d groups: nothing to leave out", len(n.Blocks()), len(n.Groups()))
	}
	set := randomSet(n)
	for _, s := range someSubnets(t, n, 20) {
		for _, o := range []Options{{Subnet: s}, {Subnet: s, KeepNorm: true, Batch: 2}, {Subnet: s, Input: supernet.Shape{Channels: 3, Height: 7, Width: 16}}} {
			t.Run(fmt.Sprintf("%s/%t/%d", s, o.KeepNorm, o.Input.Height), func(t *testing.T) {
				input := o.Input
				if input == (supernet.Shape{}) {
					input = n.Input()
				}
				view, err := n.View(s, input)
				if err != nil {
					t.Fatal(err)
				}
				m := decode(t, export(t, set, o))
				checkModel(t, m, view, o)
				checkValues(t, m, set, view, 2)
			})
		}
	}
}

// TestRandomNetworks does the same with whatever networks there may be.
func TestRandomNetworks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, err := supernet.New(randnet.Draw(r))
		if err != nil {
			r.Fatal(err)
		}
		set := randomSet(n)
		o := Options{Subnet: drawSubnet(r, n), KeepNorm: rapid.Bool().Draw(r, "keep")}
		view, err := n.View(o.Subnet, n.Input())
		if err != nil {
			r.Fatal(err)
		}
		m := decode(r, export(r, set, o))
		checkModel(r, m, view, o)
		checkValues(r, m, set, view, 1)
		if view.Output() == supernet.FromInput {
			return
		}
		alone, err := set.Extract(o.Subnet)
		if err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(export(r, set, o), export(r, alone, Options{KeepNorm: o.KeepNorm})) {
			r.Fatal("in place and extracted differ")
		}
	})
}

// TestZoo holds every network of the zoo to the promises, and the small ones among
// the subnetworks to the reference; bench compares all of them with a real runtime.
func TestZoo(t *testing.T) {
	for _, model := range zoo.Models() {
		t.Run(model.Name, func(t *testing.T) {
			t.Parallel()
			n, err := zoo.New(model.Name)
			if err != nil {
				t.Fatal(err)
			}
			set := randomSet(n)
			input := n.Input()
			input.Height, input.Width = min(input.Height, 32), min(input.Width, 32)
			for i, s := range someSubnets(t, n, 2) {
				if i == 0 && n.Full().Costs().Params > 12e6 {
					continue // a hundred megabytes and more
				}
				o := Options{Subnet: s, Input: input, KeepNorm: i%2 == 1}
				view, err := n.View(s, input)
				if err != nil {
					t.Fatal(err)
				}
				m := decode(t, export(t, set, o))
				checkModel(t, m, view, o)
				if view.Costs().MACs < 8e6 {
					checkValues(t, m, set, view, 1)
				}
			}
		})
	}
}

// TestExtracted: a subnetwork in place and the same one by itself are one file, in
// which also the statistics may be given in two ways.
func TestExtracted(t *testing.T) {
	networks := []*supernet.Network{networkOf(t, everything)}
	for _, name := range []string{"mlp", "mobilenet_v2:width=0.35", "resnext50_32x4d:classes=10", "efficientnet_b0"} {
		n, err := zoo.New(name)
		if err != nil {
			t.Fatal(err)
		}
		networks = append(networks, n)
	}
	for _, n := range networks {
		set := randomSet(n)
		for _, s := range someSubnets(t, n, 1)[1:] {
			alone, err := set.Extract(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, keep := range []bool{false, true} {
				if !bytes.Equal(export(t, set, Options{Subnet: s, KeepNorm: keep}), export(t, alone, Options{KeepNorm: keep})) {
					t.Errorf("%s %s: in place and extracted differ", n.Name(), s)
				}
			}

			own := &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
			for i, op := range alone.Network.Ops() {
				for c := range alone.Ops[i].Mean {
					alone.Ops[i].Mean[c] += 0.1
					alone.Ops[i].Variance[c] *= 2
				}
				from, _ := n.Index(op.Name)
				own.Mean[from], own.Variance[from] = alone.Ops[i].Mean, alone.Ops[i].Variance
			}
			if !bytes.Equal(export(t, set, Options{Subnet: s, Statistics: own}), export(t, alone, Options{})) {
				t.Errorf("%s %s: with statistics of its own, in place and extracted differ", n.Name(), s)
			}
		}
	}
}

// TestOutputs: networks that end in something other than a linear layer.
func TestOutputs(t *testing.T) {
	conv := supernet.Op{Name: "conv", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 4, Kernel: 3, Padding: 1}
	add := supernet.Op{Name: "add", Kind: supernet.Add, Inputs: []string{"conv", "input"}}
	pool := supernet.Op{Name: "output", Kind: supernet.GlobalPool, Inputs: []string{"conv"}}
	for _, size := range []int{1, 5} {
		for _, ops := range [][]supernet.Op{{conv}, {conv, pool}, {conv, add}} {
			n := networkOf(t, supernet.Description{Name: "end", Input: supernet.Shape{Channels: 4, Height: size, Width: size}, Operations: ops})
			set := randomSet(n)
			for _, s := range someSubnets(t, n, 4) { // also without the addition: the input is the output
				view, err := n.View(s, n.Input())
				if err != nil {
					t.Fatal(err)
				}
				m := decode(t, export(t, set, Options{Subnet: s}))
				checkModel(t, m, view, Options{Subnet: s})
				checkValues(t, m, set, view, 2)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	n := networkOf(t, everything)
	other, err := zoo.New("mlp")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*weights.Set, *Options)
	}{
		{"batch of -1", func(_ *weights.Set, o *Options) { o.Batch = -1 }},
		{"input has 4 channels", func(_ *weights.Set, o *Options) { o.Input = supernet.Shape{Channels: 4, Height: 8, Width: 8} }},
		{"subnet", func(_ *weights.Set, o *Options) { o.Subnet = other.Smallest() }},
		{`operation "stem": weight of 7 values; want 432`, func(s *weights.Set, _ *Options) { s.Ops[0].Weight = s.Ops[0].Weight[:7] }},
		{`operation "output": bias of 0 values; want 32`, func(s *weights.Set, _ *Options) { s.Ops[1].Bias = nil }},
		{`operation "stem": statistics of 3 and 16 channels; it has 16`, func(s *weights.Set, _ *Options) { s.Ops[0].Mean = s.Ops[0].Mean[:3] }},
		{"parameters of 2 operations; everything has 19", func(s *weights.Set, _ *Options) { s.Ops = s.Ops[:2] }},
		{"statistics of 0 and 0 operations; everything has 19", func(_ *weights.Set, o *Options) { o.Statistics = &weights.Statistics{} }},
	} {
		set, o := randomSet(n), Options{}
		c.change(set, &o)
		var b bytes.Buffer
		if err := Export(&b, set, o); err == nil || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
			t.Errorf("error %v after %d bytes; want %q", err, b.Len(), c.want)
		}
	}
	if err := Export(failing{}, randomSet(n), Options{}); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
}

var errFull = errors.New("disk full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
