package report

import (
	"fmt"
	"path/filepath"
)

// Commands are what can be done with a run that has a frontier, as command lines;
// program is what calls tips, pictures a folder of some to try, empty if there is none.
func (r *Report) Commands(program, pictures string) []Command {
	if r.Frontier == nil {
		return nil
	}
	run := quoted(r.Run)
	var list []Command
	add := func(what, format string, args ...any) {
		list = append(list, Command{program + " " + fmt.Sprintf(format, args...), what})
	}
	if pictures != "" {
		// A budget that some answers suffer from.
		budget := (r.Frontier.Points[(len(r.Frontier.Points)-1)/4].Costs.MACs + 999) / 1000
		add("what some pictures show, by the most accurate subnetwork", "run %s %s --top 1", run, quoted(pictures))
		add("the same within a budget of MACs; a time such as 1ms would do as well", "run %s %s --top 1 --budget %dk", run, quoted(pictures), budget)
	}
	add("how accurate the frontier is on the test images", "eval %s --frontier %s", run, quoted(filepath.Join(r.Run, FrontierFile)))
	add("a Go program with the anytime network within it", "export %s --go classify", run)
	add("its cheapest subnetwork as an ONNX model, truly smaller", "export %s --subnet 1 --onnx smallest.onnx", run)
	add("go on searching", "search %s --evaluations 300", run)
	add("other networks and data, among them those of the paper's tables", "train --list")
	return list
}
