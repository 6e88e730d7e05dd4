package method

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"tips/sampling"
	"tips/supernet"
)

const (
	joslimWidths  = 1000 // that are tried in a run, about
	joslimPair    = 2    // new widths a review
	joslimUniform = 20   // the first widths, which are uniform multipliers
)

// joslim is Joslim (Chin et al., 2021): the sandwich, whose two subnetworks in
// the middle are chosen by an outer optimiser and trained for τ steps. Own loss:
// soft CE to the full network only.
//
// Every τ steps a review measures the loss of every width tried so far again, on
// one validation batch with the weights as they are, and adds two widths: uniform
// multipliers for the first 20, then the full network, then what Bayesian
// optimisation proposes (see proposer). τ is as many steps as make the widths of
// a run about 1000, and no more.
type joslim struct {
	name     string
	network  *supernet.Network
	label    float64
	interval int
	propose  *proposer
	tried    []trial
}

// trial is a width that was tried, and its loss at the last review.
type trial struct {
	sub  supernet.Subnet
	loss float64 // of those that the last review chose: not known yet
}

// Recorder is a method that keeps what it has tried, for a search to start from.
type Recorder interface {
	// Tried are the subnetworks tried so far, each once, the most promising first.
	Tried() []supernet.Subnet
}

func newJoslim(c Config) (Method, error) {
	if c.Steps < 1 {
		return nil, fmt.Errorf("%d steps in all; widths are spread over them, so 1 or more are needed", c.Steps)
	}
	p, err := newProposer(c.Network, c.Input)
	if err != nil {
		return nil, err
	}
	const reviews = joslimWidths / joslimPair
	return &joslim{
		name: "joslim", network: c.Network, label: labelWeight(c.Loss), propose: p,
		interval: (c.Steps + reviews - 1) / reviews,
	}, nil
}

func (m *joslim) Name() string  { return m.name }
func (m *joslim) Interval() int { return m.interval }
func (m *joslim) EMA() float64  { return 0 }

// widths are those tried so far, in order.
func (m *joslim) widths() []supernet.Subnet {
	subs := make([]supernet.Subnet, len(m.tried))
	for i, t := range m.tried {
		subs[i] = t.sub
	}
	return subs
}

// Tried are the widths that none beats in cost and in loss, as last measured, which
// are Joslim's result; then those that only these beat, and so on, and at the end
// those without a loss. Of widths that are as good as each other every other one
// comes first, then every other one of the rest: whoever takes some has all costs.
func (m *joslim) Tried() []supernet.Subnet {
	type priced struct {
		trial
		cost float64
	}
	var rest []priced
	for _, t := range m.tried[:max(0, len(m.tried)-joslimPair)] {
		rest = append(rest, priced{t, m.propose.cost(t.sub)})
	}
	slices.SortStableFunc(rest, func(a, b priced) int { return cmp.Compare(a.cost, b.cost) })
	var subs []supernet.Subnet
	for len(rest) > 0 {
		losses, costs := make([]float64, len(rest)), make([]float64, len(rest))
		for i, t := range rest {
			losses[i], costs[i] = t.loss, t.cost
		}
		front := unbeaten(losses, costs)
		for step := 1 << bits.Len(uint(len(front))); step > 0; step /= 2 {
			for i := 0; i < len(front); i += step {
				subs = append(subs, rest[front[i]].sub)
			}
		}
		beaten := rest[:0:0]
		for i, t := range rest {
			if !slices.Contains(front, i) {
				beaten = append(beaten, t)
			}
		}
		rest = beaten
	}
	return distinct(append(subs, m.widths()...)) // the last of which have no loss
}

// distinct leaves the first of equal subnetworks.
func distinct(subs []supernet.Subnet) []supernet.Subnet {
	seen := map[supernet.Subnet]bool{}
	return slices.DeleteFunc(subs, func(s supernet.Subnet) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

func (m *joslim) Step(context.Context, int, *rand.Rand, Judge) (Step, error) {
	if len(m.tried) < joslimPair {
		return Step{}, fmt.Errorf("method: joslim: a step before the first review")
	}
	others := []supernet.Subnet{m.network.Smallest()}
	for _, t := range m.tried[len(m.tried)-joslimPair:] {
		others = append(others, t.sub)
	}
	return Step{Lessons: lessons(m.label, others...)}, nil
}

func (m *joslim) Review(ctx context.Context, _ int, rng *rand.Rand, validation Judge) error {
	tried := slices.Clone(m.tried) // so that a review that is left or fails changes nothing
	if len(tried) > 0 {
		losses, err := judge(ctx, validation, m.widths())
		if err != nil {
			return fmt.Errorf("method: joslim: %w", err)
		}
		for i, l := range losses {
			tried[i].loss = l
		}
	}
	var added []trial
	var o *outer // fitted to what is known at the review's start, for both widths
	for len(added) < joslimPair {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("method: joslim: %w", err)
		}
		var sub supernet.Subnet
		switch number := len(tried) + len(added); {
		case number < joslimUniform:
			sub = sampling.Multiplier(m.network).Draw(rng)
		case number == joslimUniform:
			// The full network, the zero value.
		default:
			if o == nil {
				var err error
				if o, err = m.propose.fit(tried); err != nil {
					return fmt.Errorf("method: joslim: %w", err)
				}
			}
			sub = o.propose(m.propose.target(rng), rng).sub
		}
		added = append(added, trial{sub: sub})
	}
	m.tried = append(tried, added...)
	return nil
}

// joslimState is the state as JSON. The losses of the last pair are not known.
type joslimState struct {
	Version int           `json:"version"`
	Tried   []joslimTrial `json:"tried"`
}

type joslimTrial struct {
	Subnet string   `json:"subnet"`
	Loss   *float64 `json:"loss,omitempty"`
}

const joslimVersion = 1

// maxTrials bounds what Restore reads: far more widths than a run tries.
const maxTrials = 20 * joslimWidths

func (m *joslim) State() ([]byte, error) {
	s := joslimState{Version: joslimVersion, Tried: []joslimTrial{}}
	for i, t := range m.tried {
		entry := joslimTrial{Subnet: t.sub.String()}
		if i < len(m.tried)-joslimPair {
			entry.Loss = &t.loss
		}
		s.Tried = append(s.Tried, entry)
	}
	return json.Marshal(s)
}

// Restore takes nothing but what State wrote, white space aside.
func (m *joslim) Restore(state []byte) error {
	tried, err := m.readState(state)
	if err != nil {
		return fmt.Errorf("method: joslim: state: %w", err)
	}
	m.tried = tried
	return nil
}

func (m *joslim) readState(state []byte) ([]trial, error) {
	var s joslimState
	if err := json.Unmarshal(state, &s); err != nil {
		return nil, err
	}
	if s.Version != joslimVersion {
		return nil, fmt.Errorf("version %d; want %d", s.Version, joslimVersion)
	}
	if len(s.Tried) > maxTrials || len(s.Tried)%joslimPair != 0 {
		return nil, fmt.Errorf("%d widths; want an even number up to %d", len(s.Tried), maxTrials)
	}
	var tried []trial
	for i, entry := range s.Tried {
		sub, err := m.network.ParseSubnet(entry.Subnet)
		if err != nil {
			return nil, err
		}
		t := trial{sub: sub}
		judged := i < len(s.Tried)-joslimPair
		if judged != (entry.Loss != nil) {
			return nil, fmt.Errorf("width %d of %d: the last %d and no others are without a loss", i+1, len(s.Tried), joslimPair)
		}
		if judged {
			t.loss = *entry.Loss // JSON has finite numbers only
		}
		tried = append(tried, t)
	}

	// Fields that are unknown, repeated or wrongly spelt, and subnetworks that are
	// written another way, do not come back as they were.
	var given bytes.Buffer
	if err := json.Compact(&given, state); err != nil {
		return nil, err
	}
	again, err := (&joslim{tried: tried}).State()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, given.Bytes()) {
		return nil, fmt.Errorf("not as it is written: fields unknown, repeated, or not in their place")
	}
	return tried, nil
}
