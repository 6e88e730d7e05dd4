//go:build xla

package accel

import (
	"slices"

	"github.com/gomlx/compute/dtypes"

	"tips/nn"
	"tips/supernet"
)

// The way back is written out, operation by operation, instead of derived by the
// library: its derivative of a grouped convolution is a convolution for every
// channel, those of products in bfloat16 are in float32, and several operations
// have none.

// backward builds the way from the gradient of the logits to those of all
// parameters, one vector in the layout's order.
func (p *pass) backward(dlogits node) node {
	g, n := p.g, p.layout.network
	p.grads = make([]node, len(n.Ops()))
	p.found = nil
	last := len(n.Ops()) - 1
	out := p.maps[last].y
	p.give(last, g.reshape(dlogits, slices.Concat([]int{p.nets * p.batch}, out.dims[1:])...), true)
	for i := last; i >= 0; i-- {
		p.unoperate(i)
	}
	return p.gradient()
}

// give adds to the gradient of a map.
func (p *pass) give(to int, grad node, stacked bool) {
	if to == supernet.FromInput {
		return
	}
	g, m := p.g, &p.maps[to]
	if stacked && !m.stacked {
		split := slices.Concat([]int{p.nets, p.batch}, grad.dims[1:])
		grad = g.sum(g.reshape(g.wide(grad), split...), 0)
	}
	if old := p.grads[to]; old.is() {
		grad = g.add(g.wide(old), g.wide(grad))
	}
	p.grads[to] = g.convert(grad, m.y.t)
}

// found takes down the gradient of a parameter.
func (p *pass) find(i int, role nn.Role, grad node) {
	p.found = append(p.found, p.g.flat(p.g.wide(grad)))
	p.foundAt = append(p.foundAt, p.layout.ops[i].at[role])
}

// gradient joins the gradients of all parameters. Every parameter has one.
func (p *pass) gradient() node {
	order := make([]int, len(p.found))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return p.foundAt[a] - p.foundAt[b] })
	var parts []node
	for _, i := range order {
		parts = append(parts, p.found[i])
	}
	return p.g.join(0, parts...)
}

// unoperate goes back through operation i.
func (p *pass) unoperate(i int) {
	g, n := p.g, p.layout.network
	op, o, m := n.Ops()[i], &n.Full().Ops[i], &p.maps[i]
	dy := p.grads[i]
	if m.keep.is() {
		dy = p.unleaveOut(i, dy)
	}
	dz := p.unfinish(i, op, m, dy)
	from := o.Operands[0]
	x, _ := p.operand(from)
	w := windowOf(op, o)
	switch op.Kind {
	case supernet.Conv, supernet.Linear, supernet.Depthwise:
		k := g.convert(p.parameter(i, nn.RoleWeight), x.t)
		dz = g.convert(dz, x.t)
		toInput, toWeight := g.convolveInput, g.convolveWeight
		if op.Kind == supernet.Depthwise {
			toInput, toWeight = g.depthwiseInput, g.depthwiseWeight
		}
		p.find(i, nn.RoleWeight, toWeight(x, dz, w))
		if from != supernet.FromInput {
			p.give(from, toInput(dz, k, w), m.zStacked)
		}
	case supernet.MaxPool:
		p.give(from, g.maxPoolInput(dz, m.tap, w), m.zStacked)
	case supernet.AvgPool:
		p.give(from, g.avgPoolInput(dz, w), m.zStacked)
	case supernet.GlobalPool:
		d := g.times(g.wide(dz), 1/float64(o.In[0].Height*o.In[0].Width))
		p.give(from, g.convert(g.fit(d, x.dims), x.t), m.zStacked)
	case supernet.Add:
		for _, operand := range o.Operands {
			p.give(operand, dz, m.zStacked)
		}
	case supernet.Mul:
		p.unmultiply(o.Operands, dz, m.zStacked)
	}
}

func (p *pass) unmultiply(operands []int, dz node, stacked bool) {
	g := p.g
	wide := g.wide(dz)
	for j, from := range operands {
		other, each := p.operand(operands[1-j])
		other = g.wide(other)
		if stacked && !each {
			other = p.stack(other)
		}
		d := g.mul(wide, other)
		if to, _ := p.operand(from); to.dims[1] != d.dims[1] || to.dims[2] != d.dims[2] { // one pixel for all
			d = g.reshape(g.sum(d, 1, 2), d.dims[0], 1, 1, d.dims[3])
		}
		p.give(from, d, stacked)
	}
}

// unleaveOut divides the gradient of what an addition writes among the branch, for
// subnetworks that have it, and the shortcut, for the others.
func (p *pass) unleaveOut(i int, dy node) node {
	g, m := p.g, &p.maps[i]
	var block supernet.Block
	for _, b := range p.layout.network.Blocks() {
		if b.Add == i {
			block = b
		}
	}
	split := []int{p.nets, dy.size() / p.nets}
	d := g.reshape(g.wide(dy), split...)
	keep := g.spread(m.keep, split, 0)
	around := g.mul(d, g.sub(g.fit(g.scalar(1, dtypes.Float32), split), keep))
	p.give(block.Shortcut, g.reshape(around, dy.dims...), true)
	return g.convert(g.reshape(g.mul(d, keep), dy.dims...), dy.t)
}

// unfinish goes back through mask, activation, batch norm and bias.
func (p *pass) unfinish(i int, op supernet.Op, m *stackedMap, dy node) node {
	g := p.g
	if !m.scale.is() && !m.shift.is() && op.Activation == supernet.NoActivation && !masksAfter(op, m.mask.is()) {
		return p.unstack(dy, m, m.z.dims)
	}
	d := p.rows(dy, m.stacked || m.keep.is())
	z := p.rows(m.z, m.zStacked)
	if masksAfter(op, m.mask.is()) {
		d = g.mul(d, p.each(m.mask, d.dims))
	}
	if op.Activation != supernet.NoActivation {
		y := z
		if d.dims[0] != z.dims[0] {
			y = g.fit(y, d.dims)
		}
		d = g.mul(d, g.slope(p.affine(m, y), op.Activation))
	}
	if op.Norm {
		return p.unnormalise(i, op, m, d, z)
	}
	if d.dims[0] != z.dims[0] {
		d = g.fit(g.reshape(g.sum(d, 0), 1, d.dims[1], d.dims[2]), z.dims)
	}
	if op.Bias {
		p.find(i, nn.RoleBias, g.sum(d, 0, 1))
	}
	return g.convert(g.reshape(d, m.z.dims...), m.z.t)
}

// unstack sums the gradients of a map that is there once.
func (p *pass) unstack(d node, m *stackedMap, dims []int) node {
	if d.dims[0] != dims[0] {
		split := slices.Concat([]int{p.nets, p.batch}, dims[1:])
		d = p.g.sum(p.g.reshape(p.g.wide(d), split...), 0)
	}
	return p.g.convert(p.g.reshape(d, dims...), m.z.t)
}

// unnormalise goes back through batch norm, with d the gradient after it:
//
//	dz = γ/σ · (d − mean(d) − ẑ·mean(d·ẑ))
func (p *pass) unnormalise(i int, op supernet.Op, m *stackedMap, d, z node) node {
	g := p.g
	scale := m.scale
	if d.dims[0] != z.dims[0] {
		// One map, many subnetworks: those that lack a channel have no part in it.
		if m.mask.is() {
			d = g.mul(d, p.each(m.mask, d.dims))
		}
		d = g.reshape(g.sum(d, 0), z.dims...)
		scale = g.mul(p.parameter(i, nn.RoleScale), m.inverse)
	}
	mean := m.mean
	if bias := p.parameter(i, nn.RoleBias); bias.is() {
		mean = g.sub(mean, bias)
	}
	// Σd and Σd·ẑ
	sum := p.sumRows(d)
	var dot node
	if p.narrow == dtypes.BFloat16 {
		// Faster, and what it loses is beyond the digits of maps.
		dot = g.sub(p.sumRows(g.mul(d, z)), g.mul(mean, sum))
	} else {
		dot = p.sumRows(g.mul(d, g.sub(z, p.each(mean, z.dims))))
	}
	dot = g.mul(dot, m.inverse)
	ofShift, ofScale := sum, dot
	if m.mask.is() && sum.dims[0] == p.nets {
		ofShift, ofScale = g.mul(sum, m.mask), g.mul(dot, m.mask)
	}
	p.find(i, nn.RoleShift, g.sum(ofShift, 0))
	p.find(i, nn.RoleScale, g.sum(ofScale, 0))
	if op.Bias { // the mean takes it back
		p.find(i, nn.RoleBias, g.fit(g.scalar(0, dtypes.Float32), []int{p.layout.ops[i].out}))
	}
	// dz = scale·d + ofZ·z + rest
	n := -1 / float64(z.dims[1])
	ofZ := g.mul(g.mul(g.times(dot, n), m.inverse), scale)
	rest := g.sub(g.mul(g.times(sum, n), scale), g.mul(ofZ, mean))
	dz := g.add(g.add(g.mul(d, p.each(scale, z.dims)), g.mul(z, p.each(ofZ, z.dims))), p.each(rest, z.dims))
	return g.convert(g.reshape(dz, m.z.dims...), m.z.t)
}

// slope is the derivative of an activation at x.
func (g *graph) slope(x node, a supernet.Activation) node {
	one := func() node { return g.scalar(1, x.t) }
	step := func(condition node) node { return g.convert(condition, x.t) }
	switch a {
	case supernet.ReLU:
		return step(g.less(g.scalar(0, x.t), x))
	case supernet.ReLU6:
		return step(g.and(g.less(g.scalar(0, x.t), x), g.less(x, g.scalar(6, x.t))))
	case supernet.SiLU:
		s := g.sigmoid(x)
		return g.mul(s, g.add(one(), g.mul(x, g.sub(one(), s))))
	case supernet.Sigmoid:
		s := g.sigmoid(x)
		return g.mul(s, g.sub(one(), s))
	}
	return one()
}
