package report

import (
	"fmt"
	"time"
)

// Commands are what can be done with a run that has a frontier, as command lines;
// pictures is a folder of some to try, empty if there is none.
func (r *Report) Commands(pictures string) []Command {
	if r.Frontier == nil {
		return nil
	}
	run := quoted(r.Run)
	var list []Command
	if pictures != "" {
		list = append(list,
			Command{fmt.Sprintf("tips run %s %s", run, quoted(pictures)), "what the pictures show, by the most accurate subnetwork"},
			Command{fmt.Sprintf("tips run %s %s --budget %s", run, quoted(pictures), r.budget()), "the same within a budget; see what it takes, and what it gets wrong"})
	}
	list = append(list,
		Command{fmt.Sprintf("tips eval %s", run), "judge the whole frontier by the test images"},
		Command{fmt.Sprintf("tips export %s --go classify", run), "a Go program with the anytime network within it"},
		Command{fmt.Sprintf("tips export %s --subnet 1 --onnx smallest.onnx", run), "the first subnetwork as an ONNX model of its own"},
		Command{fmt.Sprintf("tips search %s --evaluations 300", run), "go on searching"},
		Command{"tips train --list", "other networks and data, among them those of the paper's tables"})
	return list
}

// budget is one that cuts the frontier in the middle: in time if that is known.
func (r *Report) budget() string {
	p := r.Frontier.Points[(len(r.Frontier.Points)-1)/2]
	if t := r.time(p); t > 0 {
		return fmt.Sprintf("%dus", max(1, t.Round(time.Microsecond).Microseconds()))
	}
	return fmt.Sprintf("%.2gM", float64(p.Costs.MACs)/1e6)
}
