// Package rank tells how far two lists order the same things alike.
package rank

import (
	"cmp"
	"math"
	"slices"
)

// Kendall is Kendall's τ-b of two lists: 1 where they order everything alike, −1
// where one is the other's reverse, 0 where a list is all ties.
func Kendall(a, b []float64) float64 {
	both, onlyA, onlyB := 0.0, 0.0, 0.0 // pairs: agreeing less disagreeing, untied in a, untied in b
	for i := range a {
		for j := range i {
			x, y := cmp.Compare(a[i], a[j]), cmp.Compare(b[i], b[j])
			both += float64(x * y)
			onlyA += float64(x * x)
			onlyB += float64(y * y)
		}
	}
	if onlyA == 0 || onlyB == 0 {
		return 0
	}
	return both / math.Sqrt(onlyA*onlyB)
}

// Spearman is Spearman's ρ: the correlation of ranks, ties having their mean.
func Spearman(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	mean := float64(len(a)-1) / 2
	xy, xx, yy := 0.0, 0.0, 0.0
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

func ranks(list []float64) []float64 {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(list[i], list[j]) })
	out := make([]float64, len(list))
	for i := 0; i < len(order); {
		end := i
		for end < len(order) && list[order[end]] == list[order[i]] {
			end++
		}
		for _, at := range order[i:end] {
			out[at] = float64(i+end-1) / 2
		}
		i = end
	}
	return out
}
