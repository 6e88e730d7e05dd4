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

// ParseSubnet reads a subnetwork as recipes write it: a ratio for all widths, or
// what Network.ParseSubnet takes.
func ParseSubnet(n *supernet.Network, text string) (supernet.Subnet, error) {
	if ratio, err := strconv.ParseFloat(text, 64); err == nil {
		return n.Uniform(ratio)
	}
	return n.ParseSubnet(text)
}
