package method

import (
	"context"
	"math/rand/v2"

	"tips/sampling"
	"tips/supernet"
	"tips/topology"
)

// tips trains the full network and three subnetworks a step, drawn with the
// widths that important operations write at 1.5 times the others'. All learn from
// the labels, the subnetworks also from the full network: one loss, the paper's
// and its own.
type tips struct {
	stateless
	draw     sampling.Sampler
	smallest supernet.Subnet
}

func newTIPS(c Config) (Method, error) {
	analysis, err := topology.Analyze(c.Network, c.Options.Topology)
	if err != nil {
		return nil, err
	}
	favour := sampling.Favour{
		Groups:   analysis.FavouredGroups(c.Network),
		Factor:   c.Options.Factor,
		Together: c.Options.Together,
	}
	draw, err := sampling.Favoured(c.Network, favour)
	if err != nil {
		return nil, err
	}
	smallest, err := sampling.FavouredSmallest(c.Network, favour)
	if err != nil {
		return nil, err
	}
	return &tips{stateless{"tips"}, draw, smallest}, nil
}

// OwnSmallest is the smallest subnetwork that is ever drawn.
func (m *tips) OwnSmallest() supernet.Subnet { return m.smallest }

func (m *tips) Step(_ context.Context, _ int, rng *rand.Rand, _ Judge) (Step, error) {
	subs := make([]supernet.Subnet, Networks-1)
	for i := range subs {
		subs[i] = m.draw.Draw(rng)
	}
	return Step{Lessons: lessons(1, subs...)}, nil
}
