package kernel

import (
	"fmt"
	"unsafe"
)

// Conv is a convolution, dense or grouped, of N images. A linear layer is one
// with images of a single pixel, a matrix product one with kernel 1.
//
// X is [N][H][W][XLd] with rows XRow apart, Y and Residual are
// [N][OH][OW][YLd]. Residual may be Y itself; neither may overlap X. An image
// with its border of zeros already around it is a convolution without padding
// whose H and W include the border: nothing is copied then.
type Conv struct {
	Variant   Variant
	N, H, W   int
	Cin, Cout int // of this subnetwork, at most what the weights hold
	Kernel    int // height and width; 0 means 1
	Stride    int // 0 means 1
	Pad       int // zeros on each side
	Groups    int // 0 means 1

	X, Y       []float32
	XLd, YLd   int // floats a pixel takes; 0 means PadChannels of its channels
	XRow       int // floats an image row of X takes; 0 means W*XLd
	Weights    *ConvWeights
	Scale      []float32 // PadChannels(Cout)
	Bias       []float32 // PadChannels(Cout)
	Residual   []float32 // may be nil; not with groups
	Activation Activation
	Scratch    []float32 // ScratchLen floats
	Algorithm  Algorithm

	plan convPlan
}

// Algorithm is how a convolution is computed.
type Algorithm uint8

const (
	// Auto is Winograd where it applies and the shape (the size of the output and
	// the channels that run, nothing else) promises a gain, else Direct.
	Auto Algorithm = iota
	// Direct sums the products one after the other.
	Direct
	// Winograd computes tiles of 4×4 outputs at once from a quarter of the
	// products. Its error is two to three times as large, at most 2·(4+√Cin)
	// roundings relative to the layer's outputs for random data, and a NaN or an infinity
	// of the input may reach every output of the tiles that see it. Only for a
	// dense 3×3 kernel of stride 1; others are summed directly.
	Winograd
)

// convPlan is a running Conv: its description with defaults filled in, and how
// its work is divided.
type convPlan struct {
	v                   Variant
	kernel, stride, pad int
	xld, xrow, yld      int
	oh, ow              int
	groups              int
	group               groupKind
	args                tileArgs // what all tiles have in common
	winograd            winogradPlan

	// The parts of a flat convolution are blocks of pixels, those of others
	// strips of output rows; each may be split again by output channels.
	flat     bool
	pixels   int // flat: all pixels
	block    int // flat: pixels a part
	rows     int // output rows a strip
	strips   int // strips an image
	batch    int // images a part, if it is whole images
	columns  int // ranges of output channels
	scratch  int // floats of scratch a worker
	channels int // output channels rounded up to 8
}

// OutSize returns the height and width of the output.
func (c *Conv) OutSize() (h, w int) {
	k, s := max(c.Kernel, 1), max(c.Stride, 1)
	return outSize(c.H, k, s, c.Pad), outSize(c.W, k, s, c.Pad)
}

// outSize is the output length of a window of k taps over n values with pad
// zeros on each side.
func outSize(n, k, stride, pad int) int {
	if n+2*pad < k {
		return 0
	}
	return (n+2*pad-k)/stride + 1
}

// ScratchLen returns the floats Scratch must have for a pool of the given size.
func (c *Conv) ScratchLen(workers int) int {
	var p convPlan
	p.shape(c)
	p.divide(c, workers)
	return p.scratch * workers
}

type convTask Conv

// Run computes the convolution on the pool.
func (c *Conv) Run(pool *Pool) {
	p := &c.plan
	p.shape(c)
	p.check(c)
	if c.N == 0 || p.oh == 0 || p.ow == 0 {
		return
	}
	p.divide(c, pool.Size())
	if need := p.scratch * pool.Size(); len(c.Scratch) < need {
		panic(fmt.Sprintf("kernel: Conv needs %d floats of scratch, has %d", need, len(c.Scratch)))
	}
	p.prepare(c)
	if p.winograd.on {
		p.runWinograd(c, pool)
	} else if p.flat {
		pool.Run((p.pixels+p.block-1)/p.block*p.columns, (*convTask)(c))
	} else if p.batch > 0 {
		pool.Run(evenly(c.N, p.batch), (*convTask)(c))
	} else {
		pool.Run(c.N*p.strips*p.columns, (*convTask)(c))
	}
	p.args = tileArgs{} // holds pointers into the caller's buffers
}

// shape fills in defaults and sizes.
func (p *convPlan) shape(c *Conv) {
	*p = convPlan{
		v:      c.Variant.resolve(),
		kernel: max(c.Kernel, 1), stride: max(c.Stride, 1), pad: c.Pad, groups: max(c.Groups, 1),
		xld: c.XLd, xrow: c.XRow, yld: c.YLd,
		channels: PadChannels(c.Cout),
	}
	p.oh, p.ow = c.OutSize()
	if p.xld == 0 {
		p.xld = PadChannels(c.Cin)
	}
	if p.xrow == 0 {
		p.xrow = c.W * p.xld
	}
	if p.yld == 0 {
		p.yld = p.channels
	}
	if p.groups > 1 {
		p.group = p.kindOfGroup(c)
	}
	p.winograd.on = p.useWinograd(c)
}

// check panics when the description is not consistent.
func (p *convPlan) check(c *Conv) {
	fail := func(format string, args ...any) {
		panic("kernel: Conv: " + fmt.Sprintf(format, args...))
	}
	c.Activation.check()
	w := c.Weights
	switch {
	case c.Algorithm > Winograd:
		fail("no algorithm %d", c.Algorithm)
	case c.N < 0 || c.H < 1 || c.W < 1 || c.Cin < 1 || c.Cout < 1:
		fail("%d images of %d×%d, %d to %d channels", c.N, c.H, c.W, c.Cin, c.Cout)
	case c.Kernel < 0 || c.Stride < 0 || c.Pad < 0 || c.Pad >= p.kernel:
		fail("kernel %d, stride %d, pad %d", c.Kernel, c.Stride, c.Pad)
	case w == nil:
		fail("no weights")
	case c.Cin%p.groups != 0 || c.Cout%p.groups != 0:
		fail("%d to %d channels in %d groups", c.Cin, c.Cout, p.groups)
	case w.Taps != p.kernel*p.kernel || w.Cin < c.Cin/p.groups || w.Cout < c.Cout:
		fail("weights of %d×%d×%d taps for %d×%d×%d", w.Cout, w.Cin, w.Taps, c.Cout, c.Cin/p.groups, p.kernel*p.kernel)
	case p.groups > 1 && (w.Cin != c.Cin/p.groups || c.Residual != nil):
		fail("groups of %d channels with weights for %d, residual %t", c.Cin/p.groups, w.Cin, c.Residual != nil)
	case len(w.Data) < PackedLen(w.Cout, w.Cin, w.Taps):
		fail("%d packed weights of %d", len(w.Data), PackedLen(w.Cout, w.Cin, w.Taps))
	case p.xld < c.Cin || p.xrow < (c.W-1)*p.xld+c.Cin || p.yld < p.channels:
		fail("strides %d, %d and %d for %d to %d channels", p.xld, p.xrow, p.yld, c.Cin, c.Cout)
	case len(c.Scale) < p.channels || len(c.Bias) < p.channels:
		fail("%d scales and %d biases for %d channels", len(c.Scale), len(c.Bias), p.channels)
	}
	if c.N == 0 || p.oh == 0 || p.ow == 0 {
		return
	}
	pixel := c.Cin
	if p.group == groupLanes {
		pixel = p.channels // read in whole vectors
	}
	x := (c.N*c.H-1)*p.xrow + (c.W-1)*p.xld + pixel
	y := (c.N*p.oh*p.ow-1)*p.yld + p.channels
	switch {
	case len(c.X) < x:
		fail("%d inputs of %d", len(c.X), x)
	case len(c.Y) < y:
		fail("%d outputs of %d", len(c.Y), y)
	case c.Residual != nil && len(c.Residual) < y:
		fail("%d residuals of %d", len(c.Residual), y)
	}
}

// Sizes the work is cut into. A block of pixels, with what it is multiplied
// by, should stay in the second-level cache; a part should be long enough to
// be worth handing to another thread.
const (
	blockFloats = 64 << 10
	blockUnit   = 84 // whole tiles, of 4, 6, 12 and 14 pixels
	blockMost   = 5
	// Weights up to this size stay in cache from one block to the next; blocks
	// are then small enough for their outputs to stay, too.
	weightFloats = 128 << 10
	stripFloats  = 96 << 10
	// Weights above this size come from memory for every strip: fewer, larger
	// strips are better then.
	stripWeights = 512 << 10
	stripLarge   = 160 << 10
	partMACs     = 256 << 10
)

// divide decides the parts. It depends on the number of workers, the results do
// not: parts only decide who computes an output.
func (p *convPlan) divide(c *Conv, workers int) {
	if c.N == 0 || p.oh == 0 || p.ow == 0 {
		return
	}
	if p.winograd.on {
		p.divideWinograd(c, workers)
		return
	}
	p.flat = p.kernel == 1 && p.stride == 1 && p.pad == 0 && p.groups == 1 && p.xrow == c.W*p.xld
	k := p.kernel * p.kernel * c.Cin / p.groups
	p.columns = 1
	if workers == 1 && c.N > 1 && !p.flat && p.pad == 0 && p.groups == 1 && k*c.Cout > weightFloats {
		p.batch = min(c.N, max(1, stripLarge/(c.H*p.xrow)))
	}
	if p.batch > 1 {
		return
	}
	p.batch = 0
	var parts int
	if p.flat {
		p.pixels = c.N * c.H * c.W
		pixel := k
		if k*c.Cout <= weightFloats {
			pixel += 2 * c.Cout // and its output and residual
		}
		p.block = min(max(blockFloats/pixel/blockUnit, 1), blockMost) * blockUnit
		parts = (p.pixels + p.block - 1) / p.block
	} else {
		line := (c.W + 2*p.pad) * p.stripLd(c)
		copied := p.pad > 0 && p.group == groupPanels
		if copied {
			most := stripFloats
			if k*c.Cout > stripWeights {
				most = stripLarge
			}
			p.rows = min(p.oh, max(2, (most/line-p.kernel+p.stride)/p.stride))
		} else {
			p.rows = min(p.oh, max(2, blockFloats/(p.ow*k)))
		}
		if workers > 1 && (p.groups > 1 || k*c.Cout <= weightFloats) {
			// Many strips; of large weights rather ranges of output channels, so
			// that each thread reads some of them.
			least := 1
			if copied && p.groups == 1 {
				least = p.kernel
			}
			p.rows = min(p.rows, max(least, p.oh/(4*workers)))
		}
		p.strips = evenly(p.oh, p.rows)
		p.rows = evenly(p.oh, p.strips)
		p.strips = evenly(p.oh, p.rows)
		parts = c.N * p.strips
		if copied {
			p.scratch = ((p.rows-1)*p.stride + p.kernel) * line
		}
	}
	if workers > 1 && p.groups == 1 && parts < 4*workers {
		units := max(1, (p.channels+15)/columnUnit)
		macs := p.oh * p.ow * c.N * c.Cout * k
		p.columns = min(units, max(1, min((4*workers+parts-1)/max(parts, 1), macs/partMACs)))
	}
}

// evenly returns the size of each of the given number of pieces of n.
func evenly(n, pieces int) int {
	if pieces == 0 {
		return n
	}
	return (n + pieces - 1) / pieces
}

// columnUnit is what output channels are divided by among parts: two panels.
const columnUnit = 2 * panelWidth

// columnRange returns the output channels of one range.
func (p *convPlan) columnRange(i int) (from, to int) {
	units := max(1, (p.channels+15)/columnUnit)
	from, to = i*units/p.columns*columnUnit, (i+1)*units/p.columns*columnUnit
	if i == p.columns-1 {
		to = p.channels
	}
	return from, to
}

// prepare fills what all tiles have in common.
func (p *convPlan) prepare(c *Conv) {
	w := c.Weights
	k := c.Cin / p.groups
	p.args = tileArgs{
		k: uintptr(k), kx: uintptr(p.kernel), ky: uintptr(p.kernel),
		panel: uintptr(4 * w.panelLen()),
		wskip: uintptr(4 * panelWidth * (w.Cin - k)),
		ldc:   uintptr(4 * p.yld),
	}
	p.args.lo, p.args.hi = c.Activation.limits()
}

// source sets the taps of args for pixels ld apart in lines row apart.
func (p *convPlan) source(args *tileArgs, ld, row int) {
	k := int(args.k)
	if ld == k && args.wskip == 0 {
		// The taps of a row follow each other in the pixels and in the
		// weights: one longer tap.
		args.k, args.kx = args.k*args.kx, 1
		args.arow = uintptr(4 * (row - p.kernel*ld))
	} else {
		args.askip = uintptr(4 * (ld - k))
		args.arow = uintptr(4 * (row - (p.kernel-1)*ld - k))
	}
	args.lda = uintptr(4 * p.stride * ld)
}

func (t *convTask) Part(part, worker int) {
	c := (*Conv)(t)
	p := &c.plan
	from, to := p.columnRange(part % p.columns)
	part /= p.columns
	if p.winograd.on {
		p.winogradPart(c, part, from, to, worker)
		return
	}
	if p.flat {
		p.flatPart(c, part, from, to)
		return
	}
	if p.batch > 0 {
		p.batchPart(c, part*p.batch, min((part+1)*p.batch, c.N))
		return
	}
	n, y0 := part/p.strips, part%p.strips*p.rows
	y1 := min(y0+p.rows, p.oh)
	if y0 < y1 {
		p.stripPart(c, n, y0, y1, from, to, worker)
	}
}

// flatPart computes one block of pixels of a convolution whose pixels are all
// alike: a matrix product.
func (p *convPlan) flatPart(c *Conv, part, from, to int) {
	first := part * p.block
	n := min(p.block, p.pixels-first)
	args := p.args
	p.source(&args, p.xld, 0)
	args.a = unsafe.Pointer(&c.X[first*p.xld])
	for ch := from; ch < to; {
		width := p.v.tileWidth(to - ch)
		if n == 1 && to-ch >= vectorWidth {
			width = vectorWidth
		}
		p.output(c, &args, first, ch, width)
		p.fetchNext(c, &args, ch+width, to)
		p.v.line(&args, n, width)
		ch += width
	}
	if c.Activation.smooth() {
		p.v.activate(c.Activation, c.Y[first*p.yld+from:], p.yld, n, to-from)
	}
}

// fetchNext makes the tiles that args computes fetch the weights of those that
// follow them: panels from channel ch on, if there are any and they are read as
// a whole. Without it the first tile of each panel would wait for memory.
func (p *convPlan) fetchNext(c *Conv, args *tileArgs, ch, to int) {
	args.fetch, args.fetchstep = unsafe.Pointer(&c.Weights.Data[0]), 0
	if ch >= to || args.wskip != 0 || c.Cin != c.Weights.Cin {
		return
	}
	from := ch / panelWidth * c.Weights.panelLen()
	end := min(len(c.Weights.Data), from+2*c.Weights.panelLen())
	args.fetch, args.fetchstep = unsafe.Pointer(&c.Weights.Data[from]), fetchStep
	args.fetchleft = uintptr(4 * (end - from))
}

// output points args at the weights and outputs of width channels from ch on,
// starting at the given output pixel.
func (p *convPlan) output(c *Conv, args *tileArgs, pixel, ch, width int) {
	at := pixel*p.yld + ch
	args.c = unsafe.Pointer(&c.Y[at])
	if c.Residual != nil {
		args.res = unsafe.Pointer(&c.Residual[at])
	}
	args.w = unsafe.Pointer(&c.Weights.Data[ch/panelWidth*c.Weights.panelLen()+ch%panelWidth])
	args.scale = unsafe.Pointer(&c.Scale[ch])
	args.bias = unsafe.Pointer(&c.Bias[ch])
	args.mask = 1<<16 - 1
	if ch+width > p.channels {
		args.mask = 1<<8 - 1
	}
}

// line computes a run of n pixels lda apart, in tiles as even as they can be:
// no tile is much smaller than the largest, so none wastes the registers.
func (v Variant) line(args *tileArgs, n, width int) {
	tiles := evenly(n, v.tileRows(width))
	rows, more := n/tiles, n%tiles
	a, c, res := args.a, args.c, args.res
	if more > 0 {
		v.run(args, rows+1, width, more)
		moved := uintptr((rows + 1) * more)
		args.a, args.c = unsafe.Add(a, moved*args.lda), unsafe.Add(c, moved*args.ldc)
		if res != nil {
			args.res = unsafe.Add(res, moved*args.ldc)
		}
	}
	v.run(args, rows, width, tiles-more)
	args.a, args.c, args.res = a, c, res
}

// lines computes two lines of n pixels at once, the second one half and chalf
// away: each tile has as many pixels of one as of the other.
func (v Variant) lines(args *tileArgs, n, width int, half, chalf uintptr) {
	tiles := evenly(n, v.tileRows(width)/2)
	rows, more := n/tiles, n%tiles
	args.half, args.chalf = half, chalf
	a, c, res := args.a, args.c, args.res
	for i, moved := 0, uintptr(0); i < tiles; i++ {
		r := rows
		if i < more {
			r++
		}
		args.a, args.c = unsafe.Add(a, moved*args.lda), unsafe.Add(c, moved*args.ldc)
		if res != nil {
			args.res = unsafe.Add(res, moved*args.ldc)
		}
		v.bounded(args, 2*r, width, 1)
		moved += uintptr(r)
	}
	args.a, args.c, args.res = a, c, res
}

// run computes n tiles of rows consecutive pixels.
func (v Variant) run(args *tileArgs, rows, width, n int) {
	first, r := uintptr(rows+1)/2, uintptr(rows)
	args.half, args.chalf = first*args.lda, first*args.ldc
	args.next, args.cnext = r*args.lda, r*args.ldc
	v.bounded(args, rows, width, n)
}

// callMACs bounds one call of assembly, which the scheduler cannot interrupt,
// to some tens of microseconds.
const callMACs = 2 << 20

// bounded computes n tiles in calls of bounded length. A tile that is itself
// too long is summed in pieces; the sums rest in the output meanwhile, so that
// the order of additions stays the same.
func (v Variant) bounded(args *tileArgs, rows, width, n int) {
	// Few rows take as long as more would: they wait for the weights.
	cost := max(rows, 16) * width
	macs := cost * int(args.k*args.kx*args.ky)
	if args.c == args.res { // the output is needed until the end
		macs = min(macs, callMACs)
	}
	if macs*n <= callMACs {
		args.tiles = uintptr(n)
		v.tile(rows, width, args)
		args.fetched(uintptr(n))
		return
	}
	step := max(1, callMACs/macs)
	q := *args
	for ; n > 0; n -= step {
		now := uintptr(min(n, step))
		q.tiles = now
		if macs <= 2*callMACs {
			v.tile(rows, width, &q)
		} else {
			v.pieces(q, rows, width, max(1, callMACs/cost))
		}
		q.fetched(now)
		if n <= step {
			break
		}
		q.a, q.c = unsafe.Add(q.a, now*q.next), unsafe.Add(q.c, now*q.cnext)
		if q.res != nil {
			q.res = unsafe.Add(q.res, now*q.cnext)
		}
	}
	args.fetch, args.fetchstep, args.fetchleft = q.fetch, q.fetchstep, q.fetchleft
}

// fetched moves on what the kernel fetched during a call of n tiles, and stops
// at the end of the weights.
func (args *tileArgs) fetched(n uintptr) {
	if args.fetchstep == 0 {
		return
	}
	lines := n * args.ky * args.kx * (args.k / fourChannels) * args.fetchstep
	if lines >= args.fetchleft {
		args.fetchstep = 0
		return
	}
	args.fetch = unsafe.Add(args.fetch, lines)
	args.fetchleft -= lines
}

// pieces computes one tile in calls that each sum one row of taps, or, of a
// single row and tap, about k channels.
func (v Variant) pieces(args tileArgs, rows, width, k int) {
	q := args
	tap := 4*args.k + args.askip
	wtap := 4*panelWidth*args.k + args.wskip
	for y := range args.ky {
		q.ky, q.resume, q.raw = 1, max(args.resume, min(y, 1)), max(args.raw, min(args.ky-1-y, 1))
		q.a = unsafe.Add(args.a, y*(args.kx*tap-args.askip+args.arow))
		q.w = unsafe.Add(args.w, y*args.kx*wtap)
		if args.kx > 1 || int(args.k) <= k {
			q.tiles = 1
			v.tile(rows, width, &q)
			continue
		}
		resume, raw, a, w := q.resume, q.raw, q.a, q.w
		for i := uintptr(0); i < args.k; i += uintptr(k) {
			q.k = min(uintptr(k), args.k-i)
			q.a, q.w = unsafe.Add(a, 4*i), unsafe.Add(w, 4*panelWidth*i)
			q.resume, q.raw = max(resume, min(i, 1)), raw
			if i+q.k < args.k {
				q.raw = 1
			}
			q.tiles = 1
			v.tile(rows, width, &q)
		}
		q.k = args.k
	}
}
