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
}

type favoured struct {
	network   *supernet.Network
	important []bool // by group
	factor    float64
	together  bool
}

// Favoured draws a base ratio for every group, uniform in [min, 1], and
// multiplies it where the group is important: TIPS.
func Favoured(n *supernet.Network, f Favour) (Sampler, error) {
	if f.Factor == 0 {
		f.Factor = DefaultFactor
	}
	if !(f.Factor >= 1 && f.Factor <= MaxFactor) {
		return nil, fmt.Errorf("sampling: factor %v for important groups; want 1 to %d", f.Factor, MaxFactor)
	}
	s := favoured{network: n, important: make([]bool, len(n.Groups())), factor: f.Factor, together: f.Together}
	for _, g := range f.Groups {
		if g < 0 || g >= len(s.important) {
			return nil, fmt.Errorf("sampling: important group %d; %s has groups 0 to %d", g, n.Name(), len(s.important)-1)
		}
		s.important[g] = true
	}
	return s, nil
}

func (s favoured) Draw(rng *rand.Rand) supernet.Subnet {
	ratios := make([]float64, len(s.important))
	base := 0.0
	for i := range ratios {
		if i == 0 || !s.together {
			base = ratio(s.network, rng)
		}
		ratios[i] = base
		if s.important[i] {
			ratios[i] = min(1, base*s.factor)
		}
	}
	return Ratios(s.network, ratios)
}
