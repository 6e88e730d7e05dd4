package reproduce

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"

	"tips/plot"
	"tips/supernet"
	"tips/topology"
)

// Fig6Options are the parameters of Figure 6.
type Fig6Options struct {
	Paths     int // compared; 0 means 6
	PathNodes int // of each; 0 means halfway between the important path and the longest
	Seed      uint64
}

// Fig6 shows that the order of paths with equally many nodes does not depend on
// λ: the scores of several paths from input to output for λ = 0.1 to 1.
func Fig6(n *supernet.Network, o Fig6Options) (Figure, error) {
	o.Paths = cmp.Or(o.Paths, 6)
	if err := within("paths", o.Paths, 2, 100); err != nil {
		return Figure{}, err
	}
	g, err := topology.FromNetwork(n)
	if err != nil {
		return Figure{}, err
	}
	lengths, err := pathLengths(g)
	if err != nil {
		return Figure{}, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 6))
	subnets := topology.Sample(g, topology.DefaultSubnets, rng)
	strengths := topology.Strengths(g, subnets)
	if o.PathNodes == 0 {
		if o.PathNodes, err = halfway(g, strengths, lengths); err != nil {
			return Figure{}, err
		}
	}
	if !slices.Contains(lengths, o.PathNodes) {
		return Figure{}, usage{fmt.Errorf("no path of %d nodes leads through %s; there are some of %d to %d", o.PathNodes, n.Name(), lengths[0], lengths[len(lengths)-1])}
	}
	paths, err := distinctPaths(g, strengths, o, rng)
	if err != nil {
		return Figure{}, err
	}

	f := Figure{
		Name:    "fig6",
		Caption: fmt.Sprintf("TPS of %d paths of %d nodes through %s against λ, T = %d", len(paths), o.PathNodes, n.Name(), subnets.Len()),
		Header:  []string{"lambda", "path", "strength", "tps"},
		Chart: plot.Chart{
			Title:  fmt.Sprintf("Figure 6: %s, paths of %d nodes", n.Name(), o.PathNodes),
			XLabel: "λ", YLabel: "TPS",
		},
	}
	for i := range paths {
		f.Chart.Series = append(f.Chart.Series, plot.Series{Name: fmt.Sprintf("path %d", i+1)})
	}
	same := true
	for tenth := 1; tenth <= 10; tenth++ {
		lambda := float64(tenth) / 10
		// The general solver, which knows nothing of the closed form: the figure
		// would be no evidence if it used what it is to show.
		chain := topology.Chain{Lambda: lambda, Kappa: topology.DefaultKappa}
		tas, err := chain.Solve(g, subnets)
		if err != nil {
			return Figure{}, err
		}
		before := 1.0
		for i, p := range paths {
			score := tps(p, tas)
			same = same && score < before
			before = score
			s := &f.Chart.Series[i]
			s.X, s.Y = append(s.X, lambda), append(s.Y, score)
			f.Rows = append(f.Rows, []string{number(lambda), strconv.Itoa(i + 1), number(topology.Path{Nodes: p}.Sum(strengths)), number(score)})
		}
	}
	measured := "the same order for all ten values of λ"
	if !same {
		measured = "the order changes with λ"
	}
	f.Findings = []Finding{{Claim: "the ranking of paths stays the same for λ from 0.1 to 1", Measured: measured, Holds: same}}
	f.Remarks = []string{
		"It has to be: the chain is reversible, so TPS = [(1−κ)(S + D·λT(T−1)) + D·κNT²] / Z, where only S, the",
		"number of operations that meet the path's maps in all subnetworks, differs between paths of D nodes.",
		"The scores here come from the general solver, not from that formula.",
	}
	if len(paths) < o.Paths {
		f.Remarks = append(f.Remarks, fmt.Sprintf("Only %d paths that differ in their score were found.", len(paths)))
	}
	return f, nil
}

// pathLengths lists how many nodes a path from input to output can have.
func pathLengths(g *topology.Graph) ([]int, error) {
	// By node, the lengths of ways to it, as a set of bits.
	reach := make([]big.Int, len(g.Nodes()))
	reach[0].SetBit(&reach[0], 1, 1)
	var shifted big.Int
	for v := range reach {
		for _, e := range into(g, v) {
			reach[v].Or(&reach[v], shifted.Lsh(&reach[e.From], 1))
		}
	}
	var lengths []int
	for d := range len(reach) + 1 {
		if reach[g.Output()].Bit(d) == 1 {
			lengths = append(lengths, d)
		}
	}
	if len(lengths) == 0 {
		return nil, fmt.Errorf("reproduce: no path from input to output")
	}
	return lengths, nil
}

// halfway is a number of nodes between the important path and the longest, where
// there are many paths to compare.
func halfway(g *topology.Graph, strengths []float64, lengths []int) (int, error) {
	short, err := topology.HighestMean(g, strengths)
	if err != nil {
		return 0, err
	}
	longest := lengths[len(lengths)-1]
	at, _ := slices.BinarySearch(lengths, (len(short.Nodes)+longest)/2)
	return lengths[at], nil
}

// distinctPaths draws paths from input to output that all differ in strength,
// and puts the strongest first.
func distinctPaths(g *topology.Graph, strengths []float64, o Fig6Options, rng *rand.Rand) ([][]int, error) {
	sampler, err := newPathSampler(g, o.PathNodes, true)
	if err != nil {
		return nil, err
	}
	strength := func(p []int) float64 { return topology.Path{Nodes: p}.Sum(strengths) }
	var paths [][]int
	seen := map[float64]bool{}
	const tries = 10000
	for range tries {
		if len(paths) == o.Paths {
			break
		}
		p := sampler.draw(rng)
		if s := strength(p); !seen[s] {
			seen[s] = true
			paths = append(paths, p)
		}
	}
	if len(paths) < 2 {
		return nil, fmt.Errorf("reproduce: paths of %d nodes do not differ; choose another number", o.PathNodes)
	}
	slices.SortFunc(paths, func(a, b []int) int { return cmp.Compare(strength(b), strength(a)) })
	return paths, nil
}
