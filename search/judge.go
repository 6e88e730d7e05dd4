package search

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"tips/frontier"
	"tips/supernet"
	"tips/weights"
)

// answer is what the judge says about a subnetwork.
type answer struct {
	correct, images int
	statistics      *weights.Statistics
}

// judge finds out about candidates, none of which was judged before, and takes the
// answers in the candidates' order, each as soon as those before it are there. It
// judges no more than are left. After an error, what was answered before it is taken
// too.
func (r *runner) judge(ctx context.Context, list []candidate) error {
	list = list[:min(len(list), r.left())]
	answers := make([]*answer, len(list))
	var missing []int
	for i, c := range list {
		if e, ok := r.state.answers[c.subnet]; ok {
			answers[i] = &answer{correct: e.correct, images: e.images}
		} else {
			missing = append(missing, i)
		}
	}
	next := 0
	flush := func() {
		for ; next < len(list) && answers[next] != nil; next++ {
			r.take(list[next], *answers[next])
		}
	}
	flush()
	if len(missing) == 0 {
		return ctx.Err()
	}
	// From here on somebody may save the frontier.
	err := r.recallAll(ctx)
	if err == nil {
		err = r.ask(ctx, list, missing, func(i int, a answer) error {
			answers[i] = &a
			err := r.state.add(list[i].subnet, a.correct, a.images)
			flush()
			return err
		})
	}
	for ; next < len(list); next++ { // interrupted: there may be gaps
		if answers[next] != nil {
			r.take(list[next], *answers[next])
		}
	}
	return err
}

// start judges the subnetworks that the options give.
func (r *runner) start(ctx context.Context) error {
	var list []candidate
	for _, s := range r.Start {
		if len(list) == r.Evaluations/2 {
			break
		}
		c, err := r.space.candidate(s)
		if err != nil {
			return err
		}
		if c.feasible() && r.fresh(s, list) {
			list = append(list, c)
		}
	}
	return r.judge(ctx, list)
}

// ask asks the judge, several candidates at a time, and calls got with each answer
// as it comes, one call at a time.
func (r *runner) ask(ctx context.Context, list []candidate, missing []int, got func(i int, a answer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	work := func() {
		for {
			mu.Lock()
			if next == len(missing) || ctx.Err() != nil {
				mu.Unlock()
				return
			}
			i := missing[next]
			next++
			mu.Unlock()
			correct, images, t, err := r.Judge.Accuracy(ctx, list[i].subnet)
			if err == nil && (images < 1 || correct < 0 || correct > images) {
				err = fmt.Errorf("%d of %d images right", correct, images)
			}
			if err == nil {
				mu.Lock()
				err = got(i, answer{correct, images, t})
				mu.Unlock()
			}
			if err != nil {
				cancel(fmt.Errorf("search: %s: %w", list[i].subnet, err))
				return
			}
		}
	}
	var group sync.WaitGroup
	for range min(r.Parallel, len(missing)) {
		group.Go(work)
	}
	group.Wait()
	return context.Cause(ctx)
}

// take inserts an answer into the frontier.
func (r *runner) take(c candidate, a answer) {
	r.seen[c.subnet] = true
	p := frontier.Judged(c.subnet, a.correct, a.images, c.costs, nil)
	r.judged = append(r.judged, individual{c, p})
	kept := p
	kept.Statistics = a.statistics
	recalled := r.state.filed[c.subnet]
	if recalled {
		kept.Statistics = r.recall(c.subnet)
	}
	r.front, _ = frontier.Insert(r.front, kept, r.space.by)
	if r.Observe != nil {
		best := r.best()
		r.Observe(Progress{
			Evaluations: len(r.judged), Total: r.Evaluations, Point: kept, Recalled: recalled,
			Added:    slices.ContainsFunc(best, func(p frontier.Point) bool { return p.Subnet == c.subnet }),
			Frontier: best, Hypervolume: r.hypervolume(best), Quality: r.quality,
		})
	}
}

// fresh tells whether a subnetwork was neither judged nor is among others.
func (r *runner) fresh(s supernet.Subnet, among []candidate) bool {
	return !r.seen[s] && !slices.ContainsFunc(among, func(c candidate) bool { return c.subnet == s })
}
