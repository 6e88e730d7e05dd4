package reproduce

import (
	"fmt"
	"math"

	"tips/plot"
)

// figure sums up.
func (r *overheadRun) figure() (Figure, error) {
	sizes, err := r.frontier.Sizes()
	if err != nil {
		return Figure{}, err
	}
	count := len(r.frontier.Points)
	f := Figure{
		Name: "overhead",
		Caption: fmt.Sprintf("what %d subnetworks of %s cost to store and to change between, on %s, %s, %s of each",
			count, r.frontier.Network.Name(), r.Machine, plural(r.Threads, "thread"), plural(r.Repetitions, "repetition")),
		Header: []string{"quantity", "subnetwork", "macs", "unit", "median", "quartile1", "quartile3", "samples"},
		Table:  [][]string{{"", "HERE", "MIDDLE HALF", "PAPER"}},
	}
	networks, exported := sum(r.networkBytes), sum(r.exportedBytes)
	bytes := func(name string, n int64, paper string) {
		f.Table = append(f.Table, []string{name, size(float64(n)), "", paper})
		f.Rows = append(f.Rows, []string{name, "", "", "bytes", fmt.Sprint(n), "", "", ""})
	}
	heading := func(name string) { f.Table = append(f.Table, []string{name, "", "", ""}) }
	seconds := func(name string, s sample, paper string) {
		if len(s) == 0 {
			return
		}
		f.Table = append(f.Table, []string{name, milliseconds(s.median()), fmt.Sprintf("%s to %s", milliseconds(s.at(0.25)), milliseconds(s.at(0.75))), paper})
		f.Rows = append(f.Rows, row(name, "", "", s))
	}

	heading("STORAGE")
	bytes(fmt.Sprintf("configurations of %d subnetworks", count), int64(sizes.Choices), "1.9 KB")
	bytes("their costs, accuracies, hashes, checksum", int64(sizes.Costs+sizes.Header), "")
	bytes("their calibrated batch-norm statistics", int64(sizes.Statistics), "")
	bytes("the weights that all of them share", r.supernetBytes, "")
	bytes(fmt.Sprintf("%d networks stored separately", count), networks, "117.8 MB")
	bytes("… as ONNX models, batch norm folded", exported, "")
	heading("TO CHANGE")
	const toSwitch, toReload = "switch to another subnetwork", "reload: read, pack and plan another network"
	seconds(toSwitch, r.switched, "0.037 ms")
	seconds("switch to one never planned before", r.planned, "")
	seconds(toReload, all(r.reload), "287 ms")
	seconds("  read its file", all(r.read), "")
	seconds("  pack its weights", all(r.pack), "")
	seconds("  plan", all(r.plan), "")
	session := ""
	if r.peer != nil {
		session = fmt.Sprintf("ONNX Runtime %s: session of another model", r.peer.Version)
		seconds(session, all(r.create), "")
	}
	heading("AND THEN ONE INFERENCE")
	seconds("the same subnetwork again", all(r.steady), "")
	seconds("right after a switch, switch included", all(r.first), "")
	seconds("right after a reload, reload apart", all(r.loaded), "")
	if r.peer != nil {
		seconds("ONNX Runtime: the same session again", all(r.again), "")
		seconds("ONNX Runtime: in a new session, its making apart", all(r.created), "")
	}
	r.byPoint(&f)
	for _, p := range []struct{ name, unit, value string }{
		{"paper: 12 configurations", "bytes", number(paperChoices)}, {"paper: 12 networks", "bytes", number(paperNetworks)},
		{"paper: switch", "ms", number(paperSwitch)}, {"paper: reload", "ms", number(paperReload)},
	} {
		f.Rows = append(f.Rows, []string{p.name, "", "", p.unit, p.value, "", "", ""})
	}

	change, load := r.switched.median(), all(r.reload).median()
	f.Findings = []Finding{{
		Claim:    "the configurations of twelve subnetworks take 1.9 KB, twelve networks 117.8 MB (it says 6176×, which these numbers are not: they are 62,000×)",
		Measured: fmt.Sprintf("%s and %s: %.0f×. With all that must ship, shared weights and statistics too, %s: %.1f×", size(float64(sizes.Choices)), size(float64(networks)), float64(networks)/float64(sizes.Choices), size(float64(r.supernetBytes+int64(sizes.Total()))), float64(networks)/float64(r.supernetBytes+int64(sizes.Total()))),
		Holds:    float64(sizes.Choices) <= paperChoices && float64(networks)/float64(sizes.Choices) >= paperNetworks/paperChoices,
	}, {
		Claim:    "a switch takes 0.037 ms, to reload a network 287 ms: 7756× (PyTorch, RTX 3090)",
		Measured: fmt.Sprintf("%s and %s: %.0f×. %s for a subnetwork never planned before: %.0f×", milliseconds(change), milliseconds(load), load/change, milliseconds(r.planned.median()), load/r.planned.median()),
		Holds:    1000*change <= paperSwitch && load/change >= paperReload/paperSwitch,
	}}
	f.Remarks = r.remarks()
	f.Picture = r.bars(count, sizes.Choices, sizes.Statistics, networks, session)
	return f, nil
}

// byPoint adds what differs from subnetwork to subnetwork to the data.
func (r *overheadRun) byPoint(f *Figure) {
	for i, p := range r.frontier.Points {
		name, macs := p.Subnet.String(), fmt.Sprint(p.Costs.MACs)
		f.Rows = append(f.Rows,
			[]string{"network stored separately", name, macs, "bytes", fmt.Sprint(r.networkBytes[i]), "", "", ""},
			[]string{"ONNX model", name, macs, "bytes", fmt.Sprint(r.exportedBytes[i]), "", "", ""})
		for _, q := range []struct {
			name string
			of   []sample
		}{
			{"reload", r.reload}, {"inference, the same subnetwork again", r.steady}, {"inference, right after a switch", r.first},
			{"inference, right after a reload", r.loaded}, {"ONNX Runtime, session", r.create},
			{"ONNX Runtime, inference in a new session", r.created}, {"ONNX Runtime, inference again", r.again},
		} {
			if len(q.of[i]) > 0 {
				f.Rows = append(f.Rows, row(q.name, name, macs, q.of[i]))
			}
		}
	}
}

// row is a sample of seconds in the data.
func row(quantity, subnet, macs string, s sample) []string {
	return []string{quantity, subnet, macs, "ms", number(1000 * s.median()), number(1000 * s.at(0.25)), number(1000 * s.at(0.75)), fmt.Sprint(len(s))}
}

func (r *overheadRun) remarks() []string {
	origin := fmt.Sprintf("Weights: %s.", r.Origin)
	if r.Frontier == nil {
		origin += " Subnetworks: random, as large as evenly spaced budgets of MACs allow; nobody has judged them, and their statistics have the true sizes and no meaning."
	} else {
		origin += " Subnetworks: of the frontier, the closest to evenly spaced MACs, with their own statistics."
	}
	var slower []float64
	for i := range r.first {
		slower = append(slower, r.first[i].median()/r.steady[i].median()-1)
	}
	list := []string{
		origin,
		"All ways took turns. Times are medians over all subnetworks; a switch is one of 1000 timed together. Files were read from the page cache, not from a disk.",
		fmt.Sprintf("Caches: the time of an inference right after a switch differs by %+.1f %% from that of the next one (median over subnetworks). Every reloaded network gave the same answers as the subnetwork, bit for bit.", 100*sample(slower).median()),
		"The paper says neither which width its mobilenet_v2 has here nor which input size; it trains width 1.4 on ImageNet. KB and MB are powers of ten.",
	}
	if r.peer == nil {
		return append(list, fmt.Sprintf("ONNX Runtime was not measured: %s. Name a program that has it with --python or --node.", r.noPeer))
	}
	return append(list, fmt.Sprintf("ONNX Runtime %s ran in a process of its own, called from %s: all graph optimisations, sequential, %s.", r.peer.Version, r.peer.Language, plural(r.Threads, "thread")))
}

// bars draws what was found beside what the paper has.
func (r *overheadRun) bars(count, choices, statistics int, networks int64, session string) plot.Bars {
	storage := plot.Panel{Label: "bytes", Bars: []plot.Bar{
		{Name: "configurations", Value: float64(choices), Text: size(float64(choices))},
		{Name: "paper: configurations", Value: paperChoices, Text: size(paperChoices), Claim: true},
		{Name: "statistics", Value: float64(max(statistics, 1)), Text: size(float64(statistics))},
		{Name: "shared weights", Value: float64(r.supernetBytes), Text: size(float64(r.supernetBytes)), Series: 2},
		{Name: "separate networks", Value: float64(networks), Text: size(float64(networks)), Series: 1},
		{Name: "paper: separate networks", Value: paperNetworks, Text: size(paperNetworks), Series: 1, Claim: true},
	}}
	change := plot.Panel{Label: "milliseconds"}
	add := func(name string, ms float64, series int, claim bool) {
		if !math.IsNaN(ms) && ms > 0 {
			change.Bars = append(change.Bars, plot.Bar{Name: name, Value: ms, Text: milliseconds(ms / 1000), Series: series, Claim: claim})
		}
	}
	add("switch", 1000*r.switched.median(), 0, false)
	add("switch, never planned", 1000*r.planned.median(), 0, false)
	add("paper: switch", paperSwitch, 0, true)
	add("one inference", 1000*all(r.steady).median(), 2, false)
	add("reload", 1000*all(r.reload).median(), 1, false)
	if session != "" {
		add("ONNX Runtime: session", 1000*all(r.create).median(), 1, false)
	}
	add("paper: reload", paperReload, 1, true)
	return plot.Bars{Title: fmt.Sprintf("%d subnetworks of %s: to store and to change", count, r.frontier.Network.Name()), Panels: []plot.Panel{storage, change}}
}

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}

// size is bytes as the paper gives them.
func size(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", n/1e6)
	case n >= 1e5:
		return fmt.Sprintf("%.0f KB", n/1e3)
	case n >= 1e3:
		return fmt.Sprintf("%.1f KB", n/1e3)
	}
	return fmt.Sprintf("%.0f B", n)
}

// milliseconds writes seconds as the paper gives them, with two or three digits.
func milliseconds(s float64) string {
	ms := 1000 * s
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.2f ms", ms)
	}
	digits := 1 - int(math.Floor(math.Log10(max(ms, 1e-9))))
	return fmt.Sprintf("%.*f ms", digits, ms)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
