package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"tips/frontier"
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// candidate is a subnetwork that can run.
type candidate struct {
	subnet     supernet.Subnet
	point      int // of the frontier; -1 if it is none
	costs      frontier.Costs
	accuracy   float64
	statistics *weights.Statistics
	base       float64 // nanoseconds for one input, by the rule
	plans      []plan  // by batch size − 1
}

// plan is a candidate at one batch size.
type plan struct {
	program atomic.Pointer[nn.Program]
	habit   habit
}

// maxOthers bounds the subnetworks that are kept ready though they are not on the
// frontier. To plan one anew takes less than a run.
const maxOthers = 256

// addCandidates plans all points of the frontier.
func (e *Engine) addCandidates() error {
	// One rule for latencies that are unknown: in proportion to multiply-accumulates,
	// as those that are known are, or at some speed, which measuring corrects.
	var known time.Duration
	var macs int64
	for _, p := range e.front.Points {
		if p.Costs.Latency > 0 {
			known += p.Costs.Latency
			macs += p.Costs.MACs
		}
	}
	e.byMACs = 0.1
	if known > 0 && macs > 0 {
		e.byMACs = float64(known) / float64(macs)
	}
	for i, p := range e.front.Points {
		c := e.newCandidate(p, i)
		program, err := e.program(c, 1)
		if err != nil {
			return err
		}
		e.classes = program.OutputLen()
		e.candidates = append(e.candidates, c)
		e.named[p.Subnet] = c
	}
	e.best = slices.Clone(e.candidates)
	slices.SortStableFunc(e.best, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.accuracy, a.accuracy), cmp.Compare(a.costs.MACs, b.costs.MACs))
	})
	return nil
}

func (e *Engine) newCandidate(p frontier.Point, point int) *candidate {
	c := &candidate{subnet: p.Subnet, point: point, costs: p.Costs, accuracy: p.Accuracy, statistics: p.Statistics, plans: make([]plan, e.options.Batch)}
	c.base = float64(p.Costs.Latency)
	if c.base == 0 {
		c.base = max(1, e.byMACs*float64(p.Costs.MACs))
	}
	return c
}

// candidate finds a subnetwork, or makes a candidate of it.
func (e *Engine) candidate(s supernet.Subnet) (*candidate, error) {
	if c, ok := e.named[s]; ok {
		return c, nil
	}
	e.others.Lock()
	defer e.others.Unlock()
	if c, ok := e.others.known[s]; ok {
		return c, nil
	}
	v, err := e.front.Network.View(s, e.front.Input)
	if err != nil {
		return nil, err
	}
	c := e.newCandidate(frontier.Point{Subnet: s, Costs: frontier.CostsOf(v.Costs())}, -1)
	if _, err := e.program(c, 1); err != nil {
		return nil, err
	}
	if len(e.others.known) >= maxOthers {
		for old := range e.others.known { // any will do
			delete(e.others.known, old)
			break
		}
	}
	e.others.known[s] = c
	return c, nil
}

// program plans a candidate for a batch size, the first time it is asked for. Two
// goroutines may do it at once; one program stays.
func (e *Engine) program(c *candidate, batch int) (*nn.Program, error) {
	slot := &c.plans[batch-1].program
	if p := slot.Load(); p != nil {
		return p, nil
	}
	p, err := e.model.Program(c.subnet, e.front.Input, batch, c.statistics)
	if err != nil {
		return nil, err
	}
	slot.CompareAndSwap(nil, p)
	return slot.Load(), nil
}

// predict is how long a candidate takes.
func (e *Engine) predict(c *candidate, batch int) time.Duration {
	return e.predictor.predict(c.base*float64(batch), &c.plans[batch-1].habit)
}

// choice is a question of what to run, and what is expected of the answer.
type choice struct {
	batch    int
	budget   Budget     // the call's own
	named    *candidate // by the call's budget
	deadline time.Time
	hurried  bool // there is a deadline

	predicted time.Duration
	fits      bool
}

// choose finds the most accurate candidate that keeps all limits, or else, unless
// that is an error, the one that comes closest.
func (e *Engine) choose(q *choice) (*candidate, error) {
	left := time.Duration(math.MaxInt64)
	if q.hurried {
		left = time.Until(q.deadline)
	}
	margin := e.predictor.margin()
	fitsTime := func(c *candidate) bool {
		q.predicted = e.predict(c, q.batch)
		return !q.hurried || float64(q.predicted)*margin <= float64(left)
	}
	if q.named != nil {
		q.fits = fitsTime(q.named)
		return q.named, nil
	}

	standing := *e.standing.Load()
	if standing.Time > 0 {
		left, q.hurried = min(left, standing.Time), true
	}
	limits := q.budget.and(standing)
	// Without limits of the call's own, the default is the most that may run.
	most := int64(math.MaxInt64)
	var standard *candidate
	if !q.budget.limited() {
		c := e.current.Load()
		if within(c, limits, q.batch) && fitsTime(c) {
			q.fits = true
			return c, nil
		}
		standard, most = c, c.costs.MACs
	}
	for _, c := range e.best {
		if c.costs.MACs <= most && within(c, limits, q.batch) && fitsTime(c) {
			q.fits = true
			return c, nil
		}
	}

	c := e.closest(standard, most, limits, q.batch)
	q.predicted = e.predict(c, q.batch)
	if e.options.Strict {
		return nil, fmt.Errorf("engine: %w: %s; the closest, %s, takes %d multiply-accumulates, %d bytes of memory, and about %v",
			ErrInfeasible, q.describe(limits, left), c.subnet, c.costs.MACs, c.costs.PeakBytes*int64(q.batch), q.predicted)
	}
	return c, nil
}

// describe names the limits for an error.
func (q *choice) describe(limits Budget, left time.Duration) string {
	limits.Time = 0
	text := limits.String()
	if q.hurried {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%v left", left)
	}
	return text
}

// within tells whether a candidate keeps the limits on what is counted.
func within(c *candidate, b Budget, batch int) bool {
	return (b.MACs == 0 || c.costs.MACs <= b.MACs) && (b.Memory == 0 || c.costs.PeakBytes*int64(batch) <= b.Memory)
}

// closest is the candidate to run where none keeps all limits: the one that
// exceeds memory least, of those the one that exceeds multiply-accumulates least,
// of those the fastest. To run out of memory is worse than to be late. It is the
// standard, which may be nil, or a point with at most so many multiply-accumulates.
func (e *Engine) closest(standard *candidate, most int64, b Budget, batch int) *candidate {
	excess := func(c *candidate) (memory, macs int64, time time.Duration) {
		if b.Memory > 0 {
			memory = max(0, c.costs.PeakBytes*int64(batch)-b.Memory)
		}
		if b.MACs > 0 {
			macs = max(0, c.costs.MACs-b.MACs)
		}
		return memory, macs, e.predict(c, batch)
	}
	best := standard
	for _, c := range e.best {
		if c.costs.MACs > most {
			continue
		}
		if best == nil {
			best = c
			continue
		}
		m1, n1, t1 := excess(c)
		m2, n2, t2 := excess(best)
		if cmp.Or(cmp.Compare(m1, m2), cmp.Compare(n1, n2), cmp.Compare(t1, t2)) < 0 {
			best = c
		}
	}
	return best
}

// measure runs candidates, the cheapest first, again and again while time lasts,
// so that predictions are about this machine.
func (e *Engine) measure(limit time.Duration) error {
	byBase := slices.Clone(e.candidates)
	slices.SortStableFunc(byBase, func(a, b *candidate) int { return cmp.Compare(a.base, b.base) })
	input, output := make([]float32, e.inputLen), make([]float32, e.classes)
	s, err := e.sessions.get(context.Background())
	if err != nil {
		return err
	}
	defer e.sessions.put(s)
	const rounds = 3
	start := time.Now()
	for round := range rounds {
		for i, c := range byBase {
			first := round == 0 && i == 0
			if !first && time.Since(start)+e.predict(c, 1) > limit {
				break // dearer ones do not fit either
			}
			p, err := e.program(c, 1)
			if err != nil {
				return err
			}
			if first {
				s.Run(p, output, input) // memory and caches are cold
			}
			began := time.Now()
			s.Run(p, output, input)
			e.predictor.learn(c.base, &c.plans[0].habit, time.Since(began))
		}
	}
	return nil
}
