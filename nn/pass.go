package nn

import (
	"slices"

	"tips/internal/kernel"
	"tips/supernet"
)

// pass is one subnetwork at one batch size, planned forwards and backwards. Maps
// are indexed by the operation that writes them, plus one; the input is map 0.
type pass struct {
	view   *supernet.View
	params *Parameters
	batch  int
	maps   []learntMap
	back   []backStep // last operation first
	kept   int        // floats of maps that live from the forward to the backward pass
	floats int        // and with the gradients
}

// learntMap is a feature map as a pass keeps it.
//
// A map with batch norm, or with an activation of its own, is stored as it is
// before them: readers apply both as they read, a few images at a time. Batch norm
// needs the statistics of the whole batch before the first value can be
// normalised, so a second pass over the map is needed in any case; this way it is
// the reader's, the normalised map is never written to memory, and the gradient
// needs no other.
type learntMap struct {
	supernet.Shape
	pixels int // of an image
	ld     int // floats a pixel takes
	image  int // floats an image takes
	stored span

	finish     bool // readers apply scale, shift and activation
	activation kernel.Activation
	norm       bool
	sums       bool // the gradients of batch norm or of a bias need sums over the batch

	// With finish: y = activation(scale·z + shift), rounded up to whole vectors;
	// with batch norm the mean and 1/√(variance+ε) that they are made of.
	scale, shift []float32
	mean         []float32
	meanExact    []float64
	variance     []float64
	inverse      []float64
	// The gradient before batch norm and activation from that after them:
	// dz = a·g + b·z + d, where g = dy·activation'.
	a, b, d []float32

	moments  []accumulator // by slot, Σ(z−K) and Σ(z−K)²
	gradSums []accumulator // by slot, Σg and Σg·(z−mean)
}

// accumulator is two sums by channel of the images of one slot, and for moments
// the values they are taken around.
type accumulator struct {
	first, second []float64
	around        []float32
}

// backStep is the way back through one operation.
type backStep struct {
	op     int
	grad   span // of what it wrote
	reduce bool // its sums were not taken by those who completed the gradient
	mask   span // of a join: where the gradient before its activation goes; none where it is grad itself
	inputs []backInput
}

// backInput is the gradient of one operand.
type backInput struct {
	m     int // the map
	grad  span
	mode  gradMode
	alone bool // its sums are taken with it: it is complete, and in cache
}

type gradMode uint8

const (
	gradSkip  gradMode = iota // nobody needs it
	gradWrite                 // the first part of it
	gradAdd                   // a further one
	gradShare                 // it is the gradient of the sum
)

// newPass plans a subnetwork.
func newPass(p *Parameters, v *supernet.View, batch int) *pass {
	q := &pass{view: v, params: p, batch: batch, maps: make([]learntMap, len(v.Ops)+1)}
	var a arena
	q.maps[0] = q.newMap(v.Input)
	q.maps[0].stored = a.take(batch * q.maps[0].image)
	for i, op := range p.network.Ops() {
		o := &v.Ops[i]
		if !o.Runs {
			continue
		}
		m := q.newMap(o.Out)
		m.activation = activation(op.Activation)
		m.norm = op.Norm
		m.sums = op.Norm || op.Bias
		// A join stores what comes out in the end: of a clamp, the gradient can be
		// told from that.
		clamp := m.activation == kernel.None || m.activation == kernel.ReLU || m.activation == kernel.ReLU6
		m.finish = op.Norm || m.activation != kernel.None && !(op.Kind.Joins() && clamp)
		m.stored = a.take(batch * m.image)
		q.maps[i+1] = m
	}
	q.kept = a.size
	q.planBack()
	return q
}

func (q *pass) newMap(s supernet.Shape) learntMap {
	ld := kernel.PadChannels(s.Channels)
	return learntMap{Shape: s, pixels: s.Height * s.Width, ld: ld, image: s.Height * s.Width * ld}
}

// planBack decides where gradients are, and who adds to which.
func (q *pass) planBack() {
	ops := q.params.network.Ops()
	a := arena{base: q.kept, size: q.kept}
	grads := make([]span, len(q.maps))
	for i := range grads {
		grads[i] = none
	}
	shared := map[span]int{} // gradients that share a place
	take := func(m int) span {
		s := a.take(q.batch * q.maps[m].image)
		shared[s] = 1
		return s
	}
	release := func(s span) {
		if shared[s]--; shared[s] == 0 {
			a.free(s)
		}
	}
	readers := make([][]int, len(q.maps)) // in order
	for i, o := range q.view.Ops {
		for _, from := range o.Operands {
			readers[from+1] = append(readers[from+1], i)
		}
	}

	out := q.view.Output() + 1
	grads[out] = take(out)
	summed := make([]bool, len(q.maps))
	for i := len(q.view.Ops) - 1; i >= 0; i-- {
		o := &q.view.Ops[i]
		grad := grads[i+1]
		if !o.Runs || grad == none {
			continue
		}
		op, m := ops[i], &q.maps[i+1]
		step := backStep{op: i, grad: grad, mask: none, reduce: m.sums && !summed[i+1]}
		source := grad // of what an addition passes on
		if op.Kind.Joins() && (m.activation != kernel.None || m.finish) {
			if shared[grad] > 1 {
				source = take(i + 1)
				step.mask = source
			} else {
				step.mask = grad
			}
		}
		// Of operands that are read elsewhere too, one may go on adding to the
		// gradient of the sum, if the others have been dealt with by then.
		claimed, free := false, shared[source] == 1
		for j, from := range o.Operands {
			in := backInput{m: from + 1, grad: none}
			switch {
			case from == supernet.FromInput:
				in.mode = gradSkip
			case grads[from+1] != none:
				in.mode, in.grad = gradAdd, grads[from+1]
			case op.Kind == supernet.Add && free && q.mayShare(i, j, readers, claimed):
				claimed = claimed || len(readers[from+1]) > 1
				in.mode, in.grad = gradShare, source
				shared[source]++
			default:
				in.mode, in.grad = gradWrite, take(from+1)
			}
			if in.mode != gradSkip {
				grads[from+1] = in.grad
				complete := readers[from+1][0] == i && !slices.Contains(o.Operands[j+1:], from)
				if in.alone = complete && in.mode != gradShare && q.maps[from+1].sums && op.Kind != supernet.Add; in.alone {
					summed[from+1] = true
				}
			}
			step.inputs = append(step.inputs, in)
		}
		if source != grad {
			release(source)
		}
		release(grad)
		q.back = append(q.back, step)
	}
	q.floats = a.size
}

// mayShare tells whether the gradient of operand j of addition i can be that of
// the sum itself: who reads the operand elsewhere adds to it later on, when the
// other operands must not need it any more.
func (q *pass) mayShare(i, j int, readers [][]int, claimed bool) bool {
	operands := q.view.Ops[i].Operands
	from := operands[j]
	for k, other := range operands {
		if k != j && other == from {
			return false
		}
	}
	others := readers[from+1]
	if len(others) == 1 {
		return true
	}
	if claimed {
		return false
	}
	last := -1 // of its other readers; the first on the way back
	for _, r := range others {
		if r != i {
			last = max(last, r)
		}
	}
	for k, other := range operands {
		if k != j && other <= last {
			return false
		}
	}
	return true
}
