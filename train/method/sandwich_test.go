package method

import (
	"context"
	"slices"
	"testing"

	"tips/supernet"
)

// TestUSNets: one multiplier a subnetwork, another for each.
func TestUSNets(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		m := newMethod(t, "us-nets", Config{Network: n})
		differ := 0
		for seed := range uint64(20) {
			s := plan(t, m, 0, seed, nil)
			for _, l := range s.Lessons[2:] {
				if !oneRatio(t, n, l.Subnet) {
					t.Fatalf("%s: %v follows from no one ratio", reference, l.Subnet)
				}
			}
			if s.Lessons[2].Subnet != s.Lessons[3].Subnet {
				differ++
			}
		}
		if differ < 10 {
			t.Errorf("%s: two subnetworks differed in %d of 20 steps", reference, differ)
		}
	}
}

// TestDSNet: ratios of a list of 19, one a subnetwork, all of which occur.
func TestDSNet(t *testing.T) {
	n := network(t, "mobilenet_v2:width=1.4,data=cifar100")
	m := newMethod(t, "ds-net", Config{Network: n, Loss: Own})
	list := map[supernet.Subnet]int{}
	for i := range 19 {
		s, err := n.Uniform(min(1, 0.35+0.65*float64(i)/18))
		if err != nil {
			t.Fatal(err)
		}
		list[s] = 0
	}
	if len(list) != 19 {
		t.Fatalf("%d ratios differ", len(list))
	}
	for seed := range uint64(200) {
		for _, l := range plan(t, m, 0, seed, nil).Lessons[2:] {
			if _, is := list[l.Subnet]; !is {
				t.Fatalf("%v is at no ratio of the list", l.Subnet)
			}
			list[l.Subnet]++
		}
	}
	for s, times := range list {
		if times < 5 {
			t.Errorf("%v was drawn %d times of 400", s, times)
		}
	}
}

// TestAlphaNet: an own ratio for every group.
func TestAlphaNet(t *testing.T) {
	n := network(t, "mobilenet_v2:width=1.4,data=cifar100")
	m := newMethod(t, "alphanet", Config{Network: n})
	s := plan(t, m, 0, 4, nil)
	base := rng(4)
	for _, l := range s.Lessons[2:] {
		for g, w := range widths(t, n, l.Subnet) {
			if want := n.Groups()[g].Round(0.35 + 0.65*base.Float64()); w != want {
				t.Fatalf("width %d of group %d; want %d", w, g, want)
			}
		}
	}
}

// watch notes what it is asked to judge.
type watch struct {
	pretend
	asked []supernet.Subnet
}

func (w *watch) Losses(ctx context.Context, subs []supernet.Subnet) ([]float64, error) {
	w.asked = append(w.asked, subs...)
	return w.pretend.Losses(ctx, subs)
}

// TestAttentiveNAS: for each of two subnetworks, three candidates of one cost
// are judged, and the best or the worst is trained.
func TestAttentiveNAS(t *testing.T) {
	ctx := context.Background()
	for _, reference := range references {
		n := network(t, reference)
		for _, worst := range []bool{false, true} {
			m := newMethod(t, "attentive-nas", Config{Network: n, Options: Options{WorstUp: worst}})
			costs := m.(*attentiveNAS).costs
			for seed := range uint64(10) {
				w := &watch{pretend: pretend{network: n, noise: 0.1}}
				s, err := m.Step(ctx, 0, rng(seed), w)
				if err != nil {
					t.Fatal(err)
				}
				if len(w.asked) != 6 {
					t.Fatalf("%d subnetworks judged; want 6", len(w.asked))
				}
				macs := func(s supernet.Subnet) float64 { return float64(cost(t, n, s)) / float64(n.Full().Costs().MACs) }
				for i, l := range s.Lessons[2:] {
					candidates := w.asked[3*i : 3*i+3]
					if !slices.Contains(candidates, l.Subnet) {
						t.Fatalf("%v was not judged", l.Subnet)
					}
					for _, c := range candidates {
						if costs.Bin(macs(c)) != costs.Bin(macs(l.Subnet)) {
							t.Errorf("%s: candidates of costs %v and %v", reference, macs(c), macs(l.Subnet))
						}
						if !worst && w.loss(c) < w.loss(l.Subnet) || worst && w.loss(c) > w.loss(l.Subnet) {
							t.Errorf("%s: worst %v: loss %v was chosen, %v was there", reference, worst, w.loss(l.Subnet), w.loss(c))
						}
					}
				}
			}
			for name, j := range map[string]Judge{"none": nil, "short": shortJudge{}, "failing": &pretend{network: n, fail: context.Canceled}} {
				if _, err := m.Step(ctx, 0, rng(1), j); err == nil {
					t.Errorf("%s judge: no error", name)
				}
			}
		}
	}
}
