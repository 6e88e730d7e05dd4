package nn

import (
	"fmt"
	"slices"

	"tips/internal/kernel"
	"tips/supernet"
	"tips/weights"
)

// Model is the weights of a network, packed for the kernels.
type Model struct {
	network *supernet.Network
	ops     []packed // as Network.Ops

	stripsPay int // the constant of that name, but in tests
	stripRows int // rows of a strip, in tests; 0 for what suits the cache
}

// packed is what the model holds of one operation.
type packed struct {
	conv      *kernel.ConvWeights      // convolutions and linear layers
	depthwise *kernel.DepthwiseWeights // depthwise convolutions, and batch norm that follows no weights
	affine    affine                   // with the statistics of the whole network

	params weights.Params // bias, scale and shift: for programs with statistics of their own
}

// affine is what follows the sum of an operation: y = scale·x + shift, channel by
// channel, rounded up to what kernels read.
type affine struct{ scale, shift []float32 }

// NewModel packs a set of weights. The set is not needed afterwards.
func NewModel(s *weights.Set) *Model {
	m := &Model{network: s.Network, ops: make([]packed, len(s.Ops)), stripsPay: stripsPay}
	statistics := s.Statistics()
	for i, op := range s.Network.Ops() {
		full := s.Network.Full().Ops[i]
		p := &m.ops[i]
		w := s.Ops[i].Weight
		taps := op.Kernel * op.Kernel
		switch op.Kind {
		case supernet.Conv:
			p.conv = kernel.PackConv(full.Out.Channels, full.In[0].Channels/full.Groups, taps, w)
		case supernet.Linear:
			p.conv = kernel.PackConv(full.Out.Channels, full.In[0].Channels, 1, w)
		case supernet.Depthwise:
			p.depthwise = kernel.PackDepthwise(full.Out.Channels, taps, w)
		default:
			if !op.Norm {
				continue
			}
			p.depthwise = normAlone(full.Out.Channels)
		}
		// Copies: the set stays its owner's, to change or to drop.
		p.params = weights.Params{Bias: slices.Clone(s.Ops[i].Bias), Scale: slices.Clone(s.Ops[i].Scale), Shift: slices.Clone(s.Ops[i].Shift)}
		p.affine = p.affineOf(op, full.Out.Channels, statistics.Mean[i], statistics.Variance[i])
	}
	return m
}

// normAlone is the weights of batch norm without a convolution: a depthwise one of
// a single tap.
func normAlone(channels int) *kernel.DepthwiseWeights {
	return kernel.PackDepthwise(channels, 1, slices.Repeat([]float32{1}, channels))
}

// affineOf computes scale and shift of the first channels of an operation.
func (p *packed) affineOf(op supernet.Op, channels int, mean, variance []float32) affine {
	a := affine{make([]float32, kernel.PadChannels(channels)), make([]float32, kernel.PadChannels(channels))}
	for c := range channels {
		var mu, sigma2 float64
		if op.Norm {
			mu, sigma2 = float64(mean[c]), float64(variance[c])
		}
		scale, shift := p.params.Affine(c, mu, sigma2, op.Eps())
		a.scale[c], a.shift[c] = float32(scale), float32(shift)
	}
	return a
}

// affineFor is the affine part of an operation in a program: that of the whole
// network where there are no statistics for it.
func (m *Model) affineFor(i, channels int, t *weights.Statistics) (affine, error) {
	op := m.network.Ops()[i]
	p := &m.ops[i]
	if t == nil || !op.Norm {
		if p.affine.scale == nil {
			return affine{}, nil // a model without weights, see Plan
		}
		n := kernel.PadChannels(channels)
		return affine{p.affine.scale[:n], p.affine.shift[:n]}, nil
	}
	if len(t.Mean) != len(m.ops) || len(t.Variance) != len(m.ops) {
		return affine{}, fmt.Errorf("statistics of %d and %d operations; %s has %d", len(t.Mean), len(t.Variance), m.network.Name(), len(m.ops))
	}
	if len(t.Mean[i]) < channels || len(t.Variance[i]) < channels {
		return affine{}, fmt.Errorf("operation %q: statistics of %d and %d channels; it has %d", op.Name, len(t.Mean[i]), len(t.Variance[i]), channels)
	}
	return p.affineOf(op, channels, t.Mean[i], t.Variance[i]), nil
}

// Network is the network the weights are for.
func (m *Model) Network() *supernet.Network { return m.network }
