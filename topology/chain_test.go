package topology

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"tips/supernet"
	"tips/supernet/zoo"
)

func zooGraph(t testing.TB, reference string) (*supernet.Network, *Graph) {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	g, err := FromNetwork(n)
	if err != nil {
		t.Fatal(err)
	}
	return n, g
}

// randomGraph draws a connected graph with nested blocks; weighted gives the
// edges weights of their own.
func randomGraph(t testing.TB, rng *rand.Rand, nodes, extra int, weighted bool) *Graph {
	t.Helper()
	parents := make([]int, 4+rng.IntN(4))
	for b := range parents {
		parents[b] = rng.IntN(b+1) - 1
	}
	var edges []Edge
	add := func(from, to int) {
		e := Edge{Name: fmt.Sprint("op", len(edges)), Kind: supernet.Conv, From: from, To: to, Block: rng.IntN(len(parents)+3) - 3}
		e.Block = max(e.Block, -1)
		if weighted {
			e.Weight = 0.1 + 3*rng.Float64()
		}
		edges = append(edges, e)
	}
	for v := 1; v < nodes; v++ {
		add(max(v-1-rng.IntN(3), 0), v)
	}
	for range extra {
		from := rng.IntN(nodes - 1)
		add(from, from+1+rng.IntN(nodes-1-from))
	}
	names := make([]string, nodes)
	for v := range names {
		names[v] = fmt.Sprint("node", v)
	}
	g, err := NewGraph(names, edges, parents)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSolversAgree: the closed form, sparse elimination and the dense reference
// give the same scores for every network of the zoo.
func TestSolversAgree(t *testing.T) {
	for _, m := range zoo.Models() {
		_, g := zooGraph(t, m.Name)
		for _, c := range []Chain{{Lambda: 1, Kappa: 1e-5}, {Lambda: 0.1, Kappa: 1e-3}} {
			subnets := 8
			if testing.Short() {
				subnets = 3
			}
			s := Sample(g, subnets, newRand(5))
			dense := denseScores(t, g, s, c)
			sparse, err := c.Solve(g, s)
			if err != nil {
				t.Fatal(err)
			}
			wantClose(t, m.Name+": closed form", c.Scores(Strengths(g, s), subnets), dense, 1e-9)
			wantClose(t, m.Name+": sparse", sparse, dense, 1e-9)
		}
	}
}

func TestSolversAgreeOnRandomGraphs(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		weighted := seed%2 == 1
		g := randomGraph(t, rng, 3+rng.IntN(40), rng.IntN(60), weighted)
		subnets := 1 + rng.IntN(6)
		s := Sample(g, subnets, rng)
		c := Chain{Lambda: 0.05 + 0.95*rng.Float64(), Kappa: math.Pow(10, -1-4*rng.Float64())}
		dense := denseScores(t, g, s, c)
		sparse, err := c.Solve(g, s)
		if err != nil {
			t.Fatal(err)
		}
		wantClose(t, fmt.Sprint("seed ", seed, ": closed form"), c.Scores(Strengths(g, s), subnets), dense, 1e-9)
		wantClose(t, fmt.Sprint("seed ", seed, ": sparse"), sparse, dense, 1e-9)

		c.Directed = true
		if sparse, err = c.Solve(g, s); err != nil {
			t.Fatal(err)
		}
		wantClose(t, fmt.Sprint("seed ", seed, ": sparse, directed"), sparse, denseScores(t, g, s, c), 1e-9)
	}
}

// TestStationary: rows of P sum to one, and power iteration, a third way to π,
// ends where the others do.
func TestStationary(t *testing.T) {
	_, g := zooGraph(t, "mlp:depth=6")
	c := Chain{Lambda: 1, Kappa: 1e-3}
	s := Sample(g, 4, newRand(1))
	p := denseTransitions(g, s, c)
	size, _ := p.Dims()
	for i := range size {
		if sum := mat.Sum(p.RowView(i)); math.Abs(sum-1) > 1e-12 {
			t.Errorf("row %d sums to %v", i, sum)
		}
	}
	scores, _ := powerScores(p, len(g.nodes), 1e-14)
	wantClose(t, "power iteration", scores, c.Scores(Strengths(g, s), 4), 1e-9)
}

func TestScoresAreAProbability(t *testing.T) {
	_, g := zooGraph(t, "efficientnet_b0")
	for _, o := range []Options{{}, {Expected: true}, {Directed: true}, {Lambda: 0.2, Subnets: 3}} {
		a, err := AnalyzeGraph(g, o)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for v, x := range a.TAS {
			if x <= 0 {
				t.Errorf("%+v: node %d has score %v", o, v, x)
			}
			total += x
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("%+v: scores sum to %v", o, total)
		}
	}
}

// TestLambdaAndKappaKeepTheOrder is what the package comment says of them: TAS is
// an affine function of the strengths, whatever λ and κ are.
func TestLambdaAndKappaKeepTheOrder(t *testing.T) {
	_, g := zooGraph(t, "mobilenet_v2")
	s := Sample(g, 8, newRand(2))
	strengths := Strengths(g, s)
	for _, c := range []Chain{{Lambda: 1, Kappa: 1e-5}, {Lambda: 0.1, Kappa: 1e-5}, {Lambda: 0.5, Kappa: 0.2}} {
		tas, err := c.Solve(g, s) // which does not use the closed form
		if err != nil {
			t.Fatal(err)
		}
		low, high := 0, 0
		for v := range strengths {
			if strengths[v] < strengths[low] {
				low = v
			}
			if strengths[v] > strengths[high] {
				high = v
			}
		}
		slope := (tas[high] - tas[low]) / (strengths[high] - strengths[low])
		if slope <= 0 {
			t.Fatalf("λ=%v, κ=%v: slope %v", c.Lambda, c.Kappa, slope)
		}
		for v := range tas {
			if want := tas[low] + slope*(strengths[v]-strengths[low]); math.Abs(tas[v]-want) > 1e-12 {
				t.Fatalf("λ=%v, κ=%v: node %d has %v; on the line %v", c.Lambda, c.Kappa, v, tas[v], want)
			}
		}
	}
}

// TestSamplesCoverEveryOperation, also where blocks stand in each other.
func TestSamplesCoverEveryOperation(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		g := randomGraph(t, rng, 10, 10, false)
		subnets := 1 + rng.IntN(5)
		s := Sample(g, subnets, rng)
		for _, e := range g.edges {
			count := 0
			for k := range subnets {
				if s.Has(e, k) {
					count++
				}
			}
			if count == 0 || count != s.Count(e) {
				t.Fatalf("seed %d: %s is in %d of %d subnetworks, counted %d", seed, e.Name, count, subnets, s.Count(e))
			}
			if e.Block < 0 && count != subnets {
				t.Fatalf("seed %d: %s is in no block and in %d of %d subnetworks", seed, e.Name, count, subnets)
			}
			if e.Block >= 0 && g.parents[e.Block] >= 0 {
				for k := range subnets {
					if s.keptIn(e.Block, k) && !s.keptIn(g.parents[e.Block], k) {
						t.Fatalf("seed %d: block %d is kept without its parent", seed, e.Block)
					}
				}
			}
		}
	}
}

// TestExpectedScores: they are the mean over many draws, within its error, also
// for blocks inside blocks.
func TestExpectedScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	g := randomGraph(t, rng, 12, 14, false)
	for _, subnets := range []int{1, 2, 8} {
		const draws = 20000
		sum, squares := make([]float64, len(g.nodes)), make([]float64, len(g.nodes))
		for range draws {
			for v, x := range Strengths(g, Sample(g, subnets, rng)) {
				sum[v] += x
				squares[v] += x * x
			}
		}
		for v, want := range ExpectedStrengths(g, subnets) {
			mean := sum[v] / draws
			deviation := math.Sqrt(max(squares[v]/draws-mean*mean, 0) / draws)
			if math.Abs(mean-want) > 5*deviation+1e-9 {
				t.Errorf("T=%d: node %d has mean strength %v ± %v; expected %v", subnets, v, mean, deviation, want)
			}
		}
	}
}

func TestRefusedGraphs(t *testing.T) {
	two := []string{"input", "output"}
	for name, build := range map[string]func() error{
		"one node":  func() error { _, err := NewGraph(two[:1], nil, nil); return err },
		"backwards": func() error { _, err := NewGraph(two, []Edge{{From: 1, To: 0, Block: -1}}, nil); return err },
		"loop":      func() error { _, err := NewGraph(two, []Edge{{From: 1, To: 1, Block: -1}}, nil); return err },
		"outside":   func() error { _, err := NewGraph(two, []Edge{{From: 0, To: 2, Block: -1}}, nil); return err },
		"no block":  func() error { _, err := NewGraph(two, []Edge{{From: 0, To: 1, Block: 0}}, nil); return err },
		"weight": func() error {
			_, err := NewGraph(two, []Edge{{From: 0, To: 1, Block: -1, Weight: -1}}, nil)
			return err
		},
		"not number": func() error {
			_, err := NewGraph(two, []Edge{{From: 0, To: 1, Block: -1, Weight: math.NaN()}}, nil)
			return err
		},
		"own parent": func() error { _, err := NewGraph(two, nil, []int{0}); return err },
		"no path":    func() error { g, _ := NewGraph(two, nil, nil); _, err := AnalyzeGraph(g, Options{}); return err },
	} {
		if err := build(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
