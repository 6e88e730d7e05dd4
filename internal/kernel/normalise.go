package kernel

import "fmt"

// Normalise applies a batch norm, given as a scale and a shift per channel, and
// an activation to the pixels of N images:
//
//	y = activation(z*Scale[c] + Shift[c] + residual)
//
// Y may be Z or the residual if it lies as that does. Pad channels are computed
// as the others.
type Normalise struct {
	Variant                             Variant
	N, H, W, C                          int
	Z, Residual, Y                      []float32 // Residual may be nil
	ZStrides, ResidualStrides, YStrides Strides
	Scale, Shift                        []float32 // PadChannels(C)
	Activation                          Activation

	loop pixels
}

// Run computes the outputs.
func (o *Normalise) Run() {
	p := pixelsOf("Normalise", &o.loop, o.Variant, o.Activation, o.N, o.H, o.W, o.C)
	p.input(o.Z, o.ZStrides)
	p.output(o.Y, o.YStrides)
	p.op = pixelNorm
	if o.Residual != nil {
		p.op = pixelNormAdd
		p.second(o.Residual, o.ResidualStrides)
	}
	p.channels(o.Scale, o.Shift)
	p.args.scale, p.args.shift = pointer(o.Scale, 0), pointer(o.Shift, 0)
	p.args.lo, p.args.hi = o.Activation.limits()
	p.run()
	o.loop = pixels{} // holds pointers into the caller's buffers
}

// Moments adds up the pixels of N images and their squares, each channel less a
// value near its mean:
//
//	Sum[c] += Σ (z - Near[c]),  Square[c] += Σ (z - Near[c])²
//
// The sums are float32, of pieces of a few hundred pixels: good for some ten
// thousands.
type Moments struct {
	Variant     Variant
	N, H, W, C  int
	Z           []float32
	ZStrides    Strides
	Near        []float32 // PadChannels(C), as the sums
	Sum, Square []float32

	loop pixels
}

// Run adds to the sums.
func (o *Moments) Run() {
	p := pixelsOf("Moments", &o.loop, o.Variant, None, o.N, o.H, o.W, o.C)
	p.op = pixelMoments
	p.input(o.Z, o.ZStrides)
	p.channels(o.Near, o.Sum, o.Square)
	p.args.a, p.args.sum, p.args.dot = pointer(o.Near, 0), pointer(o.Sum, 0), pointer(o.Square, 0)
	p.run()
	o.loop = pixels{}
}

// NormGradient goes back through a batch norm and an activation. With
// u = z*Scale + Shift and g = dy times the slope of the activation at u, Reduce
// makes the sums that the gradients of batch norm consist of,
//
//	Sum[c] += Σ g,  Dot[c] += Σ g*(z - Mean[c])
//
// and Apply, given what the caller makes of them,
//
//	dz = A[c]*g + B[c]*z + D[c]
//
// ReLU has no slope at 0, ReLU6 none at 0 and 6. DZ may be DY or Z if it lies as
// that does. Pad channels are computed as the others: with parameters of zero
// there, those of finite inputs become zero.
type NormGradient struct {
	Variant                        Variant
	N, H, W, C                     int
	Z, DY, DZ                      []float32
	ZStrides, DYStrides, DZStrides Strides
	Scale, Shift                   []float32 // PadChannels(C), as all that follow
	Mean, Sum, Dot                 []float32 // of Reduce
	A, B, D                        []float32 // of Apply
	Activation                     Activation

	loop pixels
}

// start describes what both passes have in common.
func (o *NormGradient) start(name string, op pixelOp) *pixels {
	p := pixelsOf(name, &o.loop, o.Variant, o.Activation, o.N, o.H, o.W, o.C)
	p.op = op
	p.input(o.Z, o.ZStrides)
	p.second(o.DY, o.DYStrides)
	p.channels(o.Scale, o.Shift)
	p.args.scale, p.args.shift = pointer(o.Scale, 0), pointer(o.Shift, 0)
	p.args.lo, p.args.hi = o.Activation.ends()
	return p
}

// Reduce adds to Sum and Dot.
func (o *NormGradient) Reduce() {
	p := o.start("NormGradient.Reduce", pixelReduce)
	p.channels(o.Mean, o.Sum, o.Dot)
	p.args.a, p.args.sum, p.args.dot = pointer(o.Mean, 0), pointer(o.Sum, 0), pointer(o.Dot, 0)
	p.run()
	o.loop = pixels{}
}

// Apply computes DZ.
func (o *NormGradient) Apply() {
	p := o.start("NormGradient.Apply", pixelApply)
	p.output(o.DZ, o.DZStrides)
	p.channels(o.A, o.B, o.D)
	p.args.a, p.args.b, p.args.c = pointer(o.A, 0), pointer(o.B, 0), pointer(o.D, 0)
	p.run()
	o.loop = pixels{}
}

// ImageDots adds to Sums[n][c], rows of PadChannels(C), the sum of x·y over the
// pixels of image n: the gradient of a factor per image and channel.
type ImageDots struct {
	Variant            Variant
	N, H, W, C         int
	X, Y               []float32
	XStrides, YStrides Strides
	Sums               []float32

	loop pixels
}

// Run adds to the sums.
func (o *ImageDots) Run() {
	p := pixelsOf("ImageDots", &o.loop, o.Variant, None, o.N, o.H, o.W, o.C)
	p.op = pixelDots
	p.input(o.X, o.XStrides)
	p.second(o.Y, o.YStrides)
	if len(o.Sums) < o.N*p.c {
		panic(fmt.Sprintf("kernel: ImageDots: %d sums of %d", len(o.Sums), o.N*p.c))
	}
	p.n = 1
	for n := range o.N {
		p.z, p.d = o.X[n*p.zs.Image:], o.Y[n*p.ds.Image:]
		p.args.sum = pointer(o.Sums, n*p.c)
		p.run()
	}
	o.loop = pixels{}
}

// pixelsOf starts the description of a loop over pixels.
func pixelsOf(name string, p *pixels, v Variant, act Activation, n, h, w, c int) *pixels {
	act.check()
	*p = pixels{name: name, v: v.resolve(), act: act, n: n, h: h, w: w, c: PadChannels(c)}
	if n < 0 || h < 1 || w < 1 || c < 1 {
		p.fail("%d images of %d×%d×%d", n, h, w, c)
	}
	return p
}

func (p *pixels) fail(format string, args ...any) {
	panic("kernel: " + p.name + ": " + fmt.Sprintf(format, args...))
}

func (p *pixels) strides(what string, x []float32, s Strides) Strides {
	s = s.of(p.h, p.w, p.c)
	if !s.fit(p.n, p.h, p.w, p.c, len(x)) {
		p.fail("%d %s %v of %d×%d×%d×%d", len(x), what, s, p.n, p.h, p.w, p.c)
	}
	return s
}

func (p *pixels) input(x []float32, s Strides) { p.z, p.zs = x, p.strides("inputs", x, s) }

func (p *pixels) second(x []float32, s Strides) { p.d, p.ds = x, p.strides("second inputs", x, s) }

func (p *pixels) output(x []float32, s Strides) { p.y, p.ys = x, p.strides("outputs", x, s) }

// channels checks slices of a float per channel.
func (p *pixels) channels(s ...[]float32) {
	for i, v := range s {
		if len(v) < p.c {
			p.fail("%d floats of %d channels in slice %d", len(v), p.c, i)
		}
	}
}
