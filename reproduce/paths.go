package reproduce

import (
	"fmt"
	"math/rand/v2"

	"tips/topology"
)

// pathSampler draws paths of a fixed number of nodes, each path of the graph
// with equal probability.
type pathSampler struct {
	graph *topology.Graph
	nodes int
	// ways[d][v] counts the paths of d+1 nodes that end at v, divided by a factor
	// of d alone, so that deep graphs do not overflow.
	ways [][]float64
	ends []float64 // ways[nodes-1] of the nodes where a path may end, summed up
}

// newPathSampler prepares paths between any two nodes, or from input to output.
func newPathSampler(g *topology.Graph, nodes int, whole bool) (*pathSampler, error) {
	n := len(g.Nodes())
	const most = 1 << 25 // entries of the table
	if nodes > n || nodes > most/n {
		return nil, usage{fmt.Errorf("paths of %d nodes in a graph of %d", nodes, n)}
	}
	s := &pathSampler{graph: g, nodes: nodes, ways: make([][]float64, nodes), ends: make([]float64, n)}
	for d := range s.ways {
		s.ways[d] = make([]float64, n)
	}
	for v := range n {
		if v == 0 || !whole {
			s.ways[0][v] = 1
		}
	}
	for d := 1; d < nodes; d++ {
		largest := 0.0
		for v := range n {
			for _, e := range into(g, v) {
				s.ways[d][v] += s.ways[d-1][e.From]
			}
			largest = max(largest, s.ways[d][v])
		}
		if largest == 0 {
			return nil, fmt.Errorf("reproduce: the graph of %d nodes has no path of %d", n, nodes)
		}
		for v := range n {
			s.ways[d][v] /= largest
		}
	}
	total := 0.0
	for v := range n {
		if v == g.Output() || !whole {
			total += s.ways[nodes-1][v]
		}
		s.ends[v] = total
	}
	if total == 0 {
		return nil, fmt.Errorf("reproduce: the graph of %d nodes has no path of %d from input to output", n, nodes)
	}
	return s, nil
}

// draw gives the nodes of one path.
func (s *pathSampler) draw(rng *rand.Rand) []int {
	last := len(s.ends) - 1
	at := rng.Float64() * s.ends[last]
	v := 0
	for v < last && s.ends[v] <= at {
		v++
	}
	path := make([]int, s.nodes)
	for d := s.nodes - 1; ; d-- {
		path[d] = v
		if d == 0 {
			return path
		}
		edges := into(s.graph, v)
		total := 0.0
		for _, e := range edges {
			total += s.ways[d-1][e.From]
		}
		at := rng.Float64() * total
		for _, e := range edges {
			if w := s.ways[d-1][e.From]; w > 0 {
				v = e.From // the last way there is, should rounding run past all
				if at -= w; at < 0 {
					break
				}
			}
		}
	}
}

// into lists the operations that write a node.
func into(g *topology.Graph, v int) []topology.Edge {
	first, end := g.Into(v)
	return g.Edges()[first:end]
}

// tps is the topological path score of a path given by its nodes.
func tps(path []int, tas []float64) float64 { return topology.Path{Nodes: path}.Sum(tas) }
