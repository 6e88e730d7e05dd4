package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tips/plot"
)

// drawQuantiles are the percentiles that are told, the least and the most at the ends.
var drawQuantiles = []int{0, 1, 5, 25, 50, 75, 95, 99, 100}

// figure sums up.
func (d *draws) figure() Figure {
	f := Figure{
		Name:    "draws",
		Caption: fmt.Sprintf("which subnetworks of %s each method draws to train, in %s", d.network.Name(), plural(d.Steps, "step")),
		Header:  []string{"method", "subnetworks", "important_groups"},
		Table:   d.lines(),
		Remarks: d.remarks(),
	}
	for _, q := range drawQuantiles {
		f.Header = append(f.Header, fmt.Sprintf("macs_p%d", q))
	}
	f.Header = append(f.Header, "share_smallest")
	for _, b := range d.At {
		f.Header = append(f.Header, fmt.Sprintf("share_within_%d", b))
	}
	f.Header = append(f.Header, "ratio_important", "ratio_other", "ratio_trunk", "ratio_inner")
	for _, r := range d.drawn {
		row := []string{r.method, fmt.Sprint(len(r.macs)), fmt.Sprint(r.important)}
		for _, q := range drawQuantiles {
			row = append(row, number(r.macs.at(float64(q)/100)))
		}
		row = append(row, number(r.smallest))
		for _, b := range d.At {
			row = append(row, number(r.within(b)))
		}
		for _, ratio := range r.ratios() {
			text := ""
			if !math.IsNaN(ratio) {
				text = number(ratio)
			}
			row = append(row, text)
		}
		f.Rows = append(f.Rows, row)
	}

	chart := func(title string) plot.Chart {
		return plot.Chart{Title: title, XLabel: "million MACs (FLOPs in papers)", YLabel: "% of what is drawn, at most as large", FromZero: true}
	}
	name := model(d.network.Name())
	methods := chart(name + ": what methods draw")
	for _, r := range d.drawn[:len(drawnMethods)] {
		methods.Series = append(methods.Series, r.curve())
	}
	// Tips and us-nets, which it is measured against, stand beside the variants.
	variants := func(title string, list []drawn) plot.Chart {
		c := chart(name + ": tips " + title)
		for _, r := range slices.Concat(d.drawn[:2], list) {
			curve := r.curve()
			curve.Name = strings.TrimPrefix(curve.Name, "tips, ")
			c.Series = append(c.Series, curve)
		}
		c.Series[1].Dashed = true
		return c
	}
	rest := d.drawn[len(drawnMethods):]
	f.Picture = plot.Sheet{methods, variants("with other boosts and paths", rest[:d.favouring]), variants("with other base ratios", rest[d.favouring:])}
	return f
}

// ratios are the mean width ratios, in the order in which they are told.
func (r *drawn) ratios() []float64 { return []float64{r.onPath, r.offPath, r.trunk, r.inner} }

// within is the share of the subnetworks that keep a budget.
func (r *drawn) within(budget int64) float64 {
	count := 0
	for _, m := range r.macs {
		if m <= float64(budget) {
			count++
		}
	}
	return float64(count) / float64(len(r.macs))
}

// curve is the cumulative share of the subnetworks, by MACs.
func (r *drawn) curve() plot.Series {
	s := plot.Series{Name: r.method}
	const points = 40
	shares := []float64{0.01, 0.99} // the rest of the ends is a few subnetworks far out
	for i := range points + 1 {
		shares = append(shares, float64(i)/points)
	}
	slices.Sort(shares)
	for _, share := range shares {
		s.X, s.Y = append(s.X, r.macs.at(share)/1e6), append(s.Y, 100*share)
	}
	return s
}

// lines are the table for people: three below each other, each with a line a method.
func (d *draws) lines() [][]string {
	var parts [][][]string
	part := func(heading []string, cells func(r drawn) []string) {
		table := [][]string{heading}
		for _, r := range d.drawn {
			table = append(table, append([]string{r.method}, cells(r)...))
		}
		parts = append(parts, table)
	}
	percentiles := []string{"MACS, M"}
	for _, q := range drawQuantiles {
		switch q {
		case 0:
			percentiles = append(percentiles, "LEAST")
		case 100:
			percentiles = append(percentiles, "MOST")
		default:
			percentiles = append(percentiles, fmt.Sprintf("%d %%", q))
		}
	}
	part(percentiles, func(r drawn) []string {
		return texts(len(drawQuantiles), func(i int) string { return threeDigits(r.macs.at(float64(drawQuantiles[i])/100) / 1e6) })
	})
	part(append([]string{"SHARE, %", "SMALLEST"}, texts(len(d.At), func(i int) string { return "≤ " + millions(d.At[i]) })...), func(r drawn) []string {
		return append([]string{fmt.Sprintf("%.1f", 100*r.smallest)}, texts(len(d.At), func(i int) string { return fmt.Sprintf("%.1f", 100*r.within(d.At[i])) })...)
	})
	part([]string{"MEAN WIDTH RATIO", "IMPORTANT", "OTHER", "TRUNK", "INNER", "ON PATH"}, func(r drawn) []string {
		return append(texts(4, func(i int) string {
			if math.IsNaN(r.ratios()[i]) {
				return "-"
			}
			return fmt.Sprintf("%.3f", r.ratios()[i])
		}), fmt.Sprintf("%d of %d", r.important, len(d.network.Groups())))
	})
	return below(parts...)
}

// below puts tables below each other, as one whose lines are equally long.
func below(parts ...[][]string) (table [][]string) {
	columns := 0
	for i, part := range parts {
		if i > 0 {
			table = append(table, nil)
		}
		table = append(table, part...)
		for _, line := range part {
			columns = max(columns, len(line))
		}
	}
	for i := range table {
		table[i] = append(table[i], make([]string, columns-len(table[i]))...)
	}
	return table
}

// threeDigits writes a number with three digits, or more where it is larger.
func threeDigits(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%#.3g", x)
}

// remarks say what was drawn, and what was not.
func (d *draws) remarks() []string {
	var left []string
	for _, m := range undrawnMethods {
		left = append(left, m.name+" "+m.reason)
	}
	return []string{
		fmt.Sprintf("Drawn: by each method the last %s of %d, as 'tips train' plans them with seed %d; of ofa they are its last phase. Counted are all subnetworks of a step but the full network (%s MACs); the smallest has %s.",
			plural(d.Steps, "step"), 4*d.Steps, d.Recipe.Seed, millions(d.full), millions(d.smallest)),
		"Left out: " + strings.Join(left, "; ") + ".",
		fmt.Sprintf("Width ratios: means over groups and subnetworks. Important: groups on the important path, by the settings of the line; for methods that know no path, by those of the first. Trunk: the %d groups that additions tie together. Inner: the %d others that are at least as wide as the groups before and behind.",
			len(d.trunk), len(d.inner)),
	}
}
