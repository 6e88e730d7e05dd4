package method

import (
	"context"
	"math/rand/v2"

	"tips/sampling"
	"tips/supernet"
)

const (
	// dsDecay is the decay of DS-Net's moving average.
	dsDecay = 0.997
	// dsRatios is the number of ratios in DS-Net's list, 0.35 to 1.25 in steps of
	// 0.05 of its own network. Of a supernet, which is as wide as its widest
	// subnetwork, they are as many ratios from the smallest to 1, equally far
	// apart: 0.35, 0.386 … 1 where the smallest is 0.35.
	dsRatios = 19
)

// dsNet is the first stage of Dynamic Slimmable Network (Li et al., 2021): the
// full network, the smallest, and two at ratios from a list, one ratio for all of
// a subnetwork. Own loss, in-place ensemble bootstrapping: the full network
// learns from the labels, the two from a moving average of the full network, and
// the smallest from the mean of what the moving averages of those three say.
//
// The optional second stage, a gate that picks a ratio for each input while the
// supernet stays as it is, is not part of this package: it adds a network and
// trains no weights that the comparison is about.
type dsNet struct {
	stateless
	network *supernet.Network
	loss    Loss
	draw    sampling.Sampler
}

func newDSNet(c Config) (Method, error) {
	draw, err := sampling.List(c.Network, sampling.Spaced(c.Network, dsRatios), true)
	if err != nil {
		return nil, err
	}
	return &dsNet{stateless{"ds-net"}, c.Network, c.Loss, draw}, nil
}

// EMA is needed only where the averages teach.
func (m *dsNet) EMA() float64 {
	if m.loss == Own {
		return dsDecay
	}
	return 0
}

func (m *dsNet) Step(_ context.Context, _ int, rng *rand.Rand, _ Judge) (Step, error) {
	smallest, first, second := m.network.Smallest(), m.draw.Draw(rng), m.draw.Draw(rng)
	if m.loss == Paper {
		return Step{Lessons: lessons(1, smallest, first, second)}, nil
	}
	largest := Teacher{Source: Average}
	return Step{Lessons: []Lesson{
		full(),
		{Subnet: smallest, Soft: 1, Teachers: []Teacher{largest, {Source: Average, Subnet: first}, {Source: Average, Subnet: second}}},
		{Subnet: first, Soft: 1, Teachers: []Teacher{largest}},
		{Subnet: second, Soft: 1, Teachers: []Teacher{largest}},
	}}, nil
}
