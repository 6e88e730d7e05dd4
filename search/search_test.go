package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tips/frontier"
	"tips/sampling"
	"tips/search/cost"
	"tips/supernet"
	"tips/weights"
)

const mobilenet = "mobilenet_v2:width=1.4,data=cifar100"

func parse(t testing.TB, text string, costs ...cost.Cost) cost.Budget {
	t.Helper()
	b, err := cost.ParseBudget(text, append(cost.Exact(), costs...)...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// subnets lists what was judged, in order.
func subnets(points []frontier.Point) []string {
	var list []string
	for _, p := range points {
		list = append(list, p.Subnet.String())
	}
	return list
}

// checkResult: no cap is broken, nothing is judged twice, and the frontier is what
// is left of all that was judged.
func checkResult(t *testing.T, n *supernet.Network, o Options, r *Result) {
	t.Helper()
	if len(r.Judged) != r.Evaluations || r.Evaluations > o.Evaluations {
		t.Errorf("%d evaluations and %d points; at most %d were asked for", r.Evaluations, len(r.Judged), o.Evaluations)
	}
	seen := map[supernet.Subnet]bool{}
	for _, p := range r.Judged {
		if seen[p.Subnet] {
			t.Errorf("%s was judged twice", p.Subnet)
		}
		seen[p.Subnet] = true
		v, err := n.View(p.Subnet, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		if excess, _, err := o.Budget.Excess(v); err != nil || excess > 1 {
			t.Errorf("%s is %v times what the budget %s allows (%v)", p.Subnet, excess, o.Budget, err)
		}
		if p.Costs.MACs != v.Costs().MACs || p.Costs.PeakBytes != v.Costs().PeakBytes {
			t.Errorf("%s costs %+v; want %+v", p.Subnet, p.Costs, v.Costs())
		}
	}
	if diff := cmp.Diff(subnets(frontier.Front(r.Judged, r.By)), subnets(r.Frontier)); diff != "" {
		t.Errorf("frontier (-want +got):\n%s", diff)
	}
	f := frontier.Frontier{Network: n, Input: n.Input(), By: []frontier.Kind{r.By}, Points: r.Frontier}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
}

func TestStrategies(t *testing.T) {
	n := network(t, mobilenet)
	evaluations := 44
	if testing.Short() {
		evaluations = 24
	}
	for _, strategy := range Strategies() {
		for _, text := range []string{"", "macs<=30M", "macs<=9M", "params<=1M,memory<=400KiB,macs<=40M"} {
			o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: evaluations, Budget: parse(t, text), Seed: 3}
			r, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, n, o, r)
			if r.Evaluations != evaluations || r.Exhausted {
				t.Errorf("%s, %q: %d evaluations, exhausted %v", strategy, text, r.Evaluations, r.Exhausted)
			}
			for _, p := range r.Judged {
				if _, without, _ := n.Widths(p.Subnet); without != nil {
					t.Errorf("%s: %s leaves out blocks, and nobody trained that", strategy, p.Subnet)
				}
			}
			if r.Quality == nil || r.Quality.Points != evaluations || r.Hypervolume <= 0 {
				t.Errorf("%s: quality %+v, hypervolume %v", strategy, r.Quality, r.Hypervolume)
			}
			if text != "macs<=30M" {
				continue
			}
			again, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(subnets(r.Judged), subnets(again.Judged)); diff != "" {
				t.Errorf("%s: the same seed judges others (-first +second):\n%s", strategy, diff)
			}
			o.Parallel = 3
			if again, err = Run(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(subnets(r.Judged), subnets(again.Judged)); diff != "" {
				t.Errorf("%s: three at a time are others (-one +three):\n%s", strategy, diff)
			}
		}
	}
}

func TestDepths(t *testing.T) {
	n := network(t, mobilenet)
	for _, strategy := range Strategies() {
		o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: 40, Depths: 2, Budget: parse(t, "macs<=25M")}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, n, o, r)
		most := 0
		for _, p := range r.Judged {
			_, without, err := n.Widths(p.Subnet)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range sampling.Stages(n) {
				left := 0
				for i, b := range stage {
					if slices.Contains(without, b) {
						left++
					} else if left > 0 {
						t.Errorf("%s: %s keeps block %d of a stage after one that it leaves out", strategy, p.Subnet, i)
					}
				}
				most = max(most, left)
			}
		}
		if most != 2 {
			t.Errorf("%s: at most %d blocks of a stage are left out; want 2", strategy, most)
		}
	}
}

// TestSampler: Random draws from the sampler it is given.
func TestSampler(t *testing.T) {
	n := network(t, mobilenet)
	r, err := Run(context.Background(), Options{Network: n, Judge: newSynthetic(n, 500), Strategy: Random, Evaluations: 20, Sampler: sampling.Multiplier(n)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Judged {
		widths, _, _ := n.Widths(p.Subnet)
		ratio := float64(widths[len(widths)-1]) / float64(n.Groups()[len(widths)-1].Channels)
		for g, group := range n.Groups() {
			if d := float64(widths[g])/float64(group.Channels) - ratio; max(d, -d) > 0.3 {
				t.Fatalf("%s has more than one ratio", p.Subnet)
			}
		}
	}
}

func TestInfeasible(t *testing.T) {
	n := network(t, mobilenet)
	smallest, err := n.View(n.Smallest(), n.Input())
	if err != nil {
		t.Fatal(err)
	}
	for _, strategy := range Strategies() {
		judge := newSynthetic(n, 500)
		start := time.Now()
		_, err := Run(context.Background(), Options{Network: n, Judge: judge, Strategy: strategy, Budget: parse(t, "macs<=1M")})
		var infeasible *InfeasibleError
		if !errors.Is(err, ErrInfeasible) || !errors.As(err, &infeasible) {
			t.Fatalf("%v; want ErrInfeasible", err)
		}
		if infeasible.Cheapest != n.Smallest() || infeasible.Amount != float64(smallest.Costs().MACs) {
			t.Errorf("the cheapest is %s at %v; want %s at %d", infeasible.Cheapest, infeasible.Amount, n.Smallest(), smallest.Costs().MACs)
		}
		if !strings.Contains(err.Error(), n.Smallest().String()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q does not name %s in one line", err, n.Smallest())
		}
		if judge.calls.Load() != 0 || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %d calls of the judge in %v", strategy, judge.calls.Load(), time.Since(start))
		}
	}
	// Just enough for the smallest alone.
	b := cost.Budget{{Cost: cost.MACs(), Most: float64(smallest.Costs().MACs)}}
	r, err := Run(context.Background(), Options{Network: n, Judge: newSynthetic(n, 500), Budget: b})
	if err != nil || len(r.Frontier) != 1 || r.Frontier[0].Subnet != n.Smallest() || !r.Exhausted {
		t.Errorf("%+v, %v; want the smallest alone", r, err)
	}
}

// narrowIsDear costs more where the first group is narrow.
type narrowIsDear struct{}

func (narrowIsDear) Name() string { return "dear" }

func (narrowIsDear) Of(v *supernet.View) (float64, error) {
	widths, _, err := v.Network.Widths(v.Subnet)
	return 100 / float64(widths[0]), err
}

// free costs nothing.
type free struct{}

func (free) Name() string                       { return "free" }
func (free) Of(*supernet.View) (float64, error) { return 0, nil }

// TestOwnCost: caps on a cost that does not follow size are met all the same, and
// it can be what is traded for.
func TestOwnCost(t *testing.T) {
	n := network(t, mobilenet)
	own := narrowIsDear{}
	full := float64(n.Groups()[0].Channels)
	for _, strategy := range Strategies() {
		o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: 20, Budget: parse(t, fmt.Sprintf("dear<=%v,macs<=40M", 100/(full-8)), own)}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, n, o, r)
		for _, p := range r.Judged {
			if p.Costs.Own == 0 {
				t.Errorf("%s: its own cost is not recorded", p.Subnet)
			}
		}
	}
	if _, err := Run(context.Background(), Options{Network: n, Judge: newSynthetic(n, 500), By: free{}}); err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("%v; want to be told that nothing can be traded for a cost of 0", err)
	}
	o := Options{Network: n, Judge: newSynthetic(n, 500), Evaluations: 30, By: own}
	r, err := Run(context.Background(), o)
	if err != nil || r.By != frontier.Own {
		t.Fatal(err, r.By)
	}
	checkResult(t, n, o, r)
}

// stopping cancels a context after some calls.
type stopping struct {
	*synthetic
	left int
	stop context.CancelFunc
}

func (s *stopping) Accuracy(ctx context.Context, sub supernet.Subnet) (int, int, *weights.Statistics, error) {
	if s.left--; s.left < 0 {
		s.stop()
	}
	return s.synthetic.Accuracy(ctx, sub)
}

func TestResume(t *testing.T) {
	n := network(t, mobilenet)
	evaluations, interruptions := 56, []int{0, 1, 19, 43}
	if testing.Short() {
		evaluations, interruptions = 30, []int{1, 19}
	}
	for _, strategy := range Strategies() {
		o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: evaluations, Budget: parse(t, "macs<=30M"), Identity: "weights and data"}
		whole, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range interruptions {
			o.State = filepath.Join(t.TempDir(), "state")
			judge := newSynthetic(n, 500)
			ctx, cancel := context.WithCancel(context.Background())
			o.Judge = &stopping{judge, after, cancel}
			part, err := Run(ctx, o)
			cancel()
			if !errors.Is(err, context.Canceled) || part == nil {
				t.Fatalf("%s: %v, %v; want the frontier so far and context.Canceled", strategy, part, err)
			}
			if part.Evaluations != after {
				t.Errorf("%s: %d evaluations before the interruption; want %d", strategy, part.Evaluations, after)
			}
			if after > 0 {
				checkResult(t, n, o, part)
			}
			judge.calls.Store(0)
			o.Judge = judge
			recalled := 0
			o.Observe = func(p Progress) {
				if p.Recalled {
					recalled++
				}
			}
			got, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(subnets(whole.Judged), subnets(got.Judged)); diff != "" {
				t.Errorf("%s: interrupted after %d (-uninterrupted +resumed):\n%s", strategy, after, diff)
			}
			if diff := cmp.Diff(subnets(whole.Frontier), subnets(got.Frontier)); diff != "" || whole.Hypervolume != got.Hypervolume {
				t.Errorf("%s: frontier (-uninterrupted +resumed):\n%s", strategy, diff)
			}
			if recalled != after {
				t.Errorf("%s: %d answers from the state file; want %d", strategy, recalled, after)
			}
			// Once for each that was missing, and at most once more for statistics of those
			// that were not and are on a frontier.
			if calls := int(judge.calls.Load()); calls < evaluations-after || calls > evaluations {
				t.Errorf("%s: %d calls of the judge after the interruption at %d", strategy, calls, after)
			}
			o.Observe = nil
		}
	}
}

// failing fails at one call.
type failing struct {
	*synthetic
	at int64
}

var errBroken = errors.New("the disk is gone")

func (f *failing) Accuracy(ctx context.Context, s supernet.Subnet) (int, int, *weights.Statistics, error) {
	if f.synthetic.calls.Load() == f.at {
		return 0, 0, nil, errBroken
	}
	return f.synthetic.Accuracy(ctx, s)
}

func TestJudgeFails(t *testing.T) {
	n := network(t, mobilenet)
	for _, parallel := range []int{1, 4} {
		o := Options{Network: n, Judge: &failing{newSynthetic(n, 500), 12}, Evaluations: 30, Parallel: parallel}
		r, err := Run(context.Background(), o)
		if !errors.Is(err, errBroken) || r == nil || r.Evaluations < 12 || r.Evaluations > 30 {
			t.Fatalf("%+v, %v; want what was judged before the failure", r, err)
		}
		checkResult(t, n, o, r)
	}
}

// calibrating gives statistics that tell subnetworks apart.
type calibrating struct{ *synthetic }

func (c calibrating) Accuracy(ctx context.Context, s supernet.Subnet) (int, int, *weights.Statistics, error) {
	correct, images, _, err := c.synthetic.Accuracy(ctx, s)
	return correct, images, statisticsOf(s), err
}

func statisticsOf(s supernet.Subnet) *weights.Statistics {
	return &weights.Statistics{Mean: [][]float32{{float32(len(s.String()))}}}
}

// TestStatistics: every point of the frontier has its own, also after resuming.
func TestStatistics(t *testing.T) {
	n := network(t, mobilenet)
	judge := calibrating{newSynthetic(n, 500)}
	o := Options{Network: n, Judge: judge, Strategy: Evolution, Evaluations: 30, State: filepath.Join(t.TempDir(), "state")}
	asked := 0
	for i := range 3 {
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Frontier {
			if diff := cmp.Diff(statisticsOf(p.Subnet), p.Statistics); diff != "" {
				t.Fatalf("run %d: %s has statistics (-want +got):\n%s", i, p.Subnet, diff)
			}
		}
		want := []int{30, 30 + len(r.Frontier), 30 + len(r.Frontier)}[i] // the last recalls them
		if got := int(judge.calls.Load()); got != want {
			t.Errorf("run %d: %d calls in all; want %d", i, got, want)
		}
		if i == 1 {
			o.Recall = func(s supernet.Subnet) *weights.Statistics { asked++; return statisticsOf(s) }
		}
	}
	if asked == 0 {
		t.Error("nobody was asked to recall")
	}
	// A state file of a judge that says something else.
	other := newSynthetic(n, 400)
	o.Recall, o.Judge = nil, other
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "another judge") {
		t.Errorf("%v; want an error about another judge", err)
	}
}

// TestEarlier: a search with other options in the same state file keeps what the one
// before has found, however early it is interrupted, and within its own caps.
func TestEarlier(t *testing.T) {
	n := network(t, mobilenet)
	o := Options{Network: n, Judge: calibrating{newSynthetic(n, 500)}, Strategy: Evolution, Evaluations: 40, Seed: 1, State: filepath.Join(t.TempDir(), "state")}
	first, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Strategy, o.Seed, o.Evaluations = Random, 2, 10
	o.Recall = func(s supernet.Subnet) *weights.Statistics {
		if i := slices.IndexFunc(first.Frontier, func(p frontier.Point) bool { return p.Subnet == s }); i >= 0 {
			return first.Frontier[i].Statistics
		}
		return nil
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Run(done, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(subnets(first.Frontier), subnets(r.Frontier)); diff != "" || r.Hypervolume != first.Hypervolume {
		t.Errorf("interrupted before it began (-before +after):\n%s", diff)
	}
	o.Observe = func(p Progress) {
		for _, q := range first.Frontier {
			if !slices.ContainsFunc(p.Frontier, func(p frontier.Point) bool { return frontier.Dominates(p, q, frontier.MACs) }) {
				t.Fatalf("%s is lost after %d evaluations", q.Subnet, p.Evaluations)
			}
		}
	}
	if r, err = Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	want := frontier.Front(slices.Concat(r.Judged, first.Judged), frontier.MACs)
	if diff := cmp.Diff(subnets(want), subnets(r.Frontier)); diff != "" {
		t.Errorf("(-of all that was judged +got):\n%s", diff)
	}
	for _, p := range r.Frontier {
		if diff := cmp.Diff(statisticsOf(p.Subnet), p.Statistics); diff != "" {
			t.Errorf("%s has statistics (-want +got):\n%s", p.Subnet, diff)
		}
	}
	o.Observe, o.Budget = nil, parse(t, "macs<=20M")
	if r, err = Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Frontier {
		if p.Costs.MACs > 20e6 {
			t.Errorf("%s has %d MACs; the cap is 20 M", p.Subnet, p.Costs.MACs)
		}
	}
	// A comparison shares answers, and nothing else.
	curves, err := Compare(context.Background(), CompareOptions{Search: Options{Network: n, Judge: o.Judge, State: o.State}, Seeds: []uint64{2}, Strategies: []Strategy{Random}, Evaluations: 10})
	if err != nil {
		t.Fatal(err)
	}
	o.State, o.Budget = "", nil
	if r, err = Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if got := last(curves.Curves[0].Hypervolume); got != r.Hypervolume {
		t.Errorf("hypervolume %v in a comparison; want %v, that of the search alone", got, r.Hypervolume)
	}
}

func TestExhausted(t *testing.T) {
	n := network(t, "mlp:depth=2,width=32,min=0.5")
	all := 1
	for _, g := range n.Groups() {
		all *= len(g.Widths())
	}
	for _, strategy := range Strategies() {
		o := Options{Network: n, Judge: newSynthetic(n, 500), Strategy: strategy, Evaluations: 500}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, n, o, r)
		if !r.Exhausted || r.Evaluations != all {
			t.Errorf("%s: %d evaluations, exhausted %v; there are %d subnetworks", strategy, r.Evaluations, r.Exhausted, all)
		}
	}
	// Nothing to choose at all.
	fixed := network(t, "mlp:min=1")
	r, err := Run(context.Background(), Options{Network: fixed, Judge: newSynthetic(fixed, 500)})
	if err != nil || r.Evaluations != 1 {
		t.Errorf("%+v, %v; want the whole network alone", r, err)
	}
}

func TestBadOptions(t *testing.T) {
	n := network(t, "mlp")
	judge := newSynthetic(n, 500)
	for _, o := range []Options{
		{Judge: judge},
		{Network: n},
		{Network: n, Judge: judge, Strategy: "simulated annealing"},
		{Network: n, Judge: judge, Evaluations: -1},
		{Network: n, Judge: judge, Population: 2},
		{Network: n, Judge: judge, Mutation: 2},
		{Network: n, Judge: judge, Depths: -1},
		{Network: n, Judge: judge, Reference: Reference{Cost: -1}},
		{Network: n, Judge: judge, Reference: Reference{Cost: 1, Accuracy: 1}},
		{Network: n, Judge: judge, Input: supernet.Shape{Channels: 7, Height: 1, Width: 1}},
	} {
		if _, err := Run(context.Background(), o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v; want one line", o, err)
		}
	}
}

func TestState(t *testing.T) {
	n := network(t, "mlp:depth=2,width=32,min=0.5")
	file := filepath.Join(t.TempDir(), "state")
	o := Options{Network: n, Judge: newSynthetic(n, 500), Evaluations: 5, State: file, Identity: "a"}
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, bad := range map[string]struct {
		text string
		want error
	}{
		"empty":      {"", ErrCorrupt},
		"truncated":  {text[:len(text)-7], ErrCorrupt},
		"no end":     {text[:len(text)-1], ErrCorrupt},
		"other":      {strings.Replace(text, `"identity":"a"`, `"identity":"b"`, 1), ErrOther},
		"version":    {strings.Replace(text, `"version":1`, `"version":2`, 1), ErrVersion},
		"field":      {strings.Replace(text, `"correct"`, `"extra":1,"correct"`, 1), ErrCorrupt},
		"impossible": {strings.Replace(text, `"images":500`, `"images":1`, 1), ErrCorrupt},
		"subnet":     {strings.Replace(text, `"subnet":"`, `"subnet":"x`, 1), ErrCorrupt},
		"twice":      {text + strings.SplitAfter(text, "\n")[1], ErrCorrupt},
		"blank line": {text + "\n", ErrCorrupt},
	} {
		if err := os.WriteFile(file, []byte(bad.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(context.Background(), o); !errors.Is(err, bad.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %v", name, err, bad.want)
		}
	}
	o.State = t.TempDir() // a folder
	if _, err := Run(context.Background(), o); err == nil {
		t.Error("a folder is taken for a state file")
	}
}

func FuzzState(f *testing.F) {
	n := network(f, "mlp:depth=2,width=32,min=0.5")
	head := `{"format":"tips-search","version":1,"network":"` + n.Hash().String() + `","identity":""}` + "\n"
	f.Add(head)
	f.Add(head + `{"subnet":"full","correct":3,"images":5}` + "\n")
	f.Add(head + `{"subnet":"full","correct":9,"images":5}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := openState("", n, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.read(strings.NewReader(text), n); err != nil {
			return
		}
		var again strings.Builder
		if err := s.write(&again); err != nil || again.String() != text {
			t.Fatalf("%q is written as %q (%v)", text, again.String(), err)
		}
	})
}
