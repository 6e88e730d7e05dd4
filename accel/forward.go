//go:build xla

package accel

import (
	"slices"

	"github.com/gomlx/compute/dtypes"

	"tips/nn"
	"tips/supernet"
)

// pass is the way of a batch through several subnetworks at once, of one set of
// parameters, while its program is built. The maps of the subnetworks are stacked
// along the batch, [subnetwork·image][row][column][channel]: one convolution serves
// all. Every map has the channels of the whole network; those that a subnetwork does
// not have are zero, and so are their gradients. What is the same for all
// subnetworks, such as what the first convolution writes, is there once: it is not
// stacked.
type pass struct {
	g      *graph
	layout *layout
	narrow dtypes.DType // of maps; those of one pixel are in float32

	params   node // of the layout
	nets     int
	batch    int
	columns  *columns
	choices  node // [nets][columns]
	depth    bool // whether blocks may be left out
	valid    node // [batch], 1 for images that count; none where all do
	count    node // of those
	given    bool // whether statistics are those below, and not the batch's
	collect  bool // whether those of the batch are asked for
	mean     node // [nets][norms]; given, or collected
	variance node

	input   node
	maps    []stackedMap // by operation
	grads   []node       // of maps, where backward has come to them
	found   []node       // gradients of parameters, by where they are in the layout
	foundAt []int
}

// stackedMap is what an operation writes.
type stackedMap struct {
	z        node // before batch norm and activation
	zStacked bool
	y        node // after them
	stacked  bool

	mask     node // [nets][channels], 1 for those that a subnetwork has; none where all have all
	scale    node // with batch norm or bias: y = activation(scale·z + shift), [1 or nets][channels]
	shift    node
	mean     node // [1 or nets][channels]
	variance node
	inverse  node // 1/√(variance+ε)
	tap      node // of a largest value
	keep     node // of an addition that closes a block: [nets], 1 where the block runs
}

// columns says how a subnetwork is told to a program: the width of every group,
// in channels of each operation that counts them differently, then for every block
// whether it runs.
type columns struct {
	network *supernet.Network
	width   []int // by operation its column, −1 where the width is fixed
	op      []int // by column an operation that has it
	block   int   // the first column of blocks
	count   int
}

func newColumns(n *supernet.Network) *columns {
	type key struct{ group, channels int }
	c := &columns{network: n, width: make([]int, len(n.Ops()))}
	known := map[key]int{}
	for i := range n.Ops() {
		c.width[i] = -1
		group := n.GroupOf(i)
		if group < 0 {
			continue
		}
		k := key{group, n.Full().Ops[i].Out.Channels}
		at, is := known[k]
		if !is {
			at = len(c.op)
			known[k] = at
			c.op = append(c.op, i)
		}
		c.width[i] = at
	}
	c.block = len(c.op)
	c.count = c.block + len(n.Blocks())
	return c
}

// row tells a subnetwork. Widths that nobody uses are full.
func (c *columns) row(s supernet.Subnet, to []float32) error {
	widths, without, err := c.network.Widths(s)
	if err != nil {
		return err
	}
	for k, i := range c.op {
		full := c.network.Full().Ops[i].Out.Channels
		g := c.network.GroupOf(i)
		to[k] = float32(widths[g] * full / c.network.Groups()[g].Channels)
	}
	for k := range c.network.Blocks() {
		to[c.block+k] = 1
	}
	for _, b := range without {
		to[c.block+b] = 0
	}
	return nil
}

// forward builds the way to the logits, [nets][batch][classes] in float32.
func (p *pass) forward() node {
	g, n := p.g, p.layout.network
	p.maps = make([]stackedMap, len(n.Ops()))
	closes := make([]int, len(n.Ops()))
	for i := range closes {
		closes[i] = -1
	}
	for b, block := range n.Blocks() {
		closes[block.Add] = b
	}
	var means, variances []node
	for i, op := range n.Ops() {
		m := &p.maps[i]
		p.operate(i, m)
		if c := p.columns.width[i]; c >= 0 {
			channels := p.layout.ops[i].out
			width := g.cut(p.choices, 1, c, c+1)
			m.mask = g.convert(g.less(g.iota(1, p.nets, channels), width), dtypes.Float32)
		}
		p.finish(i, op, m)
		if b := closes[i]; b >= 0 && p.depth {
			p.leaveOut(m, b, n.Blocks()[b].Shortcut)
		}
		if op.Norm && p.collect {
			means = append(means, g.fit(m.mean, []int{p.nets, m.mean.dims[1]}))
			variances = append(variances, g.fit(m.variance, []int{p.nets, m.variance.dims[1]}))
		}
	}
	if len(means) > 0 {
		p.mean, p.variance = g.join(1, means...), g.join(1, variances...)
	}
	last := len(n.Ops()) - 1
	out, stacked := p.maps[last].y, p.maps[last].stacked
	classes := out.size() / out.dims[0]
	if !stacked {
		out = p.stack(out)
	}
	return g.reshape(g.wide(out), p.nets, p.batch, classes)
}

// operand is a map that an operation reads.
func (p *pass) operand(from int) (x node, stacked bool) {
	if from == supernet.FromInput {
		return p.input, p.nets == 1
	}
	return p.maps[from].y, p.maps[from].stacked
}

// stack repeats a map that is there once.
func (p *pass) stack(x node) node {
	dims := slices.Concat([]int{p.nets}, x.dims)
	axes := []int{1, 2, 3, 4}
	return p.g.reshape(p.g.spread(x, dims, axes...), slices.Concat([]int{p.nets * p.batch}, x.dims[1:])...)
}

// typeOf is the type that a map is kept in.
func (p *pass) typeOf(s supernet.Shape) dtypes.DType {
	if s.Height*s.Width == 1 {
		return dtypes.Float32
	}
	return p.narrow
}

// parameter is a parameter of operation i as the layout has it.
func (p *pass) parameter(i int, role nn.Role) node {
	o := p.layout.ops[i]
	at := o.at[role]
	if at < 0 {
		return node{}
	}
	if role != nn.RoleWeight {
		return p.g.reshape(p.g.cut(p.params, 0, at, at+o.out), 1, o.out)
	}
	w := p.g.cut(p.params, 0, at, at+o.out*o.in*o.side*o.side)
	return p.g.reshape(w, o.side, o.side, o.in, o.out)
}

// operate computes operation i before batch norm and activation.
func (p *pass) operate(i int, m *stackedMap) {
	g, n := p.g, p.layout.network
	op, o := n.Ops()[i], &n.Full().Ops[i]
	x, stacked := p.operand(o.Operands[0])
	w := windowOf(op, o)
	m.zStacked = stacked
	switch op.Kind {
	case supernet.Conv, supernet.Linear, supernet.Depthwise:
		m.z = g.convolve(x, g.convert(p.parameter(i, nn.RoleWeight), x.t), w)
	case supernet.MaxPool:
		m.z, m.tap = g.maxPool(x, w)
	case supernet.AvgPool:
		m.z = g.avgPool(x, w)
	case supernet.GlobalPool:
		m.z = g.times(g.sum(g.wide(x), 1, 2), 1/float64(o.In[0].Height*o.In[0].Width))
		m.z = g.reshape(m.z, x.dims[0], 1, 1, x.dims[3])
	case supernet.Add:
		m.z, m.zStacked = p.join(o.Operands, g.add)
	case supernet.Mul:
		m.z, m.zStacked = p.join(o.Operands, g.mul)
	}
}

// join combines operands in float32. A second operand of one pixel is that of all
// pixels.
func (p *pass) join(operands []int, combine func(x, y node) node) (z node, stacked bool) {
	all := make([]node, len(operands))
	each := make([]bool, len(operands))
	for j, from := range operands {
		all[j], each[j] = p.operand(from)
		stacked = stacked || each[j]
	}
	t := all[0].t
	for j, x := range all {
		x = p.g.wide(x)
		if stacked && !each[j] {
			x = p.stack(x)
		}
		if j > 0 {
			x = combine(z, x)
		}
		z = x
	}
	return p.g.convert(z, t), stacked
}

// rows is a map as [1 or nets][images and pixels][channels], in float32.
func (p *pass) rows(x node, stacked bool) node {
	nets, channels := 1, x.dims[len(x.dims)-1]
	if stacked {
		nets = p.nets
	}
	return p.g.wide(p.g.reshape(x, nets, x.size()/nets/channels, channels))
}

// each spreads a vector of channels, [1 or nets][channels], over the rows of a map.
func (p *pass) each(v node, dims []int) node {
	if v.dims[0] == 1 && dims[0] > 1 {
		return p.g.spread(p.g.reshape(v, v.dims[1]), dims, 2)
	}
	return p.g.spread(v, dims, 0, 2)
}

// zeroAtZero tells whether an activation keeps zeros as they are.
func zeroAtZero(a supernet.Activation) bool { return a != supernet.Sigmoid }

// masksAfter tells whether the channels that a subnetwork does not have must be made
// zero after the activation; where batch norm can do it, it costs nothing.
func masksAfter(op supernet.Op, masked bool) bool {
	if !masked {
		return false
	}
	dense := op.Kind == supernet.Conv || op.Kind == supernet.Linear || op.Bias
	return !zeroAtZero(op.Activation) || !op.Norm && dense
}

// finish applies bias, batch norm, activation and mask.
func (p *pass) finish(i int, op supernet.Op, m *stackedMap) {
	g := p.g
	shape := p.layout.network.Full().Ops[i].Out
	masks := m.mask.is() && (op.Norm || masksAfter(op, true))
	m.stacked = m.zStacked || masks && p.nets > 1
	if p.nets == 1 {
		m.stacked = true // there is no difference
		m.zStacked = true
	}
	bias := p.parameter(i, nn.RoleBias)
	if !op.Norm && !bias.is() && op.Activation == supernet.NoActivation && !masks {
		m.y = g.convert(m.z, p.typeOf(shape))
		return
	}
	z := p.rows(m.z, m.zStacked)
	switch {
	case op.Norm:
		p.normalise(i, op, m, z, bias)
	case bias.is():
		m.shift = bias
	}
	y := z
	if m.stacked && !m.zStacked {
		y = g.fit(y, []int{p.nets, z.dims[1], z.dims[2]})
	}
	y = p.affine(m, y)
	y = g.activate(y, op.Activation)
	if masksAfter(op, m.mask.is()) {
		y = g.mul(y, p.each(m.mask, y.dims))
	}
	images := y.size() / int(shape.Elements())
	m.y = g.reshape(g.convert(y, p.typeOf(shape)), images, shape.Height, shape.Width, shape.Channels)
}

// affine applies scale and shift to rows.
func (p *pass) affine(m *stackedMap, rows node) node {
	if m.scale.is() {
		rows = p.g.mul(rows, p.each(m.scale, rows.dims))
	}
	if m.shift.is() {
		rows = p.g.add(rows, p.each(m.shift, rows.dims))
	}
	return rows
}

// normalise finds the statistics of rows, and scale and shift from them. A bias
// before batch norm moves the mean and nothing else.
func (p *pass) normalise(i int, op supernet.Op, m *stackedMap, rows, bias node) {
	g := p.g
	if p.given {
		at, c := p.layout.norm[i], p.layout.ops[i].out
		m.mean, m.variance = g.cut(p.mean, 1, at, at+c), g.cut(p.variance, 1, at, at+c)
	} else {
		m.mean, m.variance = p.moments(rows)
		if bias.is() {
			m.mean = g.add(m.mean, bias)
		}
	}
	m.inverse = g.div(g.scalar(1, dtypes.Float32), g.sqrt(g.addTo(m.variance, op.Eps())))
	scale, shift := p.parameter(i, nn.RoleScale), p.parameter(i, nn.RoleShift)
	if m.mask.is() && zeroAtZero(op.Activation) {
		scale, shift = g.mul(scale, m.mask), g.mul(shift, m.mask)
	}
	m.scale = g.mul(scale, m.inverse)
	mean := m.mean
	if bias.is() {
		mean = g.sub(mean, bias)
	}
	m.shift = g.sub(shift, g.mul(mean, m.scale))
}

// moments are mean and variance of each channel. Sums are taken of the differences
// from a value that is there, as differences of large sums have few digits.
func (p *pass) moments(rows node) (mean, variance node) {
	g := p.g
	near := g.cut(rows, 1, 0, 1)
	d := g.sub(rows, g.fit(near, rows.dims))
	count := g.scalar(float64(rows.dims[1]), dtypes.Float32)
	if p.valid.is() {
		pixels := rows.dims[1] / p.batch
		split := []int{rows.dims[0], p.batch, pixels, rows.dims[2]}
		d = g.reshape(g.mul(g.reshape(d, split...), g.spread(p.valid, split, 1)), rows.dims...)
		count = g.times(p.count, float64(pixels))
	}
	first, second := g.div(p.sumRows(d), count), g.div(p.sumRows(g.mul(d, d)), count)
	mean = g.add(first, g.reshape(near, first.dims...))
	return mean, g.max(g.sub(second, g.mul(first, first)), g.scalar(0, dtypes.Float32))
}

// sumRows is the sum along axis 1 of [nets][images and pixels][channels]: first of
// the images, for which the device reads long rows and many of them at once, then of
// the pixels.
func (p *pass) sumRows(x node) node {
	g := p.g
	if pixels := x.dims[1] / p.batch; pixels > 1 {
		x = g.sum(g.reshape(x, x.dims[0], p.batch, pixels*x.dims[2]), 1)
		x = g.reshape(x, x.dims[0], pixels, x.dims[1]/pixels)
	}
	return g.sum(x, 1)
}

// leaveOut replaces what an addition writes by its shortcut in those subnetworks
// that leave the block out.
func (p *pass) leaveOut(m *stackedMap, block, shortcut int) {
	g := p.g
	c := p.columns.block + block
	m.keep = g.reshape(g.cut(p.choices, 1, c, c+1), p.nets)
	around, stacked := p.operand(shortcut)
	if !stacked {
		around = p.stack(around)
	}
	if !m.stacked {
		m.y, m.stacked = p.stack(m.y), true
	}
	split := []int{p.nets, m.y.size() / p.nets}
	runs := g.less(g.scalar(0.5, dtypes.Float32), m.keep)
	y := g.choose(g.spread(runs, split, 0), g.reshape(m.y, split...), g.reshape(g.convert(around, m.y.t), split...))
	m.y = g.reshape(y, m.y.dims...)
}

// activate applies an activation to values in float32.
func (g *graph) activate(x node, a supernet.Activation) node {
	zero := func() node { return g.scalar(0, x.t) }
	switch a {
	case supernet.ReLU:
		return g.max(x, zero())
	case supernet.ReLU6:
		return g.min(g.max(x, zero()), g.scalar(6, x.t))
	case supernet.SiLU:
		return g.mul(x, g.sigmoid(x))
	case supernet.Sigmoid:
		return g.sigmoid(x)
	}
	return x
}
