package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"tips/frontier"
	"tips/plot"
	"tips/supernet"
)

// widthsShown is how many points below the best a chart ends: methods differ by few, and
// some fall by dozens where they have trained nothing.
const widthsShown = 15

// figure sums up.
func (w *widths) figure() Figure {
	name := model(w.network)
	f := Figure{
		Name:    "widths-" + fileName(w.data) + "-" + name,
		Caption: fmt.Sprintf("test accuracy of %s on %s with narrow widths everywhere, in the trunk, and inside blocks, by method", w.network, w.data),
		Header:  widthsHeader,
		Rows:    w.rows(),
		Remarks: w.remarks(),
	}
	methods, of := byMethod(w.runs)
	var sheet plot.Sheet
	var parts [][][]string
	for _, family := range widthFamilies {
		var places []int // of the subnetworks
		for i, at := range w.at {
			if at.family == family.name {
				places = append(places, i)
			}
		}
		if len(places) == 0 {
			continue
		}
		chart := plot.Chart{
			Title:  fmt.Sprintf("%s on %s, %s: %s narrow", name, w.data, plural(w.epochs, "epoch"), family.title),
			XLabel: "million MACs (FLOPs in papers)", YLabel: "% of the test images",
		}
		cells := func(head string, cell func(i int) string) []string {
			return append([]string{head}, texts(len(places), func(i int) string { return cell(places[i]) })...)
		}
		part := [][]string{
			cells(strings.ToUpper(family.title)+", %", func(i int) string { return number(w.at[i].ratio) }),
			cells("million MACs", func(i int) string { return threeDigits(float64(w.at[i].macs) / 1e6) }),
		}
		for _, m := range methods {
			s := plot.Series{Name: m, Bars: true}
			part = append(part, cells(nameOfRuns(m, len(of[m])), func(i int) string {
				var points []frontier.Point
				for _, r := range of[m] {
					points = append(points, r.verdicts[i].point())
				}
				e := estimateOf(points)
				s.X, s.Y, s.Deviation = append(s.X, float64(w.at[i].macs)/1e6), append(s.Y, e.mean), append(s.Deviation, max(e.deviation, e.counting))
				return e.text()
			}))
			chart.Series = append(chart.Series, s)
			chart.Floor = max(chart.Floor, slices.Max(s.Y)-widthsShown)
		}
		sheet, parts = append(sheet, chart), append(parts, part)
	}
	f.Picture, f.Table = sheet, below(parts...)
	return f
}

// point is a verdict with its accuracy and the error of that, whatever it is about.
func (v verdict) point() frontier.Point {
	return frontier.Judged(supernet.Subnet{}, v.correct, v.images, frontier.Costs{}, nil)
}

// remarks say what was trained, and what was judged.
func (w *widths) remarks() []string {
	methods, of := byMethod(w.runs)
	trained := texts(len(methods), func(i int) string {
		runs := of[methods[i]]
		return nameWithSeeds(methods[i], texts(len(runs), func(k int) string { return runs[k].seed }))
	})
	images := w.runs[0].verdicts[0].images
	list := []string{
		fmt.Sprintf("Trained: %s; %s.", strings.Join(trained, ", "), plural(w.epochs, "epoch")),
		"Narrow: at the ratio of full width above the column, as the network rounds it; all other widths full. Trunk: groups that additions tie together. Inner: others that are at least as wide as the groups before and behind.",
		fmt.Sprintf("Accuracy: by %d test images, which chose nothing; batch norm re-estimated for each subnetwork on %s. ±: deviation over the runs of a method; bars are that or the error of counting images, which is %.1f points at most, whichever is larger. Charts end %d points below the best.",
			images, plural(w.calibration, "training image"), 100*verdict{images / 2, images}.point().Error(), widthsShown),
	}
	for _, family := range widthFamilies[1:] {
		if !slices.ContainsFunc(w.at, func(at widthsAt) bool { return at.family == family.name }) {
			list = append(list, fmt.Sprintf("%s has no groups of the family %s.", w.network, family.name))
		}
	}
	return list
}
