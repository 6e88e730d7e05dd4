package topology

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoPath is wrapped by errors about paths that a graph does not have.
var ErrNoPath = errors.New("no such path")

// Path is a way through a graph. Edges[i] leads from Nodes[i] to Nodes[i+1].
type Path struct {
	Nodes []int
	Edges []int
}

// Sum adds up the scores of the path's nodes: with TAS, the TPS of the path.
func (p Path) Sum(scores []float64) float64 {
	total := 0.0
	for _, v := range p.Nodes {
		total += scores[v]
	}
	return total
}

// Mean is the sum over the number of nodes.
func (p Path) Mean(scores []float64) float64 { return p.Sum(scores) / float64(len(p.Nodes)) }

// A label is the best way from the input to a node found so far.
type label struct {
	value float64 // NaN where there is no way
	nodes int
	edge  int // the last edge, -1 at the input
}

// HighestTotal is the path from input to output with the highest total score,
// and among equals one with the fewest nodes.
func HighestTotal(g *Graph, scores []float64) (Path, error) {
	return best(g, func(v int) float64 { return scores[v] })
}

// best is the path of the highest total value, in one pass over the edges.
// Equals go to the path with fewer nodes, then to the earlier edge.
func best(g *Graph, value func(v int) float64) (Path, error) {
	labels := make([]label, len(g.nodes))
	labels[0] = label{value(0), 1, -1}
	for v := 1; v < len(labels); v++ {
		labels[v] = label{math.NaN(), 0, -1}
		for e := g.into[v]; e < g.into[v+1]; e++ {
			from := &labels[g.from[e]]
			if from.nodes == 0 {
				continue
			}
			l := &labels[v]
			if l.nodes == 0 || from.value > l.value || from.value == l.value && from.nodes+1 < l.nodes {
				*l = label{from.value, from.nodes + 1, e}
			}
		}
		labels[v].value += value(v)
	}
	return trace(g, func(v, _ int) int { return labels[v].edge }, labels[g.Output()].nodes)
}

// trace follows the last edges back from the output along a path of that many
// nodes.
func trace(g *Graph, edge func(v, nodes int) int, nodes int) (Path, error) {
	if nodes == 0 {
		return Path{}, fmt.Errorf("topology: %w from input to output", ErrNoPath)
	}
	p := Path{Nodes: make([]int, nodes), Edges: make([]int, nodes-1)}
	v := g.Output()
	for i := nodes - 1; i > 0; i-- {
		e := edge(v, i+1)
		p.Nodes[i], p.Edges[i-1] = v, e
		v = g.edges[e].From
	}
	return p, nil
}

// HighestMean is the path from input to output with the highest mean score a
// node, and among equals one with the fewest nodes.
//
// It is the highest total of score − θ, for the θ at which that total is zero.
// Newton's method (Dinkelbach, 1967) finds θ from below in a handful of rounds,
// each one pass over the edges: no table over path lengths is needed. Writing
// the values as D·score − S, for a path of D nodes and total S, keeps them whole
// numbers where the scores are, so that the last round ends at exactly zero.
func HighestMean(g *Graph, scores []float64) (Path, error) {
	path, err := HighestTotal(g, scores)
	if err != nil {
		return Path{}, err
	}
	mean := path.Mean(scores)
	for {
		nodes, total := float64(len(path.Nodes)), path.Sum(scores)
		better, err := best(g, func(v int) float64 { return float64(nodes*scores[v]) - total })
		if err != nil {
			return Path{}, err
		}
		// The means rise strictly until the last round, which finds the same mean
		// again, by rounding perhaps a hair less.
		m := better.Mean(scores)
		if m < mean || m == mean && len(better.Nodes) >= len(path.Nodes) {
			return path, nil
		}
		path, mean = better, m
	}
}

// HighestOfLength is the path from input to output with exactly that many nodes
// and the highest total score, by dynamic programming over (node, length): time
// and memory are the number of nodes, or edges, times the length.
func HighestOfLength(g *Graph, scores []float64, nodes int) (Path, error) {
	const most = 1 << 28 // table entries
	n := len(g.nodes)
	if nodes < 2 || nodes > n {
		return Path{}, fmt.Errorf("topology: %w: %d nodes in a graph of %d; want 2 to %d", ErrNoPath, nodes, n, n)
	}
	if nodes > most/n {
		return Path{}, fmt.Errorf("topology: a path of %d nodes in a graph of %d needs too large a table", nodes, n)
	}
	none := math.Inf(-1)
	before, after := make([]float64, n), make([]float64, n)
	for v := range before {
		before[v] = none
	}
	before[0] = scores[0]
	lastEdge := make([]int32, (nodes+1)*n) // by length, then node
	for d := 2; d <= nodes; d++ {
		row := lastEdge[d*n : (d+1)*n]
		for v := range n {
			after[v], row[v] = none, -1
			for e := g.into[v]; e < g.into[v+1]; e++ {
				if from := before[g.from[e]]; from > none && (row[v] < 0 || from+scores[v] > after[v]) {
					after[v], row[v] = from+scores[v], int32(e)
				}
			}
		}
		before, after = after, before
	}
	if math.IsInf(before[g.Output()], -1) {
		return Path{}, fmt.Errorf("topology: %w with %d nodes from input to output; it has paths of %s nodes", ErrNoPath, nodes, lengths(g))
	}
	return trace(g, func(v, d int) int { return int(lastEdge[d*n+v]) }, nodes)
}

// lengths names the shortest and the longest way from input to output.
func lengths(g *Graph) string {
	longest, err := best(g, func(int) float64 { return 1 })
	if err != nil {
		return "no"
	}
	shortest, _ := best(g, func(int) float64 { return -1 })
	return fmt.Sprintf("%d to %d", len(shortest.Nodes), len(longest.Nodes))
}

// Operations are the names of the path's operations, in order.
func (p Path) Operations(g *Graph) []string {
	names := make([]string, len(p.Edges))
	for i, e := range p.Edges {
		names[i] = g.edges[e].Name
	}
	return names
}
