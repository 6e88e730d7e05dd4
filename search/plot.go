package search

import (
	"fmt"

	"tips/frontier"
	"tips/plot"
	"tips/search/cost"
)

// axis says how a cost is drawn: by which unit, and what that is called.
func axis(by cost.Cost) (label string, unit float64) {
	switch by.Name() {
	case cost.MACsName:
		return "MACs (M)", 1e6
	case cost.ParamsName:
		return "parameters (M)", 1e6
	case cost.WeightsName:
		return "weights (MiB)", 1 << 20
	case cost.MemoryName:
		return "peak memory of feature maps (MiB)", 1 << 20
	case cost.LatencyName:
		return "latency (ms)", 1e-3
	case cost.EnergyName:
		return "energy (mJ)", 1e-3
	}
	return by.Name(), 1
}

// Chart draws a frontier: accuracy against cost, with the error that the number of
// images leaves, all that was judged, and lines at caps and at other amounts of the
// cost that somebody asks for.
func (r *Result) Chart(network string, by cost.Cost, budget cost.Budget, marks ...float64) plot.Chart {
	label, unit := axis(by)
	c := plot.Chart{Title: network, XLabel: label, YLabel: "accuracy (%)"}
	at := func(p frontier.Point) float64 { return p.Costs.Of(r.By) / unit }
	judged := plot.Series{Name: fmt.Sprintf("%d judged", len(r.Judged)), Scatter: true}
	for _, p := range r.Judged {
		judged.X, judged.Y = append(judged.X, at(p)), append(judged.Y, 100*p.Accuracy)
	}
	line := plot.Series{Name: fmt.Sprintf("frontier of %d", len(r.Frontier)), Bars: true, Steps: true, Deviation: []float64{}}
	for _, p := range r.Frontier {
		line.X, line.Y = append(line.X, at(p)), append(line.Y, 100*p.Accuracy)
		line.Deviation = append(line.Deviation, 100*p.Error())
	}
	if len(r.Frontier) > 0 { // gonum draws no empty series
		c.Series = []plot.Series{line, judged}
	}
	if most, ok := budget.Cap(by.Name()); ok {
		c.Marks = append(c.Marks, plot.Mark{Name: "cap " + cost.Format(by.Name(), most), X: most / unit})
	}
	for _, m := range marks {
		c.Marks = append(c.Marks, plot.Mark{Name: cost.Format(by.Name(), m), X: m / unit})
	}
	return c
}

// Best is the most accurate subnetwork that costs at most so much, by the cost that
// was traded for; false where none does.
func (r *Result) Best(most float64) (frontier.Point, bool) {
	var best frontier.Point
	found := false
	for _, p := range r.Frontier { // accuracies rise
		if p.Costs.Of(r.By) <= most {
			best, found = p, true
		}
	}
	return best, found
}
