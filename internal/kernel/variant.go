package kernel

import "slices"

// Variant is one implementation of every kernel. The zero value stands for the
// best the CPU can run.
type Variant uint8

const (
	best Variant = iota
	// Generic is plain Go.
	Generic
	// AVX2 needs AVX2 and FMA.
	AVX2
	// AVX512 needs AVX-512 F, DQ, BW and VL.
	AVX512
	// NEON is arm64's vector unit.
	NEON
)

// String returns the variant's name in lower case.
func (v Variant) String() string {
	switch v {
	case best:
		return "best"
	case Generic:
		return "generic"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	case NEON:
		return "neon"
	}
	return "unknown"
}

// supported lists the variants this CPU can run, plainest first.
var supported = append([]Variant{Generic}, detect()...)

// Variants returns the variants this CPU can run, plainest first.
func Variants() []Variant { return slices.Clone(supported) }

// Best returns the variant that the zero Variant stands for.
func Best() Variant { return supported[len(supported)-1] }

// resolve replaces the zero Variant by the best and panics on one this CPU
// cannot run.
func (v Variant) resolve() Variant {
	if v == best {
		return Best()
	}
	if !slices.Contains(supported, v) {
		panic("kernel: this CPU cannot run variant " + v.String())
	}
	return v
}

// tileRows returns the most pixel rows a tile of the given width may have.
func (v Variant) tileRows(width int) int {
	switch v {
	case AVX512:
		switch width {
		case 8: // AVX2's
			return 12
		case 16, 32:
			return 14
		case 48:
			return 9
		}
	case AVX2:
		switch width {
		case 8:
			return 12
		case 16:
			return 6
		case 24:
			return 4
		}
	case NEON:
		switch width {
		case 4, 8, 16:
			return 4
		}
	case Generic:
		return 4
	}
	return 1
}

// tileWidth returns the width of the next tile when the given number of
// channels, a multiple of 8, is left. A narrow rest joins the tile before it.
func (v Variant) tileWidth(channels int) int {
	switch v {
	case AVX512:
		switch {
		case channels <= 16:
			return 16
		case channels > 32 && channels <= 48:
			return 48
		}
		return 32
	case AVX2:
		switch channels {
		case 8:
			return 8
		case 24:
			return 24
		}
		return 16
	}
	return min(channels, 16)
}

// vectorWidth is the width of the matrix-vector tile, in channels: as many
// panels at once as it takes to hide the latency of an addition.
const vectorWidth = 64

// windowOutputs returns the most outputs a window tile may have.
func (v Variant) windowOutputs() int {
	if v == AVX512 {
		return 14
	}
	return 8
}

// gradientTile returns the most input channels a tile of weight gradients of
// the given width may have.
func (v Variant) gradientTile(width int) int {
	switch v {
	case AVX512:
		switch width {
		case 16:
			return 24
		case 32:
			return 14
		case 48:
			return 9
		}
	case AVX2:
		switch width {
		case 8:
			return 12
		case 16:
			return 6
		}
	case NEON:
		return 6
	}
	return 4
}
