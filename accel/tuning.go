//go:build xla

package accel

// tuning is how operations that can be written in several ways are written. What
// is best depends on the compiler and the device.
type tuning struct {
	// Depthwise convolutions as sums of products, by way: forwards, to the input's
	// gradient, to the weights'.
	sums [3]bool
}

func defaultTuning() tuning { return tuning{} }

func (t tuning) sumForward(window) bool { return t.sums[0] }
func (t tuning) sumInput(window) bool   { return t.sums[1] }
func (t tuning) sumWeight(window) bool  { return t.sums[2] }
