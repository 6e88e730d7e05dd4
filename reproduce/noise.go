package reproduce

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"tips/frontier"
)

// estimate is an accuracy of a method, in %.
type estimate struct {
	mean      float64
	deviation float64 // over the runs; 0 of one
	counting  float64 // standard error of a run's accuracy, by counting images
	runs      int     // 0: there is nothing
}

// estimateOf takes the mean of an accuracy over runs.
func estimateOf(points []frontier.Point) estimate {
	var values []float64
	e := estimate{runs: len(points)}
	for _, p := range points {
		values = append(values, 100*p.Accuracy)
		e.counting += 100 * p.Error() / float64(len(points))
	}
	e.mean, e.deviation = spread(values)
	return e
}

// overBudgets is the mean over budgets of what runs reach. The budgets of a run go up and
// down together, often with one and the same subnetwork: its error is that of one.
func overBudgets(runs []*table1Run, budgets []int) estimate {
	if len(budgets) == 0 {
		return estimate{}
	}
	e := estimate{runs: len(runs)}
	var values []float64
	for _, r := range runs {
		sum := 0.0
		for _, i := range budgets {
			sum += 100 * r.cells[i].tested.Accuracy
			e.counting += 100 * r.cells[i].tested.Error() / float64(len(runs)*len(budgets))
		}
		values = append(values, sum/float64(len(budgets)))
	}
	e.mean, e.deviation = spread(values)
	return e
}

// noise is how far runs lie apart that differ in nothing but their seed. It is pooled
// over the methods of which there are several runs: two runs of one method may agree
// by chance, and a single run says nothing of it.
type noise struct {
	deviation float64
	freedom   int // degrees: runs beyond the first of their method
}

func noiseOf(estimates ...estimate) noise {
	var n noise
	sum := 0.0
	for _, e := range estimates {
		if e.runs > 1 {
			n.freedom += e.runs - 1
			sum += float64(e.runs-1) * e.deviation * e.deviation
		}
	}
	if n.freedom > 0 {
		n.deviation = math.Sqrt(sum / float64(n.freedom))
	}
	return n
}

// lead is a difference of two estimates.
type lead struct {
	points float64
	err    float64 // standard error
	chance float64 // what chance alone may well make of it: exceeded by no more than 5 %
}

// lead compares two estimates. Without two runs of any method nobody knows what
// chance does.
func (n noise) lead(a, b estimate) lead {
	each := 1/float64(a.runs) + 1/float64(b.runs)
	seeds, counting := n.deviation*math.Sqrt(each), math.Hypot(a.counting/math.Sqrt(float64(a.runs)), b.counting/math.Sqrt(float64(b.runs)))
	l := lead{points: a.mean - b.mean, err: max(seeds, counting), chance: math.Inf(1)}
	if n.freedom > 0 {
		few := distuv.StudentsT{Sigma: 1, Nu: float64(n.freedom)}.Quantile(0.975)
		l.chance = max(few*seeds, distuv.UnitNormal.Quantile(0.975)*counting)
	}
	return l
}

// clear tells whether it is more than chance.
func (l lead) clear() bool { return math.Abs(l.points) > l.chance }

// text is the estimate for people.
func (e estimate) text() string {
	switch e.runs {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.1f", e.mean)
	}
	return fmt.Sprintf("%.1f ± %.1f", e.mean, e.deviation)
}

// text is the lead for people.
func (l lead) text() string { return fmt.Sprintf("%+.1f ± %.1f", l.points, l.err) }

// about says what to think of it.
func (l lead) about() string {
	if math.IsInf(l.chance, 0) {
		return "what chance does, one run of each method cannot tell"
	}
	return fmt.Sprintf("chance alone stays within %.1f (95 %%)", l.chance)
}
