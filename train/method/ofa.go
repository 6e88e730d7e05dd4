package method

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"tips/sampling"
)

// How OFA's steps are shared out: the full network alone, then depths, then
// widths. Depths and widths have two phases each, the first as much shorter as in
// the published training, 25 epochs to 120.
const (
	ofaFull       = 0.4
	ofaDepth      = 0.2
	ofaFirstPhase = 25.0 / (25 + 120)
)

// ofaDepths is how many blocks of a stage are left out at most.
const ofaDepths = 2

// Depths is how many of the last blocks of a stage the method of that name leaves
// out at most: what a search among its subnetworks may vary beside their widths.
func Depths(name string) int {
	if name == "ofa" {
		return ofaDepths
	}
	return 0
}

// ofaPhase is one phase of OFA's progressive shrinking.
type ofaPhase struct {
	until    int              // the step after its last
	networks int              // a step
	draw     sampling.Sampler // nil: the full network
	before   []Action         // its first step
}

// ofa is Once-for-All (Cai et al., 2020): first the full network is trained alone,
// from the labels; then, frozen, it teaches subnetworks that may be smaller and
// smaller. There is no sandwich: all networks of a step are drawn. Its loss is
// always its own, label CE and soft CE to the frozen full network, which for
// subnetworks is the form that the others have in the paper's comparison.
//
// Where the network has no blocks to leave out, the steps of the depth phases go
// to the width phases.
type ofa struct {
	stateless
	phases []ofaPhase // in order, without empty ones
}

func newOFA(c Config) (Method, error) {
	if c.Steps < 1 {
		return nil, fmt.Errorf("%d steps in all; its phases are shares of them, so 1 or more are needed", c.Steps)
	}
	n := c.Network
	ratios := sampling.Spaced(n, 3) // smallest, middle, 1
	upTo := func(left int, widths sampling.Sampler) sampling.Sampler {
		s, err := sampling.Depths(n, left, widths)
		if err != nil {
			panic("method: " + err.Error()) // left is a constant
		}
		return s
	}
	oneSmaller, err := sampling.List(n, ratios[1:], false)
	if err != nil {
		return nil, err
	}
	twoSmaller, err := sampling.List(n, ratios, false)
	if err != nil {
		return nil, err
	}

	at := func(share float64) int { return int(math.Round(share * float64(c.Steps))) }
	depthEnd := ofaFull + ofaDepth
	if len(sampling.Stages(n)) == 0 {
		depthEnd = ofaFull
	}
	m := &ofa{stateless: stateless{"ofa"}}
	start := 0
	var due []Action // of phases that were empty
	for _, p := range []ofaPhase{
		{until: max(1, at(ofaFull)), networks: 1},
		{until: at(ofaFull + (depthEnd-ofaFull)*ofaFirstPhase), networks: 2, draw: upTo(1, nil), before: []Action{Freeze}},
		{until: at(depthEnd), networks: 2, draw: upTo(ofaDepths, nil)},
		{until: at(depthEnd + (1-depthEnd)*ofaFirstPhase), networks: 4, draw: upTo(ofaDepths, oneSmaller), before: []Action{SortChannels}},
		{until: c.Steps, networks: 4, draw: upTo(ofaDepths, twoSmaller)},
	} {
		due = append(due, p.before...)
		if p.until <= start {
			continue
		}
		p.before, due = due, nil
		m.phases = append(m.phases, p)
		start = p.until
	}
	return m, nil
}

func (m *ofa) Step(_ context.Context, step int, rng *rand.Rand, _ Judge) (Step, error) {
	start := 0
	for i, p := range m.phases {
		if step >= p.until && i < len(m.phases)-1 {
			start = p.until
			continue
		}
		var s Step
		if step == start {
			s.Before = p.before
		}
		for range p.networks {
			if p.draw == nil {
				s.Lessons = append(s.Lessons, full())
				continue
			}
			s.Lessons = append(s.Lessons, Lesson{Subnet: p.draw.Draw(rng), Label: 1, Soft: 1, Teachers: []Teacher{{Source: Frozen}}})
		}
		return s, nil
	}
	panic("method: ofa without phases")
}
