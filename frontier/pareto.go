package frontier

import (
	"cmp"
	"slices"
)

// Dominates tells whether p costs no more than q by every one of the given costs,
// and is at least as accurate. A point dominates itself and its equals.
func Dominates(p, q Point, by ...Kind) bool {
	if p.Accuracy < q.Accuracy {
		return false
	}
	for _, k := range by {
		if p.Costs.Compare(q.Costs, k) > 0 {
			return false
		}
	}
	return true
}

// Insert is the step of Algorithm 1: it adds p to points, none of which dominates
// another, unless one of them dominates p; then it removes those that p dominates.
// Of equal points the one that was there first stays. Points are kept in the order
// of a frontier. It reports whether p was added. The result may share memory with
// points, which is not to be used afterwards.
func Insert(points []Point, p Point, by ...Kind) ([]Point, bool) {
	for _, q := range points {
		if Dominates(q, p, by...) {
			return points, false
		}
	}
	points = slices.DeleteFunc(points, func(q Point) bool { return Dominates(p, q, by...) })
	at, _ := slices.BinarySearchFunc(points, p, func(a, b Point) int { return order(a, b, by) })
	return slices.Insert(points, at, p), true
}

// Front inserts points one after the other: what is left are those that no other
// one dominates.
func Front(points []Point, by ...Kind) []Point {
	var front []Point
	for _, p := range points {
		front, _ = Insert(front, p, by...)
	}
	return front
}

// order is how a frontier is sorted: by its first cost, then by the others. Two
// points that tie in all of them cannot both be on a frontier.
func order(a, b Point, by []Kind) int {
	for _, k := range by {
		if c := a.Costs.Compare(b.Costs, k); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Accuracy, b.Accuracy)
}

// Hypervolume is the area of what points dominate, by one cost, within a reference
// point: of all pairs of a cost up to cost and an accuracy from accuracy on, those
// that some point is as good as. Points may be in any order and dominate each
// other. It is exact up to rounding; the unit is that of Costs.Of.
func Hypervolume(points []Point, by Kind, cost, accuracy float64) float64 {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b Point) int { return order(a, b, []Kind{by}) })
	// Strips of cost from one step of the staircase to the next, the last one up to
	// the reference.
	area, best, from := 0.0, accuracy, 0.0
	for _, p := range sorted {
		at := p.Costs.Of(by)
		if at >= cost {
			break
		}
		if p.Accuracy <= best {
			continue
		}
		area += (best - accuracy) * (at - from)
		best, from = p.Accuracy, at
	}
	return area + (best-accuracy)*(cost-from)
}
