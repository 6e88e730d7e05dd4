package method

import (
	"context"
	"math/rand/v2"
	"slices"

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
	always   []supernet.Subnet // of every step
	smallest supernet.Subnet   // of all that is trained
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
		Highest:  c.Options.Highest,
	}
	draw, err := sampling.Favoured(c.Network, favour)
	if err != nil {
		return nil, err
	}
	smallest, err := sampling.FavouredSmallest(c.Network, favour)
	if err != nil {
		return nil, err
	}
	m := &tips{stateless: stateless{"tips"}, draw: draw, smallest: smallest}
	if c.Options.Smallest {
		m.smallest = c.Network.Smallest()
		m.always = []supernet.Subnet{m.smallest}
	}
	return m, nil
}

// OwnSmallest is the smallest subnetwork that is ever trained.
func (m *tips) OwnSmallest() supernet.Subnet { return m.smallest }

func (m *tips) Step(_ context.Context, _ int, rng *rand.Rand, _ Judge) (Step, error) {
	subs := slices.Clone(m.always)
	for len(subs) < Networks-1 {
		subs = append(subs, m.draw.Draw(rng))
	}
	return Step{Lessons: lessons(1, subs...)}, nil
}
