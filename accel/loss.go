//go:build xla

package accel

import (
	"github.com/gomlx/compute/dtypes"

	"tips/train/method"
)

// answers are the logits of several networks, [nets][batch][classes], and what is
// made of them.
type answers struct {
	g      *graph
	logits node
	logq   node // logarithm of the softmax
	q      node // softmax
}

func newAnswers(g *graph, logits node) *answers {
	nets, batch := logits.dims[0], logits.dims[1]
	top := g.reshape(g.largest(logits, 2), nets, batch, 1)
	x := g.sub(logits, top)
	logq := g.sub(x, g.log(g.reshape(g.sum(g.exp(x), 2), nets, batch, 1)))
	return &answers{g, logits, logq, g.exp(logq)}
}

// softmax is that of one network, [batch][classes].
func (a *answers) softmax(net int) node { return a.of(a.q, net) }

func (a *answers) of(x node, net int) node {
	return a.g.reshape(a.g.cut(x, 0, net, net+1), x.dims[1:]...)
}

// targets are the probabilities that labels, [batch], stand for.
func (g *graph) targets(labels node, classes int, smoothing float64) node {
	batch := labels.dims[0]
	hot := g.convert(g.equal(g.iota(1, batch, classes), g.reshape(labels, batch, 1)), dtypes.Float32)
	if smoothing == 0 {
		return hot
	}
	return g.addTo(g.times(hot, 1-smoothing), smoothing/float64(classes))
}

// crossEntropy is, for each network and image, that with the targets.
func (a *answers) crossEntropy(targets node) node {
	g := a.g
	t := g.spread(targets, a.logq.dims, 1, 2)
	zero := g.scalar(0, dtypes.Float32)
	return g.sub(zero, g.sum(g.choose(g.less(zero, t), g.mul(t, a.logq), zero), 2)) // not 0·−∞
}

// correct is 1 for each network and image whose label has the largest logit, the
// first of them.
func (a *answers) correct(labels node) node {
	g, dims := a.g, a.logits.dims
	top := g.reshape(g.largest(a.logits, 2), dims[0], dims[1], 1)
	place := g.choose(g.equal(a.logits, top), g.iota(2, dims...), g.scalar(float64(dims[2]), dtypes.Float32))
	first := g.is(g.f.ReduceMin(place.v, 2))
	return g.convert(g.equal(first, g.reshape(labels, 1, dims[1])), dtypes.Float32)
}

// divergence is how far, for each image, one network is from its teachers'
// softmax, with the gradient of its logits, as method.Divergence.Loss has it.
func (a *answers) divergence(d method.Divergence, net int, teacher node) (loss, grad node) {
	g := a.g
	q, logq := a.of(a.q, net), a.of(a.logq, net)
	zero, batch := g.scalar(0, dtypes.Float32), q.dims[0]
	column := func(x node) node { return g.reshape(x, batch, 1) }
	mass := column(g.sum(teacher, 1)) // 1 up to rounding
	soft := g.sub(g.mul(q, mass), teacher)
	if d == method.SoftCE {
		return g.sub(zero, g.sum(g.mul(teacher, logq), 1)), soft
	}
	logp := g.log(g.max(teacher, g.scalar(1e-38, dtypes.Float32)))
	kl := g.sum(g.choose(g.less(zero, teacher), g.mul(teacher, g.sub(logp, logq)), zero), 1)
	clip := g.times(teacher, method.AlphaClip)
	ratio := g.choose(g.less(q, clip), g.div(q, g.max(teacher, g.scalar(1e-38, dtypes.Float32))), g.scalar(method.AlphaClip, dtypes.Float32))
	inverse := g.sum(g.mul(q, ratio), 1)
	other := g.times(g.addTo(inverse, -1), 0.5)
	larger := g.less(kl, other)
	grad = g.choose(column(larger), g.mul(q, g.sub(ratio, column(inverse))), soft)
	return g.choose(larger, other, kl), grad
}
