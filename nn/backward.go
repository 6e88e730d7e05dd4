package nn

import (
	"fmt"

	"tips/internal/kernel"
	"tips/supernet"
)

// Backward adds to grads the gradients of Σ logits·dlogits with respect to the
// parameters of the last Forward, which must be unchanged. It can be called once
// for each Forward.
func (l *Learner) Backward(grads *Parameters, dlogits []float32) {
	q := l.pass
	out := &q.maps[q.view.Output()+1]
	classes := int(out.Elements())
	if len(dlogits) != q.batch*classes {
		panic(fmt.Sprintf("nn: %d gradients of %d logits", len(dlogits), q.batch*classes))
	}
	if len(q.back) == 0 {
		return
	}
	l.adjoint.of(q.params)
	to := q.back[0].grad.in(l.memory)
	clear(to) // pad values
	spread(to, dlogits, out.Shape)
	for j := range q.back {
		l.backward(&q.back[j], grads)
	}
	grads.Changed()
}

// backward goes back through one operation.
func (l *Learner) backward(b *backStep, grads *Parameters) {
	q := l.pass
	i := b.op
	op, m := q.view.Network.Ops()[i], &q.maps[i+1]
	if m.sums && m.gradSums == nil {
		m.gradSums = l.accumulators(m.ld)
	}
	for _, in := range b.inputs {
		if x := &q.maps[in.m]; in.alone && x.gradSums == nil {
			x.gradSums = l.accumulators(x.ld)
		}
	}
	grad := b.grad.in(l.memory)
	if b.reduce {
		l.each(l.chunk(2*m.image, m.pixels, 0), func(s *slot, from, to int) { s.takeGradSums(m, grad, from, to) })
	}
	l.before(i, grads)

	chunk := l.chunkOf(i)
	switch op.Kind {
	case supernet.Conv, supernet.Linear:
		l.backConvolve(b, grads, chunk)
	case supernet.Depthwise:
		l.backFilter(b, grads, chunk)
	case supernet.Add:
		l.backAdd(b, chunk)
	case supernet.Mul:
		l.backMultiply(b, chunk)
	default:
		l.backPool(b, chunk)
	}
}

// before computes, from the sums over the batch, the gradients of scale, shift and
// bias of operation i, and how the gradient before batch norm follows from that
// after it:
//
//	dz = γ/σ · (g − Σg/n − x̂·Σ(g·x̂)/n),  x̂ = (z − mean)/σ
//
// written as a·g + b·z + d.
func (l *Learner) before(i int, grads *Parameters) {
	m, o := &l.pass.maps[i+1], &grads.ops[i]
	m.a, m.b, m.d = l.vectors.take(m.ld), l.vectors.take(m.ld), l.vectors.take(m.ld)
	copy(m.a, l.ones[:m.Channels])
	if !m.finish && m.scale == nil {
		m.scale, m.shift = l.ones[:m.ld], l.zeros[:m.ld]
	}
	if m.mean == nil {
		m.mean = l.zeros[:m.ld]
	}
	if !m.sums {
		return
	}
	n := float64(l.pass.batch * m.pixels)
	for c := range m.Channels {
		var sum, dot float64
		for j := range m.gradSums {
			sum += m.gradSums[j].first[c]
			dot += m.gradSums[j].second[c]
		}
		if !m.norm {
			o.bias[c] += float32(sum)
			continue
		}
		// A bias before batch norm is subtracted again with the mean: its gradient
		// is zero.
		o.scale[c] += float32(dot * m.inverse[c])
		o.shift[c] += float32(sum)
		a := float64(m.scale[c])
		b := -a * m.inverse[c] * m.inverse[c] * dot / n
		m.a[c], m.b[c], m.d[c] = float32(a), float32(b), float32(-a*sum/n-b*m.meanExact[c])
	}
}

// takeGradSums adds some images to the sums that the gradients of batch norm and
// bias need.
func (s *slot) takeGradSums(m *learntMap, grad []float32, from, to int) {
	s.clearSums(m.ld)
	k := s.normGradient(m, grad, from, to)
	k.Sum, k.Dot = s.first, s.second
	if k.Mean == nil {
		k.Mean = s.l.zeros[:m.ld]
	}
	k.Reduce()
	m.gradSums[s.index].add(s.first, s.second)
}

// normGradient describes batch norm and activation of some images of a map.
func (s *slot) normGradient(m *learntMap, grad []float32, from, to int) kernel.NormGradient {
	k := kernel.NormGradient{
		Variant: s.l.variant, N: to - from, H: m.Height, W: m.Width, C: m.Channels,
		Z: s.stored(m, from, to).values, DY: grad[from*m.image : to*m.image],
		Scale: m.scale, Shift: m.shift, Mean: m.mean, Activation: m.activation,
	}
	if k.Scale == nil {
		k.Scale, k.Shift = s.l.ones[:m.ld], s.l.zeros[:m.ld]
	}
	return k
}

// gradientBefore gives the gradient of some images of a map before its batch norm and
// activation, with a border of zeros.
func (s *slot) gradientBefore(buffer int, m *learntMap, grad []float32, from, to, border, ld int) plane {
	if !m.finish && border == 0 && m.ld == m.Channels {
		return dense(grad, m, from, to)
	}
	p := s.bordered(buffer, m, to-from, border, ld)
	k := s.normGradient(m, grad, from, to)
	k.A, k.B, k.D = m.a, m.b, m.d
	k.DZ, k.DZStrides = p.values[p.interior:], p.strides()
	k.Apply()
	return p
}

// backConvolve goes back through a convolution or linear layer.
func (l *Learner) backConvolve(b *backStep, grads *Parameters, chunk int) {
	q, i := l.pass, b.op
	op, o := q.view.Network.Ops()[i], &q.view.Ops[i]
	m, in := &q.maps[i+1], b.inputs[0]
	x := &q.maps[in.m]
	k, stride := max(op.Kernel, 1), max(op.Stride, 1)
	border := 0
	dense := stride == 1 && o.Groups == 1
	if dense {
		border = k - 1 - op.Padding
	}
	var adjoint *kernel.ConvWeights
	if in.mode != gradSkip {
		adjoint = l.adjoint.conv(l.pool, i)
	}
	grad := b.grad.in(l.memory)
	shape := kernel.ConvWeights{Cout: m.Channels, Cin: x.Channels / o.Groups, Taps: k * k}
	l.each(chunk, func(s *slot, from, to int) {
		dz := s.gradientBefore(1, m, grad, from, to, border, m.apart())
		a := s.loadBordered(0, x, from, to, op.Padding, x.apart())
		g := kernel.ConvGradient{
			Variant: l.variant, N: to - from, OH: m.Height, OW: m.Width, Cin: x.Channels, Cout: m.Channels,
			Kernel: k, Stride: stride, Groups: o.Groups,
			X: a.values, XStrides: a.strides(), DY: dz.values[dz.interior:], DYStrides: dz.strides(),
			G: grads.ops[i].conv,
		}
		if s.index > 0 {
			g.G = s.ownGradient(shape, from)
		}
		g.Scratch = room(&s.scratch, g.ScratchLen())
		g.Run()
		if in.mode == gradSkip {
			return
		}
		dx := in.grad.in(l.memory)[from*x.image : to*x.image]
		if dense {
			c := &s.conv
			*c = kernel.Conv{
				Variant: l.variant, N: to - from, H: dz.h, W: dz.w, Cin: m.Channels, Cout: x.Channels, Kernel: k, Stride: 1, Groups: 1,
				X: dz.values, XLd: dz.ld, XRow: dz.row, Y: dx, Weights: adjoint, Scale: l.ones[:x.ld], Bias: l.zeros[:x.ld],
			}
			if in.mode == gradAdd {
				c.Residual = dx
			}
			s.run(c)
		} else {
			c := kernel.ConvInputGradient{
				Variant: l.variant, N: to - from, H: x.Height, W: x.Width, Cin: x.Channels, Cout: m.Channels,
				Kernel: k, Stride: stride, Pad: op.Padding, Groups: o.Groups,
				DY: dz.values, YLd: dz.ld, DX: dx, Weights: adjoint, Accumulate: in.mode == gradAdd,
			}
			c.Scratch = room(&s.scratch, c.ScratchLen())
			c.Run()
		}
		s.completed(in, from, to)
	})
	l.mergeConv(grads.ops[i].conv, shape)
}

// backFilter goes back through a depthwise convolution.
func (l *Learner) backFilter(b *backStep, grads *Parameters, chunk int) {
	q, i := l.pass, b.op
	op := q.view.Network.Ops()[i]
	m, in := &q.maps[i+1], b.inputs[0]
	x := &q.maps[in.m]
	border := 0
	if op.Stride == 1 {
		border = op.Kernel - 1 - op.Padding
	}
	var adjoint *kernel.DepthwiseWeights
	if in.mode != gradSkip {
		adjoint = l.adjoint.depthwise(i)
	}
	grad := b.grad.in(l.memory)
	shape := kernel.DepthwiseWeights{Channels: m.Channels, Taps: op.Kernel * op.Kernel}
	l.each(chunk, func(s *slot, from, to int) {
		dz := s.gradientBefore(1, m, grad, from, to, border, m.apart())
		a := s.loadBordered(0, x, from, to, op.Padding, x.apart())
		g := kernel.DepthwiseGradient{
			Variant: l.variant, N: to - from, OH: m.Height, OW: m.Width, C: m.Channels, Kernel: op.Kernel, Stride: op.Stride,
			X: a.values, XStrides: a.strides(), DY: dz.values[dz.interior:], DYStrides: dz.strides(),
			G: grads.ops[i].depthwise,
		}
		if s.index > 0 {
			g.G = s.ownDepthwise(shape, from)
		}
		g.Run()
		if in.mode == gradSkip {
			return
		}
		k := kernel.DepthwiseInputGradient{
			Variant: l.variant, N: to - from, H: x.Height, W: x.Width, C: m.Channels,
			Kernel: op.Kernel, Stride: op.Stride, Pad: op.Padding, Weights: adjoint,
			DY: dz.values[dz.interior:], DYStrides: dz.strides(), DX: in.grad.in(l.memory)[from*x.image : to*x.image],
			Accumulate: in.mode == gradAdd,
		}
		k.Scratch = room(&s.scratch, k.ScratchLen())
		k.Run()
		s.completed(in, from, to)
	})
	l.mergeDepthwise(grads.ops[i].depthwise, shape)
}

// completed takes the sums of an operand's gradient that is now complete for some
// images.
func (s *slot) completed(in backInput, from, to int) {
	if in.alone {
		s.takeGradSums(&s.l.pass.maps[in.m], in.grad.in(s.l.memory), from, to)
	}
}

// backAdd goes back through an addition: every operand has the gradient of the
// sum, and most share its memory.
func (l *Learner) backAdd(b *backStep, chunk int) {
	m := &l.pass.maps[b.op+1]
	source := l.beforeJoin(b, chunk)
	for _, in := range b.inputs {
		if in.mode == gradSkip || in.mode == gradShare {
			continue
		}
		dx := in.grad.in(l.memory)
		l.each(chunk, func(s *slot, from, to int) {
			dy, dx := source[from*m.image:to*m.image], dx[from*m.image:to*m.image]
			if in.mode == gradWrite {
				copy(dx, dy)
				return
			}
			k := kernel.Map{Variant: l.variant, Op: kernel.Sum, N: (to - from) * m.pixels, C: m.Channels, X: dx, Z: dy, Y: dx}
			k.Run(nil)
		})
	}
}

// beforeJoin gives the gradient of a join before its batch norm and activation,
// for the whole batch.
func (l *Learner) beforeJoin(b *backStep, chunk int) []float32 {
	m := &l.pass.maps[b.op+1]
	grad := b.grad.in(l.memory)
	if b.mask == none {
		return grad
	}
	masked := b.mask.in(l.memory)
	l.each(chunk, func(s *slot, from, to int) {
		k := s.normGradient(m, grad, from, to)
		k.A, k.B, k.D = m.a, m.b, m.d
		k.DZ = masked[from*m.image : to*m.image]
		k.Apply()
	})
	return masked
}

// backMultiply goes back through a multiplication.
func (l *Learner) backMultiply(b *backStep, chunk int) {
	q := l.pass
	m := &q.maps[b.op+1]
	source := l.beforeJoin(b, chunk)
	operands := [2]*learntMap{&q.maps[b.inputs[0].m], &q.maps[b.inputs[1].m]}
	period := m.pixels / operands[1].pixels
	for j, in := range b.inputs {
		if in.mode == gradSkip {
			continue
		}
		x, other := operands[j], operands[1-j]
		dx := in.grad.in(l.memory)
		l.each(chunk, func(s *slot, from, to int) {
			factor := s.load(0, other, from, to).values
			dy, dx := source[from*m.image:to*m.image], dx[from*x.image:to*x.image]
			if j == 1 && period > 1 {
				if in.mode == gradWrite {
					clear(dx)
				}
				k := kernel.ImageDots{Variant: l.variant, N: to - from, H: m.Height, W: m.Width, C: m.Channels, X: factor, Y: dy, Sums: dx}
				k.Run()
			} else {
				k := kernel.Map{Variant: l.variant, Op: kernel.Product, N: (to - from) * m.pixels, C: m.Channels, X: dy, Z: factor, Y: dx, Period: 1}
				if j == 0 {
					k.Period = period
				}
				if in.mode == gradAdd {
					k.Y = s.bordered(1, x, to-from, 0, x.ld).values
				}
				k.Run(nil)
				if in.mode == gradAdd {
					sum := kernel.Map{Variant: l.variant, Op: kernel.Sum, N: (to - from) * x.pixels, C: x.Channels, X: dx, Z: k.Y, Y: dx}
					sum.Run(nil)
				}
			}
			s.completed(in, from, to)
		})
	}
}

// backPool goes back through pooling.
func (l *Learner) backPool(b *backStep, chunk int) {
	q := l.pass
	op, m, in := q.view.Network.Ops()[b.op], &q.maps[b.op+1], b.inputs[0]
	if in.mode == gradSkip {
		return
	}
	x := &q.maps[in.m]
	grad, dx := b.grad.in(l.memory), in.grad.in(l.memory)
	l.each(chunk, func(s *slot, from, to int) {
		dz := s.gradientBefore(1, m, grad, from, to, 0, m.ld)
		dx := dx[from*x.image : to*x.image]
		if op.Kind == supernet.GlobalPool {
			k := kernel.GlobalMeanGradient{N: to - from, Pixels: x.pixels, C: x.Channels, DY: dz.values, DX: dx, Accumulate: in.mode == gradAdd}
			k.Run()
		} else {
			k := kernel.PoolingGradient{
				Op: kernel.MeanPadded, N: to - from, H: x.Height, W: x.Width, C: x.Channels,
				Kernel: op.Kernel, Stride: op.Stride, Pad: op.Padding, DY: dz.values, DX: dx, Accumulate: in.mode == gradAdd,
			}
			if op.Kind == supernet.MaxPool {
				k.Op, k.X = kernel.Max, s.load(0, x, from, to).values
			}
			k.Run()
		}
		s.completed(in, from, to)
	})
}
