package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tips/supernet"
)

// Cost is what a subnetwork costs.
type Cost func(supernet.Subnet) float64

// MACs counts multiply-accumulates at one input size, as a share of the full
// network's: at most 1.
func MACs(n *supernet.Network, input supernet.Shape) (Cost, error) {
	v, err := n.View(supernet.Subnet{}, input)
	if err != nil {
		return nil, err
	}
	full := float64(v.Costs().MACs)
	if full == 0 {
		return nil, fmt.Errorf("sampling: %s has no operation that multiplies, so its subnetworks cannot be told apart by MACs", n.Name())
	}
	return func(s supernet.Subnet) float64 {
		v, err := n.View(s, input)
		if err != nil {
			panic("sampling: " + err.Error()) // a sampler's subnetworks fit, and the size was checked
		}
		return float64(v.Costs().MACs) / full
	}, nil
}

// CostOptions say how the distribution of costs is estimated.
type CostOptions struct {
	Samples int    // that the distribution is estimated from; 0 means 2000
	Bins    int    // that costs are told apart by, over the range of the samples; 0 means 50
	Tries   int    // to draw a subnetwork at a cost; 0 means 100
	Seed    uint64 // of the samples
}

// Costs is the empirical distribution of what a sampler's subnetworks cost, in
// bins of equal width, and draws subnetworks at a cost.
type Costs struct {
	from    Sampler
	cost    Cost
	tries   int
	low     float64
	width   float64 // of a bin
	samples []supernet.Subnet
	bin     []int   // by sample
	members [][]int // by bin: its samples
}

// NewCosts estimates the distribution of costs under a sampler.
func NewCosts(from Sampler, cost Cost, o CostOptions) (*Costs, error) {
	for _, option := range []struct {
		value     *int
		otherwise int
		name      string
	}{{&o.Samples, 2000, "samples"}, {&o.Bins, 50, "bins"}, {&o.Tries, 100, "tries"}} {
		if *option.value == 0 {
			*option.value = option.otherwise
		}
		if *option.value < 1 {
			return nil, fmt.Errorf("sampling: %d %s for a distribution of costs; want 1 or more", *option.value, option.name)
		}
	}
	c := &Costs{from: from, cost: cost, tries: o.Tries, members: make([][]int, o.Bins)}
	rng := rand.New(rand.NewPCG(o.Seed, 0x636f737473))
	costs := make([]float64, o.Samples)
	high := math.Inf(-1)
	c.low = math.Inf(1)
	for i := range costs {
		s := from.Draw(rng)
		costs[i] = cost(s)
		c.samples = append(c.samples, s)
		c.low, high = min(c.low, costs[i]), max(high, costs[i])
	}
	c.width = (high - c.low) / float64(o.Bins)
	for i, v := range costs {
		b := c.Bin(v)
		c.bin = append(c.bin, b)
		c.members[b] = append(c.members[b], i)
	}
	return c, nil
}

// Bin is the bin of a cost; costs beyond the samples' are in the first or last.
func (c *Costs) Bin(cost float64) int {
	if c.width == 0 {
		return 0
	}
	return max(0, min(int((cost-c.low)/c.width), len(c.members)-1))
}

// Draw draws a bin with the probability that the samples give it.
func (c *Costs) Draw(rng *rand.Rand) int { return c.bin[rng.IntN(len(c.bin))] }

// DrawAt draws a subnetwork whose cost is in a bin that Draw gave: subnetworks
// are drawn until one is. A bin that is rare may be missed that way; then it is
// one of the samples in it.
func (c *Costs) DrawAt(bin int, rng *rand.Rand) supernet.Subnet {
	for range c.tries {
		if s := c.from.Draw(rng); c.Bin(c.cost(s)) == bin {
			return s
		}
	}
	known := c.members[bin]
	return c.samples[known[rng.IntN(len(known))]]
}
