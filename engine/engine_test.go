package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tips/frontier"
	"tips/nn"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

const reference = "mobilenet_v2:data=cifar10,size=16,width=0.35"

// sharedSet is the weights of all tests, and their hash; nobody changes them.
var sharedSet = sync.OnceValues(func() (*weights.Set, supernet.Hash) {
	n, err := zoo.New(reference)
	if err != nil {
		panic(err)
	}
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	return set, set.Hash()
})

var sharedModel = sync.OnceValue(func() *nn.Model {
	set, _ := sharedSet()
	return nn.NewModel(set)
})

// newNet gives weights, and a frontier of some of their subnetworks, each with
// statistics of its own. latencies are those of the points, or none.
func newNet(t testing.TB, latencies ...time.Duration) (*weights.Set, *frontier.Frontier) {
	t.Helper()
	set, hash := sharedSet()
	n := set.Network
	f := &frontier.Frontier{Network: n, Weights: hash, Input: n.Input(), By: []frontier.Kind{frontier.MACs}}
	rng := rand.New(rand.NewPCG(3, 4))
	for i, ratio := range []float64{0.35, 0.5, 0.7, 0.85, 1} {
		s, err := n.Uniform(ratio)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		statistics := &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
		for op := range n.Ops() {
			if !n.Ops()[op].Norm || !v.Ops[op].Runs {
				continue
			}
			for c := range v.Ops[op].Out.Channels {
				statistics.Mean[op] = append(statistics.Mean[op], set.Ops[op].Mean[c]+float32(0.1*rng.NormFloat64()))
				statistics.Variance[op] = append(statistics.Variance[op], set.Ops[op].Variance[c]*(0.5+rng.Float32()))
			}
		}
		costs := frontier.CostsOf(v.Costs())
		if latencies != nil {
			costs.Latency = latencies[i]
		}
		f.Points = append(f.Points, frontier.Judged(s, 500+50*i, 1000, costs, statistics))
	}
	return set, f
}

func newEngine(t testing.TB, o Options, latencies ...time.Duration) *Engine {
	t.Helper()
	set, f := newNet(t, latencies...)
	e, err := New(set, f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func newInput(e *Engine, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	x := make([]float32, e.InputLen())
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// expected is what a point answers, computed without the engine.
func expected(t testing.TB, p frontier.Point, x []float32) []float32 {
	t.Helper()
	model := sharedModel()
	program, err := model.Program(p.Subnet, model.Network().Input(), 1, p.Statistics)
	if err != nil {
		t.Fatal(err)
	}
	s := nn.NewSession(1)
	defer s.Close()
	y := make([]float32, program.OutputLen())
	s.Run(program, y, x)
	return y
}

// apart are latencies so far from each other that nothing on a real machine can
// blur which of them fits.
var apart = []time.Duration{time.Second, 10 * time.Second, 100 * time.Second, 1000 * time.Second, 10000 * time.Second}

// forget makes an engine as it was before it ran anything.
func (e *Engine) forget() {
	e.predictor.runs = 0
	e.predictor.machine.store(0)
	e.predictor.init()
	for _, c := range e.candidates {
		for i := range c.plans {
			c.plans[i].habit.off.store(0)
			c.plans[i].habit.runs = 0
		}
	}
	e.current.Store(e.best[0])
}

// TestChoice: which point runs under which budget, at the moment an engine was
// opened with latencies that it takes as they are.
func TestChoice(t *testing.T) {
	e := newEngine(t, Options{Measure: -1, Threads: 1}, apart...)
	f := e.Frontier()
	macs := func(i int) int64 { return f.Points[i].Costs.MACs }
	peak := func(i int) int64 { return f.Points[i].Costs.PeakBytes }
	if !slices.IsSortedFunc(f.Points, func(a, b frontier.Point) int { return int(a.Costs.PeakBytes - b.Costs.PeakBytes) }) || peak(0) == peak(4) {
		t.Fatal("the test wants points whose memory rises")
	}
	smallest := f.Points[0].Subnet
	last := func(limit int64, cost func(int) int64) int { // the last point within a limit
		point := -1
		for i := range f.Points {
			if cost(i) <= limit {
				point = i
			}
		}
		return point
	}
	for _, c := range []struct {
		name     string
		budget   Budget
		deadline time.Duration // of the context
		switched int           // -1: not
		limit    Budget        // standing
		point    int
		misfit   bool
	}{
		{name: "nothing asked", switched: -1, point: 4},
		{name: "switched", switched: 2, point: 2},
		{name: "exactly as many MACs", budget: Budget{MACs: macs(2)}, switched: -1, point: 2},
		{name: "one MAC less", budget: Budget{MACs: macs(2) - 1}, switched: -1, point: 1},
		{name: "a budget is not bound by the default", budget: Budget{MACs: macs(3)}, switched: 0, point: 3},
		{name: "too few MACs", budget: Budget{MACs: 1}, switched: -1, point: 0, misfit: true},
		{name: "memory", budget: Budget{Memory: peak(1)}, switched: -1, point: last(peak(1), peak)},
		{name: "too little memory", budget: Budget{Memory: 1}, switched: -1, point: 0, misfit: true},
		{name: "memory and MACs", budget: Budget{Memory: peak(4), MACs: macs(1)}, switched: -1, point: 1},
		{name: "time", budget: Budget{Time: 150 * time.Second}, switched: -1, point: 2},
		{name: "time, and a margin", budget: Budget{Time: 101 * time.Second}, switched: -1, point: 1},
		{name: "too little time", budget: Budget{Time: time.Millisecond}, switched: -1, point: 0, misfit: true},
		{name: "a deadline", deadline: 20 * time.Second, switched: -1, point: 1},
		{name: "a deadline beyond the default", deadline: 2000 * time.Second, switched: 2, point: 2},
		{name: "a deadline below the default", deadline: 20 * time.Second, switched: 2, point: 1},
		{name: "a deadline and a longer time", deadline: 20 * time.Second, budget: Budget{Time: 5000 * time.Second}, switched: -1, point: 1},
		{name: "a deadline and a shorter time", deadline: 5000 * time.Second, budget: Budget{Time: 20 * time.Second}, switched: -1, point: 1},
		{name: "a deadline and MACs", deadline: 20 * time.Second, budget: Budget{MACs: macs(0)}, switched: -1, point: 0},
		{name: "by name, whatever the deadline", deadline: 2 * time.Second, budget: Budget{Subnet: &f.Points[3].Subnet}, switched: -1, point: 3, misfit: true},
		{name: "by name", budget: Budget{Subnet: &smallest}, switched: -1, point: 0},
		{name: "a standing limit", limit: Budget{MACs: macs(1)}, switched: -1, point: 1},
		{name: "a standing limit above the default", limit: Budget{MACs: macs(3)}, switched: 2, point: 2},
		{name: "a standing limit and a wider budget", limit: Budget{MACs: macs(1)}, budget: Budget{MACs: macs(3)}, switched: -1, point: 1},
		{name: "a standing limit and a narrower budget", limit: Budget{MACs: macs(3)}, budget: Budget{MACs: macs(1)}, switched: -1, point: 1},
		{name: "a standing limit of time", limit: Budget{Time: 20 * time.Second}, switched: -1, point: 1},
		{name: "a standing limit of memory", limit: Budget{Memory: peak(2)}, switched: -1, point: last(peak(2), peak)},
		{name: "by name, whatever the limit", limit: Budget{MACs: macs(1)}, budget: Budget{Subnet: &f.Points[3].Subnet}, switched: -1, point: 3},
	} {
		for _, strict := range []bool{false, true} {
			e.options.Strict = strict
			e.forget()
			if c.switched >= 0 {
				if err := e.Switch(c.switched); err != nil {
					t.Fatal(err)
				}
			}
			limit := e.NewLimit()
			if err := limit.Set(c.limit); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.Background(), func() {}
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
			}
			x := newInput(e, 1)
			r, err := e.Infer(ctx, x, c.budget)
			cancel()
			limit.Release()
			if strict && c.misfit && c.budget.Subnet == nil {
				if !errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), f.Points[0].Subnet.String()) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: error %v; want one line that names the closest", c.name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if r.Point != c.point || r.Fits == c.misfit || r.Subnet != f.Points[c.point].Subnet {
				t.Errorf("%s: point %d runs, fits %v; want %d", c.name, r.Point, r.Fits, c.point)
			}
			if r.Predicted != f.Points[c.point].Costs.Latency || r.Took <= 0 {
				t.Errorf("%s: predicted %v, took %v", c.name, r.Predicted, r.Took)
			}
			if !slices.Equal(r.Output, expected(t, f.Points[c.point], x)) {
				t.Errorf("%s: another answer than that of point %d", c.name, c.point)
			}
		}
	}
}

// TestOffTheFrontier: any subnetwork can be named, and switched to.
func TestOffTheFrontier(t *testing.T) {
	set, f := newNet(t)
	e, err := New(set, f, Options{Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x := newInput(e, 1)
	n := f.Network
	rng := rand.New(rand.NewPCG(1, 1))
	for range maxOthers + 20 { // more than are kept
		var widths []int
		for _, g := range n.Groups() {
			widths = append(widths, g.Widths()[rng.IntN(len(g.Widths()))])
		}
		s, err := n.Subnet(widths, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Infer(t.Context(), x, Budget{Subnet: &s})
		if err != nil {
			t.Fatal(err)
		}
		if r.Subnet != s || r.Point != -1 || !r.Fits {
			t.Fatalf("result %+v", r)
		}
		if rng.IntN(50) == 0 {
			if !slices.Equal(r.Output, expected(t, frontier.Point{Subnet: s}, x)) {
				t.Fatalf("%s: another answer", s)
			}
		}
	}
	if len(e.others.known) > maxOthers {
		t.Errorf("%d subnetworks are kept", len(e.others.known))
	}
	s, err := n.Uniform(0.6)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SwitchTo(s); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Infer(t.Context(), x, Budget{}); err != nil || r.Subnet != s || e.Current() != s {
		t.Errorf("switched to %s, %s runs (%v)", s, r.Subnet, err)
	}
	if predicted, err := e.Predict(s); err != nil || predicted <= 0 {
		t.Errorf("predicted %v (%v)", predicted, err)
	}
	other, err := zoo.New("resnet18")
	if err != nil {
		t.Fatal(err)
	}
	foreign := other.Smallest()
	if err := e.SwitchTo(foreign); err == nil {
		t.Error("a subnetwork of another network is taken")
	}
	if _, err := e.Infer(t.Context(), x, Budget{Subnet: &foreign}); err == nil {
		t.Error("a subnetwork of another network runs")
	}
}

// TestCheapestDefault: what is cheaper than every point of the frontier stays the
// most that may run, however little time there is.
func TestCheapestDefault(t *testing.T) {
	set, f := newNet(t)
	dear := *f
	dear.Points = f.Points[1:]
	small := f.Points[0].Subnet
	e, err := New(set, &dear, Options{Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.SwitchTo(small); err != nil {
		t.Fatal(err)
	}
	q := choice{batch: 1, hurried: true, deadline: time.Now()}
	if c, err := e.choose(&q); err != nil || c.subnet != small || q.fits {
		t.Errorf("in a hurry %s runs (%v), expected to fit: %v; want %s, which does not", c.subnet, err, q.fits, small)
	}
	if err := e.Switch(0); err != nil {
		t.Fatal(err)
	}
	if c, err := e.choose(&q); err != nil || c.point != 0 {
		t.Errorf("in a hurry %s runs (%v); want the cheapest point", c.subnet, err)
	}
}

// TestBatches: as many inputs as options allow, each answered as by itself.
func TestBatches(t *testing.T) {
	set, f := newNet(t)
	e, err := New(set, f, Options{Batch: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for batch := 1; batch <= 4; batch++ {
		var x, want []float32
		for i := range batch {
			one := newInput(e, uint64(i))
			x = append(x, one...)
			want = append(want, expected(t, f.Points[1], one)...)
		}
		r, err := e.Infer(t.Context(), x, Budget{Memory: f.Points[1].Costs.PeakBytes * int64(batch), MACs: f.Points[1].Costs.MACs})
		if err != nil {
			t.Fatal(err)
		}
		if r.Point != 1 || !slices.Equal(r.Output, want) {
			t.Errorf("batch of %d: point %d; want 1, and the answers of single inputs", batch, r.Point)
		}
	}
}

// TestMisuse: one clear line for each.
func TestMisuse(t *testing.T) {
	set, f := newNet(t)
	e, err := New(set, f, Options{Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x := newInput(e, 1)
	infer := func(input []float32, b Budget) error {
		_, err := e.Infer(t.Context(), input, b)
		return err
	}
	open := func(o Options) error {
		_, err := New(set, f, o)
		return err
	}
	otherWeights := *f
	otherWeights.Weights[0] ^= 1
	_, mismatch := New(set, &otherWeights, Options{})
	if !errors.Is(mismatch, frontier.ErrMismatch) {
		t.Errorf("a frontier of other weights: %v", mismatch)
	}
	_, noFrontier := New(set, nil, Options{})
	_, noWeights := New(nil, f, Options{})
	_, output := e.InferTo(t.Context(), make([]float32, 3), x, Budget{})
	released := e.NewLimit()
	released.Release()
	_, latency := NewLatencyController(e, LatencyOptions{})
	_, memory := NewMemoryController(e, MemoryOptions{High: 0.5, Low: 0.6})
	_, cpu := NewCPUController(e, CPUOptions{Spare: 2})
	for _, c := range []struct {
		err   error
		words string
	}{
		{mismatch, "was made for weights"},
		{noFrontier, "no network"},
		{noWeights, "no weights"},
		{infer(x[1:], Budget{}), "want 1 to 1 inputs of 768 (3×16×16)"},
		{infer(nil, Budget{}), "input of 0 values"},
		{infer(slices.Concat(x, x), Budget{}), "want 1 to 1 inputs"},
		{infer(x, Budget{MACs: -1}), "above zero"},
		{infer(x, Budget{Time: -1}), "above zero"},
		{infer(x, Budget{Memory: -1}), "above zero"},
		{infer(x, Budget{Memory: 1, Subnet: &supernet.Subnet{}}), "not both"},
		{output, "output of 3 values"},
		{e.Switch(-1), "point -1"},
		{e.Switch(5), "0 to 4"},
		{e.NewLimit().Set(Budget{Subnet: &supernet.Subnet{}}), "limits of costs"},
		{e.NewLimit().Set(Budget{MACs: -2}), "above zero"},
		{released.Set(Budget{}), "released"},
		{open(Options{Threads: -1}), "threads"},
		{open(Options{MaxConcurrent: -1}), "at a time"},
		{open(Options{Batch: 1 << 20}), "batch"},
		{latency, "target"},
		{memory, "low not above high"},
		{cpu, "between 0 and 1"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.words) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("error %v; want one line with %q", c.err, c.words)
		}
	}
}

func TestOpen(t *testing.T) {
	set, f := newNet(t)
	dir := t.TempDir()
	weightsFile, frontierFile := filepath.Join(dir, "w"), filepath.Join(dir, "f")
	if err := set.Save(weightsFile); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(frontierFile); err != nil {
		t.Fatal(err)
	}
	e, err := Open(weightsFile, frontierFile, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x := newInput(e, 1)
	r, err := e.Infer(t.Context(), x, Budget{})
	if err != nil || !slices.Equal(r.Output, expected(t, f.Points[4], x)) {
		t.Errorf("another answer from files (%v)", err)
	}
	// Files of other weights.
	other := weights.Random(set.Network, 2)
	if err := other.Save(weightsFile); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(weightsFile, frontierFile, Options{}); !errors.Is(err, frontier.ErrMismatch) || !strings.Contains(err.Error(), frontierFile) {
		t.Errorf("a frontier of other weights: %v", err)
	}
	if _, err := Open(frontierFile, frontierFile, Options{}); err == nil {
		t.Error("a frontier is taken as weights")
	}
	if _, err := FromBytes(nil, nil, Options{}); err == nil {
		t.Error("no bytes are taken as files")
	}
}

// TestWaiting: who waits for a turn has its context's patience, and less time left
// afterwards.
func TestWaiting(t *testing.T) { synctest.Test(t, testWaiting) }

func testWaiting(t *testing.T) {
	e := newEngine(t, Options{MaxConcurrent: 1, Threads: 1, Measure: -1}, apart...) // more threads would spin until time passes
	x := newInput(e, 1)
	s, err := e.sessions.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Infer(ctx, x, Budget{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its deadline a waiting call returns %v", err)
	}
	if _, err := e.Infer(ctx, x, Budget{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call after its deadline returns %v", err)
	}
	results := make(chan Result)
	go func() {
		r, err := e.Infer(context.Background(), x, Budget{Time: 12240 * time.Millisecond}) // 10 s and its margin fit, but not for long
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	time.Sleep(50 * time.Millisecond)
	e.sessions.put(s)
	r := <-results
	if r.Waited != 50*time.Millisecond || r.Point != 0 || !r.Fits {
		t.Errorf("after waiting for %v point %d runs; want the cheapest after 50 ms", r.Waited, r.Point)
	}
}

// TestClose: calls under way end, those that wait and come later are told.
func TestClose(t *testing.T) {
	e := newEngine(t, Options{MaxConcurrent: 1})
	x := newInput(e, 1)
	s, err := e.sessions.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := e.Infer(context.Background(), x, Budget{})
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	closed := make(chan struct{})
	go func() { e.Close(); close(closed) }()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("a waiting call returns %v", err)
	}
	select {
	case <-closed:
		t.Error("closed while a session is in use")
	case <-time.After(10 * time.Millisecond):
	}
	e.sessions.put(s)
	<-closed
	e.Close() // once more does no harm
	if _, err := e.Infer(t.Context(), x, Budget{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a later call returns %v", err)
	}
}

func TestTop(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	e.front.ClassNames = []string{"zero", "one", "two"}
	top := e.Top([]float32{1, 3, 3, -2}, 3)
	if len(top) != 3 || top[0].Name != "one" || top[1].Name != "two" || top[2].Index != 0 {
		t.Errorf("top %+v", top)
	}
	sum := math.Exp(1) + 2*math.Exp(3) + math.Exp(-2)
	if math.Abs(top[0].Probability-math.Exp(3)/sum) > 1e-12 {
		t.Errorf("probability %v; want %v", top[0].Probability, math.Exp(3)/sum)
	}
	if all := e.Top([]float32{1}, 5); len(all) != 1 || all[0].Probability != 1 {
		t.Errorf("top of one: %+v", all)
	}
}

func TestStats(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	if s := e.Stats(); s != (Stats{}) {
		t.Errorf("at first: %+v", s)
	}
	for i := range 600 {
		e.history.add(past{time.Duration(i), 1}, i%2 == 0)
	}
	if s := e.Stats(); s.Runs != 600 || s.Late != 300 || s.Max != 599 || s.Median != 88+256 {
		t.Errorf("after 600 runs: %+v", s)
	}
}

// TestExtract: a point as a network of its own answers what it answers in place.
func TestExtract(t *testing.T) {
	set, f := newNet(t, apart...)
	e, err := New(set, f, Options{Measure: -1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x := newInput(e, 1)
	for _, p := range f.Points {
		alone, own, err := f.Extract(set, p)
		if err != nil {
			t.Fatal(err)
		}
		values := int64(0)
		for _, op := range alone.Ops {
			values += int64(len(op.Weight) + len(op.Bias) + len(op.Scale) + len(op.Shift))
		}
		if values != p.Costs.Params {
			t.Errorf("%s: %d parameters; want %d", p.Subnet, values, p.Costs.Params)
		}
		if c := own.Points[0].Costs; c != p.Costs || own.Points[0].Accuracy != p.Accuracy {
			t.Errorf("%s: costs %+v and accuracy %v; want %+v and %v", p.Subnet, c, own.Points[0].Accuracy, p.Costs, p.Accuracy)
		}
		small, err := New(alone, own, Options{Measure: -1, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := small.Infer(context.Background(), x, Budget{})
		small.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want := expected(t, p, x); !slices.Equal(r.Output, want) {
			t.Errorf("%s: %v; in place %v", p.Subnet, r.Output, want)
		}
	}
	other := set.Clone()
	other.Ops[0].Weight[0]++
	if _, _, err := f.Extract(other, f.Points[0]); !errors.Is(err, frontier.ErrMismatch) {
		t.Errorf("other weights: %v", err)
	}
	p := f.Points[0]
	p.Statistics = f.Points[1].Statistics
	if _, _, err := f.Extract(set, p); err == nil || !strings.Contains(err.Error(), "statistics of") {
		t.Errorf("statistics of another subnetwork: %v", err)
	}
	for _, c := range []struct {
		point frontier.Point
		want  bool
	}{{f.Points[0], true}, {frontier.Point{Subnet: f.Points[0].Subnet}, false}, {frontier.Point{}, true}} {
		if got, err := f.Calibrated(c.point); err != nil || got != c.want {
			t.Errorf("%s with statistics %v: calibrated %v, %v", c.point.Subnet, c.point.Statistics != nil, got, err)
		}
	}
}
