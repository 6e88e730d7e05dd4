package method

import (
	"context"
	"math/rand/v2"

	"tips/sampling"
	"tips/supernet"
)

// sandwich trains the full network, the smallest and two drawn ones a step, which
// learn from the full network (US-Nets' sandwich rule with inplace distillation).
type sandwich struct {
	stateless
	network    *supernet.Network
	label      float64 // weight of the labels for all but the full network
	draw       sampling.Sampler
	divergence Divergence
}

func (m *sandwich) Step(_ context.Context, _ int, rng *rand.Rand, _ Judge) (Step, error) {
	first := m.draw.Draw(rng)
	second := m.draw.Draw(rng)
	s := Step{Lessons: lessons(m.label, m.network.Smallest(), first, second)}
	for i := 1; i < len(s.Lessons); i++ {
		s.Lessons[i].Divergence = m.divergence
	}
	return s, nil
}

// newUSNets makes Universally Slimmable Networks (Yu and Huang, 2019): the
// sandwich with one width multiplier for all of a subnetwork. Own loss: soft CE
// to the full network only, which alone learns from the labels.
func newUSNets(c Config) (Method, error) {
	return &sandwich{stateless: stateless{"us-nets"}, network: c.Network, label: labelWeight(c.Loss), draw: sampling.Multiplier(c.Network)}, nil
}
