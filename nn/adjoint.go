package nn

import "tips/internal/kernel"

// adjoint is the weights that lead from the gradients of an operation's output
// back to those of its input: transposed and flipped. They are made when they
// are first needed after the parameters changed, for the whole network, so that
// the subnetworks of a step share them.
type adjoint struct {
	params *Parameters
	ops    []opAdjoint
}

type opAdjoint struct {
	version   uint64
	conv      *kernel.ConvWeights
	depthwise *kernel.DepthwiseWeights
}

// of says whose weights are asked for next.
func (a *adjoint) of(p *Parameters) {
	if a.params != p {
		a.params, a.ops = p, make([]opAdjoint, len(p.ops))
	}
}

// fresh tells whether what is there of operation i is up to date, and that it
// will be.
func (a *adjoint) fresh(i int) bool {
	o := &a.ops[i]
	known := o.conv != nil || o.depthwise != nil
	if known && o.version == a.params.version {
		return true
	}
	o.version = a.params.version
	return false
}

// conv is the adjoint of a convolution or linear layer.
func (a *adjoint) conv(pool *kernel.Pool, i int) *kernel.ConvWeights {
	o, from := &a.ops[i], a.params.ops[i].conv
	if a.fresh(i) {
		return o.conv
	}
	groups := a.params.network.Full().Ops[i].Groups
	if o.conv == nil {
		o.conv = &kernel.ConvWeights{Cout: from.Cin * groups, Cin: from.Cout / groups, Taps: from.Taps}
		o.conv.Data = kernel.Alloc(kernel.PackedLen(o.conv.Cout, o.conv.Cin, o.conv.Taps))
	}
	pool.Run(o.conv.Panels(), transposeTask{o.conv, from, groups})
	return o.conv
}

type transposeTask struct {
	to, from *kernel.ConvWeights
	groups   int
}

func (t transposeTask) Part(part, _ int) { t.to.TransposePanels(t.from, t.groups, part, part+1) }

// depthwise is the adjoint of a depthwise convolution.
func (a *adjoint) depthwise(i int) *kernel.DepthwiseWeights {
	o, from := &a.ops[i], a.params.ops[i].depthwise
	if a.fresh(i) {
		return o.depthwise
	}
	if o.depthwise == nil {
		o.depthwise = kernel.NewFlipped(from)
	} else {
		o.depthwise.Flip(from)
	}
	return o.depthwise
}

// ownGradient is where a slot other than the first sums up the gradient of a
// convolution's weights; it begins anew with the first of its images.
func (s *slot) ownGradient(shape kernel.ConvWeights, from int) *kernel.ConvWeights {
	shape.Data = s.cleared(kernel.PackedLen(shape.Cout, shape.Cin, shape.Taps), from)
	return &shape
}

func (s *slot) ownDepthwise(shape kernel.DepthwiseWeights, from int) *kernel.DepthwiseWeights {
	shape.Data = s.cleared(shape.Taps*kernel.PadChannels(shape.Channels), from)
	return &shape
}

func (s *slot) cleared(n, from int) []float32 {
	g := room(&s.gradient, n)
	if first, _ := s.share(s.l.pass.batch); from == first {
		clear(g)
	}
	return g
}

// mergeConv adds what the other slots summed up to the gradient of a
// convolution's weights, in order.
func (l *Learner) mergeConv(g *kernel.ConvWeights, shape kernel.ConvWeights) {
	if len(l.slots) > 1 {
		l.pool.Run(shape.Panels(), mergeTask{l, g, shape})
	}
}

type mergeTask struct {
	l     *Learner
	to    *kernel.ConvWeights
	shape kernel.ConvWeights
}

// Part adds one panel.
func (t mergeTask) Part(panel, _ int) {
	const lanes = 16
	from := panel * t.shape.Taps * t.shape.Cin * lanes
	for i := 1; i < len(t.l.slots); i++ {
		s := &t.l.slots[i]
		if first, end := s.share(t.l.pass.batch); first == end {
			continue
		}
		for tap := range t.shape.Taps {
			n := t.shape.Cin * lanes
			at := (panel*t.to.Taps + tap) * t.to.Cin * lanes
			kernel.AddScaled(t.l.variant, t.to.Data[at:at+n], s.gradient[from+tap*n:from+(tap+1)*n], 1)
		}
	}
}

// mergeDepthwise is mergeConv for a depthwise convolution.
func (l *Learner) mergeDepthwise(g *kernel.DepthwiseWeights, shape kernel.DepthwiseWeights) {
	n, ld := kernel.PadChannels(shape.Channels), kernel.PadChannels(g.Channels)
	for i := 1; i < len(l.slots); i++ {
		s := &l.slots[i]
		if first, end := s.share(l.pass.batch); first == end {
			continue
		}
		for tap := range shape.Taps {
			kernel.AddScaled(l.variant, g.Data[tap*ld:tap*ld+n], s.gradient[tap*n:(tap+1)*n], 1)
		}
	}
}
