package kernel

// The most output channels and the fewest pixels for which that has been seen to
// be faster.
const (
	exchangeMost   = 24
	exchangePixels = 128
)

// exchanged reports whether a gradient is better computed with the roles of
// inputs and output gradients exchanged: vectors of input channels, each times
// single output channels. That is so with AVX-512 where few output channels
// leave much of their vectors empty, or where only one vector shares the work of
// spreading an input over its lanes.
func (p *gradientPlan) exchanged() bool {
	c := p.c
	if p.v != AVX512 || p.kernel != 1 || p.groups != 1 || c.Cin < panelWidth || c.Cout > exchangeMost || c.N*c.OH*c.OW < exchangePixels {
		return false
	}
	if wide := PadChannels(c.Cin); c.N == 0 || !p.xs.fit(c.N, p.reach(c.OH), p.reach(c.OW), wide, len(c.X)) || len(c.Scratch) < c.ScratchLen() {
		return false
	}
	return 10*vectorCost(c.Cin, c.Cout) < 9*vectorCost(c.Cout, c.Cin)
}

// vectorCost is what the products of vectors of n channels with each of m take.
func vectorCost(n, m int) int {
	vectors := evenly(n, panelWidth)
	if vectors == 1 {
		return 16 * m
	}
	return 10 * vectors * m
}

// exchangeLen returns the floats of scratch that runExchanged needs.
func exchangeLen(cin, cout int) int {
	return evenly(cin, panelWidth)*panelWidth*evenly(cout, panelWidth)*panelWidth + panelWidth*panelWidth
}

// runExchanged computes the transposed gradient, in panels of input channels, in
// scratch, and adds it to G.
func (p *gradientPlan) runExchanged() {
	c := p.c
	nn, ny, nx := c.N, c.OH, c.OW
	step := Strides{p.stride * p.xs.Pixel, p.stride * p.xs.Row, p.xs.Image}
	if p.ys.flat(ny, nx) && step.flat(ny, nx) {
		nn, ny, nx = 1, 1, nn*ny*nx
	}
	end, rows := PadChannels(c.Cin), evenly(c.Cout, panelWidth)*panelWidth
	panels := evenly(end, panelWidth)
	turned := c.Scratch[:panels*panelWidth*rows]
	clear(turned)
	b := boxOf(nn, ny, nx, gradientPixels)
	for n := 0; n < nn; n += b.n {
		for y := 0; y < ny; y += b.y {
			for x := 0; x < nx; x += b.x {
				now := box{min(b.n, nn-n), min(b.y, ny-y), min(b.x, nx-x)}
				for ch := 0; ch < end; {
					width := p.v.tileWidth(end - ch)
					args := gradientArgs{
						x: pointer(c.DY, p.ys.at(n, y, x)), y: pointer(c.X, step.at(n, y, x)+ch),
						nx: uintptr(now.x), ny: uintptr(now.y), nn: uintptr(now.n),
						xwalk: p.ys.walk(now.y, now.x), ywalk: step.walk(now.y, now.x),
						g: pointer(turned, ch*rows), panel: uintptr(4 * panelWidth * rows),
						mask: 1<<16 - 1,
					}
					if ch+width > end {
						args.mask = 1<<8 - 1
					}
					p.v.gradientRows(&args, now.n*now.y*now.x, c.Cout, width)
					ch += width
				}
			}
		}
	}
	p.turnBack(turned, rows)
}

// turnBack adds the transposed gradient to G, block by block.
func (p *gradientPlan) turnBack(turned []float32, rows int) {
	c := p.c
	block := c.Scratch[len(turned) : len(turned)+panelWidth*panelWidth]
	for i := 0; i < c.Cin; i += panelWidth {
		for o := 0; o < c.Cout; o += panelWidth {
			args := transposeArgs{src: pointer(turned, i*rows+o*panelWidth), dst: pointer(block, 0), n: 1}
			transposeBlocks(&args)
			lanes := min(panelWidth, c.Cout-o)
			g := c.G.Data[o/panelWidth*c.G.panelLen()+i*panelWidth:]
			for r := range min(panelWidth, c.Cin-i) {
				from := block[r*panelWidth:][:lanes]
				to := g[r*panelWidth:][:lanes]
				for l, v := range from {
					to[l] += v
				}
			}
		}
	}
}
