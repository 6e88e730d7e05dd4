package frontier

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawPoints draws points of few different values, so that ties are common.
func drawPoints(t *rapid.T) []Point {
	var points []Point
	for range rapid.IntRange(0, 30).Draw(t, "points") {
		points = append(points, Point{
			Accuracy: float64(rapid.IntRange(0, 8).Draw(t, "accuracy")) / 8,
			Costs: Costs{
				MACs:      int64(rapid.IntRange(1, 12).Draw(t, "macs")),
				PeakBytes: int64(rapid.IntRange(1, 6).Draw(t, "memory")),
				Latency:   time.Duration(rapid.IntRange(1, 4).Draw(t, "latency")),
			},
		})
	}
	return points
}

func drawKinds(t *rapid.T) []Kind {
	return rapid.SampledFrom([][]Kind{{MACs}, {Latency}, {MACs, PeakBytes}, {PeakBytes, Latency, MACs}}).Draw(t, "by")
}

// values is what dominance is about: two points that agree in it are ties.
func values(p Point, by []Kind) [4]float64 {
	v := [4]float64{p.Accuracy}
	for i, k := range by {
		v[i+1] = p.Costs.Of(k)
	}
	return v
}

func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points, by := drawPoints(t), drawKinds(t)
		front := Front(points, by...)

		// No one dominates another.
		for i, p := range front {
			for j, q := range front {
				if i != j && Dominates(p, q, by...) {
					t.Fatalf("%v dominates %v", p, q)
				}
			}
			if i > 0 && order(front[i-1], p, by) >= 0 {
				t.Fatalf("point %d is out of order: %v", i, front)
			}
		}

		// Brute force: who is not dominated by anyone but ties of itself.
		want := map[[4]float64]bool{}
		for _, p := range points {
			if !slices.ContainsFunc(points, func(q Point) bool {
				return Dominates(q, p, by...) && values(q, by) != values(p, by)
			}) {
				want[values(p, by)] = true
			}
		}
		if len(want) != len(front) {
			t.Fatalf("%d points; want %d", len(front), len(want))
		}
		for _, p := range front {
			if !want[values(p, by)] {
				t.Fatalf("%v is dominated", p)
			}
		}

		// Another order of insertion gives the same up to ties.
		shuffled := slices.Clone(points)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again := Front(shuffled, by...)
		if !slices.EqualFunc(front, again, func(p, q Point) bool { return values(p, by) == values(q, by) }) {
			t.Fatalf("another order gives %v; want %v", again, front)
		}
	})
}

// TestInsert is the rules about ties, one by one.
func TestInsert(t *testing.T) {
	point := func(macs int64, accuracy float64, mark int64) Point {
		return Point{Accuracy: accuracy, Costs: Costs{MACs: macs, Params: mark}}
	}
	start := []Point{point(10, 0.5, 1), point(20, 0.7, 2), point(30, 0.8, 3)}
	for _, c := range []struct {
		name string
		p    Point
		want []int64 // marks
	}{
		{"an equal is refused: the first one stays", point(20, 0.7, 9), []int64{1, 2, 3}},
		{"same cost, less accurate", point(20, 0.6, 9), []int64{1, 2, 3}},
		{"same cost, more accurate", point(20, 0.75, 9), []int64{1, 9, 3}},
		{"cheaper, as accurate", point(15, 0.7, 9), []int64{1, 9, 3}},
		{"dearer, as accurate", point(25, 0.7, 9), []int64{1, 2, 3}},
		{"a step between", point(25, 0.75, 9), []int64{1, 2, 9, 3}},
		{"cheapest and worst", point(5, 0.1, 9), []int64{9, 1, 2, 3}},
		{"dearest and best", point(50, 0.9, 9), []int64{1, 2, 3, 9}},
		{"better than all", point(10, 0.8, 9), []int64{9}},
	} {
		got, added := Insert(slices.Clone(start), c.p, MACs)
		var marks []int64
		for _, p := range got {
			marks = append(marks, p.Costs.Params)
		}
		if !slices.Equal(marks, c.want) || added != slices.Contains(c.want, 9) {
			t.Errorf("%s: %v, added %v; want %v", c.name, marks, added, c.want)
		}
	}
}

// TestCompareExactly: counts beyond what a float64 tells apart are no ties.
func TestCompareExactly(t *testing.T) {
	a, b := Costs{MACs: 1 << 55}, Costs{MACs: 1<<55 + 1}
	if a.Of(MACs) != b.Of(MACs) || a.Compare(b, MACs) != -1 || b.Compare(a, MACs) != 1 {
		t.Error("2⁵⁵ and 2⁵⁵+1 multiply-accumulates tie")
	}
}

// TestHypervolume counts the squares of a grid that are dominated.
func TestHypervolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		cost := rapid.IntRange(0, 14).Draw(t, "reference cost")
		eighths := rapid.IntRange(0, 8).Draw(t, "reference accuracy")
		squares := 0
		for c := range cost {
			for a := eighths; a < 8; a++ {
				// The square from (c, a/8) to (c+1, (a+1)/8).
				if slices.ContainsFunc(points, func(p Point) bool {
					return p.Costs.MACs <= int64(c) && p.Accuracy >= float64(a+1)/8
				}) {
					squares++
				}
			}
		}
		got := Hypervolume(points, MACs, float64(cost), float64(eighths)/8)
		if want := float64(squares) / 8; math.Abs(got-want) > 1e-12 {
			t.Fatalf("hypervolume %v; want %v", got, want)
		}
		if front := Hypervolume(Front(points, MACs), MACs, float64(cost), float64(eighths)/8); front != got {
			t.Fatalf("the front alone has hypervolume %v; want %v", front, got)
		}
	})
}
