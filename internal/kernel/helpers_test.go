package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eps is the unit roundoff of float32.
const eps = 1.0 / (1 << 24)

var nan32 = float32(math.NaN())

// guard is a bit pattern (a NaN) that no kernel computes: outputs are filled
// and surrounded with it, so that a write outside and a read of something never
// written both show.
var guard = math.Float32frombits(0x7fc0_dead)

const guards = 67 // floats on each side, more than a tile of the widest row

// buffer is a slice with guards around it, starting at an odd multiple of four
// bytes.
type buffer struct {
	whole []float32
	data  []float32
}

func newBuffer(n, misalign int) buffer {
	whole := Alloc(n + 2*guards + misalign)
	for i := range whole {
		whole[i] = guard
	}
	from := guards + misalign
	return buffer{whole, whole[from : from+n : from+n]}
}

// checkGuards fails if anything was written around the data.
func (b buffer) checkGuards(t testing.TB) {
	t.Helper()
	from := len(b.whole) - guards - len(b.data)
	for i, v := range b.whole {
		if (i < from || i >= from+len(b.data)) && math.Float32bits(v) != math.Float32bits(guard) {
			t.Fatalf("wrote %v at %d, outside of %d floats", v, i-from, len(b.data))
		}
	}
}

func random(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64())
	}
	return s
}

// randomPixels returns n pixels of c channels ld floats apart, what lies
// between them NaN.
func randomPixels(r *rand.Rand, n, c, ld, misalign int) buffer {
	b := newBuffer(n*ld, misalign)
	for i := range b.data {
		b.data[i] = nan32
		if i%ld < c {
			b.data[i] = float32(r.NormFloat64())
		}
	}
	return b
}

// padded returns n random floats followed by NaN up to PadChannels(n).
func padded(r *rand.Rand, n, misalign int) []float32 {
	return randomPixels(r, 1, n, PadChannels(n), misalign).data
}

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// forVariants runs f for every variant as a subtest.
func forVariants(t *testing.T, f func(t *testing.T, v Variant)) {
	for _, v := range Variants() {
		t.Run(v.String(), func(t *testing.T) { f(t, v) })
	}
}

// activate64 is the reference of an activation; slope bounds its derivative.
func activate64(a Activation, v float64) (y, slope float64) {
	switch a {
	case ReLU:
		return max(v, 0), 1
	case ReLU6:
		return min(max(v, 0), 6), 1
	case SiLU:
		return v / (1 + math.Exp(-v)), 1.1
	case Sigmoid:
		return 1 / (1 + math.Exp(-v)), 0.25
	}
	return v, 1
}

// off says how got differs from the activation of want by more than bound, the
// error of the argument, allows; "" if it does not. The smooth activations
// themselves are good to eight roundings: two in the exponential's reduction,
// three in its polynomial, three in the quotient and product; below -80 sigmoid
// stops at about 2e-35.
func off(a Activation, got float32, want, bound float64) string {
	y, slope := activate64(a, want)
	bound *= slope
	if a.smooth() {
		bound += 8*eps*math.Abs(y) + 2e-33
	}
	if g := float64(got); math.IsNaN(y) != math.IsNaN(g) || math.Abs(g-y) > bound || math.IsInf(y, 0) && g != y {
		return fmt.Sprintf("got %v, want %v ± %.2g", got, y, bound)
	}
	return ""
}

// dotBound bounds the error of a float32 sum of k products whose magnitudes
// sum to abs, in any order, fused or not: each term takes part in at most k
// additions and one product, and each of them is off by at most eps relative
// to the partial sum, (1+eps)^(k+1) - 1 <= 1.01 (k+1) eps for k < 2^17. The
// epilogue scales that error and rounds three times more.
func dotBound(k int, abs, scale, bias, res float64) float64 {
	return 1.01*float64(k+1)*eps*abs*math.Abs(scale) + 4*eps*(abs*math.Abs(scale)+math.Abs(bias)+math.Abs(res))
}

// equalBits fails unless two outputs of n pixels agree in every bit of their c
// channels.
func equalBits(t testing.TB, what string, got, want []float32, n, c, ldGot, ldWant int) {
	t.Helper()
	for i := range n {
		for j := range c {
			g, w := got[i*ldGot+j], want[i*ldWant+j]
			if math.Float32bits(g) != math.Float32bits(w) {
				t.Fatalf("%s: pixel %d channel %d: %v (%x) and %v (%x)", what, i, j, g, math.Float32bits(g), w, math.Float32bits(w))
			}
		}
	}
}

// mustPanic fails unless f panics with a message of this package.
func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s := fmt.Sprint(recover()); len(s) < 7 || s[:7] != "kernel:" {
			t.Errorf("%s: panic %q, want one of package kernel", what, s)
		}
	}()
	f()
}
