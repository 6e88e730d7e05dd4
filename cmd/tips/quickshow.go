package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tips/demo"
	"tips/frontier"
	"tips/judge"
	"tips/plot"
	"tips/report"
	"tips/search"
	"tips/train"
)

// quickTraining shows step 2 of a quickstart: a line an epoch, and a bar where
// somebody looks.
type quickTraining struct {
	*quickOptions
	train.Nobody
	start  train.Start
	began  time.Time
	line   *liveLine // nil if there is nothing to wait for
	headed bool
}

func (q *quickTraining) Started(s train.Start) {
	q.start, q.began = s, time.Now()
	q.title("2. Train: the network and its subnetworks at once")
	switch {
	case s.Step == s.Steps:
		q.say("%s holds a finished training, which is kept; --fresh would start again.", q.out)
		return
	case s.Step > 0:
		q.say("Going on after step %d of %d.", s.Step, s.Steps)
	}
	q.say("%d %s, %s of %d, %s. Accuracy of some subnetworks on the %d test images:",
		s.TrainImages, q.images, plural(s.Steps, "step"), s.Batch, plural(s.Threads, "thread"), s.JudgedOn)
	fmt.Fprintln(q.stdout)
	q.line = newLiveLine(q.stderr, "training", s.Step, s.Steps)
}

func (q *quickTraining) Stepped(r train.StepRecord) { q.line.set(r.Number + 1) }

func (q *quickTraining) Evaluated(r train.EvaluationRecord) {
	q.clear()
	line := func(first string, cell func(train.Result) string, last string) {
		for _, x := range r.Results {
			first += fmt.Sprintf("%11s", cell(x))
		}
		fmt.Fprintf(q.stdout, "%s   %s\n", first, last)
	}
	if !q.headed {
		q.headed = true
		line("       ", func(x train.Result) string { return count(x.MACs) }, "MACs")
		line("  epoch", func(x train.Result) string { return x.Name }, "time left")
	}
	took := time.Since(q.began).Seconds()
	left := took / float64(max(r.Steps-q.start.Step, 1)) * float64(q.start.Steps-r.Steps)
	line(fmt.Sprintf("%5d/%d", r.Epoch, q.start.Steps/q.start.StepsPerEpoch), func(x train.Result) string { return fmt.Sprintf("%.1f %%", 100*x.Accuracy) }, duration(left))
}

// clear takes the line of progress away.
func (q *quickTraining) clear() {
	if q.line != nil {
		q.line.clear()
	}
}

// About so many rows of a frontier are printed; the report has all.
const mostRows = 12

// showFrontier prints what a search found: as a table, and drawn.
func (o *quickOptions) showFrontier(f *frontier.Frontier, r *search.Result, chart plot.Chart, j *judge.Judge) error {
	o.say("%s judged by %d %s images, which training has not seen. No other beats these %d in both accuracy and MACs:",
		plural(r.Evaluations, "subnetwork"), j.Images(), j.On(), len(f.Points))
	most := f.Points[len(f.Points)-1].Costs.MACs
	sign := "±"
	if o.show.ascii {
		sign = "+-"
	}
	fmt.Fprintf(o.stdout, "\n%4s  %-12s %9s %11s  %-12s  %s\n", "#", "accuracy", "MACs", "parameters", "", "widths of its groups")
	shown := mostRows
	if len(f.Points) <= mostRows+2 { // to leave out one or two would save no room
		shown = len(f.Points)
	}
	rows := spread(len(f.Points), shown)
	for _, i := range rows {
		p := f.Points[i]
		accuracy := fmt.Sprintf("%.1f %s %.1f %%", 100*p.Accuracy, sign, 100*p.Error())
		widths, _ := strings.CutPrefix(p.Subnet.String(), "w")
		fmt.Fprintf(o.stdout, "%4d  %s %9s %11s  %s  %s\n", i+1, padded(accuracy, 12), count(p.Costs.MACs), count(p.Costs.Params),
			padded(o.show.bar(float64(p.Costs.MACs)/float64(most), 12), 12), o.show.shortened(widths, o.show.width-56))
	}
	if n := len(f.Points) - len(rows); n > 0 {
		fmt.Fprintf(o.stdout, "      and %d more in the report\n", n)
	}
	fmt.Fprintln(o.stdout)
	return chart.WriteText(o.stdout, plot.TextOptions{Width: o.show.width - 2, Height: 12, ASCII: o.show.ascii, Colour: o.show.colour})
}

// spread is the numbers from 0 up to n, or most of them, evenly, with the first and the
// last.
func spread(n, most int) []int {
	list := make([]int, min(n, most))
	for i := range list {
		list[i] = i
		if n > most {
			list[i] = (i*(n-1) + (most-1)/2) / (most - 1)
		}
	}
	return list
}

// padded fills text up with blanks, by characters.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}

// quickDemo shows a demo, a line a budget.
type quickDemo struct {
	out   io.Writer
	show  screen
	front *frontier.Frontier
	most  time.Duration // the longest median so far
}

func (q *quickDemo) head() {
	fmt.Fprintf(q.out, "%3s  %7s   %13s %9s %9s %8s %8s\n", "s", "budget", "runs", "images/s", "accuracy", "in time", "time")
}

// demoWidth is how wide a line of it is. A longer line than the terminal's cannot be
// written again.
const demoWidth = 80

func (q *quickDemo) period(number int, p demo.Period, ended bool) {
	live := q.show.live && q.show.width >= demoWidth
	if !ended && !live {
		return
	}
	q.most = max(q.most, p.Median)
	budget := "none"
	if p.Time > 0 {
		budget = q.micro(p.Time)
	} else if p.MACs > 0 {
		budget = count(p.MACs)
	}
	kept := "-"
	if p.Time > 0 {
		kept = fmt.Sprintf("%.0f %%", 100*float64(p.Kept)/float64(p.Pictures))
	}
	runs := fmt.Sprintf("#%-3d%9s", 1+slices.IndexFunc(q.front.Points, func(x frontier.Point) bool { return x.Subnet.String() == p.Subnet }), count(p.Cost))
	line := fmt.Sprintf("%3d  %7s   %13s %9.0f %7.1f %% %8s %8s  %s", number+1, budget, runs, p.Rate(), 100*p.Accuracy(), kept,
		q.micro(p.Median), q.show.styled("94", q.show.bar(float64(p.Median)/float64(q.most), 12)))
	if live {
		line = "\r" + line + "\x1b[K"
	}
	if ended {
		line += "\n"
	}
	fmt.Fprint(q.out, line)
}

// micro is a time in microseconds.
func (q *quickDemo) micro(d time.Duration) string {
	unit := "µs"
	if q.show.ascii {
		unit = "us"
	}
	return fmt.Sprintf("%.0f %s", float64(d)/1e3, unit)
}

// next says what there is and what to do with it.
func (o *quickOptions) next() error {
	r, err := report.Open(o.out)
	if err != nil {
		return err
	}
	o.say("Open %s in a browser: the graph, the curves, the frontier, and all of this.", o.file(report.File))
	o.title("What next")
	commands := r.Commands(self(os.Args[0]), o.file(picturesFolder))
	for _, c := range commands {
		fmt.Fprintf(o.stdout, "  %s\n      %s\n", c.Line, c.What)
	}
	return nil
}

// self is how the program is called, from what it was called as: go run builds it in
// a folder that will be gone.
func self(called string) string {
	if strings.Contains(filepath.ToSlash(called), "/go-build") {
		return "go run ./cmd/tips"
	}
	return called
}
