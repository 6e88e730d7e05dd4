package supernet

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Block is a residual branch that a subnetwork may leave out. The addition that
// closes it then passes its shortcut on unchanged: neither the branch nor the
// addition, with its batch norm and activation, is computed. BlockOf tells which
// operations a block holds; the addition that closes it is not one of them.
type Block struct {
	Name     string // of the addition
	Add      int    // the addition that closes the block
	Shortcut int    // the operand of Add that goes around the block, or FromInput
	First    int    // the first operation of the block
	Parent   int    // the innermost block around this one, or -1
}

// findBlocks derives the blocks from the graph. An addition closes a block if
// one of its operands, the shortcut, is all that the other operands are computed
// from, and nobody else reads what is computed on the way. Additions whose
// shortcut is a projection, because the width or the size changes, close none.
func (n *Network) findBlocks() error {
	n.blockOf = make([]int, len(n.ops))
	for i := range n.blockOf {
		n.blockOf[i] = -1
	}
	closes := make(map[int]int) // addition to the block it closes
	steps := maxBlockSteps
	for i, op := range n.ops {
		if op.Kind != Add || op.Required {
			continue
		}
		// The other operands are computed from the shortcut, so it comes first.
		shortcut := slices.Min(n.operands[i])
		own, ok := n.branch(i, shortcut, closes, &steps)
		if steps < 0 {
			return fmt.Errorf("operation %q: what additions close takes too long to tell in a network so entangled; mark those that close no block as required", op.Name)
		}
		if !ok {
			continue
		}
		b := len(n.blocks)
		block := Block{Name: op.Name, Add: i, Shortcut: shortcut, First: slices.Min(own), Parent: -1}
		for _, o := range own {
			n.blockOf[o] = b
			if inner, is := closes[o]; is {
				n.blocks[inner].Parent = b
				block.First = min(block.First, n.blocks[inner].First)
			}
		}
		closes[i] = b
		n.blocks = append(n.blocks, block)
	}
	n.sortBlocks()
	return nil
}

// maxBlockSteps bounds the search for blocks. Networks in use take about a step
// for each operation: a walk that succeeds is never walked again, and one that
// fails, fails soon. Contrived ones can make long walks fail at their end.
const maxBlockSteps = 1 << 22

// sortBlocks puts blocks in the order of the network, outer ones before the ones
// inside them.
func (n *Network) sortBlocks() {
	order := make([]int, len(n.blocks))
	for b := range order {
		order[b] = b
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := n.blocks[a], n.blocks[b]
		return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(y.Add, x.Add))
	})
	place := make([]int, len(order))
	sorted := make([]Block, len(order))
	for to, from := range order {
		place[from] = to
		sorted[to] = n.blocks[from]
	}
	for b := range sorted {
		if p := sorted[b].Parent; p >= 0 {
			sorted[b].Parent = place[p]
		}
	}
	for i, b := range n.blockOf {
		if b >= 0 {
			n.blockOf[i] = place[b]
		}
	}
	n.blocks = sorted
}

// branch collects the operations between shortcut and the addition add, and
// tells whether they form a block. A block found earlier is passed over as a
// whole, by way of its own shortcut; only the addition that closes it is listed.
// Every step of the walk is taken off steps; the walk ends where that falls below
// zero.
func (n *Network) branch(add, shortcut int, closes map[int]int, steps *int) (own []int, ok bool) {
	inside := map[int]bool{add: true}
	pending := &intHeap{} // negated: latest operation first, so that readers come before what they read
	reach := func(i int) {
		if i != shortcut && !inside[i] {
			inside[i] = true
			heap.Push(pending, -i)
		}
	}
	// A block that was passed over is inside as a whole.
	isInside := func(i int) bool {
		if inside[i] {
			return true
		}
		for b := n.blockOf[i]; b >= 0; b = n.blocks[b].Parent {
			*steps--
			if inside[n.blocks[b].Add] {
				return true
			}
		}
		return false
	}
	for _, i := range n.operands[add] {
		reach(i)
	}
	for pending.Len() > 0 {
		if *steps--; *steps < 0 {
			return nil, false
		}
		i := -heap.Pop(pending).(int)
		if i < shortcut || i == FromInput {
			return nil, false // computed from more than the shortcut
		}
		for _, reader := range n.consumers[i] {
			if !isInside(reader) {
				return nil, false
			}
		}
		own = append(own, i)
		if inner, is := closes[i]; is {
			reach(n.blocks[inner].Shortcut)
			continue
		}
		for _, from := range n.operands[i] {
			reach(from)
		}
	}
	return own, len(own) > 0 // x + x has no branch
}
