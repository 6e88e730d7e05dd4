package nn

import (
	"fmt"
	"time"

	"tips/internal/kernel"
	"tips/supernet"
)

// Session runs programs, one at a time: it owns threads and the memory of
// feature maps. One goroutine at a time may use it.
type Session struct {
	pool    *kernel.Pool
	variant kernel.Variant
	arena   []float32
	scratch []float32

	// One of each kernel, filled in anew for every step.
	conv      kernel.Conv
	depthwise kernel.Depthwise
	pooling   kernel.Pooling
	mean      kernel.GlobalMean
	elements  kernel.Map
	strip     stripTask
}

// NewSession makes a session with a number of threads; fewer than 1 is taken as 1,
// more than 128 as 128.
func NewSession(threads int) *Session {
	threads = min(max(threads, 1), maxThreads)
	return &Session{pool: kernel.NewPool(threads), strip: stripTask{workers: make([]stripWorker, threads)}}
}

// Close ends the session's threads.
func (s *Session) Close() { s.pool.Close() }

// Run computes the outputs of a program for its inputs: input holds batch,
// height, width and channels in this order, output batch and classes. It panics
// if their lengths are not the program's. Programs that a session has run before
// allocate nothing.
func (s *Session) Run(p *Program, output, input []float32) {
	p.checkLengths(output, input)
	s.reserve(p)
	s.execute(p, s.arena, output, input, nil)
}

// reserve makes room for the feature maps of a program.
func (s *Session) reserve(p *Program) {
	if len(s.arena) < p.arena {
		s.arena = kernel.Alloc(p.arena)
	}
}

// checkLengths panics where inputs or outputs are not as many as the program's.
func (p *Program) checkLengths(output, input []float32) {
	if len(input) != p.InputLen() || len(output) != p.OutputLen() {
		panic(fmt.Sprintf("nn: Run with %d inputs and %d outputs; the program has %d and %d", len(input), len(output), p.InputLen(), p.OutputLen()))
	}
}

// execute runs a program on feature maps in memory. Where took is not nil it gets
// the time of every step.
func (s *Session) execute(p *Program, memory, output, input []float32, took []time.Duration) {
	if n := p.scratchFor(s.pool.Size()); len(s.scratch) < n {
		s.scratch = kernel.Alloc(n)
	}
	if p.input != none {
		spread(p.input.in(memory), input, p.view.Input)
	}
	for i := range p.steps {
		if took == nil {
			s.step(&p.steps[i], p.batch, memory, input)
			continue
		}
		began := time.Now()
		s.step(&p.steps[i], p.batch, memory, input)
		took[i] = time.Since(began)
	}
	gather(output, p.output.in(memory), p.view.Shape(p.view.Output()))
	// An idle session holds on to nobody's weights or input.
	s.conv, s.depthwise, s.pooling, s.mean, s.elements = kernel.Conv{}, kernel.Depthwise{}, kernel.Pooling{}, kernel.GlobalMean{}, kernel.Map{}
}

// spread copies pixels to where each has room for whole vectors of channels.
func spread(to, from []float32, shape supernet.Shape) {
	c := shape.Channels
	ld := kernel.PadChannels(c)
	for i := 0; i*c < len(from); i++ {
		copy(to[i*ld:], from[i*c:(i+1)*c])
	}
}

// gather is the reverse of spread.
func gather(to, from []float32, shape supernet.Shape) {
	c := shape.Channels
	ld := kernel.PadChannels(c)
	for i := 0; i*c < len(to); i++ {
		copy(to[i*c:(i+1)*c], from[i*ld:])
	}
}

// step runs one step of a program.
func (s *Session) step(t *step, batch int, memory, input []float32) {
	x := input
	if t.x != callersInput {
		x = t.x.in(memory)
	}
	if t.kind == stepStrips {
		s.runStrips(t.strips, batch, memory)
		return
	}
	y := t.y.in(memory)
	switch t.kind {
	case stepConv:
		c := &s.conv
		t.fill(c, batch)
		c.Variant = s.variant
		c.X, c.Y, c.Residual, c.Scratch = x, y, nil, s.scratch
		if t.z != none {
			c.Residual = t.z.in(memory)
		}
		c.Run(s.pool)
	case stepDepthwise:
		d := &s.depthwise
		t.fillDepthwise(d)
		d.Variant = s.variant
		d.N, d.H, d.X, d.Y = batch, t.in.Height, x, y
		d.Run(s.pool)
	case stepMaxPool, stepAvgPool:
		q := &s.pooling
		q.Variant = s.variant
		q.Op = kernel.Max
		if t.kind == stepAvgPool {
			q.Op = kernel.MeanPadded
		}
		q.N, q.H, q.W, q.C = batch, t.in.Height, t.in.Width, t.out.Channels
		q.Kernel, q.Stride, q.Pad = t.window.kernel, t.window.stride, t.window.padding
		q.X, q.Y = x, y
		q.Run(s.pool)
	case stepMean:
		g := &s.mean
		g.Variant = s.variant
		g.N, g.Pixels, g.C, g.X, g.Y = batch, t.in.Height*t.in.Width, t.out.Channels, x, y
		g.Run(s.pool)
	case stepJoin, stepActivation:
		m := &s.elements
		m.Variant = s.variant
		m.N, m.C, m.X, m.Y, m.Z = batch*t.out.Height*t.out.Width, t.out.Channels, x, y, nil
		m.Op, m.Period, m.Activation = kernel.Identity, 1, t.activation
		if t.kind == stepJoin {
			m.Op, m.Z = kernel.Sum, t.z.in(memory)
			if t.product {
				m.Op = kernel.Product
			}
			if t.broadcast {
				m.Period = t.out.Height * t.out.Width
			}
		}
		m.Run(s.pool)
	}
}

// fillDepthwise describes a depthwise step to its kernel, rows and buffers aside.
func (t *step) fillDepthwise(d *kernel.Depthwise) {
	d.W, d.C = t.in.Width, t.out.Channels
	d.Kernel, d.Stride, d.Pad = t.window.kernel, t.window.stride, t.window.padding
	d.Weights, d.Scale, d.Bias, d.Activation = t.depthwise, t.affine.scale, t.affine.shift, t.activation
}

// fill describes a convolution step to its kernel, buffers aside.
func (t *step) fill(c *kernel.Conv, batch int) {
	c.N, c.H, c.W, c.Cin, c.Cout = batch, t.in.Height, t.in.Width, t.in.Channels, t.out.Channels
	c.Kernel, c.Stride, c.Pad, c.Groups = t.window.kernel, t.window.stride, t.window.padding, t.window.groups
	c.XLd, c.Weights, c.Scale, c.Bias, c.Activation = t.xld, t.conv, t.affine.scale, t.affine.shift, t.activation
}

// scratch is the scratch memory that the step needs.
func (t *step) scratch(batch, threads int) int {
	if t.kind == stepStrips {
		return threads * t.strips.floats()
	}
	if t.kind != stepConv {
		return 0
	}
	var c kernel.Conv
	t.fill(&c, batch)
	return c.ScratchLen(threads)
}
