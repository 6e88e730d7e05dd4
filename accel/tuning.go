//go:build xla

package accel

import "github.com/gomlx/compute/dtypes"

// tuning is how operations that can be written in several ways are written. What
// is best depends on the compiler and the device; what is chosen here was measured.
type tuning struct {
	// Depthwise convolutions as sums of products: forwards, to the input's
	// gradient, to the weights'. Otherwise they are convolutions in groups.
	sumForward, sumInput, sumWeight bool
	// The input's gradient of a depthwise convolution with a stride, by phases.
	phases bool
	// Sums over a batch first over the images, all pixels and channels at once.
	wide bool
	// Moments as sums of values and squares. Maps in bfloat16 have fewer digits than
	// that loses.
	plain bool
}

// tuningFor is the one for maps of a type.
func tuningFor(t dtypes.DType) tuning {
	return tuning{sumWeight: true, phases: true, wide: true, plain: t == dtypes.BFloat16}
}
