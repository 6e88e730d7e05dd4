package topology

import (
	"fmt"
	"math"

	"tips/supernet"
)

// Edge is one operation between two feature maps.
type Edge struct {
	Name     string
	Kind     supernet.Kind
	From, To int     // nodes; From comes before To
	Block    int     // without which it is not there, or -1 where it is in every subnetwork
	Weight   float64 // entry of the adjacency matrix; 0 means 1, as in the paper
}

// Graph is a supernet as feature maps and operations. Nodes are numbered in
// topological order; node 0 is the input and the last node the output. Several
// operations may join the same two maps; their weights add up.
type Graph struct {
	nodes   []string // names of the operations that write the maps; InputName first
	edges   []Edge   // by target
	parents []int    // of blocks: the innermost block around each, or -1

	into []int   // edges of node v are edges[into[v]:into[v+1]], those that write it
	from []int32 // edges[e].From by itself: the path searches read nothing else of an edge
}

// NewGraph makes a graph from its parts. The parents of the blocks that edges
// name come before the blocks inside them.
func NewGraph(nodes []string, edges []Edge, parents []int) (*Graph, error) {
	if len(nodes) < 2 || len(nodes) > math.MaxInt32 {
		return nil, fmt.Errorf("topology: %d nodes; want an input and an output at least, and no more than %d", len(nodes), math.MaxInt32)
	}
	for b, p := range parents {
		if p < -1 || p >= b {
			return nil, fmt.Errorf("topology: block %d has parent %d; want -1 to %d", b, p, b-1)
		}
	}
	g := &Graph{nodes: nodes, parents: parents, into: make([]int, len(nodes)+1), edges: make([]Edge, len(edges)), from: make([]int32, len(edges))}
	for _, e := range edges {
		switch {
		case e.From < 0 || e.From >= e.To || e.To >= len(nodes):
			return nil, fmt.Errorf("topology: operation %q goes from node %d to %d; want a later one below %d", e.Name, e.From, e.To, len(nodes))
		case e.Block < -1 || e.Block >= len(parents):
			return nil, fmt.Errorf("topology: operation %q is in block %d; want -1 to %d", e.Name, e.Block, len(parents)-1)
		case e.Weight < 0 || math.IsNaN(e.Weight) || math.IsInf(e.Weight, 0):
			return nil, fmt.Errorf("topology: operation %q has weight %v; want a positive number", e.Name, e.Weight)
		}
		g.into[e.To+1]++
	}
	for v := range nodes {
		g.into[v+1] += g.into[v]
	}
	// Counting sort by target; edges into one node keep their order.
	next := append([]int(nil), g.into...)
	for _, e := range edges {
		if e.Weight == 0 {
			e.Weight = 1
		}
		g.edges[next[e.To]] = e
		g.from[next[e.To]] = int32(e.From)
		next[e.To]++
	}
	return g, nil
}

// FromNetwork reads the graph off a network. Each operation that reads one map
// is an edge from it; each operand of an addition or multiplication is an edge
// into the result, unless an operation feeds only that: then that operation is
// itself the edge, and its output before the join is no node.
func FromNetwork(n *supernet.Network) (*Graph, error) {
	ops := n.Ops()
	feeds := make([]int, len(ops)) // the join an operation is merged into, or -1
	nodeOf := make([]int, len(ops))
	nodes := make([]string, 1, len(ops)+1)
	nodes[0] = supernet.InputName
	for i, op := range ops {
		feeds[i] = -1
		if readers := n.Consumers(i); !op.Kind.Joins() && len(readers) == 1 && ops[readers[0]].Kind.Joins() {
			feeds[i] = readers[0]
			continue
		}
		nodeOf[i] = len(nodes)
		nodes = append(nodes, op.Name)
	}
	node := func(operand int) int {
		if operand == supernet.FromInput {
			return 0
		}
		return nodeOf[operand]
	}
	edges := make([]Edge, 0, len(ops)+len(n.Blocks()))
	for i, op := range ops {
		to := i
		if feeds[i] >= 0 {
			to = feeds[i]
		}
		for _, from := range n.Operands(i) {
			if from != supernet.FromInput && feeds[from] >= 0 {
				continue // that operation is the edge
			}
			// An edge is there if what it leads from and to are both: of the two
			// blocks, one of which holds the other, the inner one decides, and inner
			// blocks have higher numbers. Into an addition that closes a block, the
			// shortcut stays and what the block computes does not.
			block := n.BlockOf(i)
			if from != supernet.FromInput {
				block = max(block, n.BlockOf(from))
			}
			edges = append(edges, Edge{Name: op.Name, Kind: op.Kind, From: node(from), To: nodeOf[to], Block: block})
		}
	}
	parents := make([]int, len(n.Blocks()))
	for b, block := range n.Blocks() {
		parents[b] = block.Parent
	}
	return NewGraph(nodes, edges, parents)
}

// Nodes are the names of the operations that write the feature maps.
func (g *Graph) Nodes() []string { return g.nodes }

// Edges are the operations, ordered by the map they write.
func (g *Graph) Edges() []Edge { return g.edges }

// Into are the indices, from first to just before end, of the edges that write
// node v.
func (g *Graph) Into(v int) (first, end int) { return g.into[v], g.into[v+1] }

// Output is the last node.
func (g *Graph) Output() int { return len(g.nodes) - 1 }

// loop is the entry of every A_k on the diagonal.
func (g *Graph) loop(v int) float64 {
	if v == 0 || v == g.Output() {
		return 1
	}
	return 0
}
