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

// judge asks the judge about candidates, none of which was judged before, and takes
// the answers in their order. It judges no more than are left.
func (r *runner) judge(ctx context.Context, list []candidate) error {
	list = list[:min(len(list), r.left())]
	answers, err := r.ask(ctx, list)
	for i, c := range list {
		if answers[i] == nil {
			continue // interrupted
		}
		if e := r.take(c, *answers[i]); e != nil {
			return e
		}
	}
	return err
}

// ask gets answers from the state file or from the judge, several at a time. What
// the judge answered before an error is kept.
func (r *runner) ask(ctx context.Context, list []candidate) ([]*answer, error) {
	answers := make([]*answer, len(list))
	var missing []int
	for i, c := range list {
		if e, ok := r.state.answers[c.subnet]; ok {
			answers[i] = &answer{correct: e.correct, images: e.images}
			r.state.recalled[c.subnet] = true
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return answers, ctx.Err()
	}
	// From here on somebody may save the frontier.
	if err := r.recallAll(ctx); err != nil {
		return answers, err
	}
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
			mu.Lock()
			if err == nil {
				answers[i] = &answer{correct, images, t}
				err = r.state.add(list[i].subnet, correct, images)
			}
			mu.Unlock()
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
	return answers, context.Cause(ctx)
}

// take inserts an answer into the frontier.
func (r *runner) take(c candidate, a answer) error {
	if r.seen[c.subnet] {
		return fmt.Errorf("search: %s is judged twice", c.subnet) // a mistake in this package
	}
	r.seen[c.subnet] = true
	p := frontier.Judged(c.subnet, a.correct, a.images, c.costs, nil)
	r.judged = append(r.judged, individual{c, p})
	kept := p
	kept.Statistics = a.statistics
	recalled := r.state.recalled[c.subnet]
	if recalled && r.Recall != nil {
		kept.Statistics = r.Recall(c.subnet)
	}
	var added bool
	r.front, added = frontier.Insert(r.front, kept, r.space.by)
	if r.Observe != nil {
		r.Observe(Progress{
			Evaluations: len(r.judged), Total: r.Evaluations, Point: kept, Added: added, Recalled: recalled,
			Frontier: r.front, Hypervolume: r.hypervolume(r.front), Quality: r.quality,
		})
	}
	return nil
}

// fresh tells whether a subnetwork was neither judged nor is among others.
func (r *runner) fresh(s supernet.Subnet, among []candidate) bool {
	return !r.seen[s] && !slices.ContainsFunc(among, func(c candidate) bool { return c.subnet == s })
}
