package kernel

import "unsafe"

// windowArgs is what a depthwise or grouped kernel is called with: tiles of
// outputs along one image row, for vectors of channels. Strides are in bytes.
//
// The first column of the first tile may lie left of the image and the last of
// the last one right of it; x is then the start of the image and off leads to
// that column, so that no pointer ever points outside.
type windowArgs struct {
	x    unsafe.Pointer
	off  uintptr // from x to the first column in the first row of taps, may wrap around
	row  uintptr // between input rows
	pix  uintptr // between input pixels
	next uintptr // between the first columns of tiles

	w    unsafe.Pointer // first row of taps that lies in the image
	wtap uintptr        // between taps
	wrow uintptr        // from the end of a row of taps to the next

	y    unsafe.Pointer
	ypix uintptr // between output pixels

	ny          uintptr // rows of taps in the image, at least one
	tiles       uintptr
	left, right uintptr // columns of the first and last tile outside the image
	end         uintptr // depthwise: bytes of channels, whole vectors

	group uintptr        // grouped: channels of a group
	index unsafe.Pointer // grouped: first channel of the group of each lane

	scale, bias unsafe.Pointer
	lo, hi      float32
}

// outside reports whether column j of tile t is not in the image.
func (p *windowArgs) outside(t, j, columns uintptr) bool {
	return t == 0 && j < p.left || t == p.tiles-1 && columns-j <= p.right
}

// depthwiseGeneric is the loop nest that every depthwise kernel computes: for
// each tile, output o < outputs and channel c,
//
//	for i < ny, j < kernel:
//		sum += x[i][o*stride+j][c] * w[i][j][c]
//	y[o][c] = min(max(sum*scale[c] + bias[c], lo), hi)
//
// leaving out columns outside the image.
func depthwiseGeneric(kernel, stride, outputs int, p *windowArgs) {
	columns := uintptr((outputs-1)*stride + kernel)
	for t := range p.tiles {
		for o := range uintptr(outputs) {
			for c := uintptr(0); c < p.end; c += 4 {
				var sum float32
				for i := range p.ny {
					for j := range uintptr(kernel) {
						col := o*uintptr(stride) + j
						if p.outside(t, col, columns) {
							continue
						}
						x := *at(p.x, p.off+t*p.next+i*p.row+col*p.pix+c)
						sum += float32(x * *at(p.w, i*p.wrow+j*p.wtap+c))
					}
				}
				v := float32(sum**at(p.scale, c)) + *at(p.bias, c)
				*at(p.y, (t*uintptr(outputs)+o)*p.ypix+c) = clamp(v, p.lo, p.hi)
			}
		}
	}
}

// groupedGeneric is the loop nest that every grouped kernel computes, for a
// 3×3 kernel and one vector of channels: for each tile, output o < outputs and
// channel c < lanes, whose group starts at channel g = index[c],
//
//	for i < ny, k < group, j < 3:
//		sum += x[i][o*stride+j][g+k] * w[i][j][k][c]
//	y[o][c] = min(max(sum*scale[c] + bias[c], lo), hi)
//
// leaving out columns outside the image.
func groupedGeneric(stride, outputs, lanes int, p *windowArgs) {
	columns := uintptr((outputs-1)*stride + 3)
	index := unsafe.Slice((*int32)(p.index), lanes)
	for t := range p.tiles {
		for o := range uintptr(outputs) {
			for c, g := range index {
				var sum float32
				for i := range p.ny {
					w := i * (p.wrow + p.group*4*panelWidth)
					for k := range p.group {
						for j := range uintptr(3) {
							col := o*uintptr(stride) + j
							if p.outside(t, col, columns) {
								continue
							}
							x := *at(p.x, p.off+t*p.next+i*p.row+col*p.pix+4*(uintptr(g)+k))
							sum += float32(x * *at(p.w, w+j*p.wtap+4*(k*panelWidth+uintptr(c))))
						}
					}
				}
				v := float32(sum**at(p.scale, uintptr(4*c))) + *at(p.bias, uintptr(4*c))
				*at(p.y, (t*uintptr(outputs)+o)*p.ypix+uintptr(4*c)) = clamp(v, p.lo, p.hi)
			}
		}
	}
}

// window is the geometry of a sliding window over one image.
type window struct {
	kernel, stride, pad int // pad left and right
	top                 int // zeros above
	h, w, oh, ow        int
	xld, xrow, yld      int
	wtap                int // floats between taps
}

// fast reports whether the assembly kernels cover this window.
func (g *window) fast() bool {
	return (g.kernel == 3 || g.kernel == 5) && g.stride <= 2 && g.pad <= (g.kernel-1)/2
}

// rowArgs points args at output row y of the image that starts at x and the
// outputs that start at out; w is the first tap.
func (g *window) rowArgs(args *windowArgs, x, w, out []float32, y int) {
	top := y*g.stride - g.top
	first, last := max(0, -top), min(g.kernel, g.h-top)
	args.x = unsafe.Pointer(unsafe.SliceData(x))
	args.off = uintptr(4 * ((top+first)*g.xrow - g.pad*g.xld))
	args.w = unsafe.Pointer(&w[first*g.kernel*g.wtap])
	args.y = unsafe.Pointer(&out[y*g.ow*g.yld])
	args.ny = uintptr(last - first)
}

// row computes the row args points at, in tiles as even as they can be. lanes
// is the width of a grouped kernel, 0 for depthwise.
func (g *window) row(v Variant, args *windowArgs, lanes int) {
	most := v.windowOutputs()
	if !g.fast() {
		v, most = Generic, g.ow
	}
	tiles := evenly(g.ow, most)
	outputs, more := g.ow/tiles, g.ow%tiles
	left := uintptr(g.pad)
	right := uintptr(max(0, (g.ow-1)*g.stride-g.pad+g.kernel-g.w))
	step := uintptr(4 * g.stride * g.xld)
	if more > 0 {
		args.left, args.right, args.tiles = left, 0, uintptr(more)
		args.next = uintptr(outputs+1) * step
		g.call(v, outputs+1, lanes, args)
		left = 0
		args.off += args.tiles * args.next
		args.y = unsafe.Add(args.y, args.tiles*uintptr(outputs+1)*args.ypix)
	}
	args.left, args.right, args.tiles = left, right, uintptr(tiles-more)
	args.next = uintptr(outputs) * step
	g.call(v, outputs, lanes, args)
}

func (g *window) call(v Variant, outputs, lanes int, args *windowArgs) {
	if lanes == 0 {
		v.depthwise(g.kernel, g.stride, outputs, args)
	} else {
		v.grouped(g.stride, outputs, lanes, args)
	}
}
