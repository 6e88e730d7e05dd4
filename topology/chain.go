package topology

// Chain holds the parameters of the Markov chain.
type Chain struct {
	Lambda   float64 // λ, the coupling of a feature map across subnetworks
	Kappa    float64 // κ, the probability mass spread evenly
	Directed bool    // operations lead from input to output only; the paper's graph is undirected
}

// Strengths are Σ_k deg_k(v) + T·loop(v) of every node: all that the scores of
// an undirected chain depend on. With the paper's weights they are whole numbers,
// so that sums over paths are exact and ties are ties.
func Strengths(g *Graph, s *Subnetworks) []float64 {
	return strengths(g, float64(s.t), func(e Edge) float64 { return float64(s.Count(e)) })
}

// ExpectedStrengths are the expectations of Strengths over the draws of t
// subnetworks: scores without sampling noise.
func ExpectedStrengths(g *Graph, t int) []float64 {
	depth := make([]int, len(g.parents))
	deepest := 0
	for b, p := range g.parents {
		if p >= 0 {
			depth[b] = depth[p] + 1
		}
		deepest = max(deepest, depth[b]+1)
	}
	share := expectedShare(t, deepest)
	return strengths(g, float64(t), func(e Edge) float64 {
		if e.Block < 0 {
			return float64(t)
		}
		return float64(float64(t) * share[depth[e.Block]])
	})
}

func strengths(g *Graph, t float64, count func(Edge) float64) []float64 {
	s := make([]float64, len(g.nodes))
	for v := range s {
		s[v] = float64(t * g.loop(v))
	}
	for _, e := range g.edges {
		w := float64(e.Weight * count(e))
		s[e.From] += w
		s[e.To] += w
	}
	return s
}

// Scores turns the strengths of an undirected chain of t subnetworks into TAS:
// the closed form.
func (c Chain) Scores(strengths []float64, t int) []float64 {
	n, tt := float64(len(strengths)), float64(t)
	// Conversions around products keep compilers from fusing them with sums, so
	// that every machine computes the same scores to the last bit.
	common := float64((1-c.Kappa)*c.Lambda*tt*(tt-1)) + float64(c.Kappa*n*tt*tt)
	scores := make([]float64, len(strengths))
	total := 0.0
	for v, s := range strengths {
		scores[v] = float64((1-c.Kappa)*s) + common
		total += scores[v]
	}
	for v := range scores {
		scores[v] /= total
	}
	return scores
}
