package nn

import (
	"tips/internal/kernel"
	"tips/supernet"
)

// forward computes operation i for the whole batch.
func (l *Learner) forward(i int) {
	q := l.pass
	op, o := q.view.Network.Ops()[i], &q.view.Ops[i]
	m := &q.maps[i+1]
	if m.norm {
		m.moments = l.accumulators(m.ld)
		for j := range m.moments {
			m.moments[j].around = l.vectors.take(m.ld)
		}
	}
	x := &q.maps[o.Operands[0]+1]
	l.each(l.chunkOf(i), func(s *slot, from, to int) {
		switch op.Kind {
		case supernet.Conv, supernet.Linear:
			s.convolve(i, x, m, from, to)
		case supernet.Depthwise:
			s.filter(i, x, m, from, to)
		case supernet.MaxPool, supernet.AvgPool:
			k := s.pooling(op, m)
			k.N, k.H, k.W, k.X, k.Y = to-from, x.Height, x.Width, s.load(0, x, from, to).values, s.stored(m, from, to).values
			k.Run(nil)
		case supernet.GlobalPool:
			k := kernel.GlobalMean{Variant: l.variant, N: to - from, Pixels: x.pixels, C: m.Channels}
			k.X, k.Y = s.load(0, x, from, to).values, s.stored(m, from, to).values
			k.Run(nil)
		case supernet.Add:
			s.add(i, m, from, to)
		case supernet.Mul:
			s.multiply(i, m, from, to)
		}
		if m.norm {
			s.takeMoments(m, from, to)
		}
	})
	switch {
	case m.norm:
		l.statistics(i)
	case m.finish:
		// Pad values become zero, so that they stay so in the gradients.
		m.scale, m.shift = l.vectors.take(m.ld), l.zeros[:m.ld]
		copy(m.scale, l.ones[:m.Channels])
	}
}

// chunkOf is the number of images that operation i is computed for at a time.
func (l *Learner) chunkOf(i int) int {
	op, o := l.pass.view.Network.Ops()[i], &l.pass.view.Ops[i]
	m := &l.pass.maps[i+1]
	floats, weights := m.image, 0
	for _, from := range o.Operands {
		x := &l.pass.maps[from+1]
		floats += (x.Height + 2*op.Padding) * (x.Width + 2*op.Padding) * x.ld
	}
	if op.Kind == supernet.Conv || op.Kind == supernet.Linear {
		taps := max(op.Kernel, 1) * max(op.Kernel, 1)
		weights = o.In[0].Channels / o.Groups * m.Channels * taps
	}
	return l.chunk(floats, m.pixels, weights)
}

func (s *slot) convolve(i int, x, m *learntMap, from, to int) {
	q := s.l.pass
	op, o, p := q.view.Network.Ops()[i], &q.view.Ops[i], &q.params.ops[i]
	in := s.loadBordered(0, x, from, to, op.Padding, x.apart())
	c := &s.conv
	*c = kernel.Conv{
		Variant: s.l.variant, N: to - from, H: in.h, W: in.w, Cin: x.Channels, Cout: m.Channels,
		Kernel: max(op.Kernel, 1), Stride: max(op.Stride, 1), Groups: o.Groups,
		X: in.values, XLd: in.ld, XRow: in.row, Y: s.stored(m, from, to).values,
		Weights: p.conv, Scale: s.l.ones[:m.ld], Bias: s.l.zeros[:m.ld],
	}
	if p.bias != nil {
		c.Bias = p.bias[:m.ld]
	}
	s.run(c)
}

// run computes a convolution of a chunk of images. Which algorithm it takes
// depends on the chunk as a whole: images share the transformed weights. On images
// of a few pixels the direct sum reads all weights for each and is slow for that.
func (s *slot) run(c *kernel.Conv) {
	c.Algorithm = kernel.Direct
	if c.Kernel == 3 && c.Stride == 1 && c.Groups == 1 && c.Cin >= 32 && c.Cout >= 32 {
		h, w := c.OutSize()
		tiles := (h + 3) / 4 * ((w + 3) / 4) * c.N
		winograd, direct := 1.5*float64(36*tiles+200*((tiles+63)/64)), float64(9*h*w*c.N)
		if h*w <= 4 {
			direct *= 2.5
		}
		if winograd < 0.9*direct {
			c.Algorithm = kernel.Winograd
		}
	}
	c.Scratch = room(&s.scratch, c.ScratchLen(1))
	c.Run(nil)
}

func (s *slot) filter(i int, x, m *learntMap, from, to int) {
	q := s.l.pass
	op, p := q.view.Network.Ops()[i], &q.params.ops[i]
	in := s.loadBordered(0, x, from, to, op.Padding, x.apart())
	d := &s.depthwise
	*d = kernel.Depthwise{
		Variant: s.l.variant, N: to - from, H: in.h, W: in.w, C: m.Channels,
		Kernel: op.Kernel, Stride: op.Stride, X: in.values, XLd: in.ld, Y: s.stored(m, from, to).values,
		Weights: p.depthwise, Scale: s.l.ones[:m.ld], Bias: s.l.zeros[:m.ld],
	}
	if p.bias != nil {
		d.Bias = p.bias[:m.ld]
	}
	d.Run(nil)
}

func (s *slot) pooling(op supernet.Op, m *learntMap) kernel.Pooling {
	k := kernel.Pooling{Variant: s.l.variant, Op: kernel.Max, C: m.Channels, Kernel: op.Kernel, Stride: op.Stride, Pad: op.Padding}
	if op.Kind == supernet.AvgPool {
		k.Op = kernel.MeanPadded
	}
	return k
}

// add sums the operands of an addition, applying what each needs on the way.
func (s *slot) add(i int, m *learntMap, from, to int) {
	operands := s.l.pass.view.Ops[i].Operands
	y := s.stored(m, from, to)
	// One that needs nothing first, if there is one: it need not be copied.
	first := 0
	for j, operand := range operands {
		if !s.l.pass.maps[operand+1].finish {
			first = j
			break
		}
	}
	sum := s.load(0, &s.l.pass.maps[operands[first]+1], from, to).values
	left := len(operands) - 1
	for j, operand := range operands {
		if j == first {
			continue
		}
		left--
		x := &s.l.pass.maps[operand+1]
		k := kernel.Normalise{
			Variant: s.l.variant, N: to - from, H: m.Height, W: m.Width, C: m.Channels,
			Z: s.stored(x, from, to).values, Y: y.values, Residual: sum,
			Scale: s.l.ones[:m.ld], Shift: s.l.zeros[:m.ld],
		}
		switch {
		case x.finish && x.activation != kernel.None: // comes before the sum
			k.Z = s.load(1, x, from, to).values
		case x.finish:
			k.Scale, k.Shift = x.scale, x.shift
		}
		if left == 0 && !m.finish {
			k.Activation = m.activation
		}
		k.Run()
		sum = y.values
	}
}

// multiply computes a multiplication, whose second operand may have a single
// pixel.
func (s *slot) multiply(i int, m *learntMap, from, to int) {
	operands := s.l.pass.view.Ops[i].Operands
	x, z := &s.l.pass.maps[operands[0]+1], &s.l.pass.maps[operands[1]+1]
	k := kernel.Map{
		Variant: s.l.variant, Op: kernel.Product, N: (to - from) * m.pixels, C: m.Channels, Period: m.pixels / z.pixels,
		X: s.load(0, x, from, to).values, Z: s.load(1, z, from, to).values, Y: s.stored(m, from, to).values,
	}
	if !m.finish {
		k.Activation = m.activation
	}
	k.Run(nil)
}

// takeMoments adds the values of some images to the moments of their map.
func (s *slot) takeMoments(m *learntMap, from, to int) {
	a := &m.moments[s.index]
	z := s.stored(m, from, to)
	if first, _ := s.share(s.l.pass.batch); from == first {
		copy(a.around, z.values[:m.Channels])
	}
	s.clearSums(m.ld)
	k := kernel.Moments{Variant: s.l.variant, N: to - from, H: m.Height, W: m.Width, C: m.Channels, Z: z.values, Near: a.around, Sum: s.first, Square: s.second}
	k.Run()
	a.add(s.first, s.second)
}

// clearSums makes the sums of a chunk zero.
func (s *slot) clearSums(channels int) {
	for _, sums := range []*[]float32{&s.first, &s.second} {
		if cap(*sums) < channels {
			*sums = make([]float32, channels)
		}
		*sums = (*sums)[:channels]
		clear(*sums)
	}
}
