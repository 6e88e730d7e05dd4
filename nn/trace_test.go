package nn

import (
	"math/rand/v2"
	"testing"

	"tips/supernet"
)

// TestTrace: a traced run gives the network's outputs; resuming after any
// operation gives them again; with channels of a map set to zero it gives what
// the definitions do.
func TestTrace(t *testing.T) {
	for _, reference := range []string{"mobilenet_v2:data=cifar10,size=16,width=0.5", "efficientnet_b0:data=cifar10,size=16"} {
		set := loadAlive(t, reference)
		m, _ := withStrips(set, 2) // in what is computed again
		n := set.Network
		rng := rand.New(rand.NewPCG(1, 1))
		trace, err := m.NewTrace(supernet.Subnet{}, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		session := NewSession(1)
		defer session.Close()
		x := randomInput(rng, int(n.Input().Elements()))
		y := make([]float32, 10)
		trace.Run(session, y, x)
		want := make([]float64, len(y))
		for i, v := range run(t, m, supernet.Subnet{}, n.Input(), 1, 1, 0, x, nil) {
			want[i] = float64(v)
		}
		wantNear(t, reference, y, want, 1e-5) // additions are not merged here
		// In any order: resuming changes no map.
		for range 2 {
			for i := range n.Ops() {
				trace.Resume(session, i, y)
				wantNear(t, reference+" resumed after "+n.Ops()[i].Name, y, want, 1e-5)
			}
		}
		// Zeroing what a residual block adds is leaving it out.
		block := n.Blocks()[0]
		operands := n.Operands(block.Add)
		branch := operands[0]
		if branch == block.Shortcut {
			branch = operands[1]
		}
		values, _ := trace.Map(branch)
		clear(values)
		trace.Resume(session, branch, y)
		widths := make([]int, len(n.Groups()))
		for i, g := range n.Groups() {
			widths[i] = g.Channels
		}
		without, err := n.Subnet(widths, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range run(t, m, without, n.Input(), 1, 1, 0, x, nil) {
			want[i] = float64(v)
		}
		wantNear(t, reference+" without a block", y, want, 1e-5)
	}
}
