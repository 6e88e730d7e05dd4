package search

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tips/frontier"
	"tips/sampling"
	"tips/search/cost"
	"tips/supernet"
	"tips/weights"
)

// population draws individuals with few different costs and accuracies, so that
// there are ties.
func population(t *rapid.T) []individual {
	list := make([]individual, rapid.IntRange(1, 20).Draw(t, "count"))
	for i := range list {
		list[i].cost = float64(rapid.IntRange(1, 8).Draw(t, "cost"))
		list[i].costs.MACs = int64(list[i].cost)
		list[i].point = frontier.Point{Accuracy: float64(rapid.IntRange(0, 8).Draw(t, "accuracy")) / 8, Costs: list[i].costs}
	}
	return list
}

// TestFronts: nobody in a front is dominated by another of its front or of a later
// one, and everybody in a later one is by somebody of the front before.
func TestFronts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := population(t)
		sorted := inFronts(list)
		if len(sorted) != len(list) {
			t.Fatalf("%d of %d", len(sorted), len(list))
		}
		for i, a := range sorted {
			if i > 0 && better(sorted[i-1], a) > 0 {
				t.Fatalf("%+v before %+v", sorted[i-1], a)
			}
			dominated := a.front == 0
			for j, b := range sorted {
				// Of equals, one is in an earlier front.
				beats := i != j && frontier.Dominates(b.point, a.point, frontier.MACs)
				if beats && b.front == a.front || beats && b.front > a.front && !frontier.Dominates(a.point, b.point, frontier.MACs) {
					t.Fatalf("%+v in front of %+v", a, b)
				}
				dominated = dominated || beats && b.front == a.front-1
			}
			if !dominated {
				t.Fatalf("%+v could be in an earlier front", a)
			}
		}
		if kept := survivors(list, 5); len(kept) != min(5, len(list)) {
			t.Fatalf("%d survivors of %d", len(kept), len(list))
		}
	})
}

// TestImprovement: the closed form beside the mean of many draws.
func TestImprovement(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ mean, deviation float64 }{{0, 1}, {-0.5, 0.3}, {0.2, 0.1}, {0.1, 0}, {-0.1, 0}} {
		sum := 0.0
		const draws = 200_000
		for range draws {
			sum += max(0, c.mean+c.deviation*rng.NormFloat64()) / draws
		}
		if got := improvement(c.mean, c.deviation); math.Abs(got-sum) > 0.01 {
			t.Errorf("improvement(%v, %v) = %v; draws say %v", c.mean, c.deviation, got, sum)
		}
	}
}

// TestStaircase: what a sure thing is expected to add is what the hypervolume grows
// by.
func TestStaircase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := population(t)
		r := &runner{space: &space{by: frontier.MACs}, Options: Options{Reference: Reference{Cost: 7.5, Accuracy: 0.2}}}
		for _, p := range list[1:] {
			r.front, _ = frontier.Insert(r.front, p.point, frontier.MACs)
		}
		add := list[0]
		grown, _ := frontier.Insert(append([]frontier.Point(nil), r.front...), add.point, frontier.MACs)
		want := (r.hypervolume(grown) - r.hypervolume(r.front)) * r.Reference.Cost
		stairs := r.staircase()
		if got := stairs.expected(add.cost, add.point.Accuracy, 0); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v; want %v", got, want)
		}
		if got := stairs.with(add.cost, add.point.Accuracy).expected(add.cost, add.point.Accuracy, 0); got != 0 {
			t.Fatalf("%v once it is there", got)
		}
	})
}

// TestPredictor: subnetworks that it was not fitted to come in the right order.
func TestPredictor(t *testing.T) {
	n := network(t, mobilenet)
	for images, least := range map[int]float64{0: 0.88, 2000: 0.6} {
		judge := newSynthetic(n, images)
		r, err := Run(context.Background(), Options{Network: n, Judge: judge, Strategy: Random, Evaluations: 200})
		if err != nil {
			t.Fatal(err)
		}
		if q := r.Quality; q == nil || q.Kendall < least || q.Spearman < q.Kendall || q.Points != 200 || q.Error > 0.03 {
			t.Errorf("%d images: quality %+v; want τ of %v or more", images, q, least)
		} else {
			t.Logf("%d images: %+v", images, *q)
		}
	}
	if _, err := fitPredictor(make([]individual, leastPoints-1)); err == nil {
		t.Error("too few subnetworks are taken")
	}
	// All alike.
	same := make([]individual, leastPoints)
	for i := range same {
		same[i].genes, same[i].cost, same[i].point.Accuracy = []float64{1, 0.5}, 3, 0.4
	}
	p, err := fitPredictor(same)
	if err != nil {
		t.Fatal(err)
	}
	mean, _ := p.predict([]candidate{same[0].candidate})
	if math.Abs(mean[0]-0.4) > 1e-6 {
		t.Errorf("%v; want 0.4", mean[0])
	}
}

// TestCompare holds the strategies to the aim: evolution with a predictor reaches
// the hypervolume of Algorithm 1 with a fifth of its evaluations.
func TestCompare(t *testing.T) {
	n := network(t, mobilenet)
	seeds := []uint64{1, 2, 3, 4, 5}
	evaluations := 400
	if testing.Short() {
		seeds, evaluations = seeds[:1], 160
	}
	// Costs that Random hardly reaches, and accuracies too low to be of use, do not
	// count.
	o := CompareOptions{
		Search: Options{Network: n, Judge: newSynthetic(n, 2000), Reference: Reference{Cost: 40e6, Accuracy: 0.6}},
		Seeds:  seeds, Evaluations: evaluations, Fewer: map[Strategy]int{Guided: evaluations / 4, Evolution: evaluations / 2},
		Verify: newSynthetic(n, 0),
	}
	var progress CompareProgress
	o.Observe = func(p CompareProgress) { progress = p }
	c, err := Compare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	total := len(seeds) * (evaluations + evaluations/2 + evaluations/4)
	if want := (CompareProgress{total, total, 3 * len(seeds), 3 * len(seeds)}); len(c.Curves) != 3*len(seeds) || progress != want {
		t.Fatalf("%d curves, at last %+v; want %+v", len(c.Curves), progress, want)
	}
	for _, x := range c.Curves {
		for i := 1; i < len(x.Hypervolume); i++ {
			if x.Hypervolume[i] < x.Hypervolume[i-1] {
				t.Fatalf("%s: the hypervolume falls at evaluation %d", x.Strategy, i+1)
			}
		}
	}
	for _, s := range c.Standings() {
		t.Logf("%s: %d evaluations, hypervolume %.5f ± %.5f (%.5f without noise); reaches Random's %.5f after %.0f in %d of %d",
			s.Strategy, s.Evaluations, s.Mean, s.Deviation, s.Verified, s.RandomAtTheEnd, s.Needed, s.Reached, s.Searches)
		if s.Strategy == Guided && (s.Reached < s.Searches || s.Needed > float64(evaluations)/5) {
			t.Errorf("guided needs %.0f evaluations in %d of %d searches; want at most %d", s.Needed, s.Reached, s.Searches, evaluations/5)
		}
	}
	for _, x := range c.Standings() {
		if mean, deviation, ok := c.After(x.Strategy, x.Budget, x.Evaluations); !ok || mean != x.Mean || deviation != x.Deviation {
			t.Errorf("%s: %v ± %v after all evaluations; want %v ± %v", x.Strategy, mean, deviation, x.Mean, x.Deviation)
		}
	}
	if _, _, ok := c.After(Guided, c.Curves[0].Budget, evaluations); ok {
		t.Error("guided has as many evaluations as random")
	}
	chart := c.Chart(cost.Budget(nil).String())
	if len(chart.Series) != 3 || len(chart.Series[0].X) != chartPoints || chart.Series[0].X[chartPoints-1] != float64(evaluations) {
		t.Errorf("chart %+v", chart)
	}
}

// TestCompareTogether: how many searches are under way at once makes no difference.
func TestCompareTogether(t *testing.T) {
	n := network(t, mobilenet)
	compare := func(together int) *Comparison {
		c, err := Compare(context.Background(), CompareOptions{
			Search: Options{Network: n, Judge: newSynthetic(n, 2000), Parallel: together}, Seeds: []uint64{1, 2}, Evaluations: 40, Together: together,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	want, got := compare(1), compare(4)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-one +four at once):\n%s", diff)
	}
	var text bytes.Buffer
	if err := got.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if len(lines) != 1+6*40+1 || lines[0] != "strategy,seed,budget,evaluations,hypervolume" || !strings.HasPrefix(lines[40], "random,1,none,40,") {
		t.Errorf("%d lines, of which 1 and 41 are %q and %q", len(lines), lines[0], lines[40])
	}
	if _, err := Compare(context.Background(), CompareOptions{Search: Options{Network: n, Judge: newSynthetic(n, 0), State: "state"}, Together: 2}); err == nil {
		t.Error("two searches at once share a state file")
	}
	// A judge that fails ends all of them.
	failing := errors.New("no power")
	_, err := Compare(context.Background(), CompareOptions{
		Search: Options{Network: n, Judge: judgeFunc(func() error { return failing })}, Evaluations: 5, Together: 3,
	})
	if !errors.Is(err, failing) {
		t.Errorf("%v; want %v", err, failing)
	}
}

// judgeFunc answers with an error.
type judgeFunc func() error

func (f judgeFunc) Accuracy(context.Context, supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	return 0, 1, nil, f()
}

// TestStart: subnetworks that are given are judged first, in their order, within the
// budget and half of the evaluations; what is interrupted goes on with them, and
// another list is another search.
func TestStart(t *testing.T) {
	n := network(t, mobilenet)
	rng := rand.New(rand.NewPCG(4, 4))
	budget := parse(t, "macs<=40M")
	var start, within []supernet.Subnet
	for range 60 {
		s := sampling.Multiplier(n).Draw(rng)
		start = append(start, s, s) // one is enough
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		if excess, _, _ := budget.Excess(v); excess <= 1 && !slices.Contains(within, s) {
			within = append(within, s)
		}
	}
	const evaluations = 26
	if len(within) <= evaluations/2 || len(within) == 60 {
		t.Fatalf("%d of 60 within the budget", len(within))
	}
	for _, strategy := range Strategies() {
		o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: evaluations, Budget: budget, Population: 10, Seed: 3, Start: start}
		whole, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, n, o, whole)
		for i, s := range within[:evaluations/2] {
			if whole.Judged[i].Subnet != s {
				t.Errorf("%s: number %d is %s; want %s", strategy, i, whole.Judged[i].Subnet, s)
			}
		}
		if s := whole.Judged[evaluations/2].Subnet; slices.Contains(within, s) || whole.Evaluations != evaluations {
			t.Errorf("%s: %s after half of the %d evaluations", strategy, s, whole.Evaluations)
		}
		if strategy != Random && !slices.Contains(subnets(whole.Judged), n.Smallest().String()) {
			t.Errorf("%s: the smallest was not judged", strategy)
		}

		o.State = filepath.Join(t.TempDir(), "state")
		for _, stop := range []int{5, 17, evaluations} {
			ctx, cancel := context.WithCancel(context.Background())
			o.Observe = func(p Progress) {
				if p.Evaluations == stop {
					cancel()
				}
			}
			r, err := Run(ctx, o)
			cancel()
			if stop < evaluations && !errors.Is(err, context.Canceled) || r == nil {
				t.Fatalf("%s: stopped at %d: %v", strategy, stop, err)
			}
		}
		o.Observe = nil
		resumed, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(subnets(whole.Judged), subnets(resumed.Judged)); diff != "" {
			t.Errorf("%s: a search that was interrupted judges others (-whole +resumed):\n%s", strategy, diff)
		}

		o.Start = within[5:9] // with the answers of the first list
		other, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		o.State = ""
		alone, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(subnets(alone.Judged), subnets(other.Judged)); diff != "" {
			t.Errorf("%s: another list judges others where there are answers (-without +with):\n%s", strategy, diff)
		}
		if alone.Judged[0].Subnet != within[5] || alone.Evaluations != evaluations {
			t.Errorf("%s: first of %d is %s; want %s", strategy, alone.Evaluations, alone.Judged[0].Subnet, within[5])
		}
	}
	o := Options{Network: n, Judge: newSynthetic(n, 500), Evaluations: 1, Start: start}
	if r, err := Run(context.Background(), o); err != nil || slices.Contains(within, r.Judged[0].Subnet) {
		t.Errorf("one evaluation, half of which is none: %v, %v", r, err)
	}
}
