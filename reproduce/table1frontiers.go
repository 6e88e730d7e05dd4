package reproduce

import (
	"fmt"
	"slices"

	"tips/plot"
)

// frontiersShown is how far below the best the chart of frontiers goes, in points: what lies
// deeper is of no use to anyone, and would leave no room for the rest.
const frontiersShown = 15

// frontiers is a chart of what AREA measures: the accuracy by held-out images within any
// cost, of each method the mean over its runs, wherever all of them have something.
func (t *table1) frontiers() plot.Chart {
	n, recipe := t.runs[0].network, t.runs[0].recipe
	chart := plot.Chart{
		Title:  fmt.Sprintf("%s on %s, %s: frontiers by held-out images", model(n.Name()), dataName(recipe.Data), plural(recipe.Epochs, "epoch")),
		XLabel: "million MACs (FLOPs in papers)", YLabel: "% of the held-out images",
	}
	full := n.Full().Costs().MACs
	for _, m := range t.methods {
		s := plot.Series{Name: m.name, Steps: true}
		for _, macs := range m.frontierCosts(full) {
			s.X, s.Y = append(s.X, float64(macs)/1e6), append(s.Y, 100*m.heldOutWithin(macs))
		}
		chart.Series = append(chart.Series, s)
		chart.Floor = max(chart.Floor, slices.Max(s.Y)-frontiersShown)
	}
	return chart
}

// frontierCosts are the costs at which a method's mean frontier rises, and the full
// network's, where it ends.
func (m *table1Method) frontierCosts(full int64) []int64 {
	first, costs := int64(0), []int64{full}
	for _, r := range m.runs {
		least := full
		for _, p := range r.frontier.Points {
			costs, least = append(costs, p.Costs.MACs), min(least, p.Costs.MACs)
		}
		first = max(first, least)
	}
	slices.Sort(costs)
	return slices.DeleteFunc(slices.Compact(costs), func(c int64) bool { return c < first })
}

// heldOutWithin is the accuracy by held-out images of the best within a cost that all runs
// keep, the mean over them.
func (m *table1Method) heldOutWithin(macs int64) (mean float64) {
	for _, r := range m.runs {
		mean += r.within(macs).Accuracy / float64(len(m.runs))
	}
	return mean
}
