package topology

import (
	"fmt"
	"math/rand/v2"

	"tips/supernet"
)

// Rule says which path is the important one. A longer path has a higher TPS for
// free, so paths are compared by what a node is worth on average, or at a fixed
// number of nodes.
type Rule string

// The rules.
const (
	ByMean   Rule = "mean"   // highest mean TAS a node
	ByTotal  Rule = "total"  // highest TPS
	ByLength Rule = "length" // highest TPS among paths of Options.PathNodes nodes
)

// Options are the parameters of an analysis. Their zero values are the paper's.
type Options struct {
	Subnets   int     // T, the number of subnetworks drawn; 0 means 8
	Lambda    float64 // λ; 0 means 1
	Kappa     float64 // κ; 0 means 1e-5
	Seed      uint64  // of the draw
	Rule      Rule    // "" means ByMean, or ByLength where PathNodes is given
	PathNodes int     // for ByLength
	Expected  bool    // expected scores instead of those of one draw
	Directed  bool    // a chain that follows operations forwards only
}

// String says how an analysis was made.
func (o Options) String() string {
	s := fmt.Sprintf("T=%d, λ=%g, κ=%g", o.Subnets, o.Lambda, o.Kappa)
	if o.Expected {
		s += ", expected over all draws"
	} else {
		s += fmt.Sprintf(", seed %d", o.Seed)
	}
	if o.Directed {
		s += ", directed"
	}
	return s
}

// The defaults of Options.
const (
	DefaultSubnets = 8
	DefaultLambda  = 1.0
	DefaultKappa   = 1e-5
)

// MaxSubnets bounds T.
const MaxSubnets = 1000

// WithDefaults fills in the defaults, and refuses what makes no chain.
func (o Options) WithDefaults() (Options, error) {
	if o.Subnets == 0 {
		o.Subnets = DefaultSubnets
	}
	if o.Lambda == 0 {
		o.Lambda = DefaultLambda
	}
	if o.Kappa == 0 {
		o.Kappa = DefaultKappa
	}
	if o.Rule == "" {
		o.Rule = ByMean
		if o.PathNodes != 0 {
			o.Rule = ByLength
		}
	}
	switch {
	case o.Subnets < 1 || o.Subnets > MaxSubnets:
		return o, fmt.Errorf("topology: %d subnetworks; want 1 to %d", o.Subnets, MaxSubnets)
	case !(o.Lambda > 0 && o.Lambda <= 1):
		return o, fmt.Errorf("topology: lambda %v; want above 0 and at most 1", o.Lambda)
	case !(o.Kappa > 0 && o.Kappa < 1):
		return o, fmt.Errorf("topology: kappa %v; want above 0 and below 1", o.Kappa)
	case o.Rule != ByMean && o.Rule != ByTotal && o.Rule != ByLength:
		return o, fmt.Errorf("topology: path rule %q; want %s, %s or %s", o.Rule, ByMean, ByTotal, ByLength)
	case (o.Rule == ByLength) != (o.PathNodes != 0):
		return o, fmt.Errorf("topology: path rule %q with %d path nodes; a number of nodes goes with the rule %s", o.Rule, o.PathNodes, ByLength)
	case o.PathNodes < 0:
		return o, fmt.Errorf("topology: %d path nodes; want 2 or more", o.PathNodes)
	case o.Expected && o.Directed:
		return o, fmt.Errorf("topology: expected scores are those of the undirected chain")
	}
	return o, nil
}

// Analysis is the result of step 1.
type Analysis struct {
	Graph   *Graph
	Options Options // with the defaults filled in
	TAS     []float64
	Path    Path // the important one
}

// Analyze finds the important operations of a network. Equal options give equal
// results.
func Analyze(n *supernet.Network, o Options) (*Analysis, error) {
	g, err := FromNetwork(n)
	if err != nil {
		return nil, err
	}
	return AnalyzeGraph(g, o)
}

// AnalyzeGraph is Analyze for a graph that is no network's, or one whose edges
// have weights of their own.
func AnalyzeGraph(g *Graph, o Options) (*Analysis, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	a := &Analysis{Graph: g, Options: o}
	chain := Chain{Lambda: o.Lambda, Kappa: o.Kappa, Directed: o.Directed}

	// What paths are compared by: TAS, or the strengths where those are in the
	// same order and exact.
	var rank []float64
	switch {
	case o.Expected:
		rank = ExpectedStrengths(g, o.Subnets)
		a.TAS = chain.Scores(rank, o.Subnets)
	case o.Directed:
		if a.TAS, err = chain.Solve(g, Sample(g, o.Subnets, newRand(o.Seed))); err != nil {
			return nil, err
		}
		rank = a.TAS
	default:
		rank = Strengths(g, Sample(g, o.Subnets, newRand(o.Seed)))
		a.TAS = chain.Scores(rank, o.Subnets)
	}
	switch o.Rule {
	case ByMean:
		a.Path, err = HighestMean(g, rank)
	case ByTotal:
		a.Path, err = HighestTotal(g, a.TAS)
	case ByLength:
		a.Path, err = HighestOfLength(g, rank, o.PathNodes)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// newRand is the generator of an analysis: its stream depends on the seed alone.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7195)) }

// TPS is the topological path score of the important path.
func (a *Analysis) TPS() float64 { return a.Path.Sum(a.TAS) }

// Important tells for every operation of Graph.Edges whether it is on the
// important path.
func (a *Analysis) Important() []bool {
	important := make([]bool, len(a.Graph.edges))
	for _, e := range a.Path.Edges {
		important[e] = true
	}
	return important
}

// FavouredGroups are the width groups of n, the network analysed, that an
// important operation writes: those that training samples at higher widths. An
// important addition favours the trunk it writes.
func (a *Analysis) FavouredGroups(n *supernet.Network) []int {
	var ops []int
	for _, e := range a.Path.Edges {
		if i, ok := n.Index(a.Graph.edges[e].Name); ok {
			ops = append(ops, i)
		}
	}
	return n.GroupsOf(ops...)
}
