package kernel

import (
	"math"
	"unsafe"
)

// pixelOp is a loop over the pixels of some images that has parameters or sums
// of its own for every channel; see pixelsGeneric.
type pixelOp uint16

const (
	pixelNorm pixelOp = iota
	pixelNormAdd
	pixelReduce
	pixelApply
	pixelMoments
	pixelDots
)

// pixelArgs is what such a loop is called with. Strides are in bytes.
type pixelArgs struct {
	z, d, y             unsafe.Pointer // two inputs and an output
	zwalk, dwalk, ywalk walk
	nx, ny, nn          uintptr // pixels of a row, rows, images
	end                 uintptr // bytes of channels, a multiple of 32
	// Parameters and sums, a float for every channel.
	scale, shift unsafe.Pointer
	a, b, c      unsafe.Pointer
	sum, dot     unsafe.Pointer
	// The limits of a clamp; for gradients between which it has a slope, NaN if
	// it has no end.
	lo, hi float32
}

// pixelsGeneric is the loop nest that all kernels over pixels compute. For each
// channel, with z, d and y those of a pixel:
//
//	u = z*scale + shift
//	norm:       y = activation(u)
//	normAdd:    y = activation(u + d)
//	            g = d * slope of the activation at u
//	reduce:     sum += g, dot += g * (z - a)
//	apply:      y = a*g + b*z + c
//	moments:    sum += z - a, dot += (z - a)²
//	dots:       sum += z * d
//
// Sums over the pixels of a call are made before they are added to sum and dot.
func pixelsGeneric(op pixelOp, act Activation, p *pixelArgs) {
	for c := uintptr(0); c < p.end; c += 4 {
		var scale, shift, a, b, k, sum, dot float32
		get := func(v *float32, from unsafe.Pointer) {
			if from != nil {
				*v = *at(from, c)
			}
		}
		get(&scale, p.scale)
		get(&shift, p.shift)
		get(&a, p.a)
		get(&b, p.b)
		get(&k, p.c)
		zat, dat, yat := c, c, c
		for range p.nn {
			for range p.ny {
				for range p.nx {
					z := *at(p.z, zat)
					u := float32(z*scale) + shift
					switch op {
					case pixelNorm:
						*at(p.y, yat) = activate(act, u, p.lo, p.hi)
					case pixelNormAdd:
						*at(p.y, yat) = activate(act, u+*at(p.d, dat), p.lo, p.hi)
					case pixelReduce:
						g := slope(act, u, *at(p.d, dat), p.lo, p.hi)
						sum += g
						dot += float32(g * (z - a))
					case pixelApply:
						g := slope(act, u, *at(p.d, dat), p.lo, p.hi)
						*at(p.y, yat) = float32(a*g) + (float32(b*z) + k)
					case pixelMoments:
						sum += z - a
						dot += float32((z - a) * (z - a))
					case pixelDots:
						sum += float32(z * *at(p.d, dat))
					}
					zat, dat, yat = zat+p.zwalk.pixel, dat+p.dwalk.pixel, yat+p.ywalk.pixel
				}
				zat, dat, yat = zat+p.zwalk.row, dat+p.dwalk.row, yat+p.ywalk.row
			}
			zat, dat, yat = zat+p.zwalk.image, dat+p.dwalk.image, yat+p.ywalk.image
		}
		switch op {
		case pixelReduce, pixelMoments:
			*at(p.sum, c) += sum
			*at(p.dot, c) += dot
		case pixelDots:
			*at(p.sum, c) += sum
		}
	}
}

func activate(a Activation, u, lo, hi float32) float32 {
	switch a {
	case SiLU:
		return u * (1 / (1 + expRange(-u)))
	case Sigmoid:
		return 1 / (1 + expRange(-u))
	}
	return clamp(u, lo, hi)
}

// slope returns d times the derivative of an activation at u. That of a clamp
// is 0 up to lo and from hi on.
func slope(a Activation, u, d, lo, hi float32) float32 {
	switch a {
	case SiLU:
		s := 1 / (1 + expRange(-u))
		return d * float32(s*(1+float32(u*(1-s))))
	case Sigmoid:
		s := 1 / (1 + expRange(-u))
		return d * float32(s*(1-s))
	}
	if u <= lo || u >= hi {
		return 0
	}
	return d
}

// ends returns between which values the activation has a slope, NaN for no end.
func (a Activation) ends() (lo, hi float32) {
	nan := float32(math.NaN())
	switch a {
	case ReLU:
		return 0, nan
	case ReLU6:
		return 0, 6
	}
	return nan, nan
}

// Pixels of one call: elementwise loops are bounded by their floats, and few
// pixels of many channels stay in few pages; sums in registers grow over no more
// than sumPixels, so that their rounding does not grow with the images.
const (
	pixelFloats = 1 << 15
	smoothFloat = 1 << 13
	sumPixels   = 512
)

// pixels is a batch of images that a loop goes over.
type pixels struct {
	name       string
	v          Variant
	op         pixelOp
	act        Activation
	n, h, w    int
	c          int // rounded up to 8
	z, d, y    []float32
	zs, ds, ys Strides // of those that are not nil
	args       pixelArgs
}

// run makes the calls.
func (p *pixels) run() {
	n, h, w := p.n, p.h, p.w
	if n == 0 {
		return
	}
	if p.zs.flat(h, w) && (p.d == nil || p.ds.flat(h, w)) && (p.y == nil || p.ys.flat(h, w)) {
		n, h, w = 1, 1, n*h*w
	}
	most := pixelFloats
	if p.act.smooth() {
		most = smoothFloat
	}
	most = max(1, most/p.c)
	if p.y == nil {
		most = min(most, sumPixels)
	}
	b := boxOf(n, h, w, most)
	args := &p.args
	args.end = uintptr(4 * p.c)
	for i := 0; i < n; i += b.n {
		for y := 0; y < h; y += b.y {
			for x := 0; x < w; x += b.x {
				now := box{min(b.n, n-i), min(b.y, h-y), min(b.x, w-x)}
				args.nn, args.ny, args.nx = uintptr(now.n), uintptr(now.y), uintptr(now.x)
				args.z, args.zwalk = pointer(p.z, p.zs.at(i, y, x)), p.zs.walk(now.y, now.x)
				if p.d != nil {
					args.d, args.dwalk = pointer(p.d, p.ds.at(i, y, x)), p.ds.walk(now.y, now.x)
				}
				if p.y != nil {
					args.y, args.ywalk = pointer(p.y, p.ys.at(i, y, x)), p.ys.walk(now.y, now.x)
				}
				p.v.pixels(p.op, p.act, args)
			}
		}
	}
}
