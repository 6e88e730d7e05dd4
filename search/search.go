package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"tips/frontier"
	"tips/sampling"
	"tips/search/cost"
	"tips/supernet"
	"tips/weights"
)

// Judge tells how accurate a subnetwork is: how many of how many images it gets
// right, after its batch-norm statistics were calibrated. The same subnetwork must
// get the same answer every time. It is called by Options.Parallel goroutines.
type Judge interface {
	Accuracy(ctx context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error)
}

// Strategy is how subnetworks to judge are chosen.
type Strategy string

// The strategies.
const (
	Random    Strategy = "random"    // Algorithm 1
	Evolution Strategy = "evolution" // NSGA-II
	Guided    Strategy = "guided"    // evolution with a predictor
)

// Strategies lists them.
func Strategies() []Strategy { return []Strategy{Random, Evolution, Guided} }

// Options say what to search. Network and Judge are needed; zero values of all
// other fields mean what their comments say.
type Options struct {
	Network *supernet.Network
	Input   supernet.Shape // zero: the network's own
	Judge   Judge

	By     cost.Cost   // the cost to trade accuracy for; nil: MACs
	Costs  []cost.Cost // further costs to record with each subnetwork
	Budget cost.Budget

	Strategy    Strategy // "": Guided
	Evaluations int      // subnetworks to judge; 0: 200
	Seed        uint64
	// Depths is how many of the last blocks of a stage may be left out, as the training
	// method trained it; 0: none, depths are fixed. See sampling.Stages.
	Depths int
	// Sampler draws the candidates of Random; nil: uniform ratios for every group, and
	// depths uniform too.
	Sampler sampling.Sampler
	// Start are subnetworks to judge before any other, the most promising first, as many
	// as are within the budget, up to half of Evaluations; nil: none. They take the
	// place of those that a strategy would begin with.
	Start []supernet.Subnet
	// Population of Evolution; 0: 40. Half as many children are judged in each
	// generation.
	Population int
	// Mutation is the probability that a child's width or depth is changed; 0: 0.1.
	Mutation float64
	// Batch is how many subnetworks Guided judges between two fits of its predictor;
	// 0: 8.
	Batch int

	// Reference is the point that hypervolumes are measured from; zero: the cap on
	// By, or what the whole network costs, and an accuracy of 0.
	Reference Reference

	Parallel int // calls of the judge at a time; 0: 1
	// State is a file that answers of the judge are kept in; "": none. A file that
	// exists is gone on from: what it answers is not judged again, and what earlier
	// searches have found, whatever their options, stays on the frontier.
	State string
	// Identity says whose answers State holds: weights, data, and whatever else the
	// judge's answers depend on.
	Identity string
	// Recall gives statistics of subnetworks whose accuracy is in State already, nil
	// where it has none; nil: none. The judge is asked again for those still missing.
	Recall func(supernet.Subnet) *weights.Statistics

	// Observe is told about every subnetwork judged; nil: nobody.
	Observe func(Progress)

	alone bool // what earlier searches have found stays off the frontier
}

// Reference is a point that is worse than those of a frontier.
type Reference struct{ Cost, Accuracy float64 }

// Progress is how far a search is.
type Progress struct {
	Evaluations, Total int
	Point              frontier.Point   // judged last
	Added              bool             // Point is on the frontier
	Recalled           bool             // Point was in the state file
	Frontier           []frontier.Point // the search's own: to read during the call
	Hypervolume        float64
	Quality            *Quality // of the predictor, since its last fit; nil: there is none
}

// Result is what a search found.
type Result struct {
	Frontier    []frontier.Point // of Judged, and of what the state file has of earlier searches
	By          frontier.Kind
	Reference   Reference
	Evaluations int
	// Hypervolume of the frontier by the reference's cost: the mean over costs up to
	// that of the accuracy at hand for it, above the reference's.
	Hypervolume float64
	Exhausted   bool     // every subnetwork that could be found was judged before Evaluations was reached
	Quality     *Quality // of a predictor fitted to all subnetworks judged; nil: too few
	Judged      []frontier.Point
}

// Run searches. When ctx is done or the judge fails, it returns the result so far
// beside the error.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	strategy := map[Strategy]func(context.Context) error{Random: r.random, Evolution: r.evolve, Guided: r.guided}[r.Strategy]
	if err = r.start(ctx); err == nil {
		err = strategy(ctx)
	}
	if err == nil {
		err = r.recallAll(ctx)
	}
	return r.result(), err
}

// fill checks options and puts in what zero values mean.
func (o *Options) fill() error {
	if o.Network == nil || o.Judge == nil {
		return errors.New("search: options without a network or a judge")
	}
	if o.Input == (supernet.Shape{}) {
		o.Input = o.Network.Input()
	}
	if o.By == nil {
		o.By = cost.MACs()
	}
	switch o.Strategy {
	case "":
		o.Strategy = Guided
	case Random, Evolution, Guided:
	default:
		names := make([]string, len(Strategies()))
		for i, s := range Strategies() {
			names[i] = string(s)
		}
		return fmt.Errorf("search: strategy %q; want one of %s", string(o.Strategy), strings.Join(names, ", "))
	}
	for _, f := range []struct {
		value     *int
		otherwise int
		least     int
		name      string
	}{{&o.Evaluations, 200, 1, "evaluations"}, {&o.Population, 40, 4, "subnetworks in a population"}, {&o.Batch, 8, 1, "subnetworks in a batch"}, {&o.Parallel, 1, 1, "calls of the judge at a time"}} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
		if *f.value < f.least || *f.value > 1<<20 {
			return fmt.Errorf("search: %d %s; want %d to %d", *f.value, f.name, f.least, 1<<20)
		}
	}
	if o.Depths < 0 {
		return fmt.Errorf("search: %d blocks of a stage to be left out; want 0 or more", o.Depths)
	}
	if o.Mutation == 0 {
		o.Mutation = 0.1
	}
	if !(o.Mutation > 0 && o.Mutation <= 1) {
		return fmt.Errorf("search: probability %v of a mutation; want above 0 and at most 1", o.Mutation)
	}
	return nil
}

// runner is a search under way.
type runner struct {
	Options
	space     *space
	rng       *rand.Rand
	state     *state
	seen      map[supernet.Subnet]bool
	judged    []individual
	front     []frontier.Point                        // of judged
	earlier   []frontier.Point                        // of the state file's answers
	settled   map[supernet.Subnet]*weights.Statistics // of answers of the state file, asked for again
	quality   *Quality
	exhausted bool
}

// individual is a candidate and its accuracy.
type individual struct {
	candidate
	point frontier.Point // without statistics
}

func newRunner(o Options) (*runner, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	s, err := newSpace(&o)
	if err != nil {
		return nil, err
	}
	r := &runner{Options: o, space: s, rng: rand.New(rand.NewPCG(o.Seed, 0x736561726368)), seen: map[supernet.Subnet]bool{}}
	if r.state, err = openState(o.State, o.Network, o.Identity); err != nil {
		return nil, err
	}
	r.settled = map[supernet.Subnet]*weights.Statistics{}
	if !o.alone {
		r.takeOver()
	}
	if r.Reference == (Reference{}) {
		if most, ok := o.Budget.Cap(o.By.Name()); ok {
			r.Reference.Cost = most
		} else {
			full, err := s.candidate(supernet.Subnet{})
			if err != nil {
				return nil, err
			}
			r.Reference.Cost = full.cost
		}
	}
	if !(r.Reference.Cost > 0) || !(r.Reference.Accuracy >= 0 && r.Reference.Accuracy < 1) {
		return nil, fmt.Errorf("search: reference point at cost %v and accuracy %v; want a cost above 0, and an accuracy of at least 0 and below 1", r.Reference.Cost, r.Reference.Accuracy)
	}
	return r, nil
}

// left is how many subnetworks may still be judged.
func (r *runner) left() int { return r.Evaluations - len(r.judged) }

// takeOver makes a frontier of the state file's answers that are within the budget.
func (r *runner) takeOver() {
	for _, sub := range r.state.order {
		c, err := r.space.candidate(sub)
		if err != nil || !c.feasible() { // a cost of one's own may know nothing of it
			continue
		}
		a := r.state.answers[sub]
		r.earlier, _ = frontier.Insert(r.earlier, frontier.Judged(sub, a.correct, a.images, c.costs, nil), r.space.by)
	}
	for i := range r.earlier {
		r.earlier[i].Statistics = r.recall(r.earlier[i].Subnet)
	}
}

// best is the frontier of all that is known. The search itself goes by what it has
// asked for, so that one that goes on does what one that nobody interrupted does.
func (r *runner) best() []frontier.Point {
	points, own := r.front, true
	for _, p := range r.earlier {
		if r.seen[p.Subnet] {
			continue
		}
		if own {
			points, own = slices.Clone(points), false
		}
		points, _ = frontier.Insert(points, p, r.space.by)
	}
	return points
}

// hypervolume of points, see Result.
func (r *runner) hypervolume(points []frontier.Point) float64 {
	return frontier.Hypervolume(points, r.space.by, r.Reference.Cost, r.Reference.Accuracy) / r.Reference.Cost
}

func (r *runner) result() *Result {
	judged := make([]frontier.Point, len(r.judged))
	for i, j := range r.judged {
		judged[i] = j.point
	}
	q := r.quality
	if p, err := crossValidate(r.judged); err == nil {
		q = p
	}
	best := r.best()
	return &Result{
		Frontier: best, By: r.space.by, Reference: r.Reference, Evaluations: len(r.judged), Hypervolume: r.hypervolume(best),
		Exhausted: r.exhausted, Quality: q, Judged: judged,
	}
}

// recall gives the statistics of a subnetwork whose accuracy was in the state file;
// nil where the judge has to be asked for them.
func (r *runner) recall(s supernet.Subnet) *weights.Statistics {
	if t, ok := r.settled[s]; ok {
		return t
	}
	if r.Recall != nil {
		return r.Recall(s)
	}
	return nil
}

// recallAll fills in the statistics of points whose accuracy was in the state file.
func (r *runner) recallAll(ctx context.Context) error {
	for _, p := range r.best() {
		_, asked := r.settled[p.Subnet] // also where the judge has none
		if p.Statistics != nil || asked || !r.state.filed[p.Subnet] {
			continue
		}
		correct, images, t, err := r.Judge.Accuracy(ctx, p.Subnet)
		if err != nil {
			return fmt.Errorf("search: %s: %w", p.Subnet, err)
		}
		if correct != p.Correct || images != p.Images {
			return fmt.Errorf("search: %s gets %d of %d images right; %s has %d of %d: its answers are another judge's", p.Subnet, correct, images, r.State, p.Correct, p.Images)
		}
		r.settled[p.Subnet] = t
		for _, list := range [][]frontier.Point{r.front, r.earlier} {
			for i := range list {
				if list[i].Subnet == p.Subnet {
					list[i].Statistics = t
				}
			}
		}
	}
	return nil
}
