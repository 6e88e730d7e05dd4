// Package demo shows what an anytime network does: it runs picture after picture
// while the budget changes, and records which subnetworks ran, how long they took and
// how often they were right.
package demo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tips/engine"
	"tips/frontier"
)

// Options say what to show.
type Options struct {
	Engine *engine.Engine
	// Inputs are pictures one after the other, as the engine takes them, and Labels
	// their classes.
	Inputs []float32
	Labels []int
	On     string // what the pictures are, as in "test images"

	Times []Time // of the frontier's subnetworks, to keep with the rest; see Measure

	// Next gives the budget that follows what happened so far; false: it was the last.
	// See Fixed and DownAndBack.
	Next func(past []Period) (engine.Budget, bool)
	Each time.Duration // how long a budget stands; 0: a second
	// Observe is told how a budget does, a few times while it stands and once at its
	// end, by the goroutine that runs; nil: nobody.
	Observe func(number int, p Period, ended bool)
}

// Period is what happened under one budget.
type Period struct {
	Budget   string        `json:"budget"` // as engine.ParseBudget takes it; empty: none
	Time     time.Duration `json:"time_ns,omitempty"`
	MACs     int64         `json:"macs_limit,omitempty"`
	Start    time.Duration `json:"start_ns"`
	Length   time.Duration `json:"length_ns"`
	Subnet   string        `json:"subnet"` // the one that ran most
	Cost     int64         `json:"macs"`   // multiply-accumulates of it
	Share    float64       `json:"share"`  // of the pictures that it ran for
	Pictures int           `json:"pictures"`
	Correct  int           `json:"correct"`
	Kept     int           `json:"kept"` // answers that came within the budget
	Median   time.Duration `json:"median_ns"`
	High     time.Duration `json:"p95_ns"` // 95 of 100 took no longer
}

// Accuracy is the part of the pictures that were classified right.
func (p Period) Accuracy() float64 { return float64(p.Correct) / float64(max(p.Pictures, 1)) }

// Rate is pictures a second.
func (p Period) Rate() float64 {
	return float64(p.Pictures) / max(p.Length.Seconds(), 1e-9)
}

// looks is how often Observe is told about a budget that stands.
const looks = 8

// Run infers under one budget after the other. Each starts with the first picture, so
// that all answer the same questions. When ctx is done it returns what there is so far
// beside the error.
func Run(ctx context.Context, o Options) (*Trace, error) {
	e := o.Engine
	n := len(o.Labels)
	if n == 0 || len(o.Inputs) != n*e.InputLen() {
		return nil, fmt.Errorf("demo: %d values for %d pictures; want %d each", len(o.Inputs), n, e.InputLen())
	}
	if o.Each == 0 {
		o.Each = time.Second
	}
	t := &Trace{On: o.On, Pictures: n, Threads: e.Options().Threads, Weights: e.Frontier().Weights.String(), Times: o.Times}
	start := time.Now()
	for {
		b, ok := o.Next(t.Periods)
		if !ok {
			return t, nil
		}
		p, err := o.period(ctx, len(t.Periods), b, start)
		if p.Pictures > 0 {
			t.Periods = append(t.Periods, p)
		}
		if err != nil {
			return t, err
		}
	}
}

// period runs pictures while a budget stands.
func (o *Options) period(ctx context.Context, number int, b engine.Budget, start time.Time) (Period, error) {
	e := o.Engine
	p := Period{Budget: b.String(), Time: b.Time, MACs: b.MACs, Start: time.Since(start)}
	began := time.Now()
	output := make([]float32, e.Classes())
	var took []time.Duration
	points := e.Frontier().Points
	ran := make([]int, len(points))
	sum := func() {
		p.Length = time.Since(began)
		sorted := slices.Clone(took)
		slices.Sort(sorted)
		p.Median, p.High = sorted[len(sorted)/2], sorted[len(sorted)*95/100]
		most := 0
		for i, times := range ran {
			if times > most {
				most = times
				p.Subnet, p.Cost = points[i].Subnet.String(), points[i].Costs.MACs
			}
		}
		p.Share = float64(most) / float64(len(took))
	}
	look := o.Each / looks
	size := e.InputLen()
	for next := look; ; {
		at := p.Pictures % len(o.Labels)
		r, err := e.InferTo(ctx, output, o.Inputs[at*size:(at+1)*size], b)
		if err != nil {
			if len(took) > 0 {
				sum()
			}
			return p, err
		}
		p.Pictures++
		took = append(took, r.Took)
		if r.Point < 0 {
			return p, fmt.Errorf("demo: budget %s; want limits, or a subnetwork of the frontier", b)
		}
		ran[r.Point]++
		if argmax(output) == o.Labels[at] {
			p.Correct++
		}
		// What was not expected to be in time, and was, was in time.
		if b.Time > 0 && !r.Late || b.Time == 0 && r.Fits {
			p.Kept++
		}
		since := time.Since(began)
		if since < next && since < o.Each && ctx.Err() == nil {
			continue
		}
		next += look
		ended := since >= o.Each || ctx.Err() != nil
		sum()
		if o.Observe != nil {
			o.Observe(number, p, ended)
		}
		if ended {
			return p, ctx.Err()
		}
	}
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Fixed gives one budget after the other.
func Fixed(budgets ...engine.Budget) func([]Period) (engine.Budget, bool) {
	return func(past []Period) (engine.Budget, bool) {
		if len(past) >= len(budgets) {
			return engine.Budget{}, false
		}
		return budgets[len(past)], true
	}
}

// deadlineRoom is what a deadline leaves above the time that was seen: the engine
// keeps a margin of its own, which is wide where the machine is not quiet.
const deadlineRoom = 1.5

// deadlineRise is by how much each deadline is longer than the one before, at least.
const deadlineRise = 1.2

// DownAndBack gives no budget first; then caps on multiply-accumulates that fall, in
// so many steps, to what the cheapest subnetwork of a frontier takes; then limits on
// time that rise again, by what was seen on the way down; then none.
func DownAndBack(f *frontier.Frontier, steps int) func([]Period) (engine.Budget, bool) {
	return func(past []Period) (engine.Budget, bool) {
		i := len(past)
		switch {
		case i == 0 || i == 2*steps:
			return engine.Budget{}, true
		case i <= steps:
			at := (len(f.Points) - 1) * (steps - i) / steps
			return engine.Budget{MACs: f.Points[at].Costs.MACs}, true
		case i < 2*steps:
			// A second that others took from makes no deadline shorter than the one before,
			// nor does it make all of them alike.
			var most time.Duration
			for _, p := range past[2*steps-i : steps+1] {
				most = max(most, p.Median)
			}
			deadline := max(deadlineRoom*float64(most), deadlineRise*float64(past[i-1].Time))
			return engine.Budget{Time: tidy(deadline)}, true
		}
		return engine.Budget{}, false
	}
}

// Measure is how long the subnetworks of the frontier take, the median of each. They
// take turns, so that what else the machine does meets all of them. It goes on for
// about as long as it is told to; the engine learns along with it.
func Measure(ctx context.Context, e *engine.Engine, input []float32, limit time.Duration) ([]Time, error) {
	const least, most = 5, 2000 // rounds
	points := e.Frontier().Points
	output := make([]float32, e.Classes())
	took := make([][]time.Duration, len(points))
	for start, round := time.Now(), 0; round < least || round < most && time.Since(start) < limit; round++ {
		for i := range points {
			// The first run brings the weights back into the cache, as they are when a
			// subnetwork runs again and again.
			for again := range 2 {
				r, err := e.InferTo(ctx, output, input, engine.Budget{Subnet: &points[i].Subnet})
				if err != nil {
					return nil, err
				}
				if again == 1 {
					took[i] = append(took[i], r.Took)
				}
			}
		}
	}
	times := make([]Time, len(points))
	for i, p := range points {
		slices.Sort(took[i])
		times[i] = Time{p.Subnet.String(), took[i][len(took[i])/2]}
	}
	return times, nil
}

// tidy keeps two digits, as people would ask for them.
func tidy(ns float64) time.Duration {
	unit := math.Pow(10, math.Floor(math.Log10(max(ns, 1)))-1)
	return time.Duration(math.Ceil(ns/unit-1e-9) * unit)
}
