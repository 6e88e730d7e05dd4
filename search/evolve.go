package search

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// first judges what evolution starts from, with what was judged already a population:
// the smallest, the whole network, and subnetworks of all sizes between, of which every
// other one has one ratio throughout and the others ratios around it.
func (r *runner) first(ctx context.Context, population int) error {
	// The smallest and the largest always, so that parents are of all sizes.
	list, err := r.between(min(max(population-len(r.judged), 2), r.left()))
	if err != nil {
		return err
	}
	return r.judge(ctx, list)
}

func (r *runner) between(count int) ([]candidate, error) {
	s := r.space
	var list []candidate
	add := func(c candidate, err error) error {
		if err == nil && r.fresh(c.subnet, list) && len(list) < count {
			list = append(list, c)
		}
		return err
	}
	if err := add(s.anchor, nil); err != nil {
		return nil, err
	}
	full := make([]float64, len(s.anchor.genes))
	for i := range s.groups {
		full[i] = 1
	}
	largest, err := s.shrink(full)
	if err := add(largest, err); err != nil {
		return nil, err
	}
	// Sizes up to the largest within the budget.
	most := 0.0
	for i := range s.groups {
		most += largest.genes[i] / float64(len(s.groups))
	}
	for tries := 0; len(list) < count && tries < 10*count; tries++ {
		share := (float64(tries%count) + 0.5) / float64(count)
		centre := s.low + (most-s.low)*share
		genes := make([]float64, len(full))
		for i := range genes {
			low, high := s.bounds(i)
			switch {
			case i >= len(s.groups):
				genes[i] = (1 - share) * r.rng.Float64()
			case tries%2 == 0 && tries < count:
				genes[i] = centre
			default:
				genes[i] = min(high, max(low, centre+(high-low)*0.3*(2*r.rng.Float64()-1)))
			}
		}
		if err := add(s.shrink(genes)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// evolve is NSGA-II.
func (r *runner) evolve(ctx context.Context) error {
	if err := r.first(ctx, r.Population); err != nil {
		return err
	}
	population := slices.Clone(r.judged)
	for r.left() > 0 {
		children, err := r.children(inFronts(population), min(max(r.Population/2, 1), r.left()))
		if err != nil {
			return err
		}
		if len(children) == 0 {
			r.exhausted = true
			return nil
		}
		before := len(r.judged)
		if err := r.judge(ctx, children); err != nil {
			return err
		}
		population = survivors(append(population, r.judged[before:]...), r.Population)
	}
	return nil
}

// children breeds fresh candidates, of ranked parents.
func (r *runner) children(parents []ranked, count int) ([]candidate, error) {
	var list []candidate
	for dry := 0; len(list) < count && dry < drawTries; {
		c, err := r.space.shrink(r.breed(parents))
		if err != nil {
			return nil, err
		}
		dry++
		if r.fresh(c.subnet, list) {
			list = append(list, c)
			dry = 0
		}
	}
	return list, nil
}

// breed makes the genes of a child.
func (r *runner) breed(parents []ranked) []float64 {
	a := tournament(parents, r.rng)
	genes := slices.Clone(a.genes)
	if r.rng.IntN(2) == 0 {
		genes = cross(genes, tournament(parents, r.rng).genes, r.rng)
	}
	if r.rng.IntN(4) == 0 {
		r.space.scale(genes, r.rng)
	}
	r.space.mutate(genes, r.Mutation, r.rng)
	return genes
}

// ranked is an individual of a population, by how good it is.
type ranked struct {
	individual
	front    int // 0: nobody dominates it; 1: only those of front 0 do; …
	crowding float64
}

// better orders ranked individuals: lower fronts first, then the lonelier.
func better(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.front, b.front), -cmp.Compare(a.crowding, b.crowding))
}

// tournament is the better of two parents.
func tournament(parents []ranked, rng *rand.Rand) ranked {
	a, b := parents[rng.IntN(len(parents))], parents[rng.IntN(len(parents))]
	if better(b, a) < 0 {
		return b
	}
	return a
}

// survivors are the best of a population.
func survivors(population []individual, count int) []individual {
	list := inFronts(population)
	kept := make([]individual, min(count, len(list)))
	for i := range kept {
		kept[i] = list[i].individual
	}
	return kept
}

// inFronts sorts a population into fronts, and each front by crowding, in O(n²) at
// worst. With two objectives a front is found by walking up the costs.
func inFronts(population []individual) []ranked {
	rest := make([]ranked, len(population))
	for i, p := range population {
		rest[i] = ranked{individual: p}
	}
	// Cheaper first; of equal cost the more accurate first.
	slices.SortStableFunc(rest, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.point.Accuracy, a.point.Accuracy))
	})
	var out []ranked
	for number := 0; len(rest) > 0; number++ {
		var front, later []ranked
		best := math.Inf(-1)
		for _, p := range rest {
			if p.point.Accuracy > best {
				best = p.point.Accuracy
				p.front = number
				front = append(front, p)
			} else {
				later = append(later, p)
			}
		}
		crowd(front)
		slices.SortStableFunc(front, better)
		out = append(out, front...)
		rest = later
	}
	return out
}

// crowd measures how far the neighbours of each member of a front are, which is
// sorted by cost, relative to its extent. The ends are infinitely lonely.
func crowd(front []ranked) {
	last := len(front) - 1
	costs := front[last].cost - front[0].cost
	gains := front[last].point.Accuracy - front[0].point.Accuracy
	for i := range front {
		if i == 0 || i == last {
			front[i].crowding = math.Inf(1)
			continue
		}
		front[i].crowding = (front[i+1].cost-front[i-1].cost)/costs + (front[i+1].point.Accuracy-front[i-1].point.Accuracy)/gains
	}
}
