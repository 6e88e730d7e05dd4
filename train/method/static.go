package method

import (
	"context"
	"math/rand/v2"

	"tips/supernet"
)

// static trains one fixed subnetwork from the labels: what a network gets when
// it shares its weights with no other.
type static struct {
	stateless
	sub supernet.Subnet
}

func newStatic(c Config) (Method, error) {
	if err := c.Network.Check(c.Options.Subnet); err != nil {
		return nil, err
	}
	return &static{stateless{"static"}, c.Options.Subnet}, nil
}

func (m *static) Step(context.Context, int, *rand.Rand, Judge) (Step, error) {
	return Step{Lessons: []Lesson{{Subnet: m.sub, Label: 1}}}, nil
}
