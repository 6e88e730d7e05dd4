package kernel

import (
	"fmt"
	"unsafe"
)

// Depthwise is a convolution of each channel with its own kernel. X is
// [N][H][W][XLd] and Y [N][OH][OW][YLd]; they may not overlap. Kernels of 3 and
// 5 with stride 1 and 2 and at most (Kernel-1)/2 of padding are fast; all
// others run in plain Go.
type Depthwise struct {
	Variant             Variant
	N, H, W, C          int // C of this subnetwork, at most what the weights hold
	Kernel, Stride, Pad int // Stride 0 means 1
	// Strip says that X is some rows of a larger image, with PadTop and
	// PadBottom rows of zeros above and below instead of Pad: operations that
	// follow each other can so be run strip by strip, each strip still in cache
	// when the next operation reads it.
	Strip             bool
	PadTop, PadBottom int

	X, Y       []float32
	XLd, YLd   int // floats a pixel takes; 0 means PadChannels(C)
	Weights    *DepthwiseWeights
	Scale      []float32 // PadChannels(C)
	Bias       []float32 // PadChannels(C)
	Activation Activation

	plan depthwisePlan
}

type depthwisePlan struct {
	window
	v        Variant
	channels int // rounded up to 8
	group    int // channels a part
	groups   int
	rows     int // output rows a part
	strips   int
}

// OutSize returns the height and width of the output.
func (d *Depthwise) OutSize() (h, w int) {
	s := max(d.Stride, 1)
	top, bottom := d.rowPadding()
	return outSize(d.H+top+bottom, d.Kernel, s, 0), outSize(d.W, d.Kernel, s, d.Pad)
}

// rowPadding returns the rows of zeros above and below.
func (d *Depthwise) rowPadding() (top, bottom int) {
	if d.Strip {
		return d.PadTop, d.PadBottom
	}
	return d.Pad, d.Pad
}

type depthwiseTask Depthwise

// Run computes the convolution on the pool.
func (d *Depthwise) Run(pool *Pool) {
	p := &d.plan
	p.shape(d)
	p.check(d)
	if d.N == 0 || p.oh == 0 || p.ow == 0 {
		return
	}
	p.divide(d, pool.Size())
	pool.Run(d.N*p.groups*p.strips, (*depthwiseTask)(d))
}

func (p *depthwisePlan) shape(d *Depthwise) {
	*p = depthwisePlan{v: d.Variant.resolve(), channels: PadChannels(d.C)}
	p.window = window{
		kernel: d.Kernel, stride: max(d.Stride, 1), pad: d.Pad,
		h: d.H, w: d.W, xld: d.XLd, yld: d.YLd,
	}
	p.oh, p.ow = d.OutSize()
	p.top, _ = d.rowPadding()
	if p.xld == 0 {
		p.xld = p.channels
	}
	if p.yld == 0 {
		p.yld = p.channels
	}
	p.xrow = d.W * p.xld
	if d.Weights != nil {
		p.wtap = PadChannels(d.Weights.Channels)
	}
}

func (p *depthwisePlan) check(d *Depthwise) {
	fail := func(format string, args ...any) {
		panic("kernel: Depthwise: " + fmt.Sprintf(format, args...))
	}
	d.Activation.check()
	top, bottom := d.rowPadding()
	switch {
	case d.N < 0 || d.H < 1 || d.W < 1 || d.C < 1:
		fail("%d images of %d×%d×%d", d.N, d.H, d.W, d.C)
	case d.Kernel < 1 || d.Stride < 0 || d.Pad < 0 || d.Pad >= d.Kernel:
		fail("kernel %d, stride %d, pad %d", d.Kernel, d.Stride, d.Pad)
	case min(top, bottom) < 0 || max(top, bottom) >= d.Kernel:
		fail("%d and %d rows of padding for a kernel of %d", top, bottom, d.Kernel)
	case d.Weights == nil:
		fail("no weights")
	case d.Weights.Taps != d.Kernel*d.Kernel || d.Weights.Channels < d.C:
		fail("weights of %d×%d taps for %d×%d", d.Weights.Channels, d.Weights.Taps, d.C, d.Kernel*d.Kernel)
	case len(d.Weights.Data) < d.Weights.Taps*p.wtap:
		fail("%d packed weights of %d", len(d.Weights.Data), d.Weights.Taps*p.wtap)
	case p.xld < p.channels || p.yld < p.channels:
		fail("strides %d and %d for %d channels", p.xld, p.yld, d.C)
	case len(d.Scale) < p.channels || len(d.Bias) < p.channels:
		fail("%d scales and %d biases for %d channels", len(d.Scale), len(d.Bias), p.channels)
	}
	if d.N == 0 || p.oh == 0 || p.ow == 0 {
		return
	}
	x := (d.N*d.H*d.W-1)*p.xld + p.channels
	y := (d.N*p.oh*p.ow-1)*p.yld + p.channels
	if len(d.X) < x || len(d.Y) < y {
		fail("%d inputs of %d, %d outputs of %d", len(d.X), x, len(d.Y), y)
	}
}

// Sizes that decide which way a window goes over an image.
const (
	// windowFloats is the input a window should find again in the first-level
	// cache when it comes to the next row.
	windowFloats = 6 << 10
	// imageFloats is the input and output that stay in the second-level cache.
	imageFloats = 320 << 10
)

// divide makes parts of channels, so narrow that the rows under the window stay
// in the first-level cache. An image that comes from further away is read as it
// lies in memory, all channels of a row at once. When there are few parts of
// channels, rows are divided too.
func (p *depthwisePlan) divide(d *Depthwise, workers int) {
	p.group = p.channels
	if p.h*p.xrow+p.oh*p.ow*p.yld <= imageFloats {
		p.group = min(p.channels, max(16, windowFloats/(p.kernel*d.W)&^15))
	}
	p.groups = evenly(p.channels, p.group)
	p.rows, p.strips = p.oh, 1
	if parts := d.N * p.groups; workers > 1 && parts < 4*workers {
		p.strips = min(p.oh, evenly(4*workers, parts))
		p.rows = evenly(p.oh, p.strips)
		p.strips = evenly(p.oh, p.rows)
	}
}

func (t *depthwiseTask) Part(part, _ int) {
	d := (*Depthwise)(t)
	p := &d.plan
	c0 := part % p.groups * p.group
	c1 := min(c0+p.group, p.channels)
	part /= p.groups
	n, y0 := part/p.strips, part%p.strips*p.rows
	y1 := min(y0+p.rows, p.oh)
	// AVX-512 has no kernel for half a vector; that of AVX2 computes the same.
	if whole := c0 + (c1-c0)&^15; p.v == AVX512 && whole != c1 {
		p.channelRange(d, AVX2, n, whole, c1, y0, y1)
		c1 = whole
	}
	if c0 < c1 {
		p.channelRange(d, p.v, n, c0, c1, y0, y1)
	}
}

// channelRange computes channels c0 to c1 of output rows y0 to y1 of image n.
func (p *depthwisePlan) channelRange(d *Depthwise, v Variant, n, c0, c1, y0, y1 int) {
	x := d.X[n*p.h*p.xrow+c0:]
	y := d.Y[n*p.oh*p.ow*p.yld+c0:]
	w := d.Weights.Data[c0:]
	args := windowArgs{
		row: uintptr(4 * p.xrow), pix: uintptr(4 * p.xld), ypix: uintptr(4 * p.yld),
		wtap: uintptr(4 * p.wtap), wrow: uintptr(4 * p.kernel * p.wtap),
		end:   uintptr(4 * (c1 - c0)),
		scale: unsafe.Pointer(&d.Scale[c0]), bias: unsafe.Pointer(&d.Bias[c0]),
	}
	args.lo, args.hi = d.Activation.limits()
	for r := y0; r < y1; r++ {
		p.rowArgs(&args, x, w, y, r)
		p.row(v, &args, 0)
	}
	if d.Activation.smooth() {
		p.v.activate(d.Activation, y[y0*p.ow*p.yld:], p.yld, (y1-y0)*p.ow, c1-c0)
	}
}
