package main

import (
	"math"
	"math/rand/v2"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// loadNetwork builds a network of the zoo with random weights and batch norm that
// does something.
func loadNetwork(reference string, seed uint64) (*weights.Set, error) {
	n, err := zoo.New(reference)
	if err != nil {
		return nil, err
	}
	set := weights.Random(n, seed)
	set.RandomNorm(seed + 1)
	return set, nil
}

// randomSubnets draws subnetworks: a width for every group, and each block left
// out with a probability of one in five.
func randomSubnets(n *supernet.Network, count int, seed uint64) ([]supernet.Subnet, error) {
	rng := rand.New(rand.NewPCG(seed, 0x62656e6368))
	list := make([]supernet.Subnet, count)
	for i := range list {
		var widths, without []int
		for _, g := range n.Groups() {
			all := g.Widths()
			widths = append(widths, all[rng.IntN(len(all))])
		}
		for b := range n.Blocks() {
			if rng.IntN(5) == 0 {
				without = append(without, b)
			}
		}
		s, err := n.Subnet(widths, without)
		if err != nil {
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}

// randomImages are inputs one after the other, channels last: waves with some
// noise, because pure noise is the same image everywhere once it is averaged.
func randomImages(s supernet.Shape, batch int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0x696d616765))
	x := make([]float32, 0, batch*int(s.Elements()))
	for range batch {
		down, across := 20*rng.NormFloat64()/float64(s.Height), 20*rng.NormFloat64()/float64(s.Width)
		phases, means := make([]float64, s.Channels), make([]float64, s.Channels)
		for c := range phases {
			phases[c], means[c] = 2*math.Pi*rng.Float64(), 0.3*rng.NormFloat64()
		}
		for h := range s.Height {
			for w := range s.Width {
				for c := range s.Channels {
					x = append(x, float32(means[c]+1.5*math.Sin(down*float64(h)+across*float64(w)+phases[c])+0.3*rng.NormFloat64()))
				}
			}
		}
	}
	return x
}

// channelsFirst turns images from rows, columns, channels into channels, rows,
// columns.
func channelsFirst[T float32 | float64](to []T, from []float32, s supernet.Shape) {
	area, c := s.Height*s.Width, s.Channels
	for i, v := range from {
		image, rest := i/(area*c), i%(area*c)
		to[image*area*c+rest%c*area+rest/c] = T(v)
	}
}
