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
	whole  *Program   // keeps all maps
	rest   []*Program // by operation: what comes after it; nil where it does not run
	place  []span     // by operation
	memory []float32  // the maps, and room for what the rests compute
	input  []float32
}

// NewTrace prepares a trace.
func (m *Model) NewTrace(s supernet.Subnet, input supernet.Shape) (*Trace, error) {
	v, err := m.network.View(s, input)
	if err != nil {
		return nil, err
	}
	b := newBuilder(m, v, 1)
	b.keep = true
	whole, err := b.build(nil)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	t := &Trace{whole: whole, rest: make([]*Program, len(v.Ops)), place: b.place[1:], input: make([]float32, whole.InputLen())}
	floats := whole.arena
	for i, o := range v.Ops {
		if !o.Runs {
			continue
		}
		r := newBuilder(m, v, 1)
		r.given, r.arena.base = i+1, whole.arena
		copy(r.place, b.place[:i+2])
		if t.rest[i], err = r.build(nil); err != nil {
			return nil, fmt.Errorf("nn: %w", err)
		}
		floats = max(floats, t.rest[i].arena)
	}
	t.memory = kernel.Alloc(floats)
	return t, nil
}

// View is the subnetwork that is traced.
func (t *Trace) View() *supernet.View { return t.whole.view }

// Run computes the whole network, like Session.Run.
func (t *Trace) Run(s *Session, output, input []float32) {
	t.whole.checkLengths(output, input)
	copy(t.input, input)
	s.execute(t.whole, t.memory, output, t.input, nil)
}

// Resume computes the output again from the maps up to that of operation i, as
// they are now. The maps of later operations stay as they are.
func (t *Trace) Resume(s *Session, i int, output []float32) {
	if t.rest[i] == nil {
		panic("nn: Resume after an operation that does not run: " + t.whole.view.Network.Ops()[i].Name)
	}
	t.whole.checkLengths(output, t.input)
	s.execute(t.rest[i], t.memory, output, t.input, nil)
}

// Map is the output of operation i, which runs, to be read or changed: pixel by
// pixel, each with its channels in the first places of stride.
func (t *Trace) Map(i int) (values []float32, stride int) {
	o := t.whole.view.Ops[i].Out
	stride = kernel.PadChannels(o.Channels)
	return t.place[i].in(t.memory)[:o.Height*o.Width*stride], stride
}
