package method

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"tips/sampling"
	"tips/supernet"
	"tips/topology"
)

// tips trains the full network and three subnetworks a step: all drawn with the widths
// that important operations write at 1.5 times the others', as published, or two so and
// the smallest. All learn from the labels, the subnetworks also from the full network: one
// loss, the paper's and its own.
type tips struct {
	stateless
	draw     []sampling.Sampler // one for each subnetwork that is drawn
	always   []supernet.Subnet  // of every step
	smallest supernet.Subnet    // of all that is trained
}

func newTIPS(c Config) (Method, error) {
	o := c.Options
	analysis, err := topology.Analyze(c.Network, o.Topology)
	if err != nil {
		return nil, err
	}
	groups := analysis.FavouredGroups(c.Network)
	if o.Others {
		if groups = others(c.Network, groups); len(groups) == 0 {
			return nil, fmt.Errorf("all width groups are important; there are no others to favour")
		}
	}
	favour := sampling.Favour{
		Groups:   groups,
		Factor:   o.Factor,
		Together: o.Together,
		Highest:  o.Highest,
	}
	m := &tips{stateless: stateless{"tips"}}
	if o.Smallest {
		m.always = []supernet.Subnet{c.Network.Smallest()}
	}
	drawn := Networks - 1 - len(m.always)
	if o.Plain < 0 || o.Plain > drawn {
		why := ""
		if o.Smallest && o.Plain > drawn {
			why = "; the smallest takes the place of another"
		}
		return nil, fmt.Errorf("%d plain subnetworks; want 0 to the %d that are drawn for a step%s", o.Plain, drawn, why)
	}
	boosted, err := sampling.Favoured(c.Network, favour)
	if err != nil {
		return nil, err
	}
	if o.Plain > 0 { // what is drawn without favour is narrower, so its smallest counts below
		favour.Factor = 1
	}
	plain, err := sampling.Favoured(c.Network, favour)
	if err != nil {
		return nil, err
	}
	// Plain ones come last, and do not change what the others draw in a step.
	for i := range drawn {
		if i < drawn-o.Plain {
			m.draw = append(m.draw, boosted)
		} else {
			m.draw = append(m.draw, plain)
		}
	}
	if m.smallest, err = sampling.FavouredSmallest(c.Network, favour); err != nil {
		return nil, err
	}
	if o.Smallest {
		m.smallest = c.Network.Smallest()
	}
	return m, nil
}

// others are the groups that are not among some.
func others(n *supernet.Network, some []int) []int {
	var list []int
	for g := range n.Groups() {
		if !slices.Contains(some, g) {
			list = append(list, g)
		}
	}
	return list
}

// OwnSmallest is the smallest subnetwork that is ever trained.
func (m *tips) OwnSmallest() supernet.Subnet { return m.smallest }

func (m *tips) Step(_ context.Context, _ int, rng *rand.Rand, _ Judge) (Step, error) {
	subs := slices.Clone(m.always)
	for _, s := range m.draw {
		subs = append(subs, s.Draw(rng))
	}
	return Step{Lessons: lessons(1, subs...)}, nil
}
