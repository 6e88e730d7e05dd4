package sampling

import (
	"fmt"
	"math/rand/v2"

	"tips/supernet"
)

// DefaultFactor is how much wider the paper draws important operations: "if 40 %
// of the output channels of unimportant operations are sampled, then 60 % of the
// output channels of important operations are".
const DefaultFactor = 1.5

// MaxFactor bounds Favour.Factor.
const MaxFactor = 100

// Favour says how TIPS draws: with higher ratios for the groups that important
// operations write.
type Favour struct {
	// Groups are the important ones, as topology.Analysis.FavouredGroups lists
	// them.
	Groups []int
	// Factor is what a base ratio is multiplied by, the product capped at 1, where
	// a group is important. 0 means DefaultFactor, 1.5: a boost of 50 %. 1 favours
	// no group.
	Factor float64
	// Together draws one base ratio for the whole subnetwork instead of one for
	// every group.
	Together bool
	// Highest is the most that a base ratio is; 0 means 1. Up to 1/Factor the product
	// is never capped: important groups are then always wider by the factor.
	Highest float64
}

type favoured struct {
	network   *supernet.Network
	important []bool // by group
	factor    float64
	together  bool
	highest   float64
}

// Favoured draws a base ratio for every group, uniform in [min, Highest], and
// multiplies it where the group is important: TIPS.
func Favoured(n *supernet.Network, f Favour) (Sampler, error) {
	s, err := newFavoured(n, f)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// FavouredSmallest is the smallest subnetwork that Favoured draws: larger than
// the network's smallest, because important groups are never at their minimum.
func FavouredSmallest(n *supernet.Network, f Favour) (supernet.Subnet, error) {
	s, err := newFavoured(n, f)
	if err != nil {
		return supernet.Subnet{}, err
	}
	return s.at(func() float64 { return n.Elastic().MinRatio }), nil
}

func newFavoured(n *supernet.Network, f Favour) (favoured, error) {
	if f.Factor == 0 {
		f.Factor = DefaultFactor
	}
	if !(f.Factor >= 1 && f.Factor <= MaxFactor) {
		return favoured{}, fmt.Errorf("sampling: factor %v for important groups; want 1 to %d", f.Factor, MaxFactor)
	}
	if f.Highest == 0 {
		f.Highest = 1
	}
	if low := n.Elastic().MinRatio; !(f.Highest >= low && f.Highest <= 1) {
		return favoured{}, fmt.Errorf("sampling: highest base ratio %v; want %v, the smallest of %s, to 1", f.Highest, low, n.Name())
	}
	s := favoured{network: n, important: make([]bool, len(n.Groups())), factor: f.Factor, together: f.Together, highest: f.Highest}
	for _, g := range f.Groups {
		if g < 0 || g >= len(s.important) {
			return favoured{}, fmt.Errorf("sampling: important group %d; %s has groups 0 to %d", g, n.Name(), len(s.important)-1)
		}
		s.important[g] = true
	}
	return s, nil
}

func (s favoured) Draw(rng *rand.Rand) supernet.Subnet {
	return s.at(func() float64 { return ratioUpTo(s.network, s.highest, rng) })
}

// at is the subnetwork for base ratios as they come.
func (s favoured) at(next func() float64) supernet.Subnet {
	ratios := make([]float64, len(s.important))
	base := 0.0
	for i := range ratios {
		if i == 0 || !s.together {
			base = next()
		}
		ratios[i] = base
		if s.important[i] {
			ratios[i] = min(1, base*s.factor)
		}
	}
	return Ratios(s.network, ratios)
}
