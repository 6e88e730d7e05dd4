package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/supernet/zoo"
)

var references = []string{
	"mobilenet_v2:width=1.4,data=cifar100", "resnet18:data=cifar10", "resnet50", "efficientnet_b0", "mlp:depth=8,width=80", "mobilenet_v2:min=0.5,divisor=4",
}

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

type fataler interface {
	Helper()
	Fatal(...any)
}

func choices(t fataler, n *supernet.Network, s supernet.Subnet) (widths, without []int) {
	t.Helper()
	widths, without, err := n.Widths(s)
	if err != nil {
		t.Fatal(err)
	}
	return widths, without
}

// ratios are the base ratios that a sampler draws first from rng(seed).
func ratios(n *supernet.Network, seed uint64, count int) []float64 {
	r := rng(seed)
	low := n.Elastic().MinRatio
	list := make([]float64, count)
	for i := range list {
		list[i] = low + (1-low)*r.Float64()
	}
	return list
}

func TestRatios(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		groups := n.Groups()
		for seed := range uint64(40) {
			base := ratios(n, seed, len(groups))
			each, _ := choices(t, n, PerGroup(n).Draw(rng(seed)))
			one, _ := choices(t, n, Multiplier(n).Draw(rng(seed)))
			for g, group := range groups {
				if want := group.Round(base[g]); each[g] != want {
					t.Fatalf("%s: width %d of group %d; want %d for a ratio of %v", reference, each[g], g, want, base[g])
				}
				if want := group.Round(base[0]); one[g] != want {
					t.Fatalf("%s: width %d of group %d; want %d for a multiplier of %v", reference, one[g], g, want, base[0])
				}
			}
		}
	}
}

// TestRatiosAreUniform: the mean and the spread of a wide group's ratio.
func TestRatiosAreUniform(t *testing.T) {
	n := network(t, "resnet50:divisor=1")
	const draws = 4000
	for name, s := range map[string]Sampler{"per group": PerGroup(n), "multiplier": Multiplier(n)} {
		r := rng(1)
		sum, squares := 0.0, 0.0
		wide := slices.IndexFunc(n.Groups(), func(g supernet.Group) bool { return g.Channels == 2048 })
		for range draws {
			widths, _ := choices(t, n, s.Draw(r))
			x := float64(widths[wide]) / 2048
			sum += x / draws
			squares += x * x / draws
		}
		if want := 0.675; math.Abs(sum-want) > 0.015 {
			t.Errorf("%s: mean ratio %.4f; want %.4f", name, sum, want)
		}
		if got, want := math.Sqrt(squares-sum*sum), 0.65/math.Sqrt(12); math.Abs(got-want) > 0.01 {
			t.Errorf("%s: ratios spread by %.4f; want %.4f", name, got, want)
		}
	}
}

func TestList(t *testing.T) {
	n := network(t, "mobilenet_v2")
	list := []float64{0.35, 0.5, 1}
	for _, together := range []bool{false, true} {
		s, err := List(n, list, together)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[float64]int{}
		mixed := false
		r := rng(3)
		for range 300 {
			widths, _ := choices(t, n, s.Draw(r))
			var used []float64
			for g, group := range n.Groups() {
				at := slices.IndexFunc(list, func(ratio float64) bool { return group.Round(ratio) == widths[g] })
				if at < 0 {
					t.Fatalf("width %d of group %d is at no ratio of the list", widths[g], g)
				}
				if group.Channels > 100 { // wide enough that every ratio has its own width
					used = append(used, list[at])
				}
			}
			counts[used[0]]++
			mixed = mixed || slices.Min(used) != slices.Max(used)
		}
		if mixed == together {
			t.Errorf("together %v: several ratios in a subnetwork: %v", together, mixed)
		}
		for _, ratio := range list {
			if counts[ratio] < 60 || counts[ratio] > 140 {
				t.Errorf("together %v: ratio %v was drawn %d times of 300", together, ratio, counts[ratio])
			}
		}
	}
	for _, bad := range [][]float64{nil, {0}, {1.1}, {math.NaN()}} {
		if _, err := List(n, bad, false); err == nil {
			t.Errorf("a list of %v is taken", bad)
		}
	}
}

func TestSpaced(t *testing.T) {
	n := network(t, "mobilenet_v2")
	got := Spaced(n, 3)
	if len(got) != 3 || got[0] != 0.35 || math.Abs(got[1]-0.675) > 1e-12 || got[2] != 1 {
		t.Errorf("three ratios are %v; want 0.35, 0.675 and 1", got)
	}
	if got := Spaced(n, 1); len(got) != 1 || got[0] != 1 {
		t.Errorf("one ratio is %v; want 1", got)
	}
}

// TestFavoured: an important group's width is Round(min(1, factor × base)), any
// other's Round(base).
func TestFavoured(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		groups := n.Groups()
		var important []int
		for g := 0; g < len(groups); g += 3 {
			important = append(important, g)
		}
		for _, factor := range []float64{0, 1, 1.25, 1.5, 2} {
			for _, together := range []bool{false, true} {
				s, err := Favoured(n, Favour{Groups: important, Factor: factor, Together: together})
				if err != nil {
					t.Fatal(err)
				}
				times := factor
				if factor == 0 {
					times = 1.5
				}
				for seed := range uint64(20) {
					base := ratios(n, seed, len(groups))
					widths, without := choices(t, n, s.Draw(rng(seed)))
					for g, group := range groups {
						ratio := base[g]
						if together {
							ratio = base[0]
						}
						if g%3 == 0 {
							ratio = min(1, times*ratio)
						}
						if want := group.Round(ratio); widths[g] != want {
							t.Fatalf("%s: factor %v, together %v: width %d of group %d; want %d", reference, factor, together, widths[g], g, want)
						}
					}
					if without != nil {
						t.Fatal("blocks were left out")
					}
				}
			}
		}
		// Up to 1/factor nothing is capped.
		narrow, err := Favoured(n, Favour{Groups: important, Highest: 1 / 1.5})
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(20) {
			base := ratios(n, seed, len(groups))
			widths, _ := choices(t, n, narrow.Draw(rng(seed)))
			low := n.Elastic().MinRatio
			for g, group := range groups {
				ratio := low + (base[g]-low)/(1-low)*(1/1.5-low)
				if g%3 == 0 {
					ratio *= 1.5
				}
				if want := group.Round(ratio); widths[g] != want {
					t.Fatalf("%s: up to 0.667: width %d of group %d; want %d", reference, widths[g], g, want)
				}
			}
		}
		for _, highest := range []float64{-1, n.Elastic().MinRatio - 0.01, 1.01, math.NaN()} {
			if _, err := Favoured(n, Favour{Groups: important, Highest: highest}); err == nil {
				t.Errorf("%s: base ratios up to %v", reference, highest)
			}
		}
		smallest, err := FavouredSmallest(n, Favour{Groups: important})
		if err != nil {
			t.Fatal(err)
		}
		least, _ := choices(t, n, smallest)
		for g, group := range groups {
			want := group.Min
			if g%3 == 0 {
				want = group.Round(min(1, 1.5*n.Elastic().MinRatio))
			}
			if least[g] != want {
				t.Errorf("%s: width %d of group %d of the smallest; want %d", reference, least[g], g, want)
			}
		}
		for _, bad := range []Favour{{Factor: 0.5}, {Factor: -1}, {Factor: math.NaN()}, {Factor: math.Inf(1)}, {Groups: []int{-1}}, {Groups: []int{len(groups)}}} {
			if _, err := Favoured(n, bad); err == nil {
				t.Errorf("%+v is taken", bad)
			}
			if _, err := FavouredSmallest(n, bad); err == nil {
				t.Errorf("%+v is taken", bad)
			}
		}
	}
}

// TestStages: blocks of the zoo's networks by stage, less those in front that
// change the width or the size.
func TestStages(t *testing.T) {
	for reference, want := range map[string][]int{
		"mobilenet_v2":    {1, 2, 3, 2, 2},
		"resnet18":        {2, 1, 1, 1},
		"resnet34":        {3, 3, 5, 2},
		"resnet50":        {2, 3, 5, 2},
		"efficientnet_b0": {1, 1, 2, 2, 3},
	} {
		var got []int
		for _, stage := range Stages(network(t, reference)) {
			got = append(got, len(stage))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: stages of %v blocks; want %v", reference, got, want)
		}
	}
}

// TestDepths: the blocks left out are the last of their stage, at most so many,
// and every number of them is drawn; widths are the other sampler's.
func TestDepths(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		stages := Stages(n)
		for most := range 4 {
			s, err := Depths(n, most, nil)
			if err != nil {
				t.Fatal(err)
			}
			drawn := make([]map[int]int, len(stages))
			for i := range drawn {
				drawn[i] = map[int]int{}
			}
			r := rng(uint64(most))
			const draws = 200
			for range draws {
				_, without := choices(t, n, s.Draw(r))
				for i, stage := range stages {
					left := 0
					for _, b := range stage {
						if slices.Contains(without, b) {
							left++
						} else if left > 0 {
							t.Fatalf("%s: block %d is kept after one that is left out", reference, b)
						}
					}
					drawn[i][left]++
				}
			}
			for i, stage := range stages {
				can := min(most, len(stage))
				if len(drawn[i]) != can+1 {
					t.Errorf("%s: stage %d left out %v blocks; want 0 to %d", reference, i, drawn[i], can)
				}
				for left, times := range drawn[i] {
					if times < draws/(can+1)/2 {
						t.Errorf("%s: stage %d left out %d blocks %d times of %d", reference, i, left, times, draws)
					}
				}
			}
		}
	}
	if _, err := Depths(network(t, "mlp"), -1, nil); err == nil {
		t.Error("a negative number of blocks is taken")
	}
}

func TestDepthsKeepWidths(t *testing.T) {
	n := network(t, "mobilenet_v2")
	s, err := Depths(n, 2, PerGroup(n))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		want, _ := choices(t, n, PerGroup(n).Draw(rng(seed)))
		got, without := choices(t, n, s.Draw(rng(seed)))
		again, err := n.Subnet(want, without)
		if err != nil {
			t.Fatal(err)
		}
		if expected, _ := choices(t, n, again); !slices.Equal(got, expected) {
			t.Fatalf("widths %v; want %v", got, expected)
		}
	}
}

// TestRandomNetworks: whatever the network, samplers draw its subnetworks, and
// the same generator draws the same.
func TestRandomNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := supernet.New(randnet.Draw(t))
		if err != nil {
			t.Fatal(err)
		}
		samplers := []Sampler{PerGroup(n), Multiplier(n)}
		for _, make := range []func() (Sampler, error){
			func() (Sampler, error) { return Depths(n, 2, PerGroup(n)) },
			func() (Sampler, error) { return List(n, Spaced(n, 3), false) },
			func() (Sampler, error) { return Favoured(n, Favour{}) },
		} {
			s, err := make()
			if err != nil {
				t.Fatal(err)
			}
			samplers = append(samplers, s)
		}
		in := map[int]bool{}
		for _, stage := range Stages(n) {
			for i, b := range stage {
				if in[b] || n.Blocks()[b].Parent >= 0 || i > 0 && n.Blocks()[b].Shortcut != n.Blocks()[stage[i-1]].Add {
					t.Fatalf("stages %v", Stages(n))
				}
				in[b] = true
			}
		}
		seed := rapid.Uint64().Draw(t, "seed")
		for i, s := range samplers {
			sub := s.Draw(rng(seed))
			if err := n.Check(sub); err != nil {
				t.Fatalf("sampler %d: %v", i, err)
			}
			if again := s.Draw(rng(seed)); again != sub {
				t.Fatalf("sampler %d: %v, then %v", i, sub, again)
			}
		}
	})
}

func TestMACs(t *testing.T) {
	n := network(t, "resnet18:data=cifar10")
	cost, err := MACs(n, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	if got := cost(supernet.Subnet{}); got != 1 {
		t.Errorf("the full network costs %v of itself", got)
	}
	v, err := n.View(n.Smallest(), n.Input())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cost(n.Smallest()), float64(v.Costs().MACs)/float64(n.Full().Costs().MACs); got != want {
		t.Errorf("the smallest costs %v; want %v", got, want)
	}
	if _, err := MACs(n, supernet.Shape{Channels: 7, Height: 8, Width: 8}); err == nil {
		t.Error("an input that does not fit is taken")
	}
}

// TestCosts: bins are drawn as often as subnetworks fall into them, and what is
// drawn at a bin is in it.
func TestCosts(t *testing.T) {
	for _, reference := range []string{"mobilenet_v2:width=1.4,data=cifar100", "resnet18:data=cifar10"} {
		n := network(t, reference)
		cost, err := MACs(n, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCosts(PerGroup(n), cost, CostOptions{Samples: 800, Bins: 12})
		if err != nil {
			t.Fatal(err)
		}
		const draws = 600
		drawn, direct := make([]float64, 12), make([]float64, 12)
		r := rng(9)
		for range draws {
			bin := c.Draw(r)
			drawn[bin] += 1.0 / draws
			direct[c.Bin(cost(PerGroup(n).Draw(r)))] += 1.0 / draws
			if s := c.DrawAt(bin, r); c.Bin(cost(s)) != bin {
				t.Fatalf("%s: a subnetwork of bin %d for bin %d", reference, c.Bin(cost(s)), bin)
			}
		}
		for b := range drawn {
			if math.Abs(drawn[b]-direct[b]) > 0.09 {
				t.Errorf("%s: bin %d is drawn with a probability of %.3f; subnetworks are in it with %.3f", reference, b, drawn[b], direct[b])
			}
		}
	}
	// A network with one cost has one bin.
	n := network(t, "resnet18:min=1")
	cost, err := MACs(n, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCosts(PerGroup(n), cost, CostOptions{Samples: 3, Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s := c.DrawAt(c.Draw(rng(1)), rng(1)); !s.IsFull() {
		t.Errorf("%v of a network that cannot shrink", s)
	}
	if _, err := NewCosts(PerGroup(n), cost, CostOptions{Samples: -1}); err == nil {
		t.Error("a negative number of samples is taken")
	}
}

// TestRareCosts: a bin that draws miss is served from the samples.
func TestRareCosts(t *testing.T) {
	n := network(t, "resnet18:data=cifar10")
	s := &alternating{subs: []supernet.Subnet{n.Smallest(), {}, {}, {}, {}}}
	cost, err := MACs(n, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCosts(s, cost, CostOptions{Samples: 5, Tries: 3})
	if err != nil {
		t.Fatal(err)
	}
	s.subs = []supernet.Subnet{{}}
	if got := c.DrawAt(0, rng(1)); got != n.Smallest() {
		t.Errorf("%v at the lowest cost; want %v", got, n.Smallest())
	}
}

// alternating draws from a list in turn.
type alternating struct {
	subs []supernet.Subnet
	next int
}

func (a *alternating) Draw(*rand.Rand) supernet.Subnet {
	a.next++
	return a.subs[(a.next-1)%len(a.subs)]
}
