package nn

import (
	"fmt"
	"sync/atomic"

	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// Program is a subnetwork at one input size, ready to run. Nobody changes it.
type Program struct {
	view   *supernet.View
	batch  int
	steps  []step
	input  span // where the input is copied to; none where it is read in place
	output span
	arena  int // floats that all feature maps take together

	// scratch[n] is one more than the floats of scratch that n threads need, and 0
	// where nobody has asked yet.
	scratch [maxThreads + 1]atomic.Int64
}

// maxThreads bounds the threads of a session.
const maxThreads = 128

// scratchFor is the scratch memory that kernels need with that many threads. It
// is computed once: a session asks at every run.
func (p *Program) scratchFor(threads int) int {
	if known := p.scratch[threads].Load(); known > 0 {
		return int(known - 1)
	}
	most := 0
	for i := range p.steps {
		most = max(most, p.steps[i].scratch(p.batch, threads))
	}
	p.scratch[threads].Store(int64(most) + 1)
	return most
}

// step is one call of a kernel. What a kind of step does not need is zero.
type step struct {
	kind       stepKind
	x, z, y    span // z is the second operand, or the residual of a convolution
	in, out    supernet.Shape
	xld        int // of a convolution that reads the caller's input
	window     window
	conv       *kernel.ConvWeights
	depthwise  *kernel.DepthwiseWeights
	affine     affine
	activation kernel.Activation
	product    bool // of a join: multiply instead of add
	broadcast  bool // of a join: z has one pixel
	strips     *strips
}

type window struct{ kernel, stride, padding, groups int }

type stepKind uint8

const (
	stepConv stepKind = iota // linear layers too
	stepDepthwise
	stepMaxPool
	stepAvgPool
	stepMean
	stepJoin       // of two maps
	stepActivation // of one
	stepStrips     // several operations, strip by strip
)

// Program plans a subnetwork for inputs of a size. Statistics are those measured
// for it; nil takes the statistics of the whole network.
func (m *Model) Program(s supernet.Subnet, input supernet.Shape, batch int, t *weights.Statistics) (*Program, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	v, err := m.network.View(s, input)
	if err != nil {
		return nil, err
	}
	p, err := newBuilder(m, v, batch).build(t)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	return p, nil
}

func checkBatch(batch int) error {
	const most = 1 << 20
	if batch < 1 || batch > most {
		return fmt.Errorf("nn: batch of %d; want 1 to %d", batch, most)
	}
	return nil
}

// Subnet is the subnetwork that the program runs.
func (p *Program) Subnet() supernet.Subnet { return p.view.Subnet }

// View is the subnetwork with its shapes.
func (p *Program) View() *supernet.View { return p.view }

// Batch is the number of inputs that the program takes at once.
func (p *Program) Batch() int { return p.batch }

// InputLen is the number of values of the inputs: batch, height, width,
// channels, in this order.
func (p *Program) InputLen() int { return p.batch * int(p.view.Input.Elements()) }

// OutputLen is the number of values of the outputs, in the same order.
func (p *Program) OutputLen() int { return p.batch * int(p.view.Shape(p.view.Output()).Elements()) }
