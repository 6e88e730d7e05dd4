package search

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tips/frontier"
	"tips/sampling"
	"tips/search/cost"
	"tips/supernet"
)

// ErrInfeasible is wrapped by the errors about budgets that no subnetwork meets.
var ErrInfeasible = errors.New("no subnetwork is within the budget")

// InfeasibleError names the subnetwork that comes nearest to a budget.
type InfeasibleError struct {
	Cap      cost.Cap
	Cheapest supernet.Subnet
	Amount   float64 // what Cheapest costs, by the cap's cost
}

func (e *InfeasibleError) Error() string {
	name := e.Cap.Cost.Name()
	return fmt.Sprintf("search: %v: the cheapest, %s, has %s %s; the cap is %s", ErrInfeasible, e.Cheapest, name, cost.Format(name, e.Amount), cost.Format(name, e.Cap.Most))
}

// Unwrap makes it an ErrInfeasible.
func (e *InfeasibleError) Unwrap() error { return ErrInfeasible }

// space is all that a search may choose, and what each choice costs. A choice is a
// gene for every width group, its ratio, and for every stage, how many of the blocks
// that may be are left out, as a share, the last ones first.
type space struct {
	network *supernet.Network
	input   supernet.Shape
	low     float64 // smallest ratio
	groups  []supernet.Group
	stages  [][]int // the last blocks of each, which may be left out; none if depths are fixed
	budget  cost.Budget
	costs   []cost.Cost // all that matter, none twice; the first is the one to trade for
	by      frontier.Kind
	own     int // which of costs is the user's own; -1: none

	sampler sampling.Sampler
	anchor  candidate // within the budget
}

// candidate is a subnetwork within the budget.
type candidate struct {
	genes  []float64
	subnet supernet.Subnet
	costs  frontier.Costs
	cost   float64 // by the cost to trade for
	excess float64 // at most 1 within the budget
	over   int     // the cap that excess is about
}

func newSpace(o *Options) (*space, error) {
	n := o.Network
	s := &space{network: n, input: o.Input, low: n.Elastic().MinRatio, groups: n.Groups(), budget: o.Budget, sampler: o.Sampler, own: -1}
	if o.Depths > 0 {
		for _, stage := range sampling.Stages(n) {
			s.stages = append(s.stages, stage[max(0, len(stage)-o.Depths):])
		}
	}
	if s.sampler == nil {
		var err error
		if s.sampler, err = sampling.Depths(n, o.Depths, sampling.PerGroup(n)); err != nil {
			return nil, err
		}
	}
	all := append([]cost.Cost{o.By}, o.Costs...)
	for _, c := range o.Budget {
		all = append(all, c.Cost)
	}
	for _, c := range all {
		if !slices.ContainsFunc(s.costs, func(d cost.Cost) bool { return d.Name() == c.Name() }) {
			s.costs = append(s.costs, c)
		}
	}
	for i, c := range s.costs {
		kind, err := frontier.ParseKind(c.Name())
		if err != nil {
			kind = frontier.Own
			if s.own < 0 {
				s.own = i
			}
		}
		if i == 0 {
			s.by = kind
		}
	}
	return s, s.findAnchor(o.Seed)
}

// candidate weighs a subnetwork.
func (s *space) candidate(sub supernet.Subnet) (candidate, error) {
	v, err := s.network.View(sub, s.input)
	if err != nil {
		return candidate{}, err
	}
	c := candidate{subnet: sub, over: -1}
	exact := v.Costs()
	c.costs = frontier.CostsOf(exact)
	for i, kind := range s.costs {
		var amount float64
		switch name := kind.Name(); name {
		case cost.MACsName:
			amount = float64(exact.MACs)
		case cost.ParamsName:
			amount = float64(exact.Params)
		case cost.WeightsName:
			amount = float64(exact.WeightBytes)
		case cost.MemoryName:
			amount = float64(exact.PeakBytes)
		default:
			if amount, err = kind.Of(v); err != nil {
				return candidate{}, err
			}
			if !(amount >= 0 && amount < 1e18) {
				return candidate{}, fmt.Errorf("search: %s of %s is %v; want a finite number, 0 or more", name, sub, amount)
			}
			switch {
			case name == cost.LatencyName:
				c.costs.Latency = max(1, time.Duration(amount*1e9+0.5))
				amount = c.costs.Latency.Seconds()
			case name == cost.EnergyName:
				c.costs.Energy = amount
			case i == s.own:
				c.costs.Own = amount
			}
		}
		if i == 0 {
			if c.cost = amount; amount == 0 && s.by >= frontier.Latency { // which a frontier takes for unknown
				return candidate{}, fmt.Errorf("search: %s of %s is 0; want more, to trade accuracy for it", kind.Name(), sub)
			}
		}
		for j, limit := range s.budget {
			if limit.Cost.Name() != kind.Name() {
				continue
			}
			if ratio := amount / limit.Most; ratio > c.excess || c.over < 0 {
				c.excess, c.over = ratio, j
			}
		}
	}
	widths, without, err := s.network.Widths(sub)
	if err != nil {
		return candidate{}, err
	}
	c.genes = make([]float64, 0, len(widths)+len(s.stages))
	for g, w := range widths {
		c.genes = append(c.genes, float64(w)/float64(s.groups[g].Channels))
	}
	for _, stage := range s.stages {
		left := 0
		for _, b := range stage {
			if slices.Contains(without, b) {
				left++
			}
		}
		c.genes = append(c.genes, float64(left)/float64(len(stage)))
	}
	return c, nil
}

func (c *candidate) feasible() bool { return c.excess <= 1 }

// build makes the candidate of genes, which it does not keep.
func (s *space) build(genes []float64) (candidate, error) {
	widths := make([]int, len(s.groups))
	for g, group := range s.groups {
		widths[g] = group.Round(genes[g])
	}
	var without []int
	for i, stage := range s.stages {
		left := int(genes[len(s.groups)+i]*float64(len(stage)) + 0.5)
		without = append(without, stage[len(stage)-left:]...)
	}
	sub, err := s.network.Subnet(widths, without)
	if err != nil {
		return candidate{}, err
	}
	return s.candidate(sub)
}

// bounds of a gene.
func (s *space) bounds(gene int) (low, high float64) {
	if gene < len(s.groups) {
		return s.low, 1
	}
	return 0, 1
}

// shrink brings genes within the budget: as far from the anchor's as it allows,
// along the line between them.
func (s *space) shrink(genes []float64) (candidate, error) {
	c, err := s.build(genes)
	if err != nil || c.feasible() {
		return c, err
	}
	best := s.anchor
	low, high := 0.0, 1.0
	between := make([]float64, len(genes))
	for range 10 {
		t := (low + high) / 2
		for i, from := range s.anchor.genes {
			between[i] = from + t*(genes[i]-from)
		}
		if c, err = s.build(between); err != nil {
			return c, err
		}
		if c.feasible() {
			best, low = c, t
		} else {
			high = t
		}
	}
	return best, nil
}

// mutate changes some genes, at least one: half of them a little, half to anything.
func (s *space) mutate(genes []float64, probability float64, rng *rand.Rand) {
	one := rng.IntN(len(genes))
	for i := range genes {
		if rng.Float64() >= probability && i != one {
			continue
		}
		low, high := s.bounds(i)
		if rng.IntN(2) == 0 {
			genes[i] = low + (high-low)*rng.Float64()
		} else {
			genes[i] = min(high, max(low, genes[i]+0.2*(high-low)*rng.NormFloat64()))
		}
	}
}

// scale moves all genes of widths together, so that a child costs more or less than
// its parents.
func (s *space) scale(genes []float64, rng *rand.Rand) {
	by := 1 + 0.15*rng.NormFloat64()
	for i := range s.groups {
		genes[i] = min(1, max(s.low, genes[i]*by))
	}
}

// cross takes every gene from one parent or the other.
func cross(a, b []float64, rng *rand.Rand) []float64 {
	child := slices.Clone(a)
	for i := range child {
		if rng.IntN(2) == 0 {
			child[i] = b[i]
		}
	}
	return child
}

// smallest is the subnetwork with the fewest channels and blocks.
func (s *space) smallest() (candidate, error) {
	genes := make([]float64, len(s.groups)+len(s.stages))
	for i := range genes {
		genes[i], _ = s.bounds(i)
		if i >= len(s.groups) {
			genes[i] = 1
		}
	}
	return s.build(genes)
}

// findAnchor finds a subnetwork within the budget: the smallest, or, where costs do
// not follow size, the best of a bounded search for a cheaper one.
func (s *space) findAnchor(seed uint64) error {
	best, err := s.smallest()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0x616e63686f72))
	const tries = 2000
	for range tries {
		if best.feasible() || len(best.genes) == 0 {
			break
		}
		genes := slices.Clone(best.genes)
		s.mutate(genes, 0.1, rng)
		c, err := s.build(genes)
		if err != nil {
			return err
		}
		if c.excess < best.excess {
			best = c
		}
	}
	if !best.feasible() {
		limit := s.budget[best.over]
		return &InfeasibleError{limit, best.subnet, best.excess * limit.Most}
	}
	s.anchor = best
	return nil
}
