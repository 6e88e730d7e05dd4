package supernet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tips/supernet"
	"tips/supernet/zoo"
)

// someNetworks have all kinds of groups and blocks between them.
func someNetworks(t testing.TB) []*supernet.Network {
	t.Helper()
	nets := []*supernet.Network{build(t, residual)}
	for _, reference := range []string{
		"mlp", "mobilenet_v2", "resnet18:data=cifar10", "resnet50", "resnext50_32x4d", "efficientnet_b0:data=cifar100",
		"mobilenet_v2:width=1.4,min=0.1,divisor=1,data=cifar100",
	} {
		n, err := zoo.New(reference)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, n)
	}
	return nets
}

// drawSubnet draws any subnetwork of n.
func drawSubnet(t *rapid.T, n *supernet.Network) supernet.Subnet {
	widths := make([]int, len(n.Groups()))
	for i, g := range n.Groups() {
		widths[i] = rapid.SampledFrom(g.Widths()).Draw(t, g.Name)
	}
	var without []int
	for b, block := range n.Blocks() {
		if rapid.IntRange(0, 3).Draw(t, block.Name) == 0 {
			without = append(without, b)
		}
	}
	s, err := n.Subnet(widths, without)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSubnetForms: text and binary forms bring back the same value.
func TestSubnetForms(t *testing.T) {
	for _, n := range someNetworks(t) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawSubnet(t, n)
			again, err := n.ParseSubnet(s.String())
			if err != nil || again != s {
				t.Fatalf("text form %s: %v, %v", s, again, err)
			}
			code, err := s.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			again, err = n.DecodeSubnet(code)
			if err != nil || again != s {
				t.Fatalf("binary form %x: %v, %v", code, again, err)
			}
			widths, without, err := n.Widths(s)
			if err != nil {
				t.Fatal(err)
			}
			if again, err = n.Subnet(widths, without); err != nil || again != s {
				t.Fatalf("choices of %s give %v, %v", s, again, err)
			}
			for i, g := range n.Groups() {
				if !g.Has(widths[i]) || widths[i] < g.Min || widths[i] > g.Channels {
					t.Fatalf("group %s has width %d", g.Name, widths[i])
				}
			}
		})
	}
}

// TestExtractedNetworkCostsTheSame: a subnetwork described by itself has the
// same operations, shapes and costs, at any size.
func TestExtractedNetworkCostsTheSame(t *testing.T) {
	for _, n := range someNetworks(t) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawSubnet(t, n)
			input := n.Input()
			if input.Height > 1 {
				input.Height += 2 * rapid.IntRange(0, 5).Draw(t, "taller")
			}
			v, err := n.View(s, input)
			if err != nil {
				t.Fatal(err)
			}
			d, err := n.Extract(s)
			if err != nil {
				t.Fatal(err)
			}
			alone, err := supernet.New(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range alone.Groups() {
				if g.Min != g.Channels {
					t.Fatalf("group %s of an extracted network can shrink", g.Name)
				}
			}
			w, err := alone.View(supernet.Subnet{}, input)
			if err != nil {
				t.Fatal(err)
			}
			if v.Costs() != w.Costs() {
				t.Fatalf("%s: in place %+v, extracted %+v", s, v.Costs(), w.Costs())
			}
			for i, op := range n.Ops() {
				at, there := alone.Index(op.Name)
				if there != v.Ops[i].Runs {
					t.Fatalf("%s runs: %t, extracted: %t", op.Name, v.Ops[i].Runs, there)
				}
				if there && w.Ops[at].Out != v.Ops[i].Out {
					t.Fatalf("%s writes %v, extracted %v", op.Name, v.Ops[i].Out, w.Ops[at].Out)
				}
			}
		})
	}
}

// TestViewsObeyTheRules checks the validity rules of the paper on the shapes.
func TestViewsObeyTheRules(t *testing.T) {
	for _, n := range someNetworks(t) {
		rapid.Check(t, func(t *rapid.T) {
			v, err := n.View(drawSubnet(t, n), n.Input())
			if err != nil {
				t.Fatal(err)
			}
			for i, op := range n.Ops() {
				o := v.Ops[i]
				if !o.Runs {
					continue
				}
				for j, from := range o.Operands {
					if o.In[j] != v.Shape(from) {
						t.Fatalf("%s reads %v of %v", op.Name, o.In[j], v.Shape(from))
					}
					if op.Kind.Joins() && o.In[j].Channels != o.Out.Channels {
						t.Fatalf("%s adds %v to %v", op.Name, o.In[j], o.Out)
					}
				}
				switch {
				case op.Kind == supernet.Depthwise && (o.In[0].Channels != o.Out.Channels || o.Groups != o.Out.Channels):
					t.Fatalf("depthwise %s: %v to %v in %d groups", op.Name, o.In[0], o.Out, o.Groups)
				case op.Kind == supernet.Conv && (o.In[0].Channels%o.Groups != 0 || o.Out.Channels%o.Groups != 0):
					t.Fatalf("%s: %v to %v in %d groups", op.Name, o.In[0], o.Out, o.Groups)
				case op.Kind == supernet.Conv && op.Groups > 1 && o.Out.Channels/o.Groups != op.Channels/op.Groups:
					t.Fatalf("%s: a group has %d channels, in the supernet %d", op.Name, o.Out.Channels/o.Groups, op.Channels/op.Groups)
				}
			}
			full, _ := n.View(supernet.Subnet{}, n.Input())
			if v.Shape(v.Output()) != full.Shape(full.Output()) {
				t.Fatal("the output changed its shape")
			}
		})
	}
}

// TestPeakBytes compares the peak with a simulation, on networks of the zoo;
// TestRandomNetworks does on others.
func TestPeakBytes(t *testing.T) {
	for _, n := range someNetworks(t) {
		rapid.Check(t, func(t *rapid.T) {
			v, err := n.View(drawSubnet(t, n), n.Input())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := v.Costs().PeakBytes, simulatedPeak(v); got != want {
				t.Fatalf("%s: peak %d, simulated %d", v.Subnet, got, want)
			}
		})
	}
}

// simulatedPeak runs the operations in order with the set of maps that somebody
// still needs.
func simulatedPeak(v *supernet.View) int64 {
	alive := map[int]bool{supernet.FromInput: true}
	bytes := func() (sum int64) {
		for m := range alive {
			sum += 4 * v.Shape(m).Elements()
		}
		return sum
	}
	peak := bytes()
	readLater := func(m, after int) bool {
		for i := after + 1; i < len(v.Ops); i++ {
			if slices.Contains(v.Ops[i].Operands, m) {
				return true
			}
		}
		return m == v.Output()
	}
	for i, op := range v.Network.Ops() {
		if !v.Ops[i].Runs {
			continue
		}
		if op.Kind.Joins() {
			for _, from := range v.Ops[i].Operands {
				if !readLater(from, i) && v.Shape(from) == v.Ops[i].Out {
					delete(alive, from) // written over
					break
				}
			}
		}
		alive[i] = true
		peak = max(peak, bytes())
		for m := range alive {
			if !readLater(m, i) {
				delete(alive, m)
			}
		}
	}
	return peak
}

func TestInvalidSubnets(t *testing.T) {
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		t.Fatal(err)
	}
	smallest := n.Smallest().String()
	for text, want := range map[string]string{
		"":                    "want full, smallest, or widths",
		"half":                "want full, smallest, or widths",
		"w":                   "want full, smallest, or widths",
		"w32":                 "1 widths for mobilenet_v2, which has 25 width groups",
		"w32x26":              "more widths than the 25 width groups",
		"w32x1000000":         "more widths than the 25 width groups",
		"w032" + smallest[3:]: `"032"`,
		smallest + "d11":      "block 11 of mobilenet_v2, which has 10 blocks",
		smallest + "d0":       `"0"`,
		smallest + "d":        `""`,
		smallest + "d1.1x":    `"1x"`,
		"d":                   `""`,
		strings.Replace(smallest, "w16.", "w17.", 1): "width 17 of group 1 (stem); want a multiple of 8 from 16 to 24, or 32",
		strings.Replace(smallest, "w16.", "w8.", 1):  "width 8 of group 1 (stem)",
	} {
		if s, err := n.ParseSubnet(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v; want %q in it", text, s, err, want)
		}
	}
	good, _ := n.Smallest().MarshalBinary()
	for _, code := range [][]byte{nil, {1}, {25}, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, append(good, 0), append(good, 0, 255), good[:len(good)-1]} {
		if s, err := n.DecodeSubnet(code); err == nil {
			t.Errorf("code %x: %v", code, s)
		}
	}
	other, err := zoo.New("resnet18")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Check(n.Smallest()); err == nil {
		t.Error("a subnetwork of another network was accepted")
	}
	if _, err := n.Uniform(0); err == nil {
		t.Error("a ratio of 0 was accepted")
	}
}

// TestEqualNetworksAreEqualValues: choices that make no difference make none.
func TestEqualNetworksAreEqualValues(t *testing.T) {
	n := build(t, residual)
	for _, pair := range [][2]string{
		{"w32.64.48.64", "full"},
		{"w32.64.48.64d1", "w32.24.48.64d1"}, // the second group lives in the block only
		{"w32.64.48.64d1", "d1"},
	} {
		a, err := n.ParseSubnet(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		b, err := n.ParseSubnet(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Errorf("%s and %s are %v and %v", pair[0], pair[1], a, b)
		}
	}
}

// TestTwelveConfigurations holds twelve configurations of mobilenet_v2 to
// the storage they are meant to take.
func TestTwelveConfigurations(t *testing.T) {
	n, err := zoo.New("mobilenet_v2:width=1.4")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for i := range 12 {
		s, err := n.Uniform(1 - float64(i+1)*0.05)
		if err != nil {
			t.Fatal(err)
		}
		if code, err = s.AppendBinary(code); err != nil {
			t.Fatal(err)
		}
	}
	if len(code) > 700 {
		t.Errorf("twelve configurations take %d bytes; want at most 700", len(code))
	}
}

func ExampleNetwork_View() {
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		panic(err)
	}
	half, err := n.Uniform(0.5)
	if err != nil {
		panic(err)
	}
	v, err := n.View(half, n.Input())
	if err != nil {
		panic(err)
	}
	c := v.Costs()
	fmt.Printf("%d MACs, %d parameters, %d bytes of activations\n", c.MACs, c.Params, c.PeakBytes)
	// Output: 86713792 MACs, 1222840 parameters, 3010560 bytes of activations
}
