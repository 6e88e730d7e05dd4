package search

import "context"

const (
	// drawTries is how many subnetworks are drawn to find one within the budget that
	// was not judged; the last one is then shrunk until it is within.
	drawTries = 200
	// dryTries is how many times in a row that may end with one that was judged
	// before the search is over.
	dryTries = 50
)

// draw is a candidate of the sampler that is fresh and within the budget; false
// where none is found. Draws that break a cap are drawn again.
func (r *runner) draw(among []candidate) (candidate, bool, error) {
	for range dryTries {
		var last candidate
		for range drawTries {
			c, err := r.space.candidate(r.space.sampler.Draw(r.rng))
			if err != nil {
				return c, false, err
			}
			if c.feasible() && r.fresh(c.subnet, among) {
				return c, true, nil
			}
			last = c
		}
		c, err := r.space.shrink(last.genes)
		if err != nil {
			return c, false, err
		}
		if r.fresh(c.subnet, among) {
			return c, true, nil
		}
	}
	return candidate{}, false, nil
}

// random is Algorithm 1.
func (r *runner) random(ctx context.Context) error {
	for r.left() > 0 {
		var list []candidate
		for len(list) < min(r.Parallel, r.left()) {
			c, ok, err := r.draw(list)
			if err != nil {
				return err
			}
			if !ok {
				r.exhausted = true
				break
			}
			list = append(list, c)
		}
		if len(list) == 0 {
			return nil
		}
		if err := r.judge(ctx, list); err != nil {
			return err
		}
	}
	return nil
}
