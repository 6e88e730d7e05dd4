// Package sampling draws subnetworks of a supernet: for training (step 2), where
// the way they are drawn is most of what tells methods apart, and for search.
//
// What is drawn is a ratio per width group, between the network's smallest ratio
// (supernet.Elastic) and 1; Group.Round turns it into a number of channels. Some
// samplers also draw a depth per stage, see [Depths].
//
// A sampler holds no random state: the same generator state gives the same
// subnetwork, so that a run that is interrupted and taken up again draws what
// it would have drawn.
package sampling

import (
	"fmt"
	"math/rand/v2"

	"tips/supernet"
)

// Sampler draws subnetworks of one network. It is safe for concurrent use with
// different generators.
type Sampler interface {
	Draw(rng *rand.Rand) supernet.Subnet
}

// ratio draws a ratio that is uniform in [MinRatio, 1].
func ratio(n *supernet.Network, rng *rand.Rand) float64 { return ratioUpTo(n, 1, rng) }

// ratioUpTo draws a ratio that is uniform in [MinRatio, highest].
func ratioUpTo(n *supernet.Network, highest float64, rng *rand.Rand) float64 {
	low := n.Elastic().MinRatio
	return low + (highest-low)*rng.Float64()
}

// subnet makes a subnetwork of widths that come from Group.Round or Group.Widths
// and of blocks of the network, which cannot be refused.
func subnet(n *supernet.Network, widths, without []int) supernet.Subnet {
	s, err := n.Subnet(widths, without)
	if err != nil {
		panic("sampling: " + err.Error())
	}
	return s
}

// Ratios is the subnetwork at full depth with the given ratio of every group, in
// the order of Network.Groups, rounded.
func Ratios(n *supernet.Network, ratios []float64) supernet.Subnet {
	widths := make([]int, len(n.Groups()))
	for i, g := range n.Groups() {
		widths[i] = g.Round(ratios[i])
	}
	return subnet(n, widths, nil)
}

// perGroup draws a ratio for every group.
type perGroup struct{ network *supernet.Network }

// PerGroup draws an independent ratio for every width group, uniform in
// [min, 1].
func PerGroup(n *supernet.Network) Sampler { return perGroup{n} }

func (s perGroup) Draw(rng *rand.Rand) supernet.Subnet {
	ratios := make([]float64, len(s.network.Groups()))
	for i := range ratios {
		ratios[i] = ratio(s.network, rng)
	}
	return Ratios(s.network, ratios)
}

// multiplier draws one ratio for all groups.
type multiplier struct{ network *supernet.Network }

// Multiplier draws one ratio for the whole subnetwork, uniform in [min, 1]: the
// global width multiplier of US-Nets.
func Multiplier(n *supernet.Network) Sampler { return multiplier{n} }

func (s multiplier) Draw(rng *rand.Rand) supernet.Subnet {
	r := ratio(s.network, rng)
	ratios := make([]float64, len(s.network.Groups()))
	for i := range ratios {
		ratios[i] = r
	}
	return Ratios(s.network, ratios)
}

// list draws ratios from a list.
type list struct {
	network  *supernet.Network
	ratios   []float64
	together bool
}

// List draws ratios from a list with equal probability: one for the whole
// subnetwork where together is set, one for every group otherwise. Ratios below
// the network's smallest give the smallest width.
func List(n *supernet.Network, ratios []float64, together bool) (Sampler, error) {
	if len(ratios) == 0 {
		return nil, fmt.Errorf("sampling: an empty list of ratios; want one or more above 0 and at most 1")
	}
	for _, r := range ratios {
		if !(r > 0 && r <= 1) {
			return nil, fmt.Errorf("sampling: width ratio %v in a list; want above 0 and at most 1", r)
		}
	}
	return list{n, append([]float64(nil), ratios...), together}, nil
}

func (s list) Draw(rng *rand.Rand) supernet.Subnet {
	ratios := make([]float64, len(s.network.Groups()))
	for i := range ratios {
		if s.together && i > 0 {
			ratios[i] = ratios[0]
			continue
		}
		ratios[i] = s.ratios[rng.IntN(len(s.ratios))]
	}
	return Ratios(s.network, ratios)
}

// Spaced are count ratios from the network's smallest to 1, equally far apart.
func Spaced(n *supernet.Network, count int) []float64 {
	low := n.Elastic().MinRatio
	ratios := make([]float64, count)
	for i := range ratios {
		ratios[i] = 1
		if i < count-1 {
			ratios[i] = low + (1-low)*float64(i)/float64(count-1)
		}
	}
	return ratios
}
