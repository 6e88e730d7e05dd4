package topology

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// denseTransitions builds P of the paper, entry by entry: Equations 2 to 6 and the κ
// of Appendix A.1.
func denseTransitions(g *Graph, s *Subnetworks, c Chain) *mat.Dense {
	n, t := len(g.nodes), s.t
	h := mat.NewDense(n*t, n*t, nil)
	for k := range t {
		for _, e := range g.edges {
			if !s.Has(e, k) {
				continue
			}
			from, to := k*n+e.From, k*n+e.To
			h.Set(from, to, h.At(from, to)+e.Weight)
			if !c.Directed {
				h.Set(to, from, h.At(to, from)+e.Weight)
			}
		}
		for _, end := range []int{k * n, k*n + n - 1} {
			h.Set(end, end, 1)
		}
		for j := range t {
			for v := range n {
				if j != k {
					h.Set(k*n+v, j*n+v, c.Lambda)
				}
			}
		}
	}
	h.Apply(func(_, _ int, x float64) float64 { return (1-c.Kappa)*x + c.Kappa }, h)
	for i := range n * t {
		row := h.RawRowView(i)
		sum := 0.0
		for _, x := range row {
			sum += x
		}
		for j := range row {
			row[j] /= sum
		}
	}
	return h
}

// denseScores solves πP = π, Σπ = 1 by LU decomposition and adds up the copies.
func denseScores(t testing.TB, g *Graph, s *Subnetworks, c Chain) []float64 {
	t.Helper()
	p := denseTransitions(g, s, c)
	size, _ := p.Dims()
	a := mat.NewDense(size, size, nil)
	a.Copy(p.T())
	for i := range size {
		a.Set(i, i, a.At(i, i)-1)
	}
	b := mat.NewVecDense(size, nil)
	for j := range size {
		a.Set(size-1, j, 1)
	}
	b.SetVec(size-1, 1)
	var pi mat.VecDense
	if err := pi.SolveVec(a, b); err != nil {
		t.Fatal(err)
	}
	return addCopies(pi.RawVector().Data, len(g.nodes))
}

// powerScores iterates π ← πP until π changes by less than tolerance in all.
func powerScores(p *mat.Dense, nodes int, tolerance float64) (scores []float64, sweeps int) {
	size, _ := p.Dims()
	pi, next := mat.NewVecDense(size, nil), mat.NewVecDense(size, nil)
	for i := range size {
		pi.SetVec(i, 1/float64(size))
	}
	for {
		sweeps++
		next.MulVec(p.T(), pi)
		change := 0.0
		for i := range size {
			change += math.Abs(next.AtVec(i) - pi.AtVec(i))
		}
		pi, next = next, pi
		if change < tolerance {
			return addCopies(pi.RawVector().Data, nodes), sweeps
		}
	}
}

func addCopies(pi []float64, nodes int) []float64 {
	scores := make([]float64, nodes)
	for i, p := range pi {
		scores[i%nodes] += p
	}
	return scores
}

// wantClose compares scores to a relative tolerance.
func wantClose(t testing.TB, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d scores; want %d", what, len(got), len(want))
	}
	for v := range got {
		if math.Abs(got[v]-want[v]) > tolerance*want[v] || math.IsNaN(got[v]) {
			t.Fatalf("%s: score of node %d is %v; want %v", what, v, got[v], want[v])
		}
	}
}
