package kernel

import "math"

// Activation is what an operation does to its result last.
type Activation uint8

const (
	// None leaves the result as it is.
	None Activation = iota
	// ReLU is max(v, 0).
	ReLU
	// ReLU6 is min(max(v, 0), 6).
	ReLU6
	// SiLU is v·sigmoid(v).
	SiLU
	// Sigmoid is 1/(1+exp(-v)).
	Sigmoid
)

// limits returns the clamp of the activation, all floats if it is not a clamp.
func (a Activation) limits() (lo, hi float32) {
	inf := float32(math.Inf(1))
	switch a {
	case ReLU:
		return 0, inf
	case ReLU6:
		return 0, 6
	}
	return -inf, inf
}

// smooth reports whether the activation is more than a clamp: it then runs in
// a pass of its own over results that are still in cache.
func (a Activation) smooth() bool { return a == SiLU || a == Sigmoid }

// check panics on a value that is no activation.
func (a Activation) check() {
	if a > Sigmoid {
		panic("kernel: unknown activation")
	}
}
