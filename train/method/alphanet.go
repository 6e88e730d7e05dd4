package method

import "tips/sampling"

// newAlphaNet makes AlphaNet (Wang et al., 2021): the sandwich with a uniform
// ratio for every group. Own loss: the subnetworks' divergence from the full
// network is Alpha. In the paper's form it is TIPS's loss, so that what is left of
// the method is how it draws.
func newAlphaNet(c Config) (Method, error) {
	s := &sandwich{stateless: stateless{"alphanet"}, network: c.Network, label: labelWeight(c.Loss), draw: sampling.PerGroup(c.Network)}
	if c.Loss == Own {
		s.divergence = Alpha
	}
	return s, nil
}
