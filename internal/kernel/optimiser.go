package kernel

import (
	"fmt"
	"unsafe"
)

// vectorOp is a loop over slices of any length; see vectorsGeneric.
type vectorOp uint8

const (
	vectorMomentum vectorOp = iota
	vectorNesterov
	vectorAverage
	vectorAddScaled
)

// vectorArgs is what such a loop is called with. Kernels compute a multiple of
// vectorUnit floats.
type vectorArgs struct {
	w, v, g             unsafe.Pointer
	n                   uintptr
	rate, decay, factor float32
	sums                unsafe.Pointer // vectorUnit of float64, for squares
}

// vectorUnit is what assembly divides slices by; the rest is left to Go.
const vectorUnit = 32

// vectorsGeneric is the loop that all of these kernels compute:
//
//	momentum:  d = g + decay*w, v = factor*v + d, w -= rate*v
//	nesterov:  d = g + decay*w, v = factor*v + d, w -= rate*(d + factor*v)
//	average:   w += factor*(g - w)
//	addScaled: w += factor*g
func vectorsGeneric(op vectorOp, p *vectorArgs) {
	w, g := unsafe.Slice((*float32)(p.w), p.n), unsafe.Slice((*float32)(p.g), p.n)
	switch op {
	case vectorMomentum, vectorNesterov:
		v := unsafe.Slice((*float32)(p.v), p.n)
		for i := range w {
			d := g[i] + float32(p.decay*w[i])
			v[i] = float32(p.factor*v[i]) + d
			if op == vectorNesterov {
				d += float32(p.factor * v[i])
			} else {
				d = v[i]
			}
			w[i] -= float32(p.rate * d)
		}
	case vectorAverage:
		for i := range w {
			w[i] += float32(p.factor * (g[i] - w[i]))
		}
	case vectorAddScaled:
		for i := range w {
			w[i] += float32(p.factor * g[i])
		}
	}
}

// vectors runs op in calls of bounded length.
func (v Variant) vectors(op vectorOp, p vectorArgs) {
	v = v.resolve()
	whole := p.n &^ (vectorUnit - 1)
	rest := p.n - whole
	for i := uintptr(0); i < whole; i += maxVector {
		q := p.from(i)
		q.n = min(maxVector, whole-i)
		v.vector(op, &q)
	}
	if rest > 0 {
		q := p.from(whole)
		q.n = rest
		vectorsGeneric(op, &q)
	}
}

const maxVector = 1 << 16

func (p vectorArgs) from(i uintptr) vectorArgs {
	p.w, p.g = unsafe.Add(p.w, 4*i), unsafe.Add(p.g, 4*i)
	if p.v != nil {
		p.v = unsafe.Add(p.v, 4*i)
	}
	return p
}

// Momentum is a step of stochastic gradient descent with momentum and weight
// decay, as PyTorch's:
//
//	d = G + Decay*W
//	V = Momentum*V + d
//	W -= Rate*V, or with Nesterov Rate*(d + Momentum*V)
type Momentum struct {
	Variant               Variant
	Rate, Momentum, Decay float32
	Nesterov              bool
	W, V, G               []float32 // of the same length
}

// Run makes the step.
func (m *Momentum) Run() {
	if len(m.V) != len(m.W) || len(m.G) != len(m.W) {
		panic(fmt.Sprintf("kernel: Momentum of %d weights with %d velocities and %d gradients", len(m.W), len(m.V), len(m.G)))
	}
	if len(m.W) == 0 {
		return
	}
	op := vectorMomentum
	if m.Nesterov {
		op = vectorNesterov
	}
	m.Variant.vectors(op, vectorArgs{
		w: pointer(m.W, 0), v: pointer(m.V, 0), g: pointer(m.G, 0), n: uintptr(len(m.W)),
		rate: m.Rate, decay: m.Decay, factor: m.Momentum,
	})
}

// Average moves a running average e a step towards w: e += (w-e)*(1-decay).
func Average(v Variant, e, w []float32, decay float64) {
	pair("Average", v, vectorAverage, e, w, float32(1-decay))
}

// AddScaled computes y += a*x.
func AddScaled(v Variant, y, x []float32, a float32) {
	pair("AddScaled", v, vectorAddScaled, y, x, a)
}

func pair(name string, v Variant, op vectorOp, w, g []float32, factor float32) {
	if len(w) != len(g) {
		panic(fmt.Sprintf("kernel: %s of %d and %d floats", name, len(w), len(g)))
	}
	if len(w) > 0 {
		v.vectors(op, vectorArgs{w: pointer(w, 0), g: pointer(g, 0), n: uintptr(len(w)), factor: factor})
	}
}

// SumSquares returns the sum of the squares of x in float64.
func SumSquares(x []float32) float64 {
	var sums [vectorUnit]float64
	whole := len(x) &^ (vectorUnit - 1)
	for i := 0; i < whole; i += maxVector {
		args := vectorArgs{g: pointer(x, i), n: uintptr(min(maxVector, whole-i)), sums: unsafe.Pointer(&sums)}
		squares(&args)
	}
	for i, v := range x[whole:] {
		sums[i] += float64(float64(v) * float64(v))
	}
	var sum float64
	for _, s := range sums {
		sum += s
	}
	return sum
}

// squaresGeneric is the loop that every kernel of SumSquares computes, in
// float64: sums[i%32] += g[i]*g[i].
func squaresGeneric(p *vectorArgs) {
	sums := (*[vectorUnit]float64)(p.sums)
	for g := unsafe.Slice((*float32)(p.g), p.n); len(g) > 0; g = g[vectorUnit:] {
		for i, v := range (*[vectorUnit]float32)(g) {
			sums[i] += float64(float64(v) * float64(v))
		}
	}
}
