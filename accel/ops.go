//go:build xla

package accel

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"tips/supernet"
)

// window is the geometry of a convolution or pooling: what it reads, how, and what
// it writes.
type window struct {
	kernel, stride, padding int
	groups                  int
	in, out                 supernet.Shape
}

func windowOf(op supernet.Op, o *supernet.OpView) window {
	return window{max(op.Kernel, 1), max(op.Stride, 1), op.Padding, o.Groups, o.In[0], o.Out}
}

// matrix tells whether a convolution is a product of matrices: 1×1, all channels.
func (w window) matrix() bool { return w.kernel == 1 && w.groups == 1 && w.padding == 0 }

// channelsLast are maps as [image][row][column][channel] and weights as
// [kernel][kernel][in][out].
var channelsLast = compute.ConvolveAxesConfig{
	InputBatch: 0, InputChannels: 3, InputSpatial: []int{1, 2},
	KernelInputChannels: 2, KernelOutputChannels: 3, KernelSpatial: []int{0, 1},
	OutputBatch: 0, OutputChannels: 3, OutputSpatial: []int{1, 2},
}

func square(x int) []int { return []int{x, x} }

// convolve is the convolution of x with weights k.
func (g *graph) convolve(x, k node, w window) node {
	if w.matrix() {
		x = g.window(x, 0, 0, w.stride, w.out.Height, w.out.Width)
		y := g.product(g.reshape(x, x.size()/x.dims[3], x.dims[3]), 1, g.reshape(k, k.dims[2], k.dims[3]), 0, x.t)
		return g.reshape(y, x.dims[0], w.out.Height, w.out.Width, k.dims[3])
	}
	pad := [2]int{w.padding, w.padding}
	return g.is(g.f.ConvGeneral(x.v, k.v, channelsLast, square(w.stride), [][2]int{pad, pad}, nil, nil, w.groups, 1))
}

// convolveInput is the gradient of x from that of what convolve makes of it.
func (g *graph) convolveInput(dz, k node, w window) node {
	if w.matrix() {
		dx := g.product(g.reshape(dz, dz.size()/dz.dims[3], dz.dims[3]), 1, g.reshape(k, k.dims[2], k.dims[3]), 1, dz.t)
		dx = g.reshape(dx, dz.dims[0], w.out.Height, w.out.Width, w.in.Channels)
		if w.stride == 1 {
			return dx
		}
		return g.place(dx, 0, 0, w.stride, w.in.Height, w.in.Width)
	}
	// A convolution of the gradient, set apart by the stride, with the weights
	// reversed, in and out exchanged within each group.
	k = g.is(g.f.Reverse(k.v, 0, 1))
	axes := channelsLast
	if w.groups == 1 {
		axes.KernelInputChannels, axes.KernelOutputChannels = 3, 2
	} else {
		in, out := w.in.Channels/w.groups, w.out.Channels/w.groups
		k = g.reshape(k, w.kernel, w.kernel, in, w.groups, out)
		k = g.is(g.f.Transpose(k.v, 0, 1, 4, 3, 2))
		k = g.reshape(k, w.kernel, w.kernel, out, w.in.Channels)
	}
	return g.is(g.f.ConvGeneral(dz.v, k.v, axes, nil, [][2]int{w.back(w.in.Height, w.out.Height), w.back(w.in.Width, w.out.Width)},
		square(w.stride), nil, w.groups, 1))
}

// back is the padding of the gradient along a side.
func (w window) back(in, out int) [2]int {
	before := w.kernel - 1 - w.padding
	return [2]int{before, in + w.kernel - 2 - before - (out-1)*w.stride}
}

// convolveWeight is the gradient of the weights, in float32.
func (g *graph) convolveWeight(x, dz node, w window) node {
	if w.matrix() {
		x = g.window(x, 0, 0, w.stride, w.out.Height, w.out.Width)
		dk := g.product(g.reshape(x, x.size()/x.dims[3], x.dims[3]), 0, g.reshape(dz, dz.size()/dz.dims[3], dz.dims[3]), 0, dtypes.Float32)
		return g.reshape(dk, 1, 1, w.in.Channels, w.out.Channels)
	}
	// A convolution of the images with the gradient, set apart by the stride, as
	// weights: images take the place of channels and channels that of images. What
	// no window reached is left out.
	end := func(in, out int) int { return (out-1)*w.stride + w.kernel - in - w.padding }
	bottom, right := end(w.in.Height, w.out.Height), end(w.in.Width, w.out.Width)
	if bottom < 0 {
		x, bottom = g.cut(x, 1, 0, w.in.Height+bottom), 0
	}
	if right < 0 {
		x, right = g.cut(x, 2, 0, w.in.Width+right), 0
	}
	axes := compute.ConvolveAxesConfig{
		InputBatch: 3, InputChannels: 0, InputSpatial: []int{1, 2},
		KernelInputChannels: 0, KernelOutputChannels: 3, KernelSpatial: []int{1, 2},
		// The Go backend takes the input's axis of images for the output's: both are 3.
		OutputBatch: 3, OutputChannels: 2, OutputSpatial: []int{0, 1},
	}
	dk := g.is(g.f.ConvGeneral(x.v, dz.v, axes, nil, [][2]int{{w.padding, bottom}, {w.padding, right}}, nil, square(w.stride), 1, w.groups))
	if in := w.in.Channels / w.groups; in == 1 {
		dk = g.reshape(dk, w.kernel, w.kernel, 1, w.out.Channels)
	} else {
		dk = g.is(g.f.Transpose(dk.v, 0, 1, 3, 2))
	}
	return g.wide(dk)
}

// taps calls visit with the part of x that each tap of a window reads, where pixels
// outside x have the given value.
func (g *graph) taps(x node, w window, outside float64, visit func(tap int, part node)) {
	end := func(in, out int) int { return max((out-1)*w.stride+w.kernel-in-w.padding, 0) }
	x = g.pad(x, outside, [2]int{w.padding, end(w.in.Height, w.out.Height)}, [2]int{w.padding, end(w.in.Width, w.out.Width)}, 0)
	for tap := range w.kernel * w.kernel {
		visit(tap, g.window(x, tap/w.kernel, tap%w.kernel, w.stride, w.out.Height, w.out.Width))
	}
}

// untaps is the reverse: the sum of what part gives for each tap, at the pixels
// that the tap reads.
func (g *graph) untaps(w window, part func(tap int) node) node {
	h, width := max(w.in.Height+2*w.padding, (w.out.Height-1)*w.stride+w.kernel), max(w.in.Width+2*w.padding, (w.out.Width-1)*w.stride+w.kernel)
	var sum node
	for tap := range w.kernel * w.kernel {
		p := g.place(part(tap), tap/w.kernel, tap%w.kernel, w.stride, h, width)
		p = g.window(p, w.padding, w.padding, 1, w.in.Height, w.in.Width)
		if sum.is() {
			p = g.add(sum, p)
		}
		sum = p
	}
	return sum
}

// tapWeight is the weights of one tap of a depthwise convolution, in float32, for
// every pixel of a map of the given size.
func (g *graph) tapWeight(k node, tap int, dims []int) node {
	channels := k.dims[3]
	one := g.cut(g.reshape(g.wide(k), k.size()/channels, channels), 0, tap, tap+1)
	return g.spread(g.reshape(one, channels), dims, 3)
}

// depthwiseInput is the gradient of what a depthwise convolution reads.
func (g *graph) depthwiseInput(dz, k node, w window) node {
	if w.stride > 1 {
		return g.depthwisePhases(dz, k, w)
	}
	return g.convolveInput(dz, k, w)
}

// depthwiseWeight is the gradient of its weights, in float32. The library of
// NVIDIA's GPUs is fast at what is usual, a stride of one and maps larger than the
// window; it takes up to forty times as long as this for the rest.
func (g *graph) depthwiseWeight(x, dz node, w window) node {
	switch pairs := w.in.Height * w.in.Width * w.out.Height * w.out.Width; {
	case pairs <= maxPairs:
		return g.depthwisePairs(x, dz, w)
	case w.stride > 1 || w.out.Height <= w.kernel || w.out.Width <= w.kernel:
		return g.depthwiseSums(x, dz, w)
	}
	return g.convolveWeight(x, dz, w)
}

// depthwisePhases is the gradient of the input where the stride is s: a pixel at
// s·m + r takes part in the windows at m and beside it only, by the taps that fit its
// phase r. Each phase is a small sum, and the phases are interleaved.
func (g *graph) depthwisePhases(dz, k node, w window) node {
	s := w.stride
	rows, columns := (w.in.Height+s-1)/s, (w.in.Width+s-1)/s // of a phase
	// The window of tap t that a pixel of phase r has a part in, less m.
	beside := func(r, t int) (int, bool) {
		e := r + w.padding - t
		return e / s, e%s == 0
	}
	low, high := 0, 0
	for r := range s {
		for t := range w.kernel {
			if e, fits := beside(r, t); fits {
				low, high = max(low, -e), max(high, e)
			}
		}
	}
	end := func(count, out int) int { return max(count-1+high-(out-1), 0) }
	padded := g.pad(g.wide(dz), 0, [2]int{low, end(rows, w.out.Height)}, [2]int{low, end(columns, w.out.Width)}, 0)
	var phases []node
	for row := range s {
		var line []node
		for column := range s {
			sum := g.fit(g.scalar(0, dtypes.Float32), []int{dz.dims[0], rows, columns, dz.dims[3]})
			first := true
			for tap := range w.kernel * w.kernel {
				down, fitsDown := beside(row, tap/w.kernel)
				right, fitsRight := beside(column, tap%w.kernel)
				if !fitsDown || !fitsRight {
					continue
				}
				part := g.window(padded, low+down, low+right, 1, rows, columns)
				part = g.mul(part, g.tapWeight(k, tap, part.dims))
				if !first {
					part = g.add(sum, part)
				}
				sum, first = part, false
			}
			line = append(line, g.reshape(g.convert(sum, dz.t), dz.dims[0], rows, 1, columns, 1, dz.dims[3]))
		}
		phases = append(phases, g.join(4, line...))
	}
	dx := g.reshape(g.join(2, phases...), dz.dims[0], rows*s, columns*s, dz.dims[3])
	return g.window(dx, 0, 0, 1, w.in.Height, w.in.Width)
}

// depthwiseSums is the gradient of the weights, one sum for every tap.
func (g *graph) depthwiseSums(x, dz node, w window) node {
	var rows []node
	wide := g.wide(dz)
	g.taps(g.wide(x), w, 0, func(_ int, part node) {
		// First over the images, as pass.sumRows does.
		d := dz.dims
		sum := g.sum(g.reshape(g.mul(part, wide), d[0], d[1]*d[2]*d[3]), 0)
		rows = append(rows, g.reshape(g.sum(g.reshape(sum, d[1]*d[2], d[3]), 0), 1, d[3]))
	})
	return g.reshape(g.join(0, rows...), w.kernel, w.kernel, 1, dz.dims[3])
}

// maxPairs is how many pairs of pixels depthwisePairs goes through at most.
const maxPairs = 64

// depthwisePairs is the gradient of the weights where maps are tiny: one sum over
// the images for every pair of a pixel that is read and one that is written, and
// then those of each tap together.
func (g *graph) depthwisePairs(x, dz node, w window) node {
	images, channels := dz.dims[0], dz.dims[3]
	in, out := w.in.Height*w.in.Width, w.out.Height*w.out.Width
	dims := []int{images, in, out, channels}
	product := g.mul(g.spread(g.reshape(g.wide(x), images, in, channels), dims, 0, 1, 3), g.spread(g.reshape(g.wide(dz), images, out, channels), dims, 0, 2, 3))
	sums := g.reshape(g.sum(g.reshape(product, images, in*out*channels), 0), in*out, channels)
	var rows []node
	for tap := range w.kernel * w.kernel {
		sum := g.fit(g.scalar(0, dtypes.Float32), []int{1, channels})
		for o := range out {
			y, x := o/w.out.Width*w.stride+tap/w.kernel-w.padding, o%w.out.Width*w.stride+tap%w.kernel-w.padding
			if y < 0 || y >= w.in.Height || x < 0 || x >= w.in.Width {
				continue
			}
			pair := (y*w.in.Width+x)*out + o
			sum = g.add(sum, g.cut(sums, 0, pair, pair+1))
		}
		rows = append(rows, sum)
	}
	return g.reshape(g.join(0, rows...), w.kernel, w.kernel, 1, channels)
}

// maxPool is the largest value of each window and the tap that has it, the first
// of them, in float32.
func (g *graph) maxPool(x node, w window) (y, tap node) {
	const lowest = -3e38 // in bfloat16 too
	g.taps(x, w, lowest, func(t int, part node) {
		if t == 0 {
			y, tap = part, g.fit(g.scalar(0, dtypes.Float32), part.dims)
			return
		}
		larger := g.less(y, part)
		tap = g.choose(larger, g.fit(g.scalar(float64(t), dtypes.Float32), part.dims), tap)
		y = g.choose(larger, part, y)
	})
	return y, g.convert(tap, dtypes.Int8)
}

func (g *graph) maxPoolInput(dy, tap node, w window) node {
	wide := g.wide(dy)
	which := g.wide(tap)
	dx := g.untaps(w, func(t int) node {
		return g.choose(g.equal(which, g.scalar(float64(t), dtypes.Float32)), wide, g.scalar(0, dtypes.Float32))
	})
	return g.convert(dx, dy.t)
}

func (g *graph) avgPool(x node, w window) node {
	var sum node
	g.taps(g.wide(x), w, 0, func(_ int, part node) {
		if sum.is() {
			part = g.add(sum, part)
		}
		sum = part
	})
	return g.convert(g.times(sum, 1/float64(w.kernel*w.kernel)), x.t)
}

func (g *graph) avgPoolInput(dy node, w window) node {
	part := g.times(g.wide(dy), 1/float64(w.kernel*w.kernel))
	return g.convert(g.untaps(w, func(int) node { return part }), dy.t)
}
