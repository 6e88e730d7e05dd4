package search

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"

	"tips/frontier"
	"tips/plot"
	"tips/search/cost"
)

// CompareOptions say what to compare. Search holds what all searches share; its
// Strategy, Seed, Budget, Evaluations and Observe are replaced.
type CompareOptions struct {
	Search      Options
	Strategies  []Strategy       // nil: all
	Seeds       []uint64         // nil: 1 to 5
	Budgets     []cost.Budget    // nil: that of Search
	Evaluations int              // of each search; 0: 1000
	Fewer       map[Strategy]int // evaluations of strategies that need fewer; nil: none do
	Verify      Judge            // judges the frontiers found once more, on other images; nil: nobody does
	// Together is how many searches are under way at once; 0: 1. It takes a judge that
	// answers what it was asked before by itself, and no Search.State.
	Together int
	// Observe is told about every evaluation, one call at a time; nil: nobody.
	Observe func(CompareProgress)
}

// CompareProgress is how far a comparison is.
type CompareProgress struct {
	Evaluations, Total int // of all searches
	Over, Searches     int // searches that are over, and all
}

// Curve is one search of a comparison.
type Curve struct {
	Strategy    Strategy  `json:"strategy"`
	Seed        uint64    `json:"seed"`
	Budget      string    `json:"budget"`
	Hypervolume []float64 `json:"hypervolume"` // after each evaluation
	Verified    float64   `json:"verified"`    // hypervolume of the last frontier by the second judge; 0: there is none
	Quality     *Quality  `json:"quality,omitempty"`
}

// Comparison is strategies side by side.
type Comparison struct {
	Curves []Curve `json:"curves"`
}

// Compare runs every strategy with every seed under every budget. With a state file
// in Search they share the answers of the judge, and a comparison that is
// interrupted goes on; a judge that keeps its answers itself does as well.
func Compare(ctx context.Context, o CompareOptions) (*Comparison, error) {
	if o.Strategies == nil {
		o.Strategies = Strategies()
	}
	if o.Seeds == nil {
		o.Seeds = []uint64{1, 2, 3, 4, 5}
	}
	if o.Budgets == nil {
		o.Budgets = []cost.Budget{o.Search.Budget}
	}
	if o.Evaluations == 0 {
		o.Evaluations = 1000
	}
	if o.Together > 1 && o.Search.State != "" {
		return nil, fmt.Errorf("search: %d searches at once with one state file; want one at a time, or a judge that keeps its answers", o.Together)
	}
	type one struct {
		budget   cost.Budget
		strategy Strategy
		seed     uint64
	}
	var list []one
	progress := CompareProgress{}
	for _, budget := range o.Budgets {
		for _, strategy := range o.Strategies {
			for _, seed := range o.Seeds {
				list = append(list, one{budget, strategy, seed})
				progress.Total += o.evaluations(strategy)
			}
		}
	}
	progress.Searches = len(list)
	var mu sync.Mutex
	tell := func(evaluations, over int) {
		mu.Lock()
		defer mu.Unlock()
		progress.Evaluations += evaluations
		progress.Over += over
		if o.Observe != nil {
			o.Observe(progress)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	curves := make([]*Curve, len(list))
	next := make(chan int)
	var group sync.WaitGroup
	for range max(o.Together, 1) {
		group.Go(func() {
			for i := range next {
				judged := 0
				curve, err := o.run(ctx, list[i].budget, list[i].strategy, list[i].seed, func() { judged++; tell(1, 0) })
				if err != nil {
					cancel(err)
					continue
				}
				curves[i] = &curve
				tell(o.evaluations(list[i].strategy)-judged, 1) // a small space may have fewer
			}
		})
	}
	for i := 0; i < len(list) && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	c := &Comparison{}
	for _, curve := range curves {
		if curve != nil {
			c.Curves = append(c.Curves, *curve)
		}
	}
	return c, context.Cause(ctx)
}

// evaluations is how many a strategy has.
func (o *CompareOptions) evaluations(s Strategy) int {
	if fewer := o.Fewer[s]; fewer > 0 {
		return min(fewer, o.Evaluations)
	}
	return o.Evaluations
}

func (o *CompareOptions) run(ctx context.Context, budget cost.Budget, strategy Strategy, seed uint64, judged func()) (Curve, error) {
	s := o.Search
	s.Strategy, s.Seed, s.Budget, s.Evaluations, s.alone = strategy, seed, budget, o.evaluations(strategy), true
	curve := Curve{Strategy: strategy, Seed: seed, Budget: budget.String()}
	s.Observe = func(p Progress) {
		curve.Hypervolume = append(curve.Hypervolume, p.Hypervolume)
		judged()
	}
	r, err := Run(ctx, s)
	if err != nil {
		return curve, err
	}
	curve.Quality = r.Quality
	if o.Verify == nil {
		return curve, nil
	}
	again := make([]frontier.Point, len(r.Frontier))
	for i, p := range r.Frontier {
		correct, images, _, err := o.Verify.Accuracy(ctx, p.Subnet)
		if err != nil {
			return curve, fmt.Errorf("search: %s: %w", p.Subnet, err)
		}
		again[i] = frontier.Judged(p.Subnet, correct, images, p.Costs, nil)
	}
	curve.Verified = frontier.Hypervolume(again, r.By, r.Reference.Cost, r.Reference.Accuracy) / r.Reference.Cost
	return curve, nil
}

// After is the mean and the deviation over seeds of a strategy's hypervolume after
// some evaluations; false where its searches have fewer.
func (c *Comparison) After(s Strategy, budget string, evaluations int) (mean, deviation float64, ok bool) {
	var values []float64
	for _, x := range c.Curves {
		if x.Strategy != s || x.Budget != budget {
			continue
		}
		if evaluations < 1 || evaluations > len(x.Hypervolume) {
			return 0, 0, false
		}
		values = append(values, x.Hypervolume[evaluations-1])
	}
	mean, deviation = moments(values)
	return mean, deviation, len(values) > 0
}

// WriteCSV writes all curves, a line for every evaluation.
func (c *Comparison) WriteCSV(w io.Writer) error {
	lines := csv.NewWriter(w)
	_ = lines.Write([]string{"strategy", "seed", "budget", "evaluations", "hypervolume"}) // Error tells
	for _, x := range c.Curves {
		for i, v := range x.Hypervolume {
			_ = lines.Write([]string{string(x.Strategy), strconv.FormatUint(x.Seed, 10), x.Budget, strconv.Itoa(i + 1), strconv.FormatFloat(v, 'g', 6, 64)})
		}
	}
	lines.Flush()
	return lines.Error()
}

// Standing is how a strategy did under one budget, over all seeds.
type Standing struct {
	Strategy        Strategy `json:"strategy"`
	Budget          string   `json:"budget"`
	Evaluations     int      `json:"evaluations"`
	Mean            float64  `json:"hypervolume"` // at the end
	Deviation       float64  `json:"deviation"`
	Verified        float64  `json:"verified,omitempty"`
	Kendall         float64  `json:"kendall,omitempty"` // of predictors, mean
	Needed          float64  `json:"needed"`            // evaluations to reach what Random has at its end, mean of those that do
	Reached         int      `json:"reached"`           // searches that do
	Searches        int      `json:"searches"`
	RandomAtTheEnd  float64  `json:"random_hypervolume"`
	RandomsEvaluate int      `json:"random_evaluations"`
}

// Standings sums the comparison up. Needed is with respect to the mean of Random's
// last hypervolumes under the same budget.
func (c *Comparison) Standings() []Standing {
	type key struct {
		budget   string
		strategy Strategy
	}
	var order []key
	by := map[key][]Curve{}
	for _, x := range c.Curves {
		k := key{x.Budget, x.Strategy}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], x)
	}
	var list []Standing
	for _, k := range order {
		curves := by[k]
		s := Standing{Strategy: k.strategy, Budget: k.budget, Searches: len(curves)}
		var ends []float64
		for _, x := range curves {
			s.Evaluations = max(s.Evaluations, len(x.Hypervolume))
			ends = append(ends, last(x.Hypervolume))
			s.Verified += x.Verified / float64(len(curves))
			if x.Quality != nil {
				s.Kendall += x.Quality.Kendall / float64(len(curves))
			}
		}
		s.Mean, s.Deviation = moments(ends)
		if random := by[key{k.budget, Random}]; random != nil {
			var theirs []float64
			for _, x := range random {
				theirs = append(theirs, last(x.Hypervolume))
				s.RandomsEvaluate = max(s.RandomsEvaluate, len(x.Hypervolume))
			}
			s.RandomAtTheEnd, _ = moments(theirs)
			sum := 0
			for _, x := range curves {
				if at := slices.IndexFunc(x.Hypervolume, func(v float64) bool { return v >= s.RandomAtTheEnd }); at >= 0 {
					s.Reached++
					sum += at + 1
				}
			}
			s.Needed = float64(sum) / float64(max(s.Reached, 1))
		}
		list = append(list, s)
	}
	return list
}

func last(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

// moments are the mean and the standard deviation of a sample.
func moments(list []float64) (mean, deviation float64) {
	for _, v := range list {
		mean += v / float64(len(list))
	}
	if len(list) < 2 {
		return mean, 0
	}
	for _, v := range list {
		deviation += (v - mean) * (v - mean) / float64(len(list)-1)
	}
	return mean, math.Sqrt(deviation)
}

// chartPoints is how many points of a curve are drawn.
const chartPoints = 50

// Chart draws the curves under one budget: hypervolume against evaluations, mean
// and deviation over seeds.
func (c *Comparison) Chart(budget string) plot.Chart {
	chart := plot.Chart{Title: "Search strategies", XLabel: "subnetworks judged", YLabel: "hypervolume"}
	var strategies []Strategy
	by := map[Strategy][]Curve{}
	for _, x := range c.Curves {
		if x.Budget != budget || len(x.Hypervolume) == 0 {
			continue
		}
		if by[x.Strategy] == nil {
			strategies = append(strategies, x.Strategy)
		}
		by[x.Strategy] = append(by[x.Strategy], x)
	}
	for _, s := range strategies {
		length := math.MaxInt
		for _, x := range by[s] {
			length = min(length, len(x.Hypervolume))
		}
		series := plot.Series{Name: string(s)}
		for i := range min(chartPoints, length) {
			at := (i+1)*length/min(chartPoints, length) - 1
			var values []float64
			for _, x := range by[s] {
				values = append(values, x.Hypervolume[at])
			}
			mean, deviation := moments(values)
			series.X, series.Y = append(series.X, float64(at+1)), append(series.Y, mean)
			series.Deviation = append(series.Deviation, deviation)
		}
		chart.Series = append(chart.Series, series)
	}
	return chart
}
