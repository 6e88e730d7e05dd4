package sampling

import (
	"fmt"
	"math/rand/v2"

	"tips/supernet"
)

// Stages are the blocks that may be left out, stage by stage: a stage is a run of
// blocks each of which starts where the one before it ends. A block in front that
// changes the width or the size closes no residual branch, is always kept, and is
// no part of this list; neither are blocks inside other blocks.
func Stages(n *supernet.Network) [][]int {
	var stages [][]int
	for b, block := range n.Blocks() {
		if block.Parent >= 0 {
			continue
		}
		if last := len(stages) - 1; last >= 0 {
			stage := stages[last]
			if n.Blocks()[stage[len(stage)-1]].Add == block.Shortcut {
				stages[last] = append(stage, b)
				continue
			}
		}
		stages = append(stages, []int{b})
	}
	return stages
}

type depths struct {
	network *supernet.Network
	widths  Sampler
	stages  [][]int
	most    int
}

// Depths draws a depth for every stage, and widths by another sampler, or full
// widths where that is nil. Of the n blocks of a stage the first n, n−1 … n−most
// are kept, with equal probability: the last ones are left out first, as OFA does
// it, and no more than Stages lists.
func Depths(n *supernet.Network, most int, widths Sampler) (Sampler, error) {
	if most < 0 {
		return nil, fmt.Errorf("sampling: %d blocks of a stage to be left out; want 0 or more", most)
	}
	return depths{n, widths, Stages(n), most}, nil
}

func (s depths) Draw(rng *rand.Rand) supernet.Subnet {
	sub := supernet.Subnet{}
	if s.widths != nil {
		sub = s.widths.Draw(rng)
	}
	widths, without, err := s.network.Widths(sub)
	if err != nil {
		panic("sampling: " + err.Error())
	}
	for _, stage := range s.stages {
		left := rng.IntN(min(s.most, len(stage)) + 1)
		without = append(without, stage[len(stage)-left:]...)
	}
	return subnet(s.network, widths, without)
}
