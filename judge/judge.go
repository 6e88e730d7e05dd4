package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"tips/frontier"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// Verdict is what a judge says about a subnetwork.
type Verdict struct {
	Subnet          supernet.Subnet
	Correct, Images int
	Loss            float64             // mean cross-entropy with the labels
	Statistics      *weights.Statistics // of its batch norm, as calibrated; nil with Options.Counts
	Known           bool                // it was in the cache
}

// Accuracy is the part of the images that it gets right.
func (v Verdict) Accuracy() float64 { return float64(v.Correct) / float64(max(v.Images, 1)) }

// Error is the standard error of the accuracy as a binomial proportion.
func (v Verdict) Error() float64 {
	return math.Sqrt(v.Accuracy() * (1 - v.Accuracy()) / float64(max(v.Images, 1)))
}

// Examiner does the arithmetic. A train.Panel is one, and so is every
// train.Executor, whatever device it runs on.
type Examiner interface {
	Evaluate(ctx context.Context, e train.Examination) ([]train.Score, error)
}

// Judge judges subnetworks of one set of weights. It is safe for concurrent use.
type Judge struct {
	set      *weights.Set
	recipe   *train.Recipe // of the run; nil: there is none
	frontier frontier.Frontier
	identity string
	on       string
	counts   bool
	observe  func(images int)

	calibration, test             images
	calibrationImages, testImages int
	together                      int // subnetworks that are examined at once

	examiner Examiner
	turn     chan struct{} // whose turn it is, where an examiner takes one call at a time; nil: any number
	close    func() error
	closed   sync.Once

	mu    sync.Mutex
	cache *cache // nil: there is none
	known map[supernet.Subnet]record
	going map[supernet.Subnet]chan struct{} // judged right now; closed afterwards
	queue []*waiting                        // claimed one by one, for an examiner that takes one call at a time
	kept  int64                             // bytes of statistics in known
}

// Network is the network that is judged.
func (j *Judge) Network() *supernet.Network { return j.set.Network }

// Weights are the weights that are judged; not to be changed.
func (j *Judge) Weights() *weights.Set { return j.set }

// Recipe is that of the training run, nil without one; not to be changed.
func (j *Judge) Recipe() *train.Recipe { return j.recipe }

// Depths is how many of the last blocks of a stage the training method left out at
// most; see search.Options.
func (j *Judge) Depths() int {
	if j.recipe == nil {
		return 0
	}
	return method.Depths(j.recipe.Method.Name)
}

// Images is how many images it judges by.
func (j *Judge) Images() int { return j.testImages }

// Calibration is how many training images it re-estimates statistics on.
func (j *Judge) Calibration() int { return j.calibrationImages }

// On says which images it judges by: "held-out" or "test".
func (j *Judge) On() string { return j.on }

// Identity is all that its verdicts depend on, in one line.
func (j *Judge) Identity() string { return j.identity }

// Frontier is a frontier of these weights without points and costs.
func (j *Judge) Frontier() frontier.Frontier { return j.frontier }

// Dropped is how many bytes at the end of the cache file were damaged, by a kill most
// likely, and cut off.
func (j *Judge) Dropped() int64 {
	if j.cache == nil {
		return 0
	}
	return j.cache.dropped
}

// Close gives back what the judge holds. Nobody may use it any more, but to close it
// again, which does nothing.
func (j *Judge) Close() error {
	var err error
	j.closed.Do(func() {
		err = j.close()
		if j.cache != nil {
			err = errors.Join(err, j.cache.Close())
		}
	})
	return err
}

// Point is a verdict as a point of a frontier, with its exact costs.
func (j *Judge) Point(v Verdict) (frontier.Point, error) {
	view, err := j.Network().View(v.Subnet, j.frontier.Input)
	if err != nil {
		return frontier.Point{}, err
	}
	return frontier.Judged(v.Subnet, v.Correct, v.Images, frontier.CostsOf(view.Costs()), v.Statistics), nil
}

// Accuracy implements search.Judge.
func (j *Judge) Accuracy(ctx context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	v, err := j.Judge(ctx, s)
	return v.Correct, v.Images, v.Statistics, err
}

// Judge judges a subnetwork. Several calls at once share the judge's threads; an
// examiner that takes one call at a time is given all that wait together.
func (j *Judge) Judge(ctx context.Context, s supernet.Subnet) (Verdict, error) {
	if err := j.Network().Check(s); err != nil {
		return Verdict{}, err
	}
	for {
		v, known, wait, err := j.claim(s)
		if err != nil || known {
			return v, err
		}
		if wait == nil {
			v, err := j.one(ctx, s)
			if errors.Is(err, errGivenUp) && ctx.Err() == nil {
				continue // who was at it has; we have not
			}
			if err != nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			return v, err
		}
		select {
		case <-wait: // by somebody who may have given up
		case <-ctx.Done():
			return Verdict{}, ctx.Err()
		}
	}
}

// waiting is a subnetwork in the queue.
type waiting struct {
	subnet   supernet.Subnet
	answered chan struct{} // closed when one of these is there:
	verdict  Verdict
	err      error
}

// gather is how long the first in a queue waits for others: nothing beside what an
// examination takes, and enough for a search to ask for all that it wants at once.
const gather = 2 * time.Millisecond

// errGivenUp is an examination that ended because the context of one of those who wait
// for it did.
var errGivenUp = errors.New("judge: given up")

// one judges a subnetwork that the caller has claimed.
func (j *Judge) one(ctx context.Context, s supernet.Subnet) (Verdict, error) {
	if j.turn == nil {
		list, err := j.examine(ctx, []supernet.Subnet{s})
		if err != nil {
			return Verdict{}, err
		}
		return list[0], nil
	}
	w := &waiting{subnet: s, answered: make(chan struct{})}
	j.mu.Lock()
	j.queue = append(j.queue, w)
	j.mu.Unlock()
	for {
		select {
		case <-w.answered:
			return w.verdict, w.err
		case j.turn <- struct{}{}:
			if j.waits(w) { // and nobody answered just now
				time.Sleep(gather)
				j.serve(ctx)
			}
			<-j.turn
		case <-ctx.Done():
			if j.leave(w) {
				j.release(s) // otherwise somebody is at it, and gives the claim up
			}
			return Verdict{}, ctx.Err()
		}
	}
}

// waits tells whether a subnetwork is in the queue.
func (j *Judge) waits(w *waiting) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.queue, w)
}

// leave takes a subnetwork out of the queue, unless somebody is at it.
func (j *Judge) leave(w *waiting) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.queue, w)
	if at >= 0 {
		j.queue = slices.Delete(j.queue, at, at+1)
	}
	return at >= 0
}

// serve judges those at the head of the queue, as many as are judged at once. It is the
// caller's turn.
func (j *Judge) serve(ctx context.Context) {
	j.mu.Lock()
	some := slices.Clone(j.queue[:min(j.together, len(j.queue))])
	j.queue = slices.Delete(j.queue, 0, len(some))
	j.mu.Unlock()
	if len(some) == 0 {
		return
	}
	subnets := make([]supernet.Subnet, len(some))
	for i, w := range some {
		subnets[i] = w.subnet
	}
	list, err := j.evaluate(ctx, subnets)
	if err != nil && ctx.Err() != nil {
		err = errGivenUp
	}
	for i, w := range some {
		if w.err = err; err == nil {
			w.verdict = list[i]
		}
		close(w.answered)
	}
}

// Known tells whether a subnetwork was judged already, so that its verdict costs
// nothing.
func (j *Judge) Known(s supernet.Subnet) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, known := j.known[s]
	return known && (j.counts || r.calibrated())
}

// claim gives the verdict on a subnetwork if there is one, or else a channel to wait
// on if somebody is at it, or else nothing, and the caller is at it.
func (j *Judge) claim(s supernet.Subnet) (v Verdict, known bool, wait <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, judged := j.known[s]; judged && (j.counts || r.calibrated()) {
		v, err := j.recall(s, r)
		if err == nil || !errors.Is(err, errLost) {
			return v, true, nil, err
		}
		delete(j.known, s) // the file has lost it
	}
	if at := j.going[s]; at != nil {
		return Verdict{}, false, at, nil
	}
	j.going[s] = make(chan struct{})
	return Verdict{}, false, nil, nil
}

// recall is the verdict that a record holds.
func (j *Judge) recall(s supernet.Subnet, r record) (Verdict, error) {
	v := Verdict{Subnet: s, Correct: r.correct, Images: r.images, Loss: r.loss, Known: true}
	if j.counts {
		return v, nil
	}
	if v.Statistics = r.statistics; v.Statistics != nil {
		return v, nil
	}
	var err error
	v.Statistics, err = j.cache.statistics(s, r)
	return v, err
}

// All judges subnetworks, several at once, and calls got with each verdict and its
// place in the list: those that are known first, the others as they come, one call
// at a time. A subnetwork that stands in the list twice is judged once. After an
// error, which may be that ctx is done, what was got is in the cache, and All with
// the same list goes on from there.
func (j *Judge) All(ctx context.Context, subnets []supernet.Subnet, got func(i int, v Verdict)) error {
	places := map[supernet.Subnet][]int{}
	var order []supernet.Subnet
	for i, s := range subnets {
		if err := j.Network().Check(s); err != nil {
			return err
		}
		if places[s] == nil {
			order = append(order, s)
		}
		places[s] = append(places[s], i)
	}
	tell := func(v Verdict) {
		for _, i := range places[v.Subnet] {
			got(i, v)
		}
	}
	var missing, others []supernet.Subnet
	give := func(list []supernet.Subnet) { // what was claimed and is not wanted any more
		for _, s := range list {
			j.release(s)
		}
	}
	for at, s := range order {
		if err := ctx.Err(); err != nil {
			give(missing)
			return err
		}
		v, known, wait, err := j.claim(s)
		switch {
		case err != nil:
			give(missing)
			return fmt.Errorf("judge: %s: %w", order[at], err)
		case known:
			tell(v)
		case wait != nil:
			others = append(others, s)
		default:
			missing = append(missing, s)
		}
	}
	for len(missing) > 0 {
		some := missing[:min(j.together, len(missing))]
		missing = missing[len(some):]
		list, err := j.examine(ctx, some)
		if err != nil {
			give(missing)
			return err
		}
		for _, v := range list {
			tell(v)
		}
	}
	for _, s := range others {
		v, err := j.Judge(ctx, s)
		if err != nil {
			return err
		}
		tell(v)
	}
	return nil
}

func (j *Judge) release(s supernet.Subnet) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.going[s])
	delete(j.going, s)
}

// examine waits for its turn and judges subnetworks that the caller has claimed.
func (j *Judge) examine(ctx context.Context, subnets []supernet.Subnet) ([]Verdict, error) {
	if j.turn != nil {
		select {
		case j.turn <- struct{}{}:
			defer func() { <-j.turn }()
		case <-ctx.Done():
			for _, s := range subnets {
				j.release(s)
			}
			return nil, ctx.Err()
		}
	}
	return j.evaluate(ctx, subnets)
}

// evaluate judges subnetworks that were claimed, keeps the verdicts and gives the
// claims up.
func (j *Judge) evaluate(ctx context.Context, subnets []supernet.Subnet) ([]Verdict, error) {
	defer func() {
		for _, s := range subnets {
			j.release(s)
		}
	}()
	taken := func(images int) {
		if j.observe != nil {
			j.observe(images * len(subnets))
		}
	}
	scores, err := j.examiner.Evaluate(ctx, train.Examination{
		Subnets: subnets, Calibration: j.calibration.epoch(ctx, taken), Test: j.test.epoch(ctx, taken),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("judge: %w", err)
	}
	list := make([]Verdict, len(subnets))
	for i, s := range subnets {
		score := scores[i]
		if err := j.check(s, score); err != nil {
			return nil, err
		}
		list[i] = Verdict{Subnet: s, Correct: score.Correct, Images: score.Images, Loss: score.Loss, Statistics: score.Statistics}
		if j.counts {
			list[i].Statistics = nil
		}
		if err := j.keep(list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// maxStatistics bounds the statistics that a judge without a file keeps. Beyond it,
// who asks again has to wait again.
const maxStatistics = 256 << 20

// keep remembers a verdict.
func (j *Judge) keep(v Verdict) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := record{correct: v.Correct, images: v.Images, loss: v.Loss, statistics: v.Statistics}
	if j.cache != nil {
		var err error
		if r, err = j.cache.add(v.Subnet, r); err != nil {
			return err
		}
	} else if v.Statistics != nil {
		for i := range v.Statistics.Mean {
			j.kept += 8 * int64(len(v.Statistics.Mean[i]))
		}
		if j.kept > maxStatistics {
			r.statistics = nil
		}
	}
	j.known[v.Subnet] = r
	return nil
}

// check refuses what is no verdict: weights that are not finite give statistics that
// no file would take.
func (j *Judge) check(s supernet.Subnet, score train.Score) error {
	finite := !math.IsNaN(score.Loss) && !math.IsInf(score.Loss, 0)
	for i := range score.Statistics.Mean {
		for c, mean := range score.Statistics.Mean[i] {
			variance := float64(score.Statistics.Variance[i][c])
			finite = finite && !math.IsNaN(float64(mean)) && !math.IsInf(float64(mean), 0) && variance >= 0 && !math.IsInf(variance, 0)
		}
	}
	if !finite {
		return fmt.Errorf("judge: subnetwork %s computes numbers that are not finite: the weights are damaged, or training went astray", s)
	}
	if score.Images != j.testImages {
		return fmt.Errorf("judge: subnetwork %s was judged by %d images; want %d", s, score.Images, j.testImages)
	}
	return nil
}
