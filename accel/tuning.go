//go:build xla

package accel

import "github.com/gomlx/compute/dtypes"

// tuning is how operations that can be written in several ways are written. What
// is best depends on the compiler and the device; what is chosen here was measured
// on an NVIDIA H200.
type tuning struct {
	// Depthwise convolutions as sums of products: forwards, to the input's gradient,
	// to the weights', and to the weights' where there is a stride. Otherwise they are
	// convolutions in groups.
	sumForward, sumInput, sumWeight, sumStrided bool
	// The input's gradient of a depthwise convolution with a stride, by phases.
	phases bool
	// Sums over a batch first over the images, all pixels and channels at once.
	wide bool
	// Moments as sums of values and squares, and on the way back of gradients and
	// their products with values, not with differences. Maps in bfloat16 have fewer
	// digits than that loses.
	plain, plainBack bool
	// Slopes of activations are computed anew by each who needs them.
	anew bool
	// Factors of products are kept as they are in memory, and nothing is moved into
	// the product.
	barriers bool
}

// tuningFor is the one for maps of a type.
func tuningFor(t dtypes.DType) tuning {
	return tuning{sumStrided: true, phases: true, wide: true, plainBack: t == dtypes.BFloat16, anew: true}
}
