package rank

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		a, b              []float64
		kendall, spearman float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 40}, 1, 1},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 1, 1, 1}, 0, 0},
		{nil, nil, 0, 0},
		// With ties, worked out by hand.
		{[]float64{12, 2, 1, 12, 2}, []float64{1, 4, 7, 1, 0}, -0.47140452079103173, -5 / math.Sqrt(85.5)},
		{[]float64{1, 2, 3, 4, 5}, []float64{5, 6, 7, 8, 7}, 0.7378647873726218, 0.8207826816681233},
	} {
		if got := Kendall(c.a, c.b); math.Abs(got-c.kendall) > 1e-12 {
			t.Errorf("Kendall(%v, %v) = %v; want %v", c.a, c.b, got, c.kendall)
		}
		if got := Spearman(c.a, c.b); math.Abs(got-c.spearman) > 1e-12 {
			t.Errorf("Spearman(%v, %v) = %v; want %v", c.a, c.b, got, c.spearman)
		}
	}
}

// TestProperties: symmetric, between −1 and 1, the same after any rising function,
// the opposite for the opposite list.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "n")
		values := rapid.SliceOfN(rapid.Float64Range(-5, 5), n, n)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		for _, f := range []func(a, b []float64) float64{Kendall, Spearman} {
			x := f(a, b)
			if !(x >= -1-1e-9 && x <= 1+1e-9) || math.Abs(f(b, a)-x) > 1e-9 {
				t.Fatalf("%v and %v", x, f(b, a))
			}
			rising, negative := make([]float64, n), make([]float64, n)
			for i, v := range a {
				rising[i], negative[i] = v*8, -v
			}
			if math.Abs(f(rising, b)-x) > 1e-9 || math.Abs(f(negative, b)+x) > 1e-9 {
				t.Fatalf("%v, %v after a rising function, %v of the opposite", x, f(rising, b), f(negative, b))
			}
		}
	})
}
