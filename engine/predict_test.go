package engine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// machine is a made-up one: so much slower than the rule, with noise, and each
// subnetwork off the rule in its own way.
type machine struct {
	slower float64
	noise  float64
	off    []float64
	rng    *rand.Rand
}

func (m *machine) took(base float64, i int) time.Duration {
	return time.Duration(base * m.slower * m.off[i] * math.Exp(m.noise*m.rng.NormFloat64()))
}

func TestPredictor(t *testing.T) {
	bases := []float64{1e6, 2e6, 5e6, 9e6}
	m := &machine{slower: 3, noise: 0.05, off: []float64{1, 1.2, 0.9, 1.1}, rng: rand.New(rand.NewPCG(1, 2))}
	var p predictor
	p.init()
	habits := make([]habit, len(bases))
	wrong := func(i int) float64 {
		truth := bases[i] * m.slower * m.off[i]
		return math.Abs(math.Log(float64(p.predict(bases[i], &habits[i])) / truth))
	}
	check := func(when string, most float64, which ...int) {
		t.Helper()
		for _, i := range which {
			if w := wrong(i); w > most {
				t.Errorf("%s: subnetwork %d is predicted wrong by a factor of %.2f; want at most %.2f", when, i, math.Exp(w), math.Exp(most))
			}
		}
	}

	// One run tells how fast the machine is, for all.
	p.learn(bases[0], &habits[0], m.took(bases[0], 0))
	check("after one run", 0.35, 0, 1, 2, 3)
	for range 50 {
		for i := range bases {
			p.learn(bases[i], &habits[i], m.took(bases[i], i))
		}
	}
	check("after many", 0.12, 0, 1, 2, 3)
	if margin := p.margin(); margin > 1.3 || margin < 1.04 {
		t.Errorf("margin %v for noise of 5 %%", margin)
	}

	// The machine gets half as fast, while only one of them runs: the others are
	// known to be slower too.
	m.slower *= 2
	for range 30 {
		p.learn(bases[0], &habits[0], m.took(bases[0], 0))
	}
	check("after slowing down", 0.12, 0)
	check("after slowing down, not run", 0.35, 1, 2, 3)

	// One accident changes little.
	before := p.predict(bases[1], &habits[1])
	p.learn(bases[0], &habits[0], time.Hour)
	if after := p.predict(bases[1], &habits[1]); float64(after) > 1.4*float64(before) {
		t.Errorf("one run of an hour changes the prediction from %v to %v", before, after)
	}
	if p.predict(math.Inf(1), &habits[0]) <= 0 {
		t.Error("a long prediction overflows")
	}
}

// TestMeasure: an engine that has measured itself predicts its own runs.
func TestMeasure(t *testing.T) {
	e := newEngine(t, Options{Threads: 1, Measure: 300 * time.Millisecond})
	x := newInput(e, 1)
	if e.predictor.runs < 2*len(e.candidates) {
		t.Skipf("only %d runs fit in 300 ms: the machine is too slow or too busy to tell", e.predictor.runs)
	}
	for i, p := range e.front.Points {
		r, err := e.Infer(t.Context(), x, Budget{Subnet: &p.Subnet})
		if err != nil {
			t.Fatal(err)
		}
		// On a busy machine anything can take long; that is no reason to fail.
		if ratio := float64(r.Took) / float64(r.Predicted); ratio < 0.2 {
			t.Errorf("point %d took %v; %v was predicted", i, r.Took, r.Predicted)
		}
	}
	if e.Stats().Runs != uint64(len(e.front.Points)) {
		t.Errorf("%d runs in statistics", e.Stats().Runs)
	}
}
