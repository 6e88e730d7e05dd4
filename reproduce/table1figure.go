package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tips/frontier"
	"tips/plot"
)

// table1Method is the runs of one method.
type table1Method struct {
	name string
	runs []*table1Run
	at   []estimate // by budget
	held []estimate // the same by held-out images, which chose
	mean estimate   // over budgets
	area estimate   // of what frontiers dominate by held-out images, in % of all there is
	// At the network's smallest subnetwork, and at the method's, if that is another.
	low, own         estimate
	lowMACs, ownMACs int64
}

// table1 is what the figure is made of.
type table1 struct {
	runs    []*table1Run
	beside  []*table1Run // not in the table, but in what is known of chance
	methods []*table1Method
	budgets []int64
	paper   paperTable
	common  []int // budgets that all runs in the table keep
	noise   noise // of means over those

	areaNoise noise
}

func table1Figure(runs, beside []*table1Run, budgets []int64, paper paperTable) Figure {
	t := table1{runs: runs, beside: beside, budgets: budgets, paper: paper}
	names, of := byMethod(runs)
	for _, name := range names {
		t.methods = append(t.methods, table1MethodOf(name, of[name], len(budgets)))
	}
	t.compare()
	n, recipe := runs[0].network.Name(), runs[0].recipe
	f := Figure{
		Name:    "table1-" + fileName(dataName(recipe.Data)) + "-" + model(n),
		Caption: fmt.Sprintf("top-1 test accuracy of %s on %s within a budget of MACs, by method", n, dataName(recipe.Data)),
		Header:  []string{"method", "seed", "choice", "budget", "subnetwork", "macs", "params", "held_out", "held_out_images", "accuracy", "error", "correct", "images"},
		Chart: plot.Chart{
			Title:  fmt.Sprintf("%s on %s, %s: accuracy within a budget", model(n), dataName(recipe.Data), plural(recipe.Epochs, "epoch")),
			XLabel: "million MACs (FLOPs in papers)", YLabel: "% of the test images",
		},
	}
	f.Table = t.lines()
	for _, m := range t.methods {
		s := plot.Series{Name: m.name, Bars: true}
		for i, e := range m.at {
			if e.runs > 0 {
				s.X, s.Y, s.Deviation = append(s.X, float64(budgets[i])/1e6), append(s.Y, e.mean), append(s.Deviation, e.deviation)
			}
		}
		if len(s.X) > 0 {
			f.Chart.Series = append(f.Chart.Series, s)
		}
		for _, r := range m.runs {
			f.Rows = append(f.Rows, r.rows()...)
		}
	}
	f.Rows = append(f.Rows, t.paperRows(len(f.Header))...)
	f.Picture = plot.Sheet{f.Chart, t.frontiers()}
	f.Findings, f.Remarks = t.findings(), t.remarks()
	return f
}

func table1MethodOf(name string, runs []*table1Run, budgets int) *table1Method {
	m := &table1Method{name: name, runs: runs}
	tested := func(c *table1Cell) frontier.Point { return c.tested }
	of := func(cell func(*table1Run) *table1Cell, accuracy func(*table1Cell) frontier.Point) estimate {
		var list []frontier.Point
		for _, r := range runs {
			c := cell(r)
			if c == nil {
				return estimate{}
			}
			list = append(list, accuracy(c))
		}
		return estimateOf(list)
	}
	for i := range budgets {
		cell := func(r *table1Run) *table1Cell { return r.cells[i] }
		m.at = append(m.at, of(cell, tested))
		m.held = append(m.held, of(cell, func(c *table1Cell) frontier.Point { return c.chosen }))
	}
	m.low, m.lowMACs = of(func(r *table1Run) *table1Cell { return r.smallest }, tested), runs[0].smallest.chosen.Costs.MACs
	if m.own = of(func(r *table1Run) *table1Cell { return r.own }, tested); m.own.runs > 0 {
		m.ownMACs = runs[0].own.chosen.Costs.MACs
	}
	m.area = areaOf(runs)
	return m
}

// areaOf is the mean area of what frontiers dominate, by held-out images: of all pairs of
// an accuracy and a cost up to the full network's, those that some subnetwork is as good
// as. Budgets need not be chosen for it, and what is below all of them counts as well.
func areaOf(runs []*table1Run) estimate {
	var values []float64
	for _, r := range runs {
		full := float64(r.network.Full().Costs().MACs)
		values = append(values, 100*frontier.Hypervolume(r.frontier.Points, frontier.MACs, full, 0)/full)
	}
	e := estimate{runs: len(runs)}
	e.mean, e.deviation = spread(values)
	return e
}

// compare takes means over the budgets that all runs keep, and the noise of these.
func (t *table1) compare() {
	t.common = nil
	for i := range t.budgets {
		if !slices.ContainsFunc(t.runs, func(r *table1Run) bool { return r.cells[i] == nil }) {
			t.common = append(t.common, i)
		}
	}
	for _, m := range t.methods {
		m.mean = overBudgets(m.runs, t.common)
	}
	var means, areas []estimate
	for _, twins := range t.twins() {
		areas = append(areas, areaOf(twins))
		if !slices.ContainsFunc(twins, func(r *table1Run) bool { return !r.keeps(t.common) }) {
			means = append(means, overBudgets(twins, t.common))
		}
	}
	t.noise, t.areaNoise = noiseOf(means...), noiseOf(areas...)
}

// twins are all runs, in the table and beside it, those together that differ in nothing
// but their seed.
func (t *table1) twins() (list [][]*table1Run) {
	for _, r := range slices.Concat(t.runs, t.beside) {
		i := slices.IndexFunc(list, func(twins []*table1Run) bool { return twins[0].alikeButSeed(r.run) })
		if i < 0 {
			list = append(list, nil)
			i = len(list) - 1
		}
		list[i] = append(list[i], r)
	}
	return list
}

// keeps tells whether the run has something within each of some budgets.
func (r *table1Run) keeps(budgets []int) bool {
	return !slices.ContainsFunc(budgets, func(i int) bool { return r.cells[i] == nil })
}

// rows are a run's data.
func (r *table1Run) rows() (rows [][]string) {
	for _, c := range r.all() {
		budget, heldOut, images := "", "", ""
		if c.choice == bestWithin {
			budget, heldOut, images = fmt.Sprint(c.budget), number(c.chosen.Accuracy), fmt.Sprint(c.chosen.Images)
		}
		p := c.tested
		rows = append(rows, []string{r.method(), fmt.Sprint(r.recipe.Seed), c.choice, budget, p.Subnet.String(), fmt.Sprint(p.Costs.MACs), fmt.Sprint(p.Costs.Params),
			heldOut, images, number(p.Accuracy), number(p.Error()), fmt.Sprint(p.Correct), fmt.Sprint(p.Images)})
	}
	return rows
}

// paperRows are the paper's, as data.
func (t *table1) paperRows(columns int) (rows [][]string) {
	add := func(name string, budget int64, accuracy, deviation float64) {
		row := make([]string, columns)
		row[0], row[3], row[9] = name, fmt.Sprint(budget), fmt.Sprintf("%.3f", accuracy/100)
		if deviation > 0 {
			row[10] = fmt.Sprintf("%.3f", deviation/100)
		}
		rows = append(rows, row)
	}
	for _, r := range t.paper.rows {
		for i, b := range t.paper.budgets {
			add("paper: "+r.name, b, r.accuracy[i], r.deviation[i])
		}
	}
	if t.oneShot() {
		for _, r := range paperOneShot.rows {
			for i, b := range paperOneShot.budgets {
				add("paper, ImageNet: "+r.name, b, r.accuracy[i], 0)
			}
		}
	}
	return rows
}

// oneShot tells whether the paper's table of one-shot NAS belongs beside this one.
func (t *table1) oneShot() bool {
	return t.find("ofa") != nil && model(t.runs[0].network.Name()) == model(paperOneShot.network)
}

// find finds a method, nil if no run is of it.
func (t *table1) find(name string) *table1Method {
	i := slices.IndexFunc(t.methods, func(m *table1Method) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return t.methods[i]
}

// tips is the method that the paper's claims are held against; nil where it is not there.
func (t *table1) tips() *table1Method {
	return t.find(tipsAmong(texts(len(t.methods), func(i int) string { return t.methods[i].name })))
}

// lines are the table for people: ours, the paper's, by how much TIPS leads, and what
// held-out images say.
func (t *table1) lines() [][]string {
	columns := len(t.budgets) + 1
	if t.oneShot() {
		columns = max(columns, len(paperOneShot.budgets))
	}
	var table [][]string
	line := func(name string, cells []string, mean string) {
		row := append([]string{name}, cells...)
		for len(row) < columns {
			row = append(row, "")
		}
		table = append(table, append(row, mean))
	}
	budgets := texts(len(t.budgets), func(i int) string { return millions(t.budgets[i]) })
	line("METHOD", budgets, "MEAN")
	for _, m := range t.methods {
		line(m.label(), texts(len(m.at), func(i int) string { return m.at[i].text() }), m.mean.text())
	}
	for _, r := range t.paper.rows {
		mean := ""
		if points, has := t.paperMean(&r); has {
			mean = fmt.Sprintf("%.1f", points)
		}
		line("paper: "+r.name, texts(len(t.budgets), func(i int) string {
			k := t.paper.at(t.budgets[i])
			if k < 0 {
				return ""
			}
			return fmt.Sprintf("%.1f ± %.1f", r.accuracy[k], r.deviation[k])
		}), mean)
	}
	if t.oneShot() {
		for _, r := range paperOneShot.rows {
			line("paper, ImageNet: "+r.name, texts(len(r.accuracy), func(i int) string {
				return fmt.Sprintf("%.1f (%s)", r.accuracy[i], millions(paperOneShot.budgets[i]))
			}), "")
		}
	}
	if ours := t.tips(); ours != nil {
		t.leads(ours, line)
	}
	line("", nil, "")
	line("BY HELD-OUT IMAGES", budgets, "AREA")
	for _, m := range t.methods {
		line(m.label(), texts(len(m.held), func(i int) string { return m.held[i].text() }), m.area.text())
	}
	if ours := t.tips(); ours != nil {
		for _, m := range t.methods {
			if m != ours {
				line(ours.name+" − "+m.name, nil, t.areaLead(ours, m))
			}
		}
	}
	return table
}

// leads are lines of the table: how far a method is ahead of the others.
func (t *table1) leads(ours *table1Method, line func(name string, cells []string, mean string)) {
	for _, m := range t.methods {
		if m == ours {
			continue
		}
		mean := "-"
		if len(t.common) > 0 {
			mean = t.noise.lead(ours.mean, m.mean).text()
		}
		line(ours.name+" − "+m.name, texts(len(m.at), func(i int) string {
			if ours.at[i].runs == 0 || m.at[i].runs == 0 {
				return "-"
			}
			return fmt.Sprintf("%+.1f", ours.at[i].mean-m.at[i].mean)
		}), mean)
		if p, q := t.paper.row("tips"), t.paper.row(m.name); p != nil && q != nil {
			mean := ""
			if points, has := t.paperLead(m.name); has {
				mean = fmt.Sprintf("%+.1f", points)
			}
			line("… in the paper", texts(len(t.budgets), func(i int) string {
				k := t.paper.at(t.budgets[i])
				if k < 0 {
					return ""
				}
				return fmt.Sprintf("%+.1f", p.accuracy[k]-q.accuracy[k])
			}), mean)
		}
	}
}

// label is a method, and how often it was trained.
func (m *table1Method) label() string { return nameOfRuns(m.name, len(m.runs)) }

// paperMean is the paper's mean over the budgets that ours is over, if it has them.
func (t *table1) paperMean(r *paperRow) (mean float64, has bool) {
	for _, i := range t.common {
		k := t.paper.at(t.budgets[i])
		if k < 0 {
			return 0, false
		}
		mean += r.accuracy[k] / float64(len(t.common))
	}
	return mean, len(t.common) > 0
}

// paperLead is the paper's lead of TIPS over a method in the same mean.
func (t *table1) paperLead(method string) (points float64, has bool) {
	p, q := t.paper.row("tips"), t.paper.row(method)
	if p == nil || q == nil {
		return 0, false
	}
	a, has := t.paperMean(p)
	b, _ := t.paperMean(q)
	return a - b, has
}

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
	if len(t.beside) > 0 {
		f.Measured += ", if runs deviate as those of " + t.lengths() + " do"
	}
	if paper, has := t.paperLead(m.name); has && !math.IsInf(l.chance, 0) {
		beside := "one as large as the paper's, %+.1f, is possible"
		switch {
		case paper-l.points > l.chance:
			beside = "one as large as the paper's, %+.1f, is ruled out"
		case l.points-paper > l.chance:
			beside = "that is more than the paper's, %+.1f"
		}
		f.Measured += fmt.Sprintf("; "+beside, paper)
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

// nameOfRuns is a method in front of a line that several runs may share.
func nameOfRuns(method string, runs int) string {
	if runs > 1 {
		return fmt.Sprintf("%s, %d runs", method, runs)
	}
	return method
}

// nameWithSeeds is a method with the seeds of its runs.
func nameWithSeeds(method string, seeds []string) string {
	word := "seed"
	if len(seeds) > 1 {
		word = "seeds"
	}
	return fmt.Sprintf("%s (%s %s)", method, word, strings.Join(seeds, ", "))
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

// millions writes MACs as tables of papers do.
func millions(macs int64) string { return fmt.Sprintf("%.4g M", float64(macs)/1e6) }

// fileName is a name as files have it.
func fileName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "") }
