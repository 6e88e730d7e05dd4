package supernet_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tips/supernet"
)

// drawDescription draws a network that is often valid: operations read earlier
// ones, mostly the last, and additions mostly what fits.
func drawDescription(t *rapid.T) supernet.Description {
	d := supernet.Description{
		Name:  "random",
		Input: supernet.Shape{Channels: rapid.IntRange(1, 4).Draw(t, "channels"), Height: rapid.IntRange(1, 20).Draw(t, "height"), Width: rapid.IntRange(1, 20).Draw(t, "width")},
		Elastic: supernet.Elastic{
			MinRatio: rapid.Float64Range(0, 1).Draw(t, "min"),
			Divisor:  rapid.IntRange(0, 16).Draw(t, "divisor"),
		},
	}
	names := []string{supernet.InputName}
	any := func(label string) string {
		if rapid.IntRange(0, 9).Draw(t, label) < 7 {
			return names[len(names)-1]
		}
		return rapid.SampledFrom(names).Draw(t, label)
	}
	kinds := []supernet.Kind{supernet.Conv, supernet.Conv, supernet.Depthwise, supernet.Linear, supernet.MaxPool, supernet.AvgPool, supernet.GlobalPool, supernet.Add, supernet.Add, supernet.Add, supernet.Mul}
	count := rapid.IntRange(1, 14).Draw(t, "operations")
	for i := range count {
		op := supernet.Op{
			Name:       fmt.Sprint("op", i),
			Kind:       rapid.SampledFrom(kinds).Draw(t, "kind"),
			Norm:       rapid.Bool().Draw(t, "norm"),
			Fixed:      rapid.IntRange(0, 9).Draw(t, "fixed") == 0,
			Activation: rapid.SampledFrom([]supernet.Activation{supernet.NoActivation, supernet.ReLU, supernet.SiLU}).Draw(t, "activation"),
		}
		op.Inputs = []string{any("input")}
		switch op.Kind {
		case supernet.Conv, supernet.Linear:
			op.Channels = rapid.SampledFrom([]int{8, 16, 16, 24, 40}).Draw(t, "width")
			op.Bias = rapid.Bool().Draw(t, "bias")
			if op.Kind == supernet.Conv {
				op.Groups = rapid.SampledFrom([]int{0, 1, 2, 4}).Draw(t, "groups")
			}
		case supernet.Add, supernet.Mul:
			op.Inputs = append(op.Inputs, any("second"))
			if op.Kind == supernet.Add && rapid.IntRange(0, 3).Draw(t, "three") == 0 {
				op.Inputs = append(op.Inputs, any("third"))
			}
		}
		switch op.Kind {
		case supernet.Conv, supernet.Depthwise, supernet.MaxPool, supernet.AvgPool:
			op.Kernel = rapid.SampledFrom([]int{1, 1, 3, 3, 5}).Draw(t, "kernel")
			op.Padding = op.Kernel / 2
			op.Stride = rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(t, "stride")
		}
		d.Operations = append(d.Operations, op)
		names = append(names, op.Name)
	}
	d.Operations = append(d.Operations,
		supernet.Op{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{names[len(names)-1]}},
		supernet.Op{Name: "classifier", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 10})
	names = append(names, "pool", "classifier")
	// Keep what the last operation depends on: an unused output is an error.
	needed := map[string]bool{names[len(names)-1]: true}
	var kept []supernet.Op
	for i := len(d.Operations) - 1; i >= 0; i-- {
		if op := d.Operations[i]; needed[op.Name] {
			for _, in := range op.Inputs {
				needed[in] = true
			}
			kept = append([]supernet.Op{op}, kept...)
		}
	}
	d.Operations = kept
	return d
}

// checkNetwork: a description is refused, or is a network all of whose
// subnetworks are valid and can be described by themselves at the same cost.
func checkNetwork(t *rapid.T) {
	n, err := supernet.New(drawDescription(t))
	if err != nil {
		return
	}
	for _, g := range n.Groups() {
		for _, w := range g.Widths() {
			if !g.Has(w) || w%g.Step != 0 && w != g.Channels {
				t.Fatalf("group %+v has width %d", g, w)
			}
		}
		for _, r := range []float64{0.01, 0.3, 0.77, 1} {
			if w := g.Round(r); !g.Has(w) {
				t.Fatalf("group %+v rounds ratio %v to %d", g, r, w)
			}
		}
	}
	s := drawSubnet(t, n)
	if again, err := n.ParseSubnet(s.String()); err != nil || again != s {
		t.Fatalf("%s: %v, %v", s, again, err)
	}
	v, err := n.View(s, n.Input())
	if err != nil {
		t.Fatalf("subnetwork %s: %v", s, err)
	}
	if v.Output() == supernet.FromInput {
		return // nothing left to describe
	}
	d, err := n.Extract(s)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := supernet.New(d)
	if err != nil {
		t.Fatalf("subnetwork %s of %+v by itself: %v", s, n.Description(), err)
	}
	w, err := alone.View(supernet.Subnet{}, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	if v.Costs() != w.Costs() {
		t.Fatalf("subnetwork %s of %+v: in place %+v, by itself %+v", s, n.Description(), v.Costs(), w.Costs())
	}
}

func TestRandomNetworks(t *testing.T) { rapid.Check(t, checkNetwork) }

// FuzzNetworks lets the fuzzer steer the same check.
func FuzzNetworks(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkNetwork)) }
