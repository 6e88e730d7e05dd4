package method

import (
	"context"
	"fmt"
	"math/rand/v2"

	"tips/sampling"
	"tips/supernet"
)

// attentiveCandidates is the number of subnetworks that are judged for each one
// trained.
const attentiveCandidates = 3

// attentiveNAS is AttentiveNAS (Wang et al., 2021): the sandwich, whose two
// subnetworks in the middle are the best (BestUp), or the worst (WorstUp), of
// three at one cost, by their loss on the step's batch. The cost is drawn from
// the distribution that costs have when a ratio is drawn for every group. Own
// loss: soft CE to the full network only.
type attentiveNAS struct {
	stateless
	network *supernet.Network
	label   float64
	costs   *sampling.Costs
	worst   bool
}

func newAttentiveNAS(c Config) (Method, error) {
	macs, err := sampling.MACs(c.Network, c.Input)
	if err != nil {
		return nil, err
	}
	costs, err := sampling.NewCosts(sampling.PerGroup(c.Network), macs, sampling.CostOptions{})
	if err != nil {
		return nil, err
	}
	return &attentiveNAS{stateless{"attentive-nas"}, c.Network, labelWeight(c.Loss), costs, c.Options.WorstUp}, nil
}

func (m *attentiveNAS) Step(ctx context.Context, _ int, rng *rand.Rand, batch Judge) (Step, error) {
	const middle = Networks - 2
	var candidates []supernet.Subnet
	for range middle {
		bin := m.costs.Draw(rng)
		for range attentiveCandidates {
			candidates = append(candidates, m.costs.DrawAt(bin, rng))
		}
	}
	losses, err := judge(ctx, batch, candidates)
	if err != nil {
		return Step{}, fmt.Errorf("method: attentive-nas: %w", err)
	}
	others := []supernet.Subnet{m.network.Smallest()}
	for start := 0; start < len(candidates); start += attentiveCandidates {
		kept := start
		for i := start + 1; i < start+attentiveCandidates; i++ {
			if better := losses[i] < losses[kept]; better != m.worst && losses[i] != losses[kept] {
				kept = i
			}
		}
		others = append(others, candidates[kept])
	}
	return Step{Lessons: lessons(m.label, others...)}, nil
}
