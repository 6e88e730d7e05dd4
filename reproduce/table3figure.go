package reproduce

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tips/plot"
)

// The paper's Table 3: mobilenet_v2 on ImageNet, Raspberry Pi 3B+, mean of three runs.
var paperTable3 = []struct {
	method              string
	latencies, accuracy []float64 // ms, %
}{
	{"Joslim", []float64{176, 232, 305, 341, 406}, []float64{70.8, 71.9, 72.5, 72.9, 73.4}},
	{"TIPS", []float64{190, 245, 298, 362, 413}, []float64{71.8, 73.2, 73.6, 74.3, 74.7}},
}

// table3Method is the runs of one method, averaged.
type table3Method struct {
	name                string
	runs                []*table3Run
	latency, accuracy   []float64 // ms, %, by budget
	deviation, low, top []float64 // of the accuracy; quartiles of the latency
}

func table3Figure(runs []*table3Run, o Table3Options) Figure {
	n := runs[0].network
	f := Figure{
		Name:    "table3",
		Caption: fmt.Sprintf("top-1 accuracy and latency of %s on %s, %s", n.Name(), o.Machine, plural(o.Threads, "thread")),
		Header: []string{"method", "run", "budget_ms", "subnetwork", "macs", "latency_ms", "quartile1_ms", "quartile3_ms", "runs", "disturbed",
			"predicted_ms", "engine_ms", "engine_error", "accuracy", "error", "correct", "images", "judged_on"},
		Chart: plot.Chart{Title: "Table 3: " + n.Name(), XLabel: "latency, ms", YLabel: fmt.Sprintf("%% of the %s", table3Images(runs))},
	}
	columns := 0
	for _, p := range paperTable3 {
		columns = max(columns, len(p.latencies))
	}
	methods := table3Methods(runs)
	for _, m := range methods {
		columns = max(columns, len(m.latency))
	}
	line := func(method, metric string, cells []string) {
		row := append([]string{method, metric}, cells...)
		for len(row) < columns+2 {
			row = append(row, "")
		}
		f.Table = append(f.Table, row)
	}
	line("METHOD", "METRIC", []string{"RESULTS"})
	if len(runs) > 1 {
		line("", "within, ms", texts(len(runs[0].cells), func(i int) string { return short(ms(runs[0].cells[i].budget)) }))
	}
	for _, m := range methods {
		m.lines(line)
		series := plot.Series{Name: m.name, Bars: true}
		for i := range m.latency {
			if i == 0 || !m.sameAsBefore(i) {
				series.X, series.Y, series.Deviation = append(series.X, m.latency[i]), append(series.Y, m.accuracy[i]), append(series.Deviation, m.deviation[i])
			}
		}
		f.Chart.Series = append(f.Chart.Series, series)
		for _, r := range m.runs {
			f.Rows = append(f.Rows, r.rows()...)
		}
	}
	for _, p := range paperTable3 {
		line("paper: "+p.method, "latency on a Raspberry Pi, ms", texts(len(p.latencies), func(i int) string { return fmt.Sprintf("%.0f", p.latencies[i]) }))
		line("", "accuracy, %", texts(len(p.accuracy), func(i int) string { return fmt.Sprintf("%.1f", p.accuracy[i]) }))
		for i := range p.latencies {
			row := make([]string, len(f.Header))
			row[0], row[5], row[13] = "paper: "+p.method, number(p.latencies[i]), fmt.Sprintf("%.3f", p.accuracy[i]/100)
			f.Rows = append(f.Rows, row)
		}
	}
	f.Findings = table3Findings(methods)
	f.Remarks = table3Remarks(runs, o)
	return f
}

func table3Methods(runs []*table3Run) []*table3Method {
	var list []*table3Method
	byName := map[string]*table3Method{}
	for _, r := range runs {
		m := byName[r.name]
		if m == nil {
			m = &table3Method{name: r.name}
			byName[r.name], list = m, append(list, m)
		}
		m.runs = append(m.runs, r)
	}
	for _, m := range list {
		for i := range m.runs[0].cells {
			var latency, accuracy, low, top []float64
			for _, r := range m.runs {
				c := r.cells[i]
				latency, accuracy = append(latency, ms(c.measured.Median)), append(accuracy, 100*c.point.Accuracy)
				low, top = append(low, ms(c.measured.Low)), append(top, ms(c.measured.High))
			}
			mean := func(x []float64) float64 { v, _ := spread(x); return v }
			centre, deviation := spread(accuracy)
			if len(m.runs) == 1 {
				deviation = 100 * m.runs[0].cells[i].point.Error()
			}
			m.latency, m.accuracy, m.deviation = append(m.latency, mean(latency)), append(m.accuracy, centre), append(m.deviation, deviation)
			m.low, m.top = append(m.low, mean(low)), append(m.top, mean(top))
		}
	}
	return list
}

// lines are the rows of a method in the table: those of the paper, then ours.
func (m *table3Method) lines(line func(method, metric string, cells []string)) {
	cells := func(format func(i int) string) []string { return texts(len(m.latency), format) }
	name := m.name
	if len(m.runs) > 1 {
		name += fmt.Sprintf(", %d runs", len(m.runs))
	}
	line(name, "latency, ms", cells(func(i int) string { return short(m.latency[i]) }))
	line("", "accuracy, %", cells(func(i int) string { return fmt.Sprintf("%.1f ± %.1f", m.accuracy[i], m.deviation[i]) }))
	line("", "latency, middle half", cells(func(i int) string { return fmt.Sprintf("%s–%s", short(m.low[i]), short(m.top[i])) }))
	if len(m.runs) > 1 {
		return // the data has the rest of each run
	}
	c := m.runs[0].cells
	beside := func(milliseconds, wrong float64) string {
		return fmt.Sprintf("%s (%+.0f %%)", short(milliseconds), 100*wrong)
	}
	line("", "predicted", cells(func(i int) string { return beside(ms(c[i].predicted), off(c[i].predicted, c[i].measured.Median)) }))
	line("", "… by the engine", cells(func(i int) string { return beside(1000*c[i].engine.median(), c[i].wrong.median()) }))
	line("", "MACs, M", cells(func(i int) string { return fmt.Sprintf("%.2f", float64(c[i].point.Costs.MACs)/1e6) }))
}

// rows are a run's data.
func (r *table3Run) rows() (rows [][]string) {
	for _, c := range r.cells {
		p := c.point
		rows = append(rows, []string{r.name, r.dir, number(ms(c.budget)), p.Subnet.String(), fmt.Sprint(p.Costs.MACs),
			number(ms(c.measured.Median)), number(ms(c.measured.Low)), number(ms(c.measured.High)), fmt.Sprint(c.measured.Runs), fmt.Sprint(c.measured.Disturbed),
			number(ms(c.predicted)), number(1000 * c.engine.median()), number(c.wrong.median()), number(p.Accuracy), number(p.Error()), fmt.Sprint(p.Correct), fmt.Sprint(p.Images), r.on})
	}
	return rows
}

func table3Findings(methods []*table3Method) []Finding {
	var list []Finding
	ours, name := methods[0], tipsAmong(texts(len(methods), func(i int) string { return methods[i].name }))
	for _, m := range methods {
		if m.name == name {
			ours = m
		}
	}
	// Budgets that choose the same subnetworks are no steps.
	last, steps, rising := len(ours.latency)-1, 0, 0
	for i := 1; i <= last; i++ {
		if ours.sameAsBefore(i) {
			continue
		}
		steps++
		if ours.latency[i] > ours.latency[i-1] && ours.accuracy[i] > ours.accuracy[i-1] {
			rising++
		}
	}
	list = append(list, Finding{
		Claim: "more latency buys more accuracy: TIPS has 71.8 % in 190 ms and 74.7 % in 413 ms, both rising at each of 4 steps",
		Measured: fmt.Sprintf("%s has %.1f %% in %s ms and %.1f %% in %s ms, both rising at %d of %s",
			ours.name, ours.accuracy[0], short(ours.latency[0]), ours.accuracy[last], short(ours.latency[last]), rising, plural(steps, "step")),
		Holds: rising == steps && steps > 0,
	})
	if ours.name != name {
		return list
	}
	for _, m := range methods {
		if m == ours {
			continue
		}
		ahead, lead, uncertain := 0, 0.0, 0.0
		n := float64(len(m.accuracy))
		for i := range m.accuracy {
			if ours.accuracy[i] > m.accuracy[i] {
				ahead++
			}
			lead += (ours.accuracy[i] - m.accuracy[i]) / n
			uncertain += math.Hypot(ours.deviation[i], m.deviation[i]) / n
		}
		list = append(list, Finding{
			Claim: "given a similar latency TIPS is more accurate than Joslim: by 1.1 % at about 300 ms",
			Measured: aboutTIPS(name) + fmt.Sprintf("more accurate than %s within %d of %s, by %+.1f %% on average; a difference has an error of about %.1f",
				m.name, ahead, plural(len(m.accuracy), "latency budget"), lead, uncertain),
			Holds: ahead == len(m.accuracy),
		})
	}
	return list
}

// sameAsBefore tells whether a budget chose what the one below it did, of all runs.
func (m *table3Method) sameAsBefore(i int) bool {
	for _, r := range m.runs {
		if r.cells[i].point.Subnet != r.cells[i-1].point.Subnet {
			return false
		}
	}
	return true
}

func table3Remarks(runs []*table3Run, o Table3Options) []string {
	var table, engine sample
	least, disturbed, all := math.MaxInt, 0, 0
	for _, r := range runs {
		for _, c := range r.cells {
			table = append(table, math.Abs(off(c.predicted, c.measured.Median)))
			for _, w := range c.wrong {
				engine = append(engine, math.Abs(w))
			}
			least = min(least, c.measured.Runs)
			disturbed, all = disturbed+c.measured.Disturbed, all+c.measured.Runs
		}
	}
	chosen := fmt.Sprintf("Subnetworks: of each frontier the most accurate within %d evenly spaced latencies, as predicted by %s.", o.Rows, runs[0].by)
	if fewer := len(runs[0].cells); len(runs) == 1 && fewer < o.Rows {
		chosen += fmt.Sprintf(" The frontier has %d different ones.", fewer)
	}
	list := []string{
		chosen,
		fmt.Sprintf("Latency: warm median of %d or more runs of one image, in turns; %.0f %% of the runs were disturbed by other programs, and left out where enough others were there.", least, 100*float64(disturbed)/float64(all)),
		fmt.Sprintf("Predictions are off by %.0f %% (median) and %.0f %% (most). The engine's, which learn from every run, were off by %.0f %% (median over single runs) and %.0f %% (95th percentile).", 100*table.median(), 100*table.at(1), 100*engine.median(), 100*engine.at(0.95)),
		"The paper's rows are of mobilenet_v2 on ImageNet, on a Raspberry Pi 3B+, averaged over three runs.",
	}
	images := fmt.Sprintf("Accuracy: by the %s.", table3Images(runs))
	switch r := runs[0]; {
	case r.on == "": // files that do not say
	case r.on == r.chosenOn:
		images += " They also chose the subnetworks, which flatters these; the error is that of counting them."
	default:
		images += fmt.Sprintf(" None of them chose the subnetworks: %s ones did. The error is that of counting them.", r.chosenOn)
	}
	return append(list, images)
}

// table3Images says which images accuracies are by.
func table3Images(runs []*table3Run) string {
	p := runs[0].cells[0].point
	if p.Images == 0 {
		return "images"
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%d %s images", p.Images, runs[0].on)), " ")
}

// off is by how much a prediction is too long, as a share of the measurement.
func off(predicted, measured time.Duration) float64 { return float64(predicted)/float64(measured) - 1 }

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// short writes milliseconds with three digits.
func short(ms float64) string {
	return strings.TrimSuffix(milliseconds(ms/1000), " ms")
}

func texts(n int, format func(i int) string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = format(i)
	}
	return list
}
