package supernet_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
)

// seen counts what random networks had, so that the tests know what they saw.
type seen struct{ groups, blocks, nested, grouped, dropped int }

// checkNetwork: a random network is accepted, its blocks and groups are those of
// the definitions, and its subnetworks can be described by themselves at the same
// cost.
func checkNetwork(t *rapid.T, saw *seen) {
	d := randnet.Draw(t)
	n, err := supernet.New(d)
	if err != nil {
		t.Fatalf("%v: %+v", err, d)
	}
	saw.groups += len(n.Groups())
	for _, b := range n.Blocks() {
		saw.blocks++
		if b.Parent >= 0 {
			saw.nested++
		}
	}
	for i, op := range n.Ops() {
		if op.Groups > 1 && n.GroupOf(i) >= 0 {
			saw.grouped++
		}
	}
	checkBlocks(t, n)
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
	if _, without, _ := n.Widths(s); len(without) > 0 {
		saw.dropped++
	}
	if got, want := v.Costs().PeakBytes, simulatedPeak(v); got != want {
		t.Fatalf("%s: peak %d, simulated %d", s, got, want)
	}
	alone, err := n.Extract(s)
	if err != nil {
		t.Fatal(err)
	}
	small, err := supernet.New(alone)
	if err != nil {
		t.Fatalf("subnetwork %s of %+v by itself: %v", s, d, err)
	}
	if v.Costs() != small.Full().Costs() {
		t.Fatalf("subnetwork %s of %+v: in place %+v, by itself %+v", s, d, v.Costs(), small.Full().Costs())
	}
}

// checkBlocks compares the blocks with a search by the definition: for every
// addition, what lies between an operand and it.
func checkBlocks(t *rapid.T, n *supernet.Network) {
	found := map[int]supernet.Block{}
	for _, b := range n.Blocks() {
		found[b.Add] = b
	}
	for i, op := range n.Ops() {
		if op.Kind != supernet.Add {
			continue
		}
		want, shortcut := map[int]bool(nil), 0
		for _, s := range n.Operands(i) {
			if body := between(n, s, i); body != nil && !op.Required {
				want, shortcut = body, s
			}
		}
		b, is := found[i]
		if is != (want != nil) {
			t.Fatalf("%s closes a block: %t; by the definition %t", op.Name, is, want != nil)
		}
		if !is {
			continue
		}
		if b.Shortcut != shortcut {
			t.Fatalf("%s: shortcut %d; want %d", op.Name, b.Shortcut, shortcut)
		}
		for j := range n.Ops() {
			in := false
			for at := n.BlockOf(j); at >= 0; at = n.Blocks()[at].Parent {
				in = in || n.Blocks()[at].Add == i
			}
			if in != want[j] {
				t.Fatalf("%s is in the block of %s: %t; by the definition %t", n.Ops()[j].Name, op.Name, in, want[j])
			}
		}
	}
}

// between gives the operations that the other operands of add are computed from,
// down to shortcut, or nil where that is no block.
func between(n *supernet.Network, shortcut, add int) map[int]bool {
	body := map[int]bool{}
	ok := true
	var back func(i int)
	back = func(i int) {
		if i == shortcut || body[i] {
			return
		}
		if i == supernet.FromInput {
			ok = false
			return
		}
		body[i] = true
		for _, from := range n.Operands(i) {
			back(from)
		}
	}
	for _, from := range n.Operands(add) {
		back(from)
	}
	for i := range body {
		for _, reader := range n.Consumers(i) {
			ok = ok && (body[reader] || reader == add)
		}
	}
	if !ok || len(body) == 0 {
		return nil
	}
	return body
}

func TestRandomNetworks(t *testing.T) {
	var saw seen
	enough := func() bool {
		return slices.Min([]int{saw.groups, saw.blocks, saw.nested, saw.grouped, saw.dropped}) >= 10
	}
	for round := 0; round < 4 || !enough(); round++ {
		if round == 100 {
			t.Fatalf("too little was seen to be sure of anything: %+v", saw)
		}
		rapid.Check(t, func(t *rapid.T) { checkNetwork(t, &saw) })
	}
}

// FuzzNetworks lets the fuzzer steer the same check.
func FuzzNetworks(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { checkNetwork(t, new(seen)) }))
}
