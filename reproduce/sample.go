package reproduce

import (
	"math"
	"slices"
)

// sample is measurements of one thing.
type sample []float64

// at is a quantile, interpolated; NaN where nothing was measured.
func (s sample) at(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	place := q * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}

func (s sample) median() float64 { return s.at(0.5) }

// all are the measurements of several.
func all(list []sample) sample { return slices.Concat(list...) }
