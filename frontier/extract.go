package frontier

import (
	"tips/supernet"
	"tips/weights"
)

// Extract makes of a subnetwork a network of its own: weights of only its channels,
// with its calibrated statistics among them, and a frontier of that one point. A
// point without statistics gets those of the whole network; see Calibrated.
func (f *Frontier) Extract(set *weights.Set, p Point) (*weights.Set, *Frontier, error) {
	if err := f.CheckWeights(set); err != nil {
		return nil, nil, err
	}
	if err := f.checkPoint(p); err != nil {
		return nil, nil, err
	}
	alone, err := set.ExtractWith(p.Subnet, p.Statistics)
	if err != nil {
		return nil, nil, err
	}
	v, err := alone.Network.View(supernet.Subnet{}, f.Input)
	if err != nil {
		return nil, nil, err
	}
	costs := CostsOf(v.Costs())
	costs.Latency, costs.Energy, costs.Own = p.Costs.Latency, p.Costs.Energy, p.Costs.Own
	p.Subnet, p.Costs, p.Statistics = supernet.Subnet{}, costs, nil // the weights hold them
	own := *f
	own.Network, own.Weights, own.Points = alone.Network, alone.Hash(), []Point{p}
	return alone, &own, own.Validate()
}

// Calibrated tells whether batch norm of a subnetwork runs with statistics of its
// own: the point holds some, or it is the whole network, whose statistics are those
// of the weights, or it has no batch norm.
func (f *Frontier) Calibrated(p Point) (bool, error) {
	if p.Statistics != nil || p.Subnet.IsFull() {
		return true, nil
	}
	norms, err := f.norms(p.Subnet)
	return len(norms) == 0, err
}
