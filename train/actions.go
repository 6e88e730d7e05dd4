package train

import (
	"fmt"
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
	o := method.Options{Factor: m.Factor, Together: m.Together, WorstUp: m.WorstUp, Topology: topology.Options{
		Rule: topology.Rule(m.Analysis.Path), PathNodes: m.Analysis.PathNodes, Subnets: m.Analysis.Subnets,
		Lambda: m.Analysis.Lambda, Seed: m.Analysis.Seed, Expected: m.Analysis.Expected,
	}}
	if m.Subnet == "" {
		return o, nil
	}
	var err error
	if o.Subnet, err = ParseSubnet(n, m.Subnet); err != nil {
		return o, fmt.Errorf("method.subnet: %w", err)
	}
	return o, nil
}

// OwnSmallest is the smallest subnetwork that the recipe's method trains, and whether
// that is another one than the network's smallest, which all methods are compared at.
func (r *Recipe) OwnSmallest(n *supernet.Network) (s supernet.Subnet, another bool, err error) {
	config := method.Config{Network: n, Input: n.Input(), Loss: method.Loss(r.Method.Loss), Steps: r.Epochs}
	if config.Options, err = r.Method.options(n); err != nil {
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
