package nn

import (
	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// builder makes a program: it goes through the operations in order, decides
// which kernel computes each, and gives every feature map its place. Maps are
// indexed by the operation that writes them, plus one; the input is map 0.
type builder struct {
	model   *Model
	view    *supernet.View
	program *Program
	arena   arena

	readers [][]int // by map: the operations that read it
	unread  []int   // by map: readers that are still to come, the caller included
	place   []span  // by map
	joined  []int   // by operation: the addition that a convolution computes along with itself, or -1
	skipped []bool  // by operation: computed along with an earlier one

	inStrips bool // what is being placed is computed in strips
	keep     bool // every map keeps its place, and every operation is computed by itself

	// given is how many operations are computed already: their maps are in places
	// that they keep, and the program begins after them.
	given int
}

func newBuilder(m *Model, v *supernet.View, batch int) *builder {
	n := len(v.Ops)
	b := &builder{
		model: m, view: v, program: &Program{view: v, batch: batch, input: none},
		readers: make([][]int, n+1), unread: make([]int, n+1), place: make([]span, n+1),
		joined: make([]int, n), skipped: make([]bool, n),
	}
	for i := range b.place {
		b.place[i] = none
	}
	for i, o := range v.Ops {
		for _, from := range o.Operands { // none where it does not run
			b.readers[from+1] = append(b.readers[from+1], i)
			b.unread[from+1]++
		}
	}
	b.unread[v.Output()+1]++
	return b
}

func (b *builder) build(t *weights.Statistics) (*Program, error) {
	b.joinAdditions()
	if b.given == 0 {
		b.placeInput()
	}
	for i, op := range b.model.network.Ops() {
		o := &b.view.Ops[i]
		if !o.Runs || b.skipped[i] || i < b.given {
			continue
		}
		s, err := b.step(i, t)
		if err != nil {
			return nil, err
		}
		if filter, ok := b.stripsFrom(i); ok {
			if err := b.strips(i, filter, s, t); err != nil {
				return nil, err
			}
			continue
		}
		switch op.Kind {
		case supernet.Conv, supernet.Linear:
			b.convolution(i, &s)
			b.add(s)
		case supernet.Depthwise:
			s.kind = stepDepthwise
			b.reduce(i, s)
		case supernet.MaxPool:
			s.kind = stepMaxPool
			b.reduce(i, s)
		case supernet.AvgPool:
			s.kind = stepAvgPool
			b.reduce(i, s)
		case supernet.GlobalPool:
			s.kind = stepMean
			b.reduce(i, s)
		case supernet.Add, supernet.Mul:
			b.join(i, s, op.Kind == supernet.Mul)
		}
		if op.Norm && !op.Kind.HasWeights() {
			b.normAlone(i, s)
		} else if op.Activation != supernet.NoActivation && !op.Kind.HasWeights() && !op.Kind.Joins() {
			y := b.place[i+1]
			b.add(step{kind: stepActivation, in: o.Out, out: o.Out, x: y, y: y, z: none, activation: s.activation})
		}
	}
	p := b.program
	p.output = b.place[b.view.Output()+1]
	p.arena = b.arena.size
	return p, nil
}

// step describes operation i, all but the place of its output.
func (b *builder) step(i int, t *weights.Statistics) (step, error) {
	op, o := b.model.network.Ops()[i], &b.view.Ops[i]
	s := step{
		in: o.In[0], out: o.Out, x: b.place[o.Operands[0]+1], y: none, z: none,
		window:     window{max(op.Kernel, 1), max(op.Stride, 1), op.Padding, o.Groups},
		activation: activation(op.Activation),
		conv:       b.model.ops[i].conv, depthwise: b.model.ops[i].depthwise,
	}
	if op.Kind.HasWeights() || op.Norm {
		var err error
		if s.affine, err = b.model.affineFor(i, o.Out.Channels, t); err != nil {
			return step{}, err
		}
	}
	return s, nil
}

func activation(a supernet.Activation) kernel.Activation {
	switch a {
	case supernet.ReLU:
		return kernel.ReLU
	case supernet.ReLU6:
		return kernel.ReLU6
	case supernet.SiLU:
		return kernel.SiLU
	case supernet.Sigmoid:
		return kernel.Sigmoid
	}
	return kernel.None
}

// joinAdditions finds the additions that a convolution can do with its last
// step: of two operands, the later one a dense convolution without activation
// that nobody else reads.
func (b *builder) joinAdditions() {
	ops := b.model.network.Ops()
	for i := range b.joined {
		b.joined[i] = -1
	}
	for i, op := range ops {
		o := &b.view.Ops[i]
		if b.keep || !o.Runs || op.Kind != supernet.Add || op.Norm || len(o.Operands) != 2 || o.Operands[0] == o.Operands[1] {
			continue
		}
		conv := max(o.Operands[0], o.Operands[1])
		if conv >= b.given && b.isDense(conv) && ops[conv].Activation == supernet.NoActivation && len(b.readers[conv+1]) == 1 {
			b.joined[conv], b.skipped[i] = i, true
		}
	}
}

// isDense tells whether operation i is an ungrouped convolution or linear.
func (b *builder) isDense(i int) bool {
	kind := b.model.network.Ops()[i].Kind
	return kind == supernet.Linear || kind == supernet.Conv && b.view.Ops[i].Groups == 1
}

// placeInput decides whether kernels can read the input where the caller has it:
// dense convolutions can, all others read whole vectors of channels.
func (b *builder) placeInput() {
	inPlace := b.view.Output() != supernet.FromInput
	for _, i := range b.readers[0] {
		inPlace = inPlace && b.isDense(i)
	}
	if inPlace {
		b.place[0] = callersInput
		return
	}
	b.place[0] = b.arena.take(b.floats(b.view.Input))
	b.program.input = b.place[0]
}

// floats is the size of a feature map in the arena.
func (b *builder) floats(s supernet.Shape) int {
	return b.program.batch * s.Height * s.Width * kernel.PadChannels(s.Channels)
}

// write gives the output of operation i a place of its own.
func (b *builder) write(i int) span {
	b.place[i+1] = b.arena.take(b.floats(b.view.Ops[i].Out))
	return b.place[i+1]
}

// takeOver gives the output of operation i the place of an operand that nobody
// reads afterwards, if that operand is as large.
func (b *builder) takeOver(i, operand int) bool {
	// Bands of strips are computed at once: what one writes, another may read.
	if b.keep || b.inStrips || operand < b.given || b.unread[operand+1] != 1 || b.view.Shape(operand) != b.view.Ops[i].Out {
		return false
	}
	b.place[i+1] = b.place[operand+1]
	b.unread[operand+1] = 0 // so that done does not free it
	return true
}

// done says that an operation has read an operand.
func (b *builder) done(operand int) {
	m := operand + 1
	if b.keep || operand < b.given && b.given > 0 || b.unread[m] == 0 {
		return
	}
	if b.unread[m]--; b.unread[m] == 0 && b.place[m] != callersInput && b.place[m] != nowhere {
		b.arena.free(b.place[m])
	}
}

func (b *builder) add(s step) {
	b.program.steps = append(b.program.steps, s)
}

// convolution completes the step of a convolution or linear layer, with the
// addition that it does along with itself.
func (b *builder) convolution(i int, s *step) {
	s.kind = stepConv
	from := b.view.Ops[i].Operands[0]
	if s.x == callersInput {
		s.xld = s.in.Channels
	}
	sum := b.joined[i]
	if sum < 0 {
		s.y = b.write(i)
		b.done(from)
		return
	}
	operands := b.view.Ops[sum].Operands
	other := min(operands[0], operands[1])
	s.z = b.place[other+1]
	s.activation = activation(b.model.network.Ops()[sum].Activation)
	// A value of the residual is read just before the sum is written there; the
	// convolution's own input is read again and again.
	if other == from || !b.takeOver(sum, other) {
		b.write(sum)
	}
	s.y = b.place[sum+1]
	b.done(from)
	b.done(other)
}

// reduce adds an operation of one operand that needs a place of its own.
func (b *builder) reduce(i int, s step) {
	s.y = b.write(i)
	b.add(s)
	b.done(b.view.Ops[i].Operands[0])
}

// join adds an addition of several maps, or a multiplication of two.
func (b *builder) join(i int, s step, product bool) {
	operands := b.view.Ops[i].Operands
	s.kind, s.product = stepJoin, product
	s.affine = affine{}
	// Only of the first two: the others are read after the output is written.
	if !b.takeOver(i, operands[0]) && (operands[1] == operands[0] || !b.takeOver(i, operands[1])) {
		b.write(i)
	}
	s.y = b.place[i+1]
	last := s.activation
	if b.model.network.Ops()[i].Norm {
		last = kernel.None // comes after it
	}
	for j, operand := range operands[1:] {
		s.z = b.place[operand+1]
		z := b.view.Shape(operand)
		s.broadcast = z.Height == 1 && z.Width == 1 && s.out.Height*s.out.Width > 1
		s.activation = kernel.None
		if j == len(operands)-2 {
			s.activation = last
		}
		b.add(s)
		s.x = s.y
	}
	for _, operand := range operands {
		b.done(operand)
	}
}

// normAlone adds the batch norm of an operation without weights: a depthwise
// convolution of one tap, from the place of the result to another.
func (b *builder) normAlone(i int, s step) {
	s.kind, s.window = stepDepthwise, window{1, 1, 0, s.out.Channels}
	s.in, s.x = s.out, b.place[i+1]
	s.activation = activation(b.model.network.Ops()[i].Activation)
	s.y = b.arena.take(b.floats(s.out))
	b.add(s)
	b.arena.free(s.x)
	b.place[i+1] = s.y
}
