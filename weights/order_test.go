package weights_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/internal/reference"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// norms are the L1 norms of what operation i has for its input channels.
func norms(s *weights.Set, i int) []float64 {
	v := s.Network.Full().Ops[i]
	in := v.In[0].Channels
	taps := max(1, s.Network.Ops()[i].Kernel*s.Network.Ops()[i].Kernel)
	list := make([]float64, in)
	for out := range v.Out.Channels {
		for c := range in {
			for tap := range taps {
				list[c] += math.Abs(float64(s.Ops[i].Weight[(out*in+c)*taps+tap]))
			}
		}
	}
	return list
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkOrder sorts the channels of random weights, and compares what the network
// computes before and after.
func checkOrder(t fataler, n *supernet.Network) (sorted int) {
	t.Helper()
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float64, n.Input().Elements())
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	calibrated := reference.Calibrate(set, n.Full(), x)
	for i := range set.Ops {
		if calibrated.Mean[i] != nil {
			set.Ops[i].Mean, set.Ops[i].Variance = calibrated.Mean[i], calibrated.Variance[i]
		}
	}
	before := reference.Run(set, n.Full(), nil, x)

	order := weights.ChannelOrder(set)
	order.Apply(set)
	after := reference.Run(set, n.Full(), nil, x)
	largest := 0.0
	for _, v := range before {
		largest = max(largest, math.Abs(v))
	}
	for i := range before {
		if math.Abs(after[i]-before[i]) > 1e-9*largest {
			t.Fatalf("%s: output %d is %v after sorting and %v before", n.Name(), i, after[i], before[i])
		}
	}

	for g, group := range n.Groups() {
		trunk, grouped := false, false
		for _, i := range group.Ops {
			trunk = trunk || n.Ops()[i].Kind == supernet.Add
			grouped = grouped || n.Ops()[i].Kind == supernet.Conv && n.Ops()[i].Groups > 1
		}
		readers := n.Consumers(group.Ops[len(group.Ops)-1])
		if order.Sorted(g) == (trunk || grouped) && len(readers) > 0 {
			t.Fatalf("%s: group %s, trunk %v, grouped %v: sorted %v", n.Name(), group.Name, trunk, grouped, order.Sorted(g))
		}
		if !order.Sorted(g) {
			continue
		}
		sorted++
		sums := make([]float64, group.Channels)
		for _, i := range readers {
			for c, norm := range norms(set, i) {
				sums[c] += norm
			}
		}
		for c := 1; c < len(sums); c++ {
			if sums[c] > sums[c-1]*(1+1e-9) {
				t.Fatalf("%s: group %s: channel %d has a larger norm than the one before", n.Name(), group.Name, c)
			}
		}
	}
	// What is sorted stays as it is.
	again := weights.ChannelOrder(set)
	copied := slices.Clone(set.Ops[0].Weight)
	again.Apply(set)
	if !slices.Equal(copied, set.Ops[0].Weight) {
		t.Fatalf("%s: sorting twice moves channels", n.Name())
	}
	return sorted
}

func TestChannelOrder(t *testing.T) {
	// The middles of blocks: one group for each inverted residual, two for each
	// bottleneck; the squeezed map of squeeze-and-excite.
	for _, c := range []struct {
		reference string
		sorted    int
	}{
		{"mobilenet_v2:data=cifar10,size=16,width=0.35", 20}, // 17 middles, the first with the stem; block 1, block 17, head
		{"resnet18:data=cifar10,size=4", 8},
		{"resnet50:data=cifar10,size=4", 33}, // and the stem
		{"efficientnet_b0:size=32,classes=10", 35},
		{"resnext50_32x4d:data=cifar10,size=4", 1}, // middles are grouped; the stem
		{"mlp:depth=6,width=16,inputs=12", -1},
	} {
		if testing.Short() && c.sorted > 0 && c.sorted != 20 {
			continue // millions of weights
		}
		n := network(t, c.reference)
		if sorted := checkOrder(t, n); sorted != c.sorted && c.sorted >= 0 {
			t.Errorf("%s: %d groups sorted; want %d", c.reference, sorted, c.sorted)
		}
	}
}

// TestChannelOrderOfRandomNetworks has gates, grouped convolutions, and additions
// of additions.
func TestChannelOrderOfRandomNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := supernet.New(randnet.Draw(t))
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, n)
	})
}

// TestOrderAppliesToMomentum: a set of anything follows the weights, value by
// value.
func TestOrderAppliesToMomentum(t *testing.T) {
	n := network(t, "mobilenet_v2:data=cifar10,width=0.35")
	set := weights.Random(n, 5)
	set.RandomNorm(6)
	twin := weights.Random(n, 5)
	twin.RandomNorm(6)
	for i := range twin.Ops {
		for j := range twin.Ops[i].Weight {
			twin.Ops[i].Weight[j] *= -3
		}
		twin.Ops[i].Mean, twin.Ops[i].Variance = nil, nil
	}
	order := weights.ChannelOrder(set)
	kept := set.Ops[0].Weight
	order.Apply(set)
	order.Apply(twin)
	if &kept[0] != &set.Ops[0].Weight[0] {
		t.Error("the set was not changed in place")
	}
	for i := range set.Ops {
		for j, w := range set.Ops[i].Weight {
			if twin.Ops[i].Weight[j] != -3*w {
				t.Fatalf("operation %d: weight %d went elsewhere", i, j)
			}
		}
		if !slices.Equal(set.Ops[i].Scale, twin.Ops[i].Scale) || twin.Ops[i].Mean != nil {
			t.Fatalf("operation %d: batch norm differs", i)
		}
	}
}
