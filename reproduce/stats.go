package reproduce

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// spearman is Spearman's rank correlation: Pearson's, of the ranks.
func spearman(x, y []float64) float64 { return stat.Correlation(ranks(x), ranks(y), nil) }

// ranks gives each value its place in rising order, equal ones their mean place.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	r := make([]float64, len(x))
	for first := 0; first < len(order); {
		end := first + 1
		for end < len(order) && x[order[end]] == x[order[first]] {
			end++
		}
		for _, i := range order[first:end] {
			r[i] = float64(first+end-1) / 2
		}
		first = end
	}
	return r
}
