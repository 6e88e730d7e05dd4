package supernet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tips/supernet"
)

// build makes a network for 3×16×16 inputs from operations written as
// "name kind(input, input) settings…", one a line.
func build(t testing.TB, text string) *supernet.Network {
	t.Helper()
	n, err := supernet.New(describe(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func describe(t testing.TB, text string) supernet.Description {
	t.Helper()
	d := supernet.Description{Name: "test", Input: supernet.Shape{Channels: 3, Height: 16, Width: 16}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		head, settings, _ := strings.Cut(line, ")")
		name, rest, _ := strings.Cut(head, " ")
		kind, inputs, ok := strings.Cut(rest, "(")
		if !ok {
			t.Fatalf("bad line %q", line)
		}
		op := supernet.Op{Name: name, Kind: supernet.Kind(kind)}
		for in := range strings.SplitSeq(inputs, ",") {
			if in = strings.TrimSpace(in); in != "" {
				op.Inputs = append(op.Inputs, in)
			}
		}
		for s := range strings.FieldsSeq(settings) {
			key, value, _ := strings.Cut(s, "=")
			number := 0
			if value != "" {
				if _, err := fmt.Sscan(value, &number); err != nil {
					t.Fatalf("bad setting %q", s)
				}
			}
			switch key {
			case "c":
				op.Channels = number
			case "k":
				op.Kernel = number
			case "s":
				op.Stride = number
			case "p":
				op.Padding = number
			case "g":
				op.Groups = number
			case "bias":
				op.Bias = true
			case "bn":
				op.Norm = true
			case "fixed":
				op.Fixed = true
			case "required":
				op.Required = true
			default:
				op.Activation = supernet.Activation(key)
			}
		}
		d.Operations = append(d.Operations, op)
	}
	return d
}

// residual is a small network with all kinds of ties between widths.
const residual = `
	stem conv(input) c=32 k=3 p=1 bn relu
	a.expand conv(stem) c=64 k=1 bn relu
	a.filter depthwise(a.expand) k=3 p=1 bn relu
	a.project conv(a.filter) c=32 k=1 bn
	a.add add(a.project, stem)
	b.in conv(a.add) c=48 k=1 bn relu
	b.grouped conv(b.in) c=96 k=3 p=1 s=2 g=4 bn relu
	b.out conv(b.grouped) c=64 k=1 bn
	b.short conv(a.add) c=64 k=1 s=2 bn
	b.add add(b.out, b.short) relu
	gate.mean globalpool(b.add)
	gate.fc linear(gate.mean) c=64 bias sigmoid
	gate.mul mul(b.add, gate.fc)
	pool globalpool(gate.mul)
	fc linear(pool) c=10 bias
`

func TestGroupsFollowFromTheGraph(t *testing.T) {
	n := build(t, residual)
	got := map[string][]string{}
	for _, g := range n.Groups() {
		for _, i := range g.Ops {
			got[g.Name] = append(got[g.Name], n.Ops()[i].Name)
		}
	}
	want := map[string][]string{
		"stem":     {"stem", "a.project", "a.add"},                                            // operands of an addition
		"a.expand": {"a.expand", "a.filter"},                                                  // a depthwise convolution
		"b.in":     {"b.in", "b.grouped"},                                                     // whole groups
		"b.out":    {"b.out", "b.short", "b.add", "gate.mean", "gate.fc", "gate.mul", "pool"}, // multiplication, pooling
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	fc, _ := n.Index("fc")
	if n.GroupOf(fc) != -1 {
		t.Error("the output's width is elastic")
	}
}

func TestGroupedConvolutionsKeepWholeGroups(t *testing.T) {
	n := build(t, residual)
	in, _ := n.Index("b.in")
	grouped, _ := n.Index("b.grouped")
	g := n.Groups()[n.GroupOf(in)]
	// 4 groups of 12 channels in and 24 out; multiples of 8 of both come at two
	// groups at a time.
	if diff := cmp.Diff([]int{24, 48}, g.Widths()); diff != "" {
		t.Errorf("widths (-want +got):\n%s", diff)
	}
	v, err := n.View(n.Smallest(), n.Input())
	if err != nil {
		t.Fatal(err)
	}
	o := v.Ops[grouped]
	if o.In[0].Channels != 24 || o.Out.Channels != 48 || o.Groups != 2 {
		t.Errorf("%d channels in, %d out, %d groups; want 24, 48, 2", o.In[0].Channels, o.Out.Channels, o.Groups)
	}
}

func TestFixedWidths(t *testing.T) {
	// What touches the input or is declared fixed does not shrink, nor does what
	// is tied to it.
	n := build(t, `
		first depthwise(input) k=3 p=1
		second conv(first) c=16 k=1 fixed
		third conv(second) c=16 k=1
		sum add(third, second)
		pool globalpool(sum)
		fc linear(pool) c=10
	`)
	if len(n.Groups()) != 0 {
		t.Errorf("groups %v; want none", n.Groups())
	}
	if s := n.Smallest(); !s.IsFull() {
		t.Errorf("smallest %v; want full", s)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		full, step int
		ratio      float64
		want       int
	}{
		{32, 8, 0.35, 16}, // 8 would lose more than a tenth of 11.2
		{24, 8, 0.35, 8},
		{16, 8, 0.35, 8},
		{64, 8, 0.35, 24},
		{64, 8, 1, 64},
		{20, 8, 1, 20},
		{20, 8, 0.9, 20},
		{20, 8, 0.7, 16},
		{100, 1, 0.5, 50},
	} {
		g := supernet.Group{Channels: c.full, Step: c.step, Min: 1}
		if got := g.Round(c.ratio); got != c.want {
			t.Errorf("%d × %v in steps of %d: %d; want %d", c.full, c.ratio, c.step, got, c.want)
		}
	}
}

func TestBlocksFollowFromTheGraph(t *testing.T) {
	for _, c := range []struct {
		name, ops string
		want      []string // name: first operation, parent
	}{
		{"residual and projection", residual, []string{"a.add: a.expand, -"}},
		{"nested", `
			x conv(input) c=16 k=1
			a conv(x) c=16 k=1
			b conv(a) c=16 k=1
			inner add(b, a)
			c conv(inner) c=16 k=1
			outer add(c, x)
			pool globalpool(outer)
		`, []string{"outer: a, -", "inner: b, outer"}},
		{"nested at one shortcut", `
			x conv(input) c=16 k=1
			a conv(x) c=16 k=1
			inner add(a, x)
			b conv(inner) c=16 k=1
			outer add(b, x)
			pool globalpool(outer)
		`, []string{"outer: a, -", "inner: a, outer"}},
		{"two branches at once", `
			x conv(input) c=16 k=1
			a conv(x) c=16 k=1
			b conv(x) c=16 k=1
			sum add(a, b, x)
			pool globalpool(sum)
		`, []string{"sum: a, -"}},
		{"read from outside", `
			x conv(input) c=16 k=1
			a conv(x) c=16 k=1
			b conv(a) c=16 k=1
			sum add(b, x)
			c conv(a) c=16 k=1
			again add(c, sum)
			pool globalpool(again)
		`, nil},
		{"computed from more than the shortcut", `
			w conv(input) c=16 k=1
			x conv(w) c=16 k=1
			a conv(x) c=16 k=1
			m mul(a, w)
			sum add(m, x)
			pool globalpool(sum)
		`, nil},
		{"required", `
			x conv(input) c=16 k=1
			a conv(x) c=16 k=1
			sum add(a, x) required
			pool globalpool(sum)
		`, nil},
		{"around the input", `
			a conv(input) c=3 k=1
			sum add(a, input)
			pool globalpool(sum)
		`, []string{"sum: a, -"}},
		{"no branch", `
			x conv(input) c=16 k=1
			sum add(x, x)
			pool globalpool(sum)
		`, nil},
	} {
		n := build(t, c.ops)
		var got []string
		for _, b := range n.Blocks() {
			parent := "-"
			if b.Parent >= 0 {
				parent = n.Blocks()[b.Parent].Name
			}
			got = append(got, fmt.Sprintf("%s: %s, %s", b.Name, n.Ops()[b.First].Name, parent))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestLeavingOutABlock(t *testing.T) {
	n := build(t, residual)
	s, err := n.ParseSubnet("w32.64.48.64d1")
	if err != nil {
		t.Fatal(err)
	}
	v, err := n.View(s, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range n.Ops() {
		if want := !strings.HasPrefix(op.Name, "a."); v.Ops[i].Runs != want {
			t.Errorf("%s runs: %t; want %t", op.Name, v.Ops[i].Runs, want)
		}
	}
	stem, _ := n.Index("stem")
	next, _ := n.Index("b.in")
	if got := v.Ops[next].Operands[0]; got != stem {
		t.Errorf("b.in reads operation %d; want the stem, %d", got, stem)
	}
}

// TestOperationsAreSorted gives the operations backwards.
func TestOperationsAreSorted(t *testing.T) {
	d := describe(t, residual)
	want := make([]string, len(d.Operations))
	for i, op := range d.Operations {
		want[i] = op.Name
	}
	slices.Reverse(d.Operations)
	n, err := supernet.New(d)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{supernet.InputName: true}
	for _, op := range n.Ops() {
		for _, in := range op.Inputs {
			if !seen[in] {
				t.Errorf("%s comes before its input %s", op.Name, in)
			}
		}
		seen[op.Name] = true
	}
	// In order already: left alone.
	slices.Reverse(d.Operations)
	n, err = supernet.New(d)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range n.Ops() {
		if op.Name != want[i] {
			t.Errorf("operation %d is %s; want %s", i, op.Name, want[i])
		}
	}
}

func TestShapesAtOtherSizes(t *testing.T) {
	n := build(t, residual)
	for size, want := range map[int]int{1: 1, 2: 1, 16: 8, 33: 17} {
		v, err := n.View(supernet.Subnet{}, supernet.Shape{Channels: 3, Height: size, Width: 2 * size})
		if err != nil {
			t.Fatal(err)
		}
		i, _ := n.Index("b.add")
		if got := v.Ops[i].Out; got.Height != want || got.Width != (2*size-1)/2+1 {
			t.Errorf("input %d: b.add is %v; want height %d", size, got, want)
		}
	}
	for _, s := range []supernet.Shape{{Channels: 1, Height: 16, Width: 16}, {Channels: 3, Height: 0, Width: 16}, {Channels: 3, Height: 16, Width: 1 << 20}} {
		if _, err := n.View(supernet.Subnet{}, s); err == nil {
			t.Errorf("input %v was accepted", s)
		}
	}
}

func TestBadDescriptions(t *testing.T) {
	for _, c := range []struct{ ops, want string }{
		{"", "no operations"},
		{"a conv(b) c=8 k=1\nb conv(a) c=8 k=1", `operation "a" is part of a cycle`},
		{"x conv(b) c=8 k=1\na conv(b) c=8 k=1\nb add(a, x)", "is part of a cycle"},
		{"a conv(nowhere) c=8 k=1", `operation "a": input "nowhere" is no operation`},
		{"a conv(input) c=8 k=1\na conv(input) c=8 k=1", `operation "a" is described twice`},
		{"input conv(input) c=8 k=1", `the name "input"`},
		{"a conv(input) c=8 k=1\nb conv(input) c=8 k=1", `operation "a": its output is never used`},
		{"a convolution(input) c=8 k=1", `kind "convolution"; want conv, depthwise`},
		{"a conv(input) c=8 k=1 tanh", `activation "tanh"; want relu`},
		{"a conv() c=8 k=1", "inputs are missing"},
		{"a conv(input, input) c=8 k=1", "2 inputs; conv takes 1"},
		{"a add(input)", "1 input; add takes 2 or more"},
		{"a mul(input, input, input)", "3 inputs; mul takes 2"},
		{"a conv(input) k=1", "channels 0"},
		{"a conv(input) c=8", "kernel 0"},
		{"a conv(input) c=8 k=1 s=-1", "stride -1"},
		{"a conv(input) c=8 k=1 p=-1", "padding -1"},
		{"a conv(input) c=8 k=3 p=3", "padding 3 is not smaller than kernel 3"},
		{"a maxpool(input) k=3 p=2", "padding 2 is more than half of kernel 3"},
		{"a conv(input) c=99999999 k=1", "channels 99999999; want 1 to 1048576"},
		{"a conv(input) c=8 k=99999999", "kernel 99999999"},
		{"a conv(input) c=8 k=17", `operation "a": kernel 17 with padding 0 does not fit its 16×16 input`},
		{"a conv(input) c=9 k=1 g=2", "groups 2 do not divide channels 9"},
		{"a conv(input) c=8 k=1 g=2", `groups 2 do not divide its 3 input channels`},
		{"a depthwise(input) c=8 k=1", "writes as many channels as it reads"},
		{"a depthwise(input) k=1 g=3", "groups have no meaning"},
		{"a linear(input) c=10", `operation "a": linear wants a 1×1 map and its input is 16×16`},
		{"a maxpool(input) k=2 bias", "bias has no meaning"},
		{"a globalpool(input) k=2", "have no meaning for globalpool"},
		{"a maxpool(input) k=2 required", "required has a meaning for add only"},
		{"a conv(input) c=8 k=1\nb conv(input) c=16 k=1\nc add(a, b)", `operation "c": input "a" has 8 channels and input "b" has 16`},
		{"a conv(input) c=8 k=1\nb conv(input) c=8 k=1 s=2\nc add(a, b)", `operation "c": input "a" is 16×16 and input "b" is 8×8`},
		{"a globalpool(input)\nb mul(a, input)", `operation "b": input "a" is 1×1`},
		{"a conv(input) c=1048576 k=13 p=6\nb conv(a) c=1048576 k=13 p=6\nc conv(b) c=1048576 k=4095 p=4094", "needs more than"},
	} {
		_, err := supernet.New(describe(t, c.ops))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v; want %q in it", c.ops, err, c.want)
		}
	}
}

// TestEntangledNetworksEndSoon: additions that nearly close blocks, many times
// over, are decided or refused in little time.
func TestEntangledNetworksEndSoon(t *testing.T) {
	const pairs = 8000
	ops := []supernet.Op{{Name: "x", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 8, Kernel: 1}}
	at := "x"
	for i := range pairs {
		conv, sum := fmt.Sprint("conv", i), fmt.Sprint("sum", i)
		ops = append(ops,
			supernet.Op{Name: conv, Kind: supernet.Conv, Inputs: []string{at}, Channels: 8, Kernel: 1},
			supernet.Op{Name: sum, Kind: supernet.Add, Inputs: []string{conv, "x"}})
		at = sum
	}
	ops = append(ops, supernet.Op{Name: "last", Kind: supernet.Add, Inputs: []string{at, "conv0"}}) // so that no block is closed
	start := time.Now()
	_, err := supernet.New(supernet.Description{Name: "entangled", Input: supernet.Shape{Channels: 3, Height: 4, Width: 4}, Operations: ops})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "mark those that close no block as required") {
		t.Errorf("error %v", err)
	}
}
