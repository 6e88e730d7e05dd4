package nn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/weights"
)

// withStrips is a model that computes in strips wherever it can, of so many rows,
// and a model of the same weights that never does.
func withStrips(set *weights.Set, rows int) (always, never *Model) {
	always, never = NewModel(set), NewModel(set)
	always.stripsPay, always.stripRows = 0, rows
	never.stripsPay = 1 << 40
	return always, never
}

// TestStrips: operations computed strip by strip, in bands by several threads,
// give the bits that they give one after the other.
func TestStrips(t *testing.T) {
	for _, name := range []string{"mobilenet_v2:size=64,width=0.5", "efficientnet_b0:size=48", "mobilenet_v2:data=cifar10,width=0.35"} {
		set := loadAlive(t, name)
		rng := rand.New(rand.NewPCG(10, 10))
		for _, rows := range []int{1, 2, 3, 5, 100} {
			always, never := withStrips(set, rows)
			s := randnet.Subnet(set.Network, rng)
			for _, batch := range []int{1, 2} {
				x := randomInput(rng, batch*int(set.Network.Input().Elements()))
				want := run(t, never, s, set.Network.Input(), batch, 1, 0, x, nil)
				for _, threads := range []int{1, 2, 3, 7} {
					p, err := always.Program(s, set.Network.Input(), batch, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.ContainsFunc(p.steps, func(s step) bool { return s.kind == stepStrips }) {
						t.Fatalf("%s, %s has no strips", name, s)
					}
					session := NewSession(threads)
					y := make([]float32, p.OutputLen())
					session.Run(p, y, x)
					session.Run(p, y, x) // whatever the first run left behind
					session.Close()
					if !slices.Equal(y, want) {
						t.Fatalf("%s, %s: strips of %d rows on %d threads change the result for a batch of %d", name, s, rows, threads, batch)
					}
				}
			}
		}
		if testing.Short() {
			return
		}
	}
}

// TestStripsInOddOrder: a projection is computed along with its expansion only if
// what it is added to is there.
func TestStripsInOddOrder(t *testing.T) {
	conv := func(name, from string, c int) supernet.Op {
		return supernet.Op{Name: name, Kind: supernet.Conv, Inputs: []string{from}, Channels: c, Kernel: 1, Norm: true}
	}
	for name, more := range map[string][]supernet.Op{
		"the shortcut is read once": nil,
		"the shortcut is read again": {
			{Name: "again", Kind: supernet.Mul, Inputs: []string{"sum", "short"}},
		},
	} {
		ops := append([]supernet.Op{
			conv("stem", "input", 8),
			conv("expand", "stem", 24),
			{Name: "filter", Kind: supernet.Depthwise, Inputs: []string{"expand"}, Kernel: 3, Padding: 1, Norm: true, Activation: supernet.ReLU},
			conv("short", "stem", 8), // after the expansion
			conv("project", "filter", 8),
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"short", "project"}},
		}, more...)
		n, err := supernet.New(supernet.Description{Name: "odd", Input: supernet.Shape{Channels: 3, Height: 12, Width: 10}, Operations: ops})
		if err != nil {
			t.Fatal(err)
		}
		set := weights.Random(n, 1)
		set.RandomNorm(2)
		always, never := withStrips(set, 2)
		x := randomInput(rand.New(rand.NewPCG(1, 1)), int(n.Input().Elements()))
		got := run(t, always, supernet.Subnet{}, n.Input(), 1, 2, 0, x, nil)
		want := run(t, never, supernet.Subnet{}, n.Input(), 1, 1, 0, x, nil)
		if !slices.Equal(got, want) {
			t.Errorf("%s: strips change the result", name)
		}
	}
}
