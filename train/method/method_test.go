package method

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/topology"
)

// references are the networks that rules are checked on.
var references = []string{
	"mobilenet_v2:width=1.4,data=cifar100", "resnet18:data=cifar10", "resnet50", "efficientnet_b0", "mlp:depth=8,width=80",
}

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newMethod(t testing.TB, name string, c Config) Method {
	t.Helper()
	m, err := New(name, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func plan(t testing.TB, m Method, step int, seed uint64, j Judge) Step {
	t.Helper()
	s, err := m.Step(context.Background(), step, rng(seed), j)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func widths(t testing.TB, n *supernet.Network, s supernet.Subnet) []int {
	t.Helper()
	w, _, err := n.Widths(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTIPSRule(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		a, err := topology.Analyze(n, topology.Options{})
		if err != nil {
			t.Fatal(err)
		}
		favoured := a.FavouredGroups(n)
		m := newMethod(t, "tips", Config{Network: n, Options: Options{Together: true}})
		for seed := range uint64(50) {
			for i, l := range plan(t, m, 0, seed, nil).Lessons {
				if i == 0 {
					if !l.Subnet.IsFull() {
						t.Fatal("the first network is not the full one")
					}
					continue
				}
				// One base ratio explains all widths.
				w := widths(t, n, l.Subnet)
				found := false
				for base := 0.35; base <= 1.0001 && !found; base += 0.0002 {
					found = true
					for g, group := range n.Groups() {
						r := base
						if slices.Contains(favoured, g) {
							r = min(1, 1.5*base)
						}
						if found = group.Round(min(r, 1)) == w[g]; !found {
							break
						}
					}
				}
				if !found {
					t.Fatalf("%s: %v follows from no base ratio", reference, l.Subnet)
				}
			}
		}
	}
}
