package supernet

import (
	"math"
	"slices"
)

// Group is a set of operations whose outputs shrink together. Its width is
// counted in channels of its first operation; where a grouped convolution ties
// two different widths together, the other operations of the group shrink in
// proportion.
type Group struct {
	Name     string // of the first operation
	Ops      []int  // the operations that write this width, in order
	Channels int    // full width
	Step     int    // widths are multiples of Step, full width aside
	Min      int    // smallest width
}

// Round gives the width for a ratio of the full width: the nearest multiple of
// Step, or the next one up where that would lose more than a tenth, within Min
// and Channels. This is the rounding of the MobileNet papers, so that a ratio of
// 0.35 gives their channel counts.
func (g Group) Round(ratio float64) int {
	return min(max(g.Min, RoundWidth(ratio*float64(g.Channels), g.Step)), g.Channels)
}

// RoundWidth gives the multiple of step, at least one, that is nearest to width,
// or the next one up where that would lose more than a tenth.
func RoundWidth(width float64, step int) int {
	w := max(1, int(math.Floor(width/float64(step)+0.5))) * step
	if float64(w) < 0.9*width {
		w += step
	}
	return w
}

// Widths lists all widths of the group in rising order.
func (g Group) Widths() []int {
	var ws []int
	for w := g.Min; w < g.Channels; w += g.Step {
		ws = append(ws, w)
	}
	return append(ws, g.Channels)
}

// Has tells whether the group can have this width.
func (g Group) Has(width int) bool {
	return width == g.Channels || width >= g.Min && width < g.Channels && width%g.Step == 0
}

// findGroups derives the width groups from the graph.
func (n *Network) findGroups() {
	// Node i+1 of the union is the output of operation i, node 0 the network's
	// input.
	sets := newUnion(len(n.ops) + 1)
	for i, op := range n.ops {
		if op.Kind == Linear || op.Kind == Conv && op.Groups == 1 {
			continue // its output width is its own choice
		}
		for _, from := range n.operands[i] {
			sets.join(i+1, from+1)
		}
	}
	fixed := map[int]bool{sets.find(0): true, sets.find(len(n.ops)): true}
	for i, op := range n.ops {
		if op.Fixed {
			fixed[sets.find(i+1)] = true
		}
	}

	groupAt := make(map[int]int) // root of the union to group
	n.groupOf = make([]int, len(n.ops))
	for i, op := range n.ops {
		root := sets.find(i + 1)
		if fixed[root] {
			n.groupOf[i] = -1
			continue
		}
		at, known := groupAt[root]
		if !known {
			at = len(n.groups)
			groupAt[root] = at
			n.groups = append(n.groups, Group{Name: op.Name, Channels: n.channels[i]})
		}
		n.groups[at].Ops = append(n.groups[at].Ops, i)
		n.groupOf[i] = at
	}

	for at := range n.groups {
		g := &n.groups[at]
		g.Step = n.step(g)
		g.Min = min(RoundWidth(n.elastic.MinRatio*float64(g.Channels), g.Step), g.Channels)
	}
}

// step finds the smallest change of a group's width that keeps the groups of
// grouped convolutions whole and all its widths multiples of the divisor.
func (n *Network) step(g *Group) int {
	// The group consists of parts that stay whole: each holds the same number of
	// channels of every operation, and whole groups of every grouped convolution.
	parts := g.Channels
	for _, i := range g.Ops {
		parts = gcd(parts, n.channels[i])
		if n.ops[i].Kind == Conv && n.ops[i].Groups > 1 {
			parts = gcd(parts, n.ops[i].Groups)
		}
	}
	// As many parts at a time as make every width a multiple of the divisor.
	atOnce := 1
	for _, i := range g.Ops {
		perPart := n.channels[i] / parts
		atOnce = lcm(atOnce, n.elastic.Divisor/gcd(n.elastic.Divisor, perPart))
	}
	return min(atOnce, parts) * (g.Channels / parts)
}

// width is the number of channels of operation i's output where its group is
// given a width.
func (n *Network) width(i, groupWidth int) int {
	g := n.groups[n.groupOf[i]]
	return groupWidth * n.channels[i] / g.Channels
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }

// union is a union-find of small integers.
type union []int

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = i
	}
	return u
}

func (u union) find(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u union) join(i, j int) { u[u.find(i)] = u.find(j) }

// GroupsOf are the groups that the given operations write, without repetition,
// in order. An operation of fixed width adds none.
func (n *Network) GroupsOf(ops ...int) []int {
	var groups []int
	for _, i := range ops {
		if g := n.groupOf[i]; g >= 0 {
			groups = append(groups, g)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
