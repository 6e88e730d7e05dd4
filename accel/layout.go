//go:build xla

package accel

import (
	"tips/nn"
	"tips/supernet"
	"tips/weights"
)

// layout is where the parameters of a network are in the one vector that a device
// holds: hundreds of small buffers, in and out of every step, would cost the host
// more than the step. Parameters of a role are next to each other, so that what
// decays is a range.
type layout struct {
	network *supernet.Network
	ops     []opLayout
	size    int
	end     [nn.RoleShift + 1]int // of each role's range, which begins where the one before ends

	norm  []int // by operation, where its channels are among all that batch norm has; −1 without
	norms int   // how many there are
}

// opLayout is where the parameters of one operation are; −1 for what it does not
// have.
type opLayout struct {
	at            [nn.RoleShift + 1]int
	out, in, side int // of its weight: channels, channels of a group, kernel
}

func newLayout(n *supernet.Network) *layout {
	l := &layout{network: n, ops: make([]opLayout, len(n.Ops())), norm: make([]int, len(n.Ops()))}
	for role := nn.RoleWeight; role <= nn.RoleShift; role++ {
		for i, op := range n.Ops() {
			v, o := n.Full().Ops[i], &l.ops[i]
			o.out, o.in, o.side = v.Out.Channels, v.In[0].Channels/v.Groups, max(op.Kernel, 1)
			has, size := op.Norm, o.out
			switch role {
			case nn.RoleWeight:
				has, size = op.Kind.HasWeights(), o.out*o.in*o.side*o.side
			case nn.RoleBias:
				has = op.Bias
			}
			o.at[role] = -1
			if has {
				o.at[role] = l.size
				l.size += size
			}
		}
		l.end[role] = l.size
	}
	for i, op := range n.Ops() {
		l.norm[i] = -1
		if op.Norm {
			l.norm[i] = l.norms
			l.norms += l.ops[i].out
		}
	}
	return l
}

// pack lays a set out as devices hold it: weights as [kernel][kernel][in][out].
func (l *layout) pack(s *weights.Set) []float32 {
	flat := make([]float32, l.size)
	l.each(s, flat, func(device, set []float32) { copy(device, set) }, func(device, set []float32, o opLayout) {
		taps := o.side * o.side
		for out := range o.out {
			from := set[out*o.in*taps:][:o.in*taps]
			for in := range o.in {
				for tap := range taps {
					device[(tap*o.in+in)*o.out+out] = from[in*taps+tap]
				}
			}
		}
	})
	return flat
}

// unpack is the reverse, into a set of the network.
func (l *layout) unpack(flat []float32, s *weights.Set) {
	l.each(s, flat, func(device, set []float32) { copy(set, device) }, func(device, set []float32, o opLayout) {
		taps := o.side * o.side
		for out := range o.out {
			to := set[out*o.in*taps:][:o.in*taps]
			for in := range o.in {
				for tap := range taps {
					to[in*taps+tap] = device[(tap*o.in+in)*o.out+out]
				}
			}
		}
	})
}

// each visits all tensors, on the device and in the set.
func (l *layout) each(s *weights.Set, flat []float32, vector func(device, set []float32), weight func(device, set []float32, o opLayout)) {
	for i, o := range l.ops {
		p := &s.Ops[i]
		for role, values := range [][]float32{p.Weight, p.Bias, p.Scale, p.Shift} {
			if o.at[role] < 0 {
				continue
			}
			device := flat[o.at[role]:][:len(values)]
			if role == int(nn.RoleWeight) {
				weight(device, values, o)
			} else {
				vector(device, values)
			}
		}
	}
}
