package train

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"tips/supernet"
	"tips/topology"
	"tips/train/method"
	"tips/weights"
)

// sortChannels puts the channels of a state in the order of their worth, the
// momentum and the average of a weight with it. The frozen teacher stays: sorting
// changes no whole network.
func sortChannels(s *State) {
	order := weights.ChannelOrder(s.Weights)
	for _, set := range []*weights.Set{s.Weights, s.Momentum, s.Average} {
		if set != nil {
			order.Apply(set)
		}
	}
}

// options are the method's, for a network.
func (m MethodRecipe) options(n *supernet.Network) (method.Options, error) {
	o := method.Options{Factor: m.Factor, Together: m.Together, Highest: m.Highest, Smallest: m.Smallest, Plain: m.Plain, Others: m.Others, WorstUp: m.WorstUp, Topology: m.Analysis.Options()}
	if m.Subnet == "" {
		return o, nil
	}
	var err error
	if o.Subnet, err = ParseSubnet(n, m.Subnet); err != nil {
		return o, fmt.Errorf("method.subnet: %w", err)
	}
	return o, nil
}

// Options are what step 1 is told.
func (a AnalysisRecipe) Options() topology.Options {
	return topology.Options{
		Rule: topology.Rule(a.Path), PathNodes: a.PathNodes, Subnets: a.Subnets, Lambda: a.Lambda, Seed: a.Seed, Expected: a.Expected,
	}
}

// config is what the method is made from.
func (r *Recipe) config(n *supernet.Network, steps int) (c method.Config, err error) {
	c = method.Config{Network: n, Input: n.Input(), Loss: method.Loss(r.Method.Loss), Steps: steps}
	c.Options, err = r.Method.options(n)
	return c, err
}

// NewMethod makes the method, for a training of so many steps.
func (r *Recipe) NewMethod(n *supernet.Network, steps int) (method.Method, error) {
	config, err := r.config(n, steps)
	if err != nil {
		return nil, err
	}
	return method.New(r.Method.Name, config)
}

// Streams of random numbers, one for each purpose.
const (
	stepStream = 0x73746570 << 32 // "step"
	viewStream = 0x76696577 << 32 // "view"
)

// StepRandom is the generator that the method plans a step with.
func (r *Recipe) StepRandom(step int) *rand.Rand { return r.random(stepStream, step) }

// random is the generator for a purpose in a step.
func (r *Recipe) random(stream uint64, step int) *rand.Rand {
	return rand.New(rand.NewPCG(r.Seed, stream+uint64(step)))
}

// OwnSmallest is the smallest subnetwork that the recipe's method trains, and whether
// that is another one than the network's smallest, which all methods are compared at.
func (r *Recipe) OwnSmallest(n *supernet.Network) (s supernet.Subnet, another bool, err error) {
	config, err := r.config(n, r.Epochs)
	if err != nil {
		return s, false, err
	}
	m, err := method.New(r.Method.Name, config)
	if err != nil {
		return s, false, err
	}
	s = n.Smallest()
	if bounded, ok := m.(method.Bounded); ok {
		s = bounded.OwnSmallest()
	} else if r.Method.Name == "static" {
		s = config.Options.Subnet
	}
	return s, s != n.Smallest(), nil
}

// ParseSubnet reads a subnetwork as recipes write it: a ratio for all widths, or
// what Network.ParseSubnet takes.
func ParseSubnet(n *supernet.Network, text string) (supernet.Subnet, error) {
	if ratio, err := strconv.ParseFloat(text, 64); err == nil {
		return n.Uniform(ratio)
	}
	return n.ParseSubnet(text)
}
