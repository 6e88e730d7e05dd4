package reproduce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tips/plot"
)

// table1Method is the runs of one method.
type table1Method struct {
	name string
	runs []*table1Run
	at   []estimate // by budget
	// At the network's smallest subnetwork, and at the method's, if that is another.
	low, own         estimate
	lowMACs, ownMACs int64
}

// table1 is what the figure is made of.
type table1 struct {
	runs    []*table1Run
	methods []*table1Method
	budgets []int64
	paper   paperTable
	noise   noise
}

func table1Figure(runs []*table1Run, budgets []int64, paper paperTable) Figure {
	t := table1{runs: runs, budgets: budgets, paper: paper}
	names, of := byMethod(runs)
	for _, name := range names {
		t.methods = append(t.methods, table1MethodOf(name, of[name], len(budgets)))
	}
	t.noise = noiseOf(t.methods)
	for _, m := range t.methods {
		for i := range m.at {
			m.at[i].err = t.noise.of(m.at[i])
		}
	}
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
				s.X, s.Y, s.Deviation = append(s.X, float64(budgets[i])/1e6), append(s.Y, e.mean), append(s.Deviation, e.err)
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
	f.Findings, f.Remarks = t.findings(), t.remarks()
	return f
}

func table1MethodOf(name string, runs []*table1Run, budgets int) *table1Method {
	m := &table1Method{name: name, runs: runs}
	of := func(cell func(*table1Run) *table1Cell) estimate {
		var list []*table1Cell
		for _, r := range runs {
			list = append(list, cell(r))
		}
		return estimateOf(list)
	}
	for i := range budgets {
		m.at = append(m.at, of(func(r *table1Run) *table1Cell { return r.cells[i] }))
	}
	m.low, m.lowMACs = of(func(r *table1Run) *table1Cell { return r.smallest }), runs[0].smallest.chosen.Costs.MACs
	if m.own = of(func(r *table1Run) *table1Cell { return r.own }); m.own.runs > 0 {
		m.ownMACs = runs[0].own.chosen.Costs.MACs
	}
	return m
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

// lines are the table for people: ours, the paper's, and by how much TIPS leads.
func (t *table1) lines() [][]string {
	columns := len(t.budgets)
	if t.oneShot() {
		columns = max(columns, len(paperOneShot.budgets))
	}
	var table [][]string
	line := func(name string, cells []string) {
		row := append([]string{name}, cells...)
		for len(row) < columns+1 {
			row = append(row, "")
		}
		table = append(table, row)
	}
	line("METHOD", texts(len(t.budgets), func(i int) string { return millions(t.budgets[i]) }))
	for _, m := range t.methods {
		name := m.name
		if len(m.runs) > 1 {
			name += fmt.Sprintf(", %d runs", len(m.runs))
		}
		line(name, texts(len(m.at), func(i int) string {
			if m.at[i].runs == 0 {
				return "-"
			}
			return m.at[i].text()
		}))
	}
	for _, r := range t.paper.rows {
		line("paper: "+r.name, texts(len(t.budgets), func(i int) string {
			k := t.paper.at(t.budgets[i])
			if k < 0 {
				return ""
			}
			return fmt.Sprintf("%.1f ± %.1f", r.accuracy[k], r.deviation[k])
		}))
	}
	if t.oneShot() {
		for _, r := range paperOneShot.rows {
			line("paper, ImageNet: "+r.name, texts(len(r.accuracy), func(i int) string {
				return fmt.Sprintf("%.1f (%s)", r.accuracy[i], millions(paperOneShot.budgets[i]))
			}))
		}
	}
	ours := t.find("tips")
	if ours == nil {
		return table
	}
	for _, m := range t.methods {
		if m == ours {
			continue
		}
		line("tips − "+m.name, texts(len(m.at), func(i int) string {
			if ours.at[i].runs == 0 || m.at[i].runs == 0 {
				return "-"
			}
			return lead(ours.at[i].minus(m.at[i]))
		}))
		if p, q := t.paper.row("tips"), t.paper.row(m.name); p != nil && q != nil {
			line("… in the paper", texts(len(t.budgets), func(i int) string {
				k := t.paper.at(t.budgets[i])
				if k < 0 {
					return ""
				}
				return fmt.Sprintf("%+.1f", p.accuracy[k]-q.accuracy[k])
			}))
		}
	}
	return table
}

// findings are what the paper claims: that TIPS leads, and how the others stand.
func (t *table1) findings() []Finding {
	var list []Finding
	if ours := t.find("tips"); ours != nil {
		for _, m := range t.methods {
			table, where := t.paper, ""
			if m.name == "ofa" && t.oneShot() {
				table, where = paperOneShot, " (on ImageNet)"
			}
			p, q := table.row("tips"), table.row(m.name)
			if m == ours || p == nil || q == nil {
				continue // nothing that the paper claims
			}
			if f, any := leadFinding(ours, m, t.noise.clear()); any {
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
	if f, any := t.order(); any {
		list = append(list, f)
	}
	return list
}

// leadFinding says by how much one method is ahead of another, where clear is how many
// errors a lead must be large.
func leadFinding(ours, m *table1Method, clear float64) (f Finding, any bool) {
	ahead, clearly, behind, all := 0, 0, 0, 0
	low, high := "", ""
	least, most := 1e9, -1e9
	for i := range m.at {
		if ours.at[i].runs == 0 || m.at[i].runs == 0 {
			continue
		}
		all++
		d, err := ours.at[i].minus(m.at[i])
		if d > 0 {
			ahead++
		}
		if d > clear*err {
			clearly++
		}
		if d < -clear*err {
			behind++
		}
		if d < least {
			least, low = d, lead(d, err)
		}
		if d > most {
			most, high = d, lead(d, err)
		}
	}
	f.Holds = all > 0 && ahead == all && 2*clearly >= all
	f.Open = !f.Holds && behind == 0
	f.Measured = fmt.Sprintf("ahead at %d of %s, by %s to %s points; clearly (by more than %.1f errors) at %d, and clearly behind at %d", ahead, plural(all, "budget"), low, high, clear, clearly, behind)
	return f, all > 0
}

// order compares how the methods stand with how they stand in the paper, pair by pair.
func (t *table1) order() (f Finding, any bool) {
	pairs, same, against, clear := 0, 0, 0, t.noise.clear()
	for i, budget := range t.budgets {
		k := t.paper.at(budget)
		if k < 0 {
			continue
		}
		for a := range t.paper.rows {
			for b := range t.paper.rows {
				// Once for every two, the better one first; what ties in the paper has no order.
				p, q := t.paper.rows[a], t.paper.rows[b]
				m, n := t.find(p.method), t.find(q.method)
				if p.accuracy[k] <= q.accuracy[k] || m == nil || n == nil || m.at[i].runs == 0 || n.at[i].runs == 0 {
					continue
				}
				pairs++
				d, err := m.at[i].minus(n.at[i])
				if d > 0 {
					same++
				}
				if d < -clear*err {
					against++
				}
			}
		}
	}
	first := ""
	for _, budget := range t.budgets {
		if k := t.paper.at(budget); k >= 0 {
			rows := slices.Clone(t.paper.rows)
			slices.SortStableFunc(rows, func(a, b paperRow) int { return cmp.Compare(b.accuracy[k], a.accuracy[k]) })
			var names []string
			for _, r := range rows {
				if t.find(r.method) != nil {
					names = append(names, r.name)
				}
			}
			first = fmt.Sprintf("at %s %s", millions(budget), strings.Join(names, " > "))
			break
		}
	}
	return Finding{
		Claim:    "the order of the methods, budget by budget: " + first,
		Measured: fmt.Sprintf("%d of %s in the paper's order, and %d clearly the other way round", same, plural(pairs, "pair"), against),
		Holds:    same == pairs,
		Open:     same < pairs && against == 0,
	}, pairs > 0
}

// remarks say what was trained, and how it was judged.
func (t *table1) remarks() []string {
	r := t.runs[0]
	var parts []string
	for _, m := range t.methods {
		var seeds []string
		for _, r := range m.runs {
			seeds = append(seeds, fmt.Sprint(r.recipe.Seed))
		}
		word := "seed"
		if len(seeds) > 1 {
			word = "seeds"
		}
		parts = append(parts, fmt.Sprintf("%s (%s %s)", m.name, word, strings.Join(seeds, ", ")))
	}
	trained := fmt.Sprintf("Trained: %s; %s, batch %d.", strings.Join(parts, ", "), plural(r.recipe.Epochs, "epoch"), r.recipe.Batch)
	if len(t.paper.rows) > 0 {
		trained += " The paper: 200 epochs, batch 256, three runs each."
	}
	list := []string{trained, fmt.Sprintf("Subnetworks: of each run's frontier the most accurate within the budget by %s held-out images. Accuracy: by %d test images, which chose nothing; batch norm re-estimated for each on training images.",
		t.heldOut(), r.smallest.tested.Images),
		t.errors()}
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

// errors says where the errors of differences come from.
func (t *table1) errors() string {
	const text = "±: deviation over the runs of a method; of a difference, its standard error, "
	if t.noise.freedom == 0 {
		return text + "which knows how many images were counted and not how far runs with other seeds would lie apart: no method has two runs."
	}
	return text + fmt.Sprintf("by the deviation of %.1f points of all runs from those of the same method, with %s of freedom, or by the counting of images where that is larger.", t.noise.deviation, plural(t.noise.freedom, "degree"))
}

// text is the estimate for people.
func (e estimate) text() string {
	if e.runs == 1 {
		return fmt.Sprintf("%.1f", e.mean)
	}
	return fmt.Sprintf("%.1f ± %.1f", e.mean, e.deviation)
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

// lead writes a difference and its error.
func lead(difference, err float64) string { return fmt.Sprintf("%+.1f ± %.1f", difference, err) }

// millions writes MACs as tables of papers do.
func millions(macs int64) string { return fmt.Sprintf("%.4g M", float64(macs)/1e6) }

// fileName is a name as files have it.
func fileName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "") }
