package kernel

import (
	"math"
	"unsafe"
)

// A dense 3×3 convolution of stride 1 may be computed by Winograd's minimal
// filtering F(4×4, 3×3): for each tile of 4×4 outputs, whose taps reach 6×6
// inputs,
//
//	y = Aᵀ [ Σ over input channels of (G w Gᵀ) ⊙ (Bᵀ x B) ] A
//
// where the sum is, for each of the 36 positions of ⊙, a matrix product of
// tiles by output channels: 36 products where the direct sum has 144.
//
// The matrices come from the points 0, ±a, ±b and ∞ at which the polynomials
// behind the convolution are evaluated:
//
//	Bᵀ = a²b²   0   -a²-b²   0     1  0     G = 1   0   0
//	      0  -ab²    -b²     a     1  0         1   a   a²
//	      0   ab²    -b²    -a     1  0         1  -a   a²
//	      0  -a²b    -a²     b     1  0         1   b   b²
//	      0   a²b    -a²    -b     1  0         1  -b   b²
//	      0  a²b²     0   -a²-b²   0  1         0   0   1
//
//	Aᵀ = 1/(a²b²)  α    α    β    β   0      α = 1/(2a²(a²-b²))
//	     0         αa  -αa   βb  -βb  0      β = 1/(2b²(b²-a²))
//	     0         αa²  αa²  βb²  βb² 0
//	     0         αa³ -αa³  βb³ -βb³ 1
//
// The usual a = 1, b = 2 lose more digits than these.
const (
	winogradA  = 0.625
	winogradB  = 1.5
	winogradA2 = winogradA * winogradA
	winogradB2 = winogradB * winogradB
	alpha      = 1 / (2 * winogradA2 * (winogradA2 - winogradB2))
	beta       = 1 / (2 * winogradB2 * (winogradB2 - winogradA2))
)

// winogradConst are the constants of the transforms, in the order the assembly
// knows, each as a vector of AVX2.
var winogradConst = func() (c [15][8]float32) {
	for i, v := range [...]float32{
		winogradA, winogradB, winogradA2, winogradB2, winogradA2 + winogradB2, winogradA2 * winogradB2,
		1 / (winogradA2 * winogradB2),
		alpha, alpha * winogradA, alpha * winogradA2, alpha * winogradA2 * winogradA,
		beta, beta * winogradB, beta * winogradB2, beta * winogradB2 * winogradB,
	} {
		for j := range c[i] {
			c[i][j] = v
		}
	}
	return c
}()

const (
	winogradOut  = 4                       // outputs of a tile in each direction
	winogradIn   = winogradOut + 2         // inputs of it
	winogradPos  = winogradIn * winogradIn // positions
	winogradTail = 8                       // channels a row of transformed inputs is rounded up to
	winogradTmp  = winogradPos * 16        // floats of temporaries of a kernel
)

// winogradInput is what the transform of one tile of inputs is called with.
// Strides and offsets are in bytes.
type winogradInput struct {
	x        [winogradPos]unsafe.Pointer // the tile's pixels; zeros for those outside the image
	v        unsafe.Pointer              // the tile's row of the first position
	pos      uintptr                     // between positions
	off, end uintptr                     // channels, whole vectors
	tmp      unsafe.Pointer              // winogradTmp floats
	consts   unsafe.Pointer
}

// winogradWeights is what the transform of weights is called with.
type winogradWeights struct {
	w      unsafe.Pointer
	tap    uintptr // between taps
	u      unsafe.Pointer
	pos    uintptr // between positions
	n      uintptr // vectors
	tmp    unsafe.Pointer
	consts unsafe.Pointer
}

// winogradOutput is what the transform of one tile of sums is called with.
type winogradOutput struct {
	m           unsafe.Pointer // the tile's row of the first position
	pos         uintptr
	y           unsafe.Pointer
	ypix, yrow  uintptr        // between output pixels and rows
	ny, nx      uintptr        // outputs of the tile that exist, 1 to 4
	res         unsafe.Pointer // residual, laid out as y, or nil
	off, end    uintptr        // channels, whole vectors
	scale, bias unsafe.Pointer
	lo, hi      float32
	tmp         unsafe.Pointer
	consts      unsafe.Pointer
}

// inputRow multiplies by Bᵀ: six values s apart, in place.
func inputRow(d *[winogradPos]float32, i, s int) {
	const a, b, a2, b2, sum, product = winogradA, winogradB, winogradA2, winogradB2, winogradA2 + winogradB2, winogradA2 * winogradB2
	d0, d1, d2, d3, d4, d5 := d[i], d[i+s], d[i+2*s], d[i+3*s], d[i+4*s], d[i+5*s]
	d[i] = float32(d0*product) + d4 - float32(d2*sum)
	u, v := d4-float32(d2*b2), d3-float32(d1*b2)
	d[i+s], d[i+2*s] = u+float32(v*a), u-float32(v*a)
	u, v = d4-float32(d2*a2), d3-float32(d1*a2)
	d[i+3*s], d[i+4*s] = u+float32(v*b), u-float32(v*b)
	d[i+5*s] = d5 - float32(d3*sum) + float32(d1*product)
}

// weightsRow multiplies by G.
func weightsRow(g0, g1, g2 float32) [winogradIn]float32 {
	s, t := g0+float32(g2*winogradA2), float32(g1*winogradA)
	s2, t2 := g0+float32(g2*winogradB2), float32(g1*winogradB)
	return [...]float32{g0, s + t, s - t, s2 + t2, s2 - t2, g2}
}

// outputRow multiplies by Aᵀ: six values s apart, the first four replaced.
func outputRow(m *[winogradPos]float32, i, s int) {
	const a, b = alpha * winogradA, beta * winogradB
	p, q := m[i+s]+m[i+2*s], m[i+s]-m[i+2*s]
	p2, q2 := m[i+3*s]+m[i+4*s], m[i+3*s]-m[i+4*s]
	m[i] = float32(m[i]*(1/(winogradA2*winogradB2))) + float32(p*alpha) + float32(p2*beta)
	m[i+s] = float32(q*a) + float32(q2*b)
	m[i+2*s] = float32(p*(alpha*winogradA2)) + float32(p2*(beta*winogradB2))
	m[i+3*s] = m[i+5*s] + float32(q*(a*winogradA2)) + float32(q2*(b*winogradB2))
}

// winogradInputGeneric is what every transform of inputs computes: v = Bᵀ x B,
// for each channel.
func winogradInputGeneric(p *winogradInput) {
	for off := p.off; off < p.end; off += 4 {
		var d [winogradPos]float32
		for i := range d {
			d[i] = *at(p.x[i], off)
		}
		for j := range winogradIn {
			inputRow(&d, j, winogradIn)
		}
		for i := range winogradIn {
			inputRow(&d, winogradIn*i, 1)
		}
		for i, v := range d {
			*at(p.v, uintptr(i)*p.pos+off) = v
		}
	}
}

// winogradWeightsGeneric is what every transform of weights computes: u = G w Gᵀ,
// for each of n vectors of lanes floats.
func winogradWeightsGeneric(lanes uintptr, p *winogradWeights) {
	for off := uintptr(0); off < 4*lanes*p.n; off += 4 {
		var rows [3][winogradIn]float32
		for j := range uintptr(3) {
			rows[j] = weightsRow(*at(p.w, j*p.tap+off), *at(p.w, (3+j)*p.tap+off), *at(p.w, (6+j)*p.tap+off))
		}
		for i := range winogradIn {
			for j, u := range weightsRow(rows[0][i], rows[1][i], rows[2][i]) {
				*at(p.u, uintptr(winogradIn*i+j)*p.pos+off) = u
			}
		}
	}
}

// winogradOutputGeneric is what every transform of sums computes: s = Aᵀ m A,
// for each channel, and from it the output
//
//	y[i][j] = min(max(s[i][j]*scale + bias + res[i][j], lo), hi)
func winogradOutputGeneric(p *winogradOutput) {
	for off := p.off; off < p.end; off += 4 {
		var d [winogradPos]float32
		for i := range d {
			d[i] = *at(p.m, uintptr(i)*p.pos+off)
		}
		for j := range winogradIn {
			outputRow(&d, j, winogradIn)
		}
		for i := range p.ny {
			outputRow(&d, winogradIn*int(i), 1)
			for j := range p.nx {
				y := i*p.yrow + j*p.ypix + off
				v := float32(d[winogradIn*i+j]**at(p.scale, off)) + *at(p.bias, off)
				if p.res != nil {
					v += *at(p.res, y)
				}
				*at(p.y, y) = clamp(v, p.lo, p.hi)
			}
		}
	}
}

// winogradPlan is how a convolution by Winograd's algorithm is divided: a part
// is a block of tiles, which may be of several images, by a range of output
// channels. In its scratch a worker keeps the transformed inputs of its block,
// and of one group of output channels at a time the transformed weights and the
// sums. The weights are transformed anew for each block: that takes less time
// than reading four times as many would, and no memory.
type winogradPlan struct {
	on         bool
	down, wide int // tiles of an image in each direction
	tiles      int // of all images
	block      int // tiles a part
	ld         int // floats of a tile's transformed channels at one position
	tile       int // floats of all its positions
	k          int // input channels whose weights are transformed at once
	panel      int // floats of a panel of them
	mpos       int // floats between positions of sums
	zero       int // where the worker's scratch has zeros,
	tmp, tail  int // temporaries, the last few channels of a tile,
	v, u, m    int // and the transformed inputs, weights and sums
}

// Sizes of the blocks.
const (
	winogradFloats = 256 << 10 // transformed inputs
	winogradLeast  = 16        // tiles
	winogradLarge  = 32
	winogradMost   = 64
	winogradK      = 64 // input channels
	winogradGroup  = 48 // output channels
)

// Transformed inputs lie as [tiles][36][channels] and transformed weights as
// [panels][channels/16][36][16 channels][16], a cache line between the 36:
// what a transform writes at a time is then on few pages, fewer than the CPU
// keeps addresses of for stores.
const (
	winogradRows = 16 // input channels
	winogradRun  = winogradRows*panelWidth + 16
)

// oddLines rounds floats up to an odd number of cache lines, so that the 36
// positions of a tile do not fall into the same few places of the first-level
// cache.
func oddLines(n int) int { return (n+31)&^31 + 16 }

// useWinograd decides between Winograd's algorithm and the direct sum. It looks
// only at the shape, not at the size of the packed weights, the images or the
// threads, so that a subnetwork is computed the same way however it is run.
func (p *convPlan) useWinograd(c *Conv) bool {
	if p.kernel != 3 || p.stride != 1 || p.groups != 1 {
		return false
	}
	switch c.Algorithm {
	case Direct:
		return false
	case Winograd:
		return true
	}
	// A product of this algorithm, with its share of the transforms, takes one and
	// a half times as long as one of the direct sum; transforming the weights takes
	// as long as 200 for each pair of channels. Both are measured.
	tiles := evenly(p.oh, winogradOut) * evenly(p.ow, winogradOut)
	winograd, direct := 1.5*float64(winogradPos*tiles+200), float64(9*p.oh*p.ow)
	return c.Cin >= 32 && c.Cout >= 32 && winograd < 0.9*direct
}

// divideWinograd decides the parts.
func (p *convPlan) divideWinograd(c *Conv, workers int) {
	w := &p.winograd
	w.down, w.wide = evenly(p.oh, winogradOut), evenly(p.ow, winogradOut)
	w.tiles = c.N * w.down * w.wide
	w.ld = PadChannels(c.Cin)
	if w.ld%256 == 0 {
		w.ld += 16
	}
	most := min(max(winogradFloats/(winogradPos*w.ld), winogradLeast), winogradMost)
	blocks := evenly(w.tiles, most)
	p.columns = 1
	if workers > 1 {
		// Large blocks for everyone are best. Else output channels are divided:
		// then everyone transforms the inputs of a block it has a part of.
		units := max(1, (p.channels+15)/columnUnit)
		if w.tiles >= 2*workers*winogradLarge {
			blocks = max(blocks, 2*workers)
		} else {
			blocks = max(blocks, min(evenly(w.tiles, winogradLeast), evenly(2*workers, units)))
			p.columns = min(units, evenly(4*workers, blocks))
		}
	}
	w.block = evenly(w.tiles, blocks)
	w.k = min(c.Cin, winogradK)
	w.tile = oddLines(winogradPos * w.ld)
	w.panel = evenly(w.k, winogradRows) * winogradPos * winogradRun
	w.mpos = oddLines(w.block * winogradGroup)
	w.zero = 16 // the first cache line says which block the worker has
	w.tmp = w.zero + (w.ld+15)&^15
	w.tail = w.tmp + winogradTmp
	w.v = w.tail + winogradPos*16
	w.u = w.v + w.block*w.tile
	w.m = w.u + winogradGroup/panelWidth*w.panel
	p.scratch = w.m + winogradPos*w.mpos
}

// holds says which block's inputs the worker that scratch belongs to has
// transformed; -1 for none.
func holds(scratch []float32) int { return int(math.Float32bits(scratch[0])) - 1 }

func setHolds(scratch []float32, block int) {
	scratch[0] = math.Float32frombits(uint32(block + 1))
}

// runWinograd computes the convolution on the pool.
func (p *convPlan) runWinograd(c *Conv, pool *Pool) {
	w := &p.winograd
	for i := range pool.Size() {
		s := c.Scratch[i*p.scratch:]
		setHolds(s, -1)
		clear(s[w.zero:w.tmp])
	}
	pool.Run(evenly(w.tiles, w.block)*p.columns, (*convTask)(c))
}

// winogradPart computes output channels from to to of one block of tiles.
func (p *convPlan) winogradPart(c *Conv, part, from, to, worker int) {
	w := &p.winograd
	first := part * w.block
	n := min(w.block, w.tiles-first)
	s := c.Scratch[worker*p.scratch : (worker+1)*p.scratch]
	if holds(s) != part {
		p.winogradInputs(c, s, first, n)
		setHolds(s, part)
	}
	args := tileArgs{
		ky: 1, mask: 1<<16 - 1, raw: 1, lda: uintptr(4 * w.tile),
		panel: uintptr(4 * w.panel), wskip: 4 * (winogradPos*winogradRun - winogradRows*panelWidth),
	}
	weights := winogradWeights{
		tap: uintptr(4 * panelWidth * c.Weights.Cin), pos: 4 * winogradRun,
		tmp: unsafe.Pointer(&s[w.tmp]), consts: unsafe.Pointer(&winogradConst[0]),
	}
	for ch := from; ch < to; {
		width := min(2*panelWidth, to-ch)
		if p.v == AVX512 {
			width = p.v.tileWidth(to - ch)
		}
		p.fetchNext(c, &args, ch+width, to)
		args.ldc = uintptr(4 * width)
		for k := 0; k < c.Cin; k += w.k {
			some := min(w.k, c.Cin-k)
			for i := range evenly(width, panelWidth) {
				weights.w = unsafe.Pointer(&c.Weights.Data[(ch/panelWidth+i)*c.Weights.panelLen()+k*panelWidth])
				weights.u = unsafe.Pointer(&s[w.u+i*w.panel])
				p.v.winogradWeights(weights, some)
			}
			for pos := range winogradPos {
				p.winogradProduct(&args, s, pos, k, some, n, width)
			}
		}
		p.winogradOutputs(c, s, first, n, ch, width)
		ch += width
	}
}

// winogradProduct adds to the sums of one position of n tiles the products of
// some input channels from k on.
func (p *convPlan) winogradProduct(args *tileArgs, s []float32, pos, k, some, n, width int) {
	w := &p.winograd
	for ch := 0; ch < width; {
		wide := p.v.tileWidth(width - ch)
		args.a = unsafe.Pointer(&s[w.v+pos*w.ld+k])
		args.w = unsafe.Pointer(&s[w.u+ch/panelWidth*w.panel+pos*winogradRun])
		args.c = unsafe.Pointer(&s[w.m+pos*w.mpos+ch])
		args.resume = uintptr(min(k, 1))
		whole := some / winogradRows
		if whole > 0 {
			args.k, args.kx = winogradRows, uintptr(whole)
			p.v.line(args, n, wide)
			args.resume = 1
		}
		if rest := some % winogradRows; rest > 0 {
			args.a = unsafe.Add(args.a, 4*whole*winogradRows)
			args.w = unsafe.Add(args.w, 4*whole*winogradPos*winogradRun)
			args.k, args.kx = uintptr(rest), 1
			p.v.line(args, n, wide)
		}
		ch += wide
	}
}

// winogradCall is the most channels one call of assembly transforms.
const winogradCall = 512

// winogradInputs transforms the inputs of n tiles.
func (p *convPlan) winogradInputs(c *Conv, s []float32, first, n int) {
	w := &p.winograd
	zero := unsafe.Pointer(&s[w.zero])
	args := winogradInput{pos: uintptr(4 * w.ld), tmp: unsafe.Pointer(&s[w.tmp]), consts: unsafe.Pointer(&winogradConst[0])}
	whole := c.Cin &^ (winogradTail - 1)
	for t := range n {
		image, y, x := p.winogradTile(first + t)
		y, x = y-p.pad, x-p.pad
		for i := range winogradIn {
			row := args.x[winogradIn*i : winogradIn*(i+1)]
			if y+i < 0 || y+i >= c.H {
				for j := range row {
					row[j] = zero
				}
				continue
			}
			line := (image*c.H + y + i) * p.xrow
			for j := range row {
				row[j] = zero
				if x+j >= 0 && x+j < c.W {
					row[j] = unsafe.Pointer(&c.X[line+(x+j)*p.xld])
				}
			}
		}
		v := s[w.v+t*w.tile:]
		args.v = unsafe.Pointer(&v[0])
		for ch := 0; ch < whole; ch += winogradCall {
			args.off, args.end = uintptr(4*ch), uintptr(4*min(whole, ch+winogradCall))
			p.v.winogradInput(&args)
		}
		if whole == c.Cin {
			continue
		}
		// The last channels are not a whole vector: copied first, nothing is read
		// beyond them.
		clear(s[w.tail:w.v])
		for i := range args.x {
			tail := s[w.tail+i*winogradTail:]
			copy(tail[:c.Cin-whole], unsafe.Slice((*float32)(unsafe.Add(args.x[i], 4*whole)), c.Cin-whole))
			args.x[i] = unsafe.Pointer(&tail[0])
		}
		args.v = unsafe.Pointer(&v[whole])
		args.off, args.end = 0, 4*winogradTail
		p.v.winogradInput(&args)
	}
}

// winogradTile returns the image and the first output of a tile.
func (p *convPlan) winogradTile(t int) (image, y, x int) {
	w := &p.winograd
	per := w.down * w.wide
	image, t = t/per, t%per
	return image, t / w.wide * winogradOut, t % w.wide * winogradOut
}

// winogradOutputs transforms the sums of n tiles to width output channels from
// ch on.
func (p *convPlan) winogradOutputs(c *Conv, s []float32, first, n, ch, width int) {
	w := &p.winograd
	args := winogradOutput{
		pos: uintptr(4 * w.mpos), ypix: uintptr(4 * p.yld), yrow: uintptr(4 * p.ow * p.yld),
		scale: unsafe.Pointer(&c.Scale[ch]), bias: unsafe.Pointer(&c.Bias[ch]),
		lo: p.args.lo, hi: p.args.hi,
		tmp: unsafe.Pointer(&s[w.tmp]), consts: unsafe.Pointer(&winogradConst[0]),
	}
	channels := min(width, p.channels-ch)
	args.end = uintptr(4 * channels)
	for t := range n {
		image, y, x := p.winogradTile(first + t)
		rows := min(winogradOut, p.oh-y)
		args.ny, args.nx = uintptr(rows), uintptr(min(winogradOut, p.ow-x))
		at := ((image*p.oh+y)*p.ow+x)*p.yld + ch
		args.m = unsafe.Pointer(&s[w.m+t*width])
		args.y = unsafe.Pointer(&c.Y[at])
		if c.Residual != nil {
			args.res = unsafe.Pointer(&c.Residual[at])
		}
		p.v.winogradOutput(&args)
		if c.Activation.smooth() {
			for i := range rows {
				p.v.activate(c.Activation, c.Y[at+i*p.ow*p.yld:], p.yld, int(args.nx), channels)
			}
		}
	}
}

// winogradWeights transforms the weights of n input channels of one panel.
func (v Variant) winogradWeights(p winogradWeights, n int) {
	w, u := p.w, p.u
	for k := 0; k < n; k += winogradRows {
		p.w = unsafe.Add(w, 4*k*panelWidth)
		p.u = unsafe.Add(u, 4*k/winogradRows*winogradPos*winogradRun)
		v.winogradPanel(&p, uintptr(min(winogradRows, n-k)))
	}
}
