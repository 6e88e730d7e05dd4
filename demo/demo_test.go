package demo

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tips/engine"
	"tips/frontier"
	"tips/supernet/zoo"
	"tips/weights"
)

// anytime is an engine of three subnetworks, and pictures whose classes are what the
// largest of them says they are.
func anytime(t testing.TB) (*engine.Engine, []float32, []int) {
	t.Helper()
	n, err := zoo.New("mlp:depth=4,width=32,inputs=16,min=0.25,divisor=8")
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	f := &frontier.Frontier{Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs}}
	for i, ratio := range []float64{0.25, 0.5, 1} {
		s, err := n.Uniform(ratio)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, f.Input)
		if err != nil {
			t.Fatal(err)
		}
		f.Points = append(f.Points, frontier.Judged(s, 80+5*i, 100, frontier.CostsOf(v.Costs()), nil))
	}
	e, err := engine.New(set, f, engine.Options{Threads: 1, MaxConcurrent: 1, Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	rng := rand.New(rand.NewPCG(1, 2))
	const pictures = 200
	inputs := make([]float32, pictures*e.InputLen())
	for i := range inputs {
		inputs[i] = float32(rng.NormFloat64())
	}
	labels := make([]int, pictures)
	for i := range labels {
		r, err := e.Infer(context.Background(), inputs[i*e.InputLen():(i+1)*e.InputLen()], engine.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		labels[i] = argmax(r.Output)
	}
	return e, inputs, labels
}

// TestRun: each budget runs what fits it, and accuracies follow.
func TestRun(t *testing.T) {
	e, inputs, labels := anytime(t)
	points := e.Frontier().Points
	caps := []int64{0, points[1].Costs.MACs, points[0].Costs.MACs, 0}
	var budgets []engine.Budget
	for _, most := range caps {
		budgets = append(budgets, engine.Budget{MACs: most})
	}
	told, ended := 0, 0
	trace, err := Run(context.Background(), Options{
		Engine: e, Inputs: inputs, Labels: labels, On: "test images", Each: 50 * time.Millisecond, Next: Fixed(budgets...),
		Observe: func(number int, p Period, last bool) {
			told++
			if number != ended || p.Pictures == 0 || p.Median > p.High {
				t.Errorf("budget %d of %d: %+v", number, ended, p)
			}
			if last {
				ended++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Periods) != 4 || ended != 4 || told < 4 || trace.Pictures != len(labels) {
		t.Fatalf("%d periods, %d ended, %d told, %d pictures", len(trace.Periods), ended, told, trace.Pictures)
	}
	for i, p := range trace.Periods {
		at := []int{2, 1, 0, 2}[i]
		if p.Subnet != points[at].Subnet.String() || p.Cost != points[at].Costs.MACs || p.Share != 1 || p.MACs != caps[i] || p.Kept != p.Pictures {
			t.Errorf("budget %d: %+v", i, p)
		}
		if i > 0 && p.Start < trace.Periods[i-1].Start+trace.Periods[i-1].Length {
			t.Errorf("budget %d starts at %v", i, p.Start)
		}
		if p.Rate() <= 0 {
			t.Errorf("%v images a second", p.Rate())
		}
	}
	a := func(i int) float64 { return trace.Periods[i].Accuracy() }
	if a(0) != 1 || a(3) != 1 || a(1) >= 1 || a(2) >= 1 {
		t.Errorf("accuracies %v, %v, %v, %v", a(0), a(1), a(2), a(3))
	}
}

// TestRunInterrupted: what happened so far is there.
func TestRunInterrupted(t *testing.T) {
	e, inputs, labels := anytime(t)
	ctx, cancel := context.WithCancel(context.Background())
	trace, err := Run(ctx, Options{
		Engine: e, Inputs: inputs, Labels: labels, Each: 20 * time.Millisecond, Next: DownAndBack(e.Frontier(), 2),
		Observe: func(number int, _ Period, ended bool) {
			if number == 1 && ended {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || len(trace.Periods) < 2 || len(trace.Periods) > 3 {
		t.Fatalf("%v, %+v", err, trace)
	}
	for _, bad := range []Options{
		{Engine: e, Inputs: inputs[1:], Labels: labels, Next: Fixed()},
		{Engine: e, Next: Fixed()},
	} {
		if _, err := Run(context.Background(), bad); err == nil || !strings.HasPrefix(err.Error(), "demo: ") {
			t.Errorf("error %v", err)
		}
	}
}

// TestDownAndBack: none, caps that fall to the cheapest, times that rise again, none.
func TestDownAndBack(t *testing.T) {
	e, inputs, _ := anytime(t)
	f := e.Frontier()
	next := DownAndBack(f, 2)
	var past []Period
	var got []engine.Budget
	for {
		b, ok := next(past)
		if !ok {
			break
		}
		got = append(got, b)
		past = append(past, Period{Median: time.Duration(100-40*len(past)) * time.Microsecond})
	}
	want := []engine.Budget{{}, {MACs: f.Points[1].Costs.MACs}, {MACs: f.Points[0].Costs.MACs}, {Time: 90 * time.Microsecond}, {}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Where the cheapest took longest, by accident, deadlines rise all the same.
	next, past = DownAndBack(f, 3), nil
	var deadlines []time.Duration
	for _, median := range []time.Duration{50, 30, 20, 40, 40, 40} {
		b, ok := next(past)
		if !ok {
			t.Fatalf("over after %d", len(past))
		}
		if b.Time > 0 {
			deadlines = append(deadlines, b.Time)
		}
		past = append(past, Period{Time: b.Time, Median: median * time.Microsecond})
	}
	if want := []time.Duration{60 * time.Microsecond, 72 * time.Microsecond}; !slices.Equal(deadlines, want) {
		t.Errorf("deadlines %v; want %v", deadlines, want)
	}
	times, err := Measure(context.Background(), e, inputs[:e.InputLen()], time.Millisecond)
	if err != nil || len(times) != len(f.Points) {
		t.Fatalf("%v, %v", times, err)
	}
	for i, x := range times {
		if x.Subnet != f.Points[i].Subnet.String() || x.Time <= 0 {
			t.Errorf("%+v", x)
		}
	}
	for ns, want := range map[float64]time.Duration{1: 1, 12345: 13000, 99_100: 100_000, 99_000: 99_000, 3.2e9: 32e8} {
		if got := tidy(ns); math.Abs(float64(got-want)) > 0 {
			t.Errorf("tidy(%v) = %v; want %v", ns, got, want)
		}
	}
}

func sample() *Trace {
	return &Trace{
		Version: version, On: "test images", Pictures: 3, Threads: 1, Weights: "abc", Times: []Time{{"full", 20}},
		Periods: []Period{{Budget: "30µs", Time: 30000, Start: 1, Length: 10, Subnet: "full", Cost: 5, Share: 0.5, Pictures: 4, Correct: 3, Kept: 2, Median: 7, High: 9}},
	}
}

// TestTraceFile: what is written is read again, and what is not so is refused.
func TestTraceFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "demo.json")
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]error{
		b.String()[:b.Len()/2]: ErrCorrupt,
		b.String() + "{}":      ErrCorrupt,
		strings.Replace(b.String(), `"version": 1`, `"version": 2`, 1): ErrVersion,
		strings.Replace(b.String(), `"correct": 3`, `"correct": 5`, 1): ErrCorrupt,
		strings.Replace(b.String(), `"on"`, `"off"`, 1):                ErrCorrupt,
		"": ErrCorrupt,
	} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
	if _, err := Open(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzTrace: whatever is read can be written and read again.
func FuzzTrace(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := got.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Error(d)
		}
	})
}
