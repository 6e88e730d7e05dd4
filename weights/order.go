package weights

import (
	"cmp"
	"math"
	"slices"

	"tips/supernet"
)

// Order is an order of the channels of a network's width groups. To put
// channels in another order changes nothing about what the whole network
// computes, and everything about which of them its subnetworks keep.
type Order struct {
	network *supernet.Network
	groups  [][]int // by group: which channel comes at each place; nil where they stay
}

// ChannelOrder is the order that OFA puts channels in before it trains widths:
// those first that matter most to whoever reads them, by the L1 norm of the
// weights that the convolutions and linear layers reading the group's last map
// have for the channel. Of a gated map (squeeze-and-excite) that is the gated
// one; the gate follows.
//
// Groups that hold a residual trunk keep their order, because no one convolution
// tells what a channel of it is worth: only the middles of blocks, and what lies
// between blocks, are sorted. Groups with grouped convolutions keep theirs too:
// their channels cannot move from one convolution group to another.
func ChannelOrder(s *Set) *Order {
	n := s.Network
	o := &Order{network: n, groups: make([][]int, len(n.Groups()))}
	for g, group := range n.Groups() {
		if !sortable(n, group) {
			continue
		}
		norms := make([]float64, group.Channels)
		readers := 0
		last := group.Ops[len(group.Ops)-1]
		for _, reader := range n.Consumers(last) {
			// Whatever is no member of the group and reads it has weights.
			addNorms(norms, s.Ops[reader].Weight, fullShape(n, reader))
			readers++
		}
		if readers == 0 {
			continue
		}
		order := make([]int, group.Channels)
		for c := range order {
			order[c] = c
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(norms[b], norms[a]) })
		o.groups[g] = order
	}
	return o
}

func sortable(n *supernet.Network, g supernet.Group) bool {
	return !slices.ContainsFunc(g.Ops, func(i int) bool {
		op := n.Ops()[i]
		return op.Kind == supernet.Add || op.Kind == supernet.Conv && op.Groups > 1
	})
}

// addNorms adds the L1 norm of a weight's taps for each input channel.
func addNorms(norms []float64, weight []float32, s shape) {
	taps := s.kernel * s.kernel
	for i, w := range weight {
		norms[i/taps%s.in] += math.Abs(float64(w))
	}
}

// Sorted tells whether the channels of a group are put in an order; those of other
// groups stay where they are.
func (o *Order) Sorted(group int) bool { return o.groups[group] != nil }

// Apply puts the channels of a set in this order, in place. Anything that has a
// value for every parameter can be a set: weights, their moving average, the
// momentum of an optimiser. Fields that are nil stay so.
func (o *Order) Apply(s *Set) {
	if s.Network != o.network {
		panic("weights: an order of the channels of another network")
	}
	for i, op := range o.network.Ops() {
		p := &s.Ops[i]
		if order := o.of(i); order != nil {
			for _, values := range [][]float32{p.Bias, p.Scale, p.Shift, p.Mean, p.Variance, p.Weight} {
				reorder(values, order, 1)
			}
		}
		if op.Kind != supernet.Conv && op.Kind != supernet.Linear {
			continue // a depthwise convolution has no input channels but its own
		}
		if order := o.of(o.network.Operands(i)[0]); order != nil {
			reorder(p.Weight, order, fullShape(o.network, i).out)
		}
	}
}

// of is the order of the channels that operation i writes, nil where they stay.
func (o *Order) of(i int) []int {
	if i == supernet.FromInput {
		return nil
	}
	g := o.network.GroupOf(i)
	if g < 0 {
		return nil
	}
	return o.groups[g]
}

// reorder puts the channels of [rows][channels][…] in another order.
func reorder(values []float32, order []int, rows int) {
	row := len(values) / rows
	size := row / len(order)
	old := make([]float32, row)
	for ; len(values) > 0; values = values[row:] {
		copy(old, values)
		for to, from := range order {
			copy(values[to*size:(to+1)*size], old[from*size:])
		}
	}
}
