package reproduce

import (
	"fmt"
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
		if !slices.ContainsFunc(t.runs, func(r *table1Run) bool { return !r.keeps(i) }) {
			t.common = append(t.common, i)
		}
	}
	for _, m := range t.methods {
		m.mean = overBudgets(m.runs, t.common)
	}
	var means, areas []estimate
	for _, twins := range t.twins() {
		areas = append(areas, areaOf(twins))
		if !slices.ContainsFunc(twins, func(r *table1Run) bool { return !r.keeps(t.common...) }) {
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
func (r *table1Run) keeps(budgets ...int) bool {
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

// millions writes MACs as tables of papers do.
func millions(macs int64) string { return fmt.Sprintf("%.4g M", float64(macs)/1e6) }

// fileName is a name as files have it.
func fileName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "") }
