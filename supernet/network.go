package supernet

import (
	"container/heap"
	"fmt"
)

// Description is a supernet as people and files hold it. New checks it.
type Description struct {
	Name       string  `json:"name"`
	Input      Shape   `json:"input"`      // the size the network is meant for; others may be asked for later
	Elastic    Elastic `json:"elastic"`    // how far widths may shrink
	Operations []Op    `json:"operations"` // in any order
}

// Elastic says which widths a group may take.
type Elastic struct {
	// MinRatio is the smallest share of a group's channels that a subnetwork may
	// keep, before rounding, above 0 and at most 1. 0 means DefaultMinRatio.
	MinRatio float64 `json:"min_ratio,omitempty"`
	// Divisor is what widths are a multiple of, full width aside. 0 means
	// DefaultDivisor.
	Divisor int `json:"divisor,omitempty"`
}

// The elastic widths of the paper's tables.
const (
	DefaultMinRatio = 0.35
	DefaultDivisor  = 8
)

func (e Elastic) normalise() (Elastic, error) {
	if e.MinRatio == 0 {
		e.MinRatio = DefaultMinRatio
	}
	if e.Divisor == 0 {
		e.Divisor = DefaultDivisor
	}
	if !(e.MinRatio > 0 && e.MinRatio <= 1) {
		return e, fmt.Errorf("elastic min_ratio %v; want above 0 and at most 1", e.MinRatio)
	}
	if e.Divisor < 1 || e.Divisor > maxChannels {
		return e, fmt.Errorf("elastic divisor %d; want 1 to %d", e.Divisor, maxChannels)
	}
	return e, nil
}

// FromInput is the index that stands for the network's input among operands.
const FromInput = -1

// Network is a checked supernet. It never changes.
type Network struct {
	name    string
	input   Shape
	elastic Elastic
	ops     []Op           // in topological order; the last one writes the output
	index   map[string]int // operation name to its place in ops

	operands  [][]int // per operation; FromInput is the network's input
	consumers [][]int // per operation, those that read its output, in order

	channels []int // output channels of every operation at full width
	groups   []Group
	groupOf  []int // per operation its group, or -1 where the width is fixed
	blocks   []Block
	blockOf  []int // per operation the innermost block it belongs to, or -1

	full *View // of the whole network at its own input size
}

// New checks a description and derives its width groups and blocks. The network
// keeps the operations in topological order, and in the order given wherever
// that is one.
func New(d Description) (*Network, error) {
	n, err := build(d)
	if err != nil {
		return nil, fmt.Errorf("supernet: %w", err)
	}
	return n, nil
}

func build(d Description) (*Network, error) {
	if err := checkName(d.Name); err != nil {
		return nil, fmt.Errorf("network name %w", err)
	}
	if err := d.Input.check(); err != nil {
		return nil, fmt.Errorf("input %w", err)
	}
	elastic, err := d.Elastic.normalise()
	if err != nil {
		return nil, err
	}
	n := &Network{name: d.Name, input: d.Input, elastic: elastic}
	if err := n.order(d.Operations); err != nil {
		return nil, err
	}
	if err := n.findChannels(); err != nil {
		return nil, err
	}
	if err := n.findBlocks(); err != nil {
		return nil, err
	}
	n.findGroups()

	// Shapes and costs at the network's own size, so that whoever holds a Network
	// knows that it runs there.
	if n.full, err = n.view(Subnet{}, n.input); err != nil {
		return nil, err
	}
	return n, nil
}

// order normalises the operations, links them, and sorts them topologically.
func (n *Network) order(ops []Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("no operations")
	}
	if len(ops) > maxOps {
		return fmt.Errorf("%d operations; want at most %d", len(ops), maxOps)
	}
	given := make(map[string]int, len(ops))
	links := 0
	normal := make([]Op, len(ops))
	for i, op := range ops {
		op, err := op.normalise()
		if err != nil {
			return err
		}
		if _, twice := given[op.Name]; twice {
			return fmt.Errorf("operation %q is described twice", op.Name)
		}
		given[op.Name] = i
		if links += len(op.Inputs); links > maxOperands {
			return fmt.Errorf("operation %q: more than %d inputs in all", op.Name, maxOperands)
		}
		normal[i] = op
	}

	// Kahn's algorithm with the lowest given index first: a description that is
	// in order already stays as it is.
	waiting := make([]int, len(normal))
	readers := make([][]int, len(normal))
	ready := &intHeap{}
	for i, op := range normal {
		for _, in := range op.Inputs {
			if in == InputName {
				continue
			}
			from, ok := given[in]
			if !ok {
				return fmt.Errorf("operation %q: input %q is no operation of this network", op.Name, in)
			}
			readers[from] = append(readers[from], i)
			waiting[i]++
		}
		if waiting[i] == 0 {
			heap.Push(ready, i)
		}
	}
	sorted := make([]int, 0, len(normal))
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		sorted = append(sorted, i)
		for _, r := range readers[i] {
			if waiting[r]--; waiting[r] == 0 {
				heap.Push(ready, r)
			}
		}
	}
	if len(sorted) < len(normal) {
		return fmt.Errorf("operation %q is part of a cycle", normal[onCycle(normal, given, waiting)].Name)
	}

	n.ops = make([]Op, len(sorted))
	n.index = make(map[string]int, len(sorted))
	n.operands = make([][]int, len(sorted))
	n.consumers = make([][]int, len(sorted))
	for at, i := range sorted {
		op := normal[i]
		n.ops[at] = op
		n.index[op.Name] = at
		n.operands[at] = make([]int, len(op.Inputs))
		for j, in := range op.Inputs {
			from := FromInput
			if in != InputName {
				from = n.index[in]
				n.consumers[from] = append(n.consumers[from], at)
			}
			n.operands[at][j] = from
		}
	}
	last := len(n.ops) - 1
	for i, op := range n.ops[:last] {
		if len(n.consumers[i]) == 0 {
			return fmt.Errorf("operation %q: its output is never used, though %q writes the network's output; a network has one output",
				op.Name, n.ops[last].Name)
		}
	}
	return nil
}

// onCycle walks back through unfinished operations until one repeats: that one
// is on a cycle, while others may merely depend on it.
func onCycle(ops []Op, index map[string]int, waiting []int) int {
	at := 0
	for waiting[at] == 0 {
		at++
	}
	seen := make(map[int]bool)
	for !seen[at] {
		seen[at] = true
		for _, in := range ops[at].Inputs {
			if from, ok := index[in]; ok && waiting[from] > 0 {
				at = from
				break
			}
		}
	}
	return at
}

// findChannels computes full widths and checks that operations fit each other.
func (n *Network) findChannels() error {
	n.channels = make([]int, len(n.ops))
	for i, op := range n.ops {
		in := n.channelsOf(n.operands[i][0])
		n.channels[i] = in
		if op.Kind.setsWidth() {
			n.channels[i] = op.Channels
		}
		if op.Kind == Conv && in%op.Groups != 0 {
			return fmt.Errorf("operation %q: groups %d do not divide its %d input channels", op.Name, op.Groups, in)
		}
		for j, from := range n.operands[i][1:] {
			if c := n.channelsOf(from); c != in {
				return fmt.Errorf("operation %q: input %q has %d channels and input %q has %d; %s wants them equal",
					op.Name, op.Inputs[0], in, op.Inputs[j+1], c, op.Kind)
			}
		}
	}
	return nil
}

// channelsOf is the full width of an operand.
func (n *Network) channelsOf(operand int) int {
	if operand == FromInput {
		return n.input.Channels
	}
	return n.channels[operand]
}

// Name is the network's name.
func (n *Network) Name() string { return n.name }

// Input is the size the network is meant for.
func (n *Network) Input() Shape { return n.input }

// Elastic says which widths groups may take.
func (n *Network) Elastic() Elastic { return n.elastic }

// Ops are the operations in topological order; the last one writes the output.
func (n *Network) Ops() []Op { return n.ops }

// Operands are the indices of the operations whose outputs operation i reads, in
// the order of its Inputs. FromInput is the network's input.
func (n *Network) Operands(i int) []int { return n.operands[i] }

// Consumers are the indices of the operations that read the output of operation
// i, in order.
func (n *Network) Consumers(i int) []int { return n.consumers[i] }

// Index finds an operation by name.
func (n *Network) Index(name string) (int, bool) {
	i, ok := n.index[name]
	return i, ok
}

// Groups are the width groups that may shrink, by first operation.
func (n *Network) Groups() []Group { return n.groups }

// GroupOf is the index of the width group that operation i writes, or -1 where
// the width is fixed.
func (n *Network) GroupOf(i int) int { return n.groupOf[i] }

// Blocks are the blocks that may be left out, outer ones before inner ones.
func (n *Network) Blocks() []Block { return n.blocks }

// BlockOf is the index of the innermost block that operation i belongs to, or -1
// where it always runs.
func (n *Network) BlockOf(i int) int { return n.blockOf[i] }

// Full is the view of the whole network at its own input size.
func (n *Network) Full() *View { return n.full }

// Description gives the network back as a description, in order and with all
// defaults filled in.
func (n *Network) Description() Description {
	d := Description{Name: n.name, Input: n.input, Elastic: n.elastic, Operations: make([]Op, len(n.ops))}
	for i, op := range n.ops {
		op.Inputs = append([]string(nil), op.Inputs...)
		d.Operations[i] = op
	}
	return d
}

// intHeap is the priority queue of order.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
