package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// findings are what the paper claims: that TIPS leads, and how the others stand.
func (t *table1) findings() []Finding {
	var list []Finding
	if ours := t.tips(); ours != nil {
		for _, m := range t.methods {
			table, where := t.paper, ""
			if m.name == "ofa" && t.oneShot() {
				table, where = paperOneShot, " (on ImageNet)"
			}
			p, q := table.row("tips"), table.row(m.name)
			if m == ours || p == nil || q == nil {
				continue // nothing that the paper claims
			}
			if f, compared := t.leadFinding(ours, m); compared {
				low, high := 100.0, -100.0
				for i := range p.accuracy {
					d := p.accuracy[i] - q.accuracy[i]
					low, high = min(low, d), max(high, d)
				}
				f.Claim = fmt.Sprintf("TIPS is ahead of %s at every budget, by %.1f to %.1f points%s", q.name, low, high, where)
				list = append(list, f)
			}
		}
	}
	if f, compared := t.order(); compared {
		list = append(list, f)
	}
	return list
}

// leadFinding says by how much one method is ahead of another. What counts is the mean
// over budgets: one by one they are no more facts than that.
func (t *table1) leadFinding(ours, m *table1Method) (f Finding, compared bool) {
	if len(t.common) == 0 {
		return f, false
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, i := range t.common {
		d := ours.at[i].mean - m.at[i].mean
		least, most = min(least, d), max(most, d)
	}
	l := t.noise.lead(ours.mean, m.mean)
	f.Holds = l.clear() && least > 0
	// Behind at a budget, and not by more than chance makes of the mean, refutes nothing.
	f.Open = !f.Holds && !(l.clear() && l.points < 0) && least > -l.chance
	f.Measured = aboutTIPS(ours.name) + fmt.Sprintf("ahead by %s points in the mean over budgets, by %+.1f to %+.1f at each; %s", l.text(), least, most, l.about())
	if len(t.beside) > 0 && !math.IsInf(l.chance, 0) {
		f.Measured += ", if runs deviate as those of " + t.lengths() + " do"
	}
	if paper, has := t.paperLead(m.name); has && !math.IsInf(l.chance, 0) {
		claim := "one as large as the paper's, %+.1f, is possible"
		switch {
		case paper-l.points > l.chance:
			claim = "one as large as the paper's, %+.1f, is ruled out"
		case l.points-paper > l.chance:
			claim = "that is more than the paper's, %+.1f"
		}
		f.Measured += fmt.Sprintf("; "+claim, paper)
		if epochs := ours.runs[0].recipe.Epochs; epochs != paperEpochs {
			f.Measured += fmt.Sprintf(" after %s (the paper: %d)", plural(epochs, "epoch"), paperEpochs)
		}
	}
	return f, true
}

// order compares how the methods stand with how they stand in the paper, pair by pair, by
// their means over budgets.
func (t *table1) order() (f Finding, compared bool) {
	type row struct {
		name string
		mean float64 // the paper's
		ours estimate
	}
	var rows []row
	for _, r := range t.paper.rows {
		m := t.find(r.method)
		if r.method == published {
			m = t.tips()
		}
		if mean, has := t.paperMean(&r); has && m != nil {
			rows = append(rows, row{r.name, mean, m.mean})
		}
	}
	if len(rows) < 2 {
		return f, false
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.mean, a.mean) })
	pairs, same, against := 0, 0, 0
	for i, better := range rows {
		for _, worse := range rows[i+1:] {
			pairs++
			switch l := t.noise.lead(better.ours, worse.ours); {
			case l.clear() && l.points > 0:
				same++
			case l.clear():
				against++
			}
		}
	}
	names := texts(len(rows), func(i int) string { return rows[i].name })
	return Finding{
		Claim:    "the order of the methods in the mean over budgets: " + strings.Join(names, " > "),
		Measured: fmt.Sprintf("of %s %d clearly in the paper's order, %d clearly the other way round", plural(pairs, "pair"), same, against),
		Holds:    same == pairs,
		Open:     same < pairs && against == 0,
	}, true
}

// remarks say what was trained, and how it was judged.
func (t *table1) remarks() []string {
	r := t.runs[0]
	var parts []string
	for _, m := range t.methods {
		parts = append(parts, nameWithSeeds(m.name, texts(len(m.runs), func(i int) string { return fmt.Sprint(m.runs[i].recipe.Seed) })))
	}
	trained := fmt.Sprintf("Trained: %s; %s, batch %d.", strings.Join(parts, ", "), plural(r.recipe.Epochs, "epoch"), r.recipe.Batch)
	if len(t.paper.rows) > 0 {
		trained += fmt.Sprintf(" The paper: %d epochs, batch 256, three runs each.", paperEpochs)
	}
	list := []string{trained, fmt.Sprintf("Subnetworks: of each run's frontier the most accurate within the budget by %s held-out images. Accuracy: by %d test images, which chose nothing; batch norm re-estimated for each on training images.",
		t.heldOut(), r.smallest.tested.Images),
		t.searched(), t.errors(), t.chosen(),
		"Area: what a frontier dominates by the held-out images that chose it, in % of all accuracies at all costs from 0 to the full network's; it also counts what is below the budgets." + t.areas()}
	for _, m := range t.methods {
		text := fmt.Sprintf("%s: %s %% at the network's smallest subnetwork (%s MACs)", m.name, m.low.text(), millions(m.lowMACs))
		if m.own.runs > 0 {
			text += fmt.Sprintf(", which it never trains; %s %% at its own smallest (%s)", m.own.text(), millions(m.ownMACs))
		}
		list = append(list, text+".")
	}
	for _, r := range t.runs {
		for i, c := range r.cells {
			if c == nil {
				list = append(list, fmt.Sprintf("%s: nothing on the frontier has %s MACs or less.", r.dir, millions(t.budgets[i])))
			}
		}
	}
	if t.oneShot() {
		list = append(list, "The paper compares with OFA on ImageNet only; its rows there stand beside, each accuracy with its budget.")
	}
	return list
}

// searched says of how many subnetworks frontiers were chosen.
func (t *table1) searched() string {
	low, high := math.MaxInt, 0
	for _, r := range t.runs {
		low, high = min(low, len(r.searched)), max(high, len(r.searched))
	}
	switch {
	case low == 0:
		return "Searched: how many subnetworks the frontiers were chosen of is not known of all runs."
	case low == high:
		return fmt.Sprintf("Searched: each frontier was chosen of %s that were judged.", plural(low, "subnetwork"))
	}
	return fmt.Sprintf("Searched: frontiers were chosen of %d to %d subnetworks that were judged.", low, high)
}

// errors says where the errors of differences come from.
func (t *table1) errors() string {
	const text = "±: deviation over the runs of a method; of a lead, its standard error"
	if t.noise.freedom == 0 {
		return text + ", which knows how many images were counted and not how far runs with other seeds would lie apart: no method has two runs."
	}
	return text + fmt.Sprintf(". Means of runs of one method deviate by %.1f points (%s of freedom); where counting images is less certain than that, it counts.", t.noise.deviation, plural(t.noise.freedom, "degree")) + t.known()
}

// known says which runs beside those in the table tell of chance.
func (t *table1) known() string {
	if len(t.beside) == 0 {
		return ""
	}
	return fmt.Sprintf(" That is by %s of %s as well, which are not in the table: if all runs deviate alike, whatever their method and length.", plural(len(t.beside), "run"), t.lengths())
}

// lengths are the numbers of epochs of runs that are not in the table.
func (t *table1) lengths() string {
	var epochs []int
	for _, r := range t.beside {
		epochs = append(epochs, r.recipe.Epochs)
	}
	slices.Sort(epochs)
	epochs = slices.Compact(epochs)
	last := len(epochs) - 1
	list := texts(len(epochs), func(i int) string { return fmt.Sprint(epochs[i]) })
	list[last] = plural(epochs[last], "epoch")
	return strings.Join(list, ", ")
}

// areaLead is by how much one area is larger than another, with its error where that is known.
func (t *table1) areaLead(a, b *table1Method) string {
	l := t.areaNoise.lead(a.area, b.area)
	if t.areaNoise.freedom == 0 {
		return fmt.Sprintf("%+.1f", l.points)
	}
	return l.text()
}

// areas says how far areas lie apart by chance, and which leads of tips are more than that.
func (t *table1) areas() string {
	if t.areaNoise.freedom == 0 {
		return ""
	}
	text := fmt.Sprintf(" Areas of runs of one method deviate by %.1f points (%s of freedom).", t.areaNoise.deviation, plural(t.areaNoise.freedom, "degree"))
	ours := t.tips()
	if ours == nil {
		return text
	}
	var clear []string
	for _, m := range t.methods {
		if l := t.areaNoise.lead(ours.area, m.area); m != ours && l.clear() {
			clear = append(clear, fmt.Sprintf("%s by %+.1f (%.1f)", m.name, l.points, l.chance))
		}
	}
	if len(clear) > 0 {
		text += " More than chance (95 %, in brackets) lies between " + ours.name + " and " + strings.Join(clear, ", ") + "."
	}
	return text
}

// chosen says how much of its budget a choice takes: what is best within 50 M and has 30
// fills the columns between.
func (t *table1) chosen() string {
	last := len(t.budgets) - 1
	low, high := int64(math.MaxInt64), int64(0)
	for _, r := range t.runs {
		if c := r.cells[last]; c != nil {
			low, high = min(low, c.chosen.Costs.MACs), max(high, c.chosen.Costs.MACs)
		}
	}
	if high == 0 {
		return fmt.Sprintf("No frontier reaches down to %s.", millions(t.budgets[last]))
	}
	return fmt.Sprintf("What was chosen within %s has %s to %s MACs: a subnetwork may fill several columns, which are not independent.", millions(t.budgets[last]), millions(low), millions(high))
}

// heldOut is how many images chose.
func (t *table1) heldOut() string {
	low, high := t.runs[0].frontier.Points[0].Images, 0
	for _, r := range t.runs {
		for _, p := range r.frontier.Points {
			low, high = min(low, p.Images), max(high, p.Images)
		}
	}
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}
