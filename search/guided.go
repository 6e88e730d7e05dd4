package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"tips/frontier"
)

// How many candidates the predictor looks at for each batch: broods bred of the
// best judged, and then of the best predicted of the brood before.
const (
	broods    = 3
	broodSize = 300
)

// guided is evolution with a predictor.
func (r *runner) guided(ctx context.Context) error {
	// A third of the evaluations, at most a population, to learn from.
	if err := r.first(ctx, min(r.Population, max(r.Evaluations/3, leastPoints))); err != nil {
		return err
	}
	for r.left() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := fitPredictor(r.judged)
		if err != nil { // a small space, or all alike: anything is as good
			c, ok, err := r.draw(nil)
			if err != nil {
				return err
			}
			if !ok {
				r.exhausted = true
				return nil
			}
			if err := r.judge(ctx, []candidate{c}); err != nil {
				return err
			}
			continue
		}
		batch, err := r.promising(p, min(r.Batch, r.left()))
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			r.exhausted = true
			return nil
		}
		predicted, _ := p.predict(batch)
		before := len(r.judged)
		if err := r.judge(ctx, batch); err != nil {
			return err
		}
		r.watch(predicted, before)
	}
	return nil
}

// watch keeps how well the last batches, which no predictor had seen, were
// predicted.
func (r *runner) watch(predicted []float64, before int) {
	actual := make([]float64, len(predicted))
	for i := range actual {
		actual[i] = r.judged[before+i].point.Accuracy
	}
	r.quality = quality(predicted, actual)
}

// promising breeds candidates and picks those that are expected to add the most to
// the hypervolume.
func (r *runner) promising(p *predictor, count int) ([]candidate, error) {
	parents := inFronts(r.judged)
	// The best fronts only, but at least some.
	keep := max(len(r.front), min(len(parents), 2*r.Batch))
	parents = parents[:min(keep, len(parents))]
	var pool []candidate
	for range broods {
		brood, err := r.children(parents, broodSize)
		if err != nil {
			return nil, err
		}
		pool = append(pool, slices.DeleteFunc(brood, func(c candidate) bool {
			return slices.ContainsFunc(pool, func(d candidate) bool { return d.subnet == c.subnet })
		})...)
		mean, _ := p.predict(pool)
		parents = append(inFronts(asIfJudged(pool, mean)), parents...)
		parents = parents[:min(keep, len(parents))]
	}
	mean, deviation := p.predict(pool)
	return r.pick(pool, mean, deviation, count), nil
}

// asIfJudged takes predictions for accuracies.
func asIfJudged(list []candidate, accuracy []float64) []individual {
	out := make([]individual, len(list))
	for i, c := range list {
		out[i] = individual{c, frontier.Point{Subnet: c.subnet, Accuracy: accuracy[i], Costs: c.costs}}
	}
	return out
}

// pick chooses one candidate after the other, each for the largest expected
// improvement of the hypervolume, those before it being as accurate as predicted.
func (r *runner) pick(pool []candidate, mean, deviation []float64, count int) []candidate {
	stairs := r.staircase()
	var batch []candidate
	taken := make([]bool, len(pool))
	for len(batch) < min(count, len(pool)) {
		best, most := -1, math.Inf(-1)
		for i := range pool {
			if taken[i] {
				continue
			}
			if gain := stairs.expected(pool[i].cost, mean[i], deviation[i]); gain > most {
				best, most = i, gain
			}
		}
		taken[best] = true
		batch = append(batch, pool[best])
		stairs = stairs.with(pool[best].cost, mean[best])
	}
	return batch
}

// staircase is the accuracy at hand for a cost: from each step's cost on, its
// accuracy, up to the end.
type staircase struct {
	steps []stair // by rising cost; the first is at the reference's accuracy and no cost
	end   float64
}

type stair struct{ cost, accuracy float64 }

func (r *runner) staircase() staircase {
	s := staircase{steps: []stair{{0, r.Reference.Accuracy}}, end: r.Reference.Cost}
	for _, p := range r.front {
		s = s.with(p.Costs.Of(r.space.by), p.Accuracy)
	}
	return s
}

// with adds a step where it is above what is there.
func (s staircase) with(cost, accuracy float64) staircase {
	at, _ := slices.BinarySearchFunc(s.steps, cost, func(t stair, c float64) int { return cmp.Compare(t.cost, c) })
	if cost >= s.end || at > 0 && s.steps[at-1].accuracy >= accuracy || at < len(s.steps) && s.steps[at].cost == cost && s.steps[at].accuracy >= accuracy {
		return s
	}
	steps := append(slices.Clone(s.steps[:at]), stair{cost, accuracy})
	for _, t := range s.steps[at:] {
		if t.accuracy > accuracy {
			steps = append(steps, t)
		}
	}
	return staircase{steps, s.end}
}

// expected is by how much the area below the stairs grows, on average, with a
// subnetwork of a cost whose accuracy is normally distributed: the sum over the
// stairs from that cost on of their length times E[max(0, accuracy − stair)].
func (s staircase) expected(cost, mean, deviation float64) float64 {
	if cost >= s.end {
		return 0
	}
	gain := 0.0
	for i, t := range s.steps {
		end := s.end
		if i+1 < len(s.steps) {
			end = s.steps[i+1].cost
		}
		if end <= cost {
			continue
		}
		gain += (end - max(t.cost, cost)) * improvement(mean-t.accuracy, deviation)
	}
	return gain
}

// improvement is E[max(0, X)] of a normal X.
func improvement(mean, deviation float64) float64 {
	if deviation <= 0 {
		return max(0, mean)
	}
	z := mean / deviation
	return mean*0.5*math.Erfc(-z/math.Sqrt2) + deviation*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
}
