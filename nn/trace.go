package nn

import (
	"fmt"

	"tips/internal/kernel"
	"tips/supernet"
)

// Trace runs a subnetwork on one input and keeps every feature map, so that one
// of them can be changed and the rest of the network computed again from there.
// One goroutine at a time may use it.
type Trace struct {
	program *Program
	after   []int  // by operation: the first step after those that write its output
	place   []span // by operation
	memory  []float32
	input   []float32
}

// NewTrace prepares a trace.
func (m *Model) NewTrace(s supernet.Subnet, input supernet.Shape) (*Trace, error) {
	v, err := m.network.View(s, input)
	if err != nil {
		return nil, err
	}
	b := newBuilder(m, v, 1)
	b.keep = true
	p, err := b.build(nil)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	return &Trace{program: p, after: b.after, place: b.place[1:], memory: kernel.Alloc(p.arena), input: make([]float32, p.InputLen())}, nil
}

// View is the subnetwork that is traced.
func (t *Trace) View() *supernet.View { return t.program.view }

// Run computes the whole network, like Session.Run.
func (t *Trace) Run(s *Session, output, input []float32) {
	copy(t.input, input)
	s.execute(t.program, t.memory, 0, output, t.input)
}

// Resume computes again all that comes after operation i, from the feature maps
// as they are now, and the output. Maps of later operations are overwritten.
func (t *Trace) Resume(s *Session, i int, output []float32) {
	s.execute(t.program, t.memory, t.after[i], output, t.input)
}

// Map is the output of operation i, which runs, to be read or changed: pixel by
// pixel, each with its channels in the first places of stride.
func (t *Trace) Map(i int) (values []float32, stride int) {
	p := t.place[i]
	o := t.program.view.Ops[i].Out
	stride = kernel.PadChannels(o.Channels)
	return t.memory[p.at : p.at+o.Height*o.Width*stride], stride
}
