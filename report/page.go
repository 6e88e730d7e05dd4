package report

import (
	"bytes"
	_ "embed" // the page's template and style
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"tips/demo"
	"tips/frontier"
	"tips/plot"
	"tips/supernet"
	"tips/train"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Style template.CSS
	Title string
	Run   string
	Tiles []tile

	Graph      template.HTML
	Operations int
	Important  int
	PathNodes  int
	TPS        string
	Groups     int
	Favoured   int

	Training []fact
	Curves   []template.HTML

	FrontierText string
	Frontier     template.HTML
	HasTimes     bool
	Points       []pointRow

	DemoText string
	Demo     []template.HTML
	Periods  []periodRow

	Storage []fact
	Next    []Command
}

// tile is a number that matters.
type tile struct{ Value, Name string }

type fact struct{ Name, Value string }

type pointRow struct {
	Number                         int
	Accuracy, Error, MACs, Share   string
	Params, Peak, Latency, Subnet  string
	AccuracyBar, CostBar, TimesBar float64 // per cent of the widest
}

type periodRow struct {
	Number                                               int
	Budget, MACs, Median, High, Rate, Kept, Accuracy, Of string
	AccuracyBar, TimeBar                                 float64
	Subnet                                               string
}

// Write writes the page.
func (r *Report) Write(w io.Writer) error {
	p := page{Style: template.CSS(pageStyle), Title: r.Network.Name(), Run: r.Run, Next: r.Next}
	for _, part := range []func(*page) error{r.graph, r.training, r.frontier, r.demo, r.storage} {
		if err := part(&p); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	r.tiles(&p)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// drawn is a picture as a part of the page.
func drawn(write func(io.Writer) error) (template.HTML, error) {
	var b bytes.Buffer
	err := write(&b)
	return template.HTML(b.String()), err
}

func chart(c plot.Chart, width, height float64) (template.HTML, error) {
	return drawn(func(w io.Writer) error { return c.WriteInline(w, plot.InlineOptions{Width: width, Height: height}) })
}

func (r *Report) graph(p *page) (err error) {
	a := r.Analysis
	if p.Graph, err = drawn(Graph(r.Network, a).WriteSVG); err != nil {
		return err
	}
	for _, is := range a.Important() {
		if is {
			p.Important++
		}
	}
	p.Operations, p.PathNodes, p.TPS = len(a.Graph.Edges()), len(a.Path.Nodes), fmt.Sprintf("%.4f", a.TPS())
	p.Groups, p.Favoured = len(r.Network.Groups()), len(a.FavouredGroups(r.Network))
	return nil
}

func (r *Report) training(p *page) error {
	if r.Recipe != nil {
		p.Training = append(p.Training, fact{"method", r.Recipe.Method.Name}, fact{"data", r.Recipe.Data})
	}
	if len(r.Records) == 0 {
		return nil
	}
	var last *train.EpochRecord
	for _, record := range r.Records {
		if record.Epoch != nil {
			last = record.Epoch
		}
	}
	if last != nil {
		p.Training = append(p.Training, fact{"epochs", fmt.Sprint(last.Number)}, fact{"steps", fmt.Sprint(last.Steps)},
			fact{"time", fmt.Sprintf("%d min %02d s", int(last.Seconds)/60, int(last.Seconds)%60)})
	}
	curves, err := train.Curves(r.Records)
	if err != nil {
		return nil // nothing to draw yet
	}
	for _, c := range curves {
		picture, err := chart(c, 540, 330)
		if err != nil {
			return err
		}
		p.Curves = append(p.Curves, picture)
	}
	return nil
}

func (r *Report) frontier(p *page) error {
	f := r.Frontier
	if f == nil {
		return nil
	}
	by := axisOf(f)
	line := plot.Series{Name: fmt.Sprintf("%d on the frontier", len(f.Points)), Bars: true, Steps: true, Deviation: []float64{}}
	for _, pt := range f.Points {
		line.X, line.Y = append(line.X, pt.Costs.Of(by.kind)/by.unit), append(line.Y, 100*pt.Accuracy)
		line.Deviation = append(line.Deviation, 100*pt.Error())
	}
	c := plot.Chart{Title: "Frontier", XLabel: by.label, YLabel: "accuracy (%)", Series: []plot.Series{line}}
	if len(r.Judged) > 0 && by.kind < frontier.Latency { // others cannot be counted
		judged := plot.Series{Name: fmt.Sprintf("%d judged", len(r.Judged)), Scatter: true}
		for _, a := range r.Judged {
			v, err := r.Network.View(a.Subnet, f.Input)
			if err != nil {
				return err
			}
			judged.X = append(judged.X, frontier.CostsOf(v.Costs()).Of(by.kind)/by.unit)
			judged.Y = append(judged.Y, 100*float64(a.Correct)/float64(a.Images))
		}
		c.Series = append(c.Series, judged)
	}
	var err error
	if p.Frontier, err = chart(c, 1100, 420); err != nil {
		return err
	}
	full, err := r.Network.View(supernet.Subnet{}, f.Input)
	if err != nil {
		return err
	}
	whole := full.Costs().MACs
	images := f.Points[0].Images
	p.FrontierText = fmt.Sprintf("Of the subnetworks judged, these %d are the ones that no other beats in both accuracy and %s.", len(f.Points), by.name)
	if images > 0 && r.JudgedOn != "" {
		p.FrontierText += fmt.Sprintf(" Accuracy is over %d %s images; bars are one standard error.", images, r.JudgedOn)
	}
	var slowest time.Duration
	var dearest int64
	for _, pt := range f.Points {
		slowest, dearest = max(slowest, r.time(pt)), max(dearest, pt.Costs.MACs)
	}
	p.HasTimes = slowest > 0
	for i, pt := range f.Points {
		row := pointRow{
			Number: i + 1, Accuracy: fmt.Sprintf("%.1f %%", 100*pt.Accuracy), MACs: count(pt.Costs.MACs), Params: count(pt.Costs.Params),
			Share: fmt.Sprintf("%.0f %%", 100*float64(pt.Costs.MACs)/float64(whole)), Peak: fmt.Sprintf("%.0f KiB", float64(pt.Costs.PeakBytes)/1024),
			Subnet: pt.Subnet.String(), AccuracyBar: 100 * pt.Accuracy, CostBar: 100 * float64(pt.Costs.MACs) / float64(dearest),
		}
		if pt.Images > 0 {
			row.Error = fmt.Sprintf("± %.1f", 100*pt.Error())
		}
		if t := r.time(pt); t > 0 {
			row.Latency, row.TimesBar = micro(t), 100*float64(t)/float64(slowest)
		}
		p.Points = append(p.Points, row)
	}
	return nil
}

// axis is a cost that a frontier is drawn over.
type axis struct {
	kind        frontier.Kind
	name, label string
	unit        float64
}

// axisOf is the first cost that accuracy was traded for.
func axisOf(f *frontier.Frontier) axis {
	switch k := f.By[0]; k {
	case frontier.Params:
		return axis{k, "parameters", "parameters (M)", 1e6}
	case frontier.WeightBytes:
		return axis{k, "bytes of weights", "weights (MiB)", 1 << 20}
	case frontier.PeakBytes:
		return axis{k, "memory", "peak memory of feature maps (KiB)", 1 << 10}
	case frontier.Latency:
		return axis{k, "time", "latency (µs)", 1e-6}
	case frontier.Energy:
		return axis{k, "energy", "energy (mJ)", 1e-3}
	case frontier.Own:
		return axis{k, f.OwnName, f.OwnName, 1}
	}
	return axis{frontier.MACs, "multiply-accumulates", "MACs (M)", 1e6}
}

// time is how long an inference of a point takes: by the table that it was searched
// with, or as the demo has measured; 0: unknown.
func (r *Report) time(p frontier.Point) time.Duration {
	if p.Costs.Latency > 0 || r.Trace == nil {
		return p.Costs.Latency
	}
	return r.Trace.Of(p.Subnet.String())
}

func (r *Report) demo(p *page) error {
	t := r.Trace
	if t == nil || len(t.Periods) == 0 {
		return nil
	}
	p.DemoText = fmt.Sprintf("One set of weights, one engine, %s, %d %s one at a time, again and again; only the budget changes. "+
		"The engine runs the most accurate subnetwork that fits: by its multiply-accumulates, or by the time that it predicts on this machine.",
		plural(t.Threads, "thread"), t.Pictures, t.On)
	var slowest time.Duration
	for _, q := range t.Periods {
		slowest = max(slowest, q.Median)
	}
	// over draws a quantity that stays for a budget's time; 0 is none.
	over := func(name string, of func(demo.Period) float64) plot.Series {
		s := plot.Series{Name: name, Steps: true}
		add := func(at time.Duration, v float64) {
			if v == 0 {
				v = math.NaN()
			}
			s.X, s.Y = append(s.X, at.Seconds()), append(s.Y, v)
		}
		for _, q := range t.Periods {
			add(q.Start, of(q))
		}
		last := t.Periods[len(t.Periods)-1]
		add(last.Start+last.Length, of(last))
		return s
	}
	dashed := func(s plot.Series) plot.Series {
		s.Dashed = true
		return s
	}
	charts := []plot.Chart{
		{Title: "Multiply-accumulates", YLabel: "MACs (M)", FromZero: true, Series: []plot.Series{
			over("of what runs", func(q demo.Period) float64 { return float64(q.Cost) / 1e6 }),
			dashed(over("budget", func(q demo.Period) float64 { return float64(q.MACs) / 1e6 }))}},
		{Title: "Time", YLabel: "µs an image", FromZero: true, Series: []plot.Series{
			over("median", func(q demo.Period) float64 { return us(q.Median) }),
			dashed(over("budget", func(q demo.Period) float64 { return us(q.Time) }))}},
		{Title: "Accuracy", YLabel: "accuracy (%)", Series: []plot.Series{
			over("of the images of that second", func(q demo.Period) float64 { return 100 * q.Accuracy() })}},
	}
	for _, c := range charts {
		c.XLabel = "seconds"
		picture, err := chart(c, 372, 270)
		if err != nil {
			return err
		}
		p.Demo = append(p.Demo, picture)
	}
	for i, q := range t.Periods {
		row := periodRow{
			Number: i + 1, Budget: "none", MACs: count(q.Cost), Median: micro(q.Median), High: micro(q.High), Subnet: q.Subnet,
			Rate: fmt.Sprintf("%.0f", q.Rate()), Accuracy: fmt.Sprintf("%.1f %%", 100*q.Accuracy()), Kept: "–", Of: fmt.Sprintf("%.0f %%", 100*q.Share),
			AccuracyBar: 100 * q.Accuracy(), TimeBar: 100 * float64(q.Median) / float64(max(slowest, 1)),
		}
		switch {
		case q.Time > 0:
			row.Budget = micro(q.Time)
		case q.MACs > 0:
			row.Budget = count(q.MACs) + " MACs"
		case q.Budget != "":
			row.Budget = q.Budget
		}
		if q.Time > 0 {
			row.Kept = fmt.Sprintf("%.1f %%", 100*float64(q.Kept)/float64(q.Pictures))
		}
		p.Periods = append(p.Periods, row)
	}
	return nil
}

func (r *Report) storage(p *page) error {
	if r.WeightsBytes == 0 {
		return nil
	}
	p.Storage = append(p.Storage, fact{"weights, once for all subnetworks", bytesize(r.WeightsBytes)})
	if r.Frontier == nil {
		return nil
	}
	sizes, err := r.Frontier.Sizes()
	if err != nil {
		return err
	}
	n := len(r.Frontier.Points)
	apart := int64(0)
	for _, pt := range r.Frontier.Points {
		apart += pt.Costs.WeightBytes
	}
	p.Storage = append(p.Storage,
		fact{fmt.Sprintf("which widths and blocks %d subnetworks have", n), bytesize(int64(sizes.Choices))},
		fact{"their costs and accuracies", bytesize(int64(sizes.Costs))},
		fact{"their batch-norm statistics", bytesize(int64(sizes.Statistics))},
		fact{"header and checksum", bytesize(int64(sizes.Header))},
		fact{fmt.Sprintf("for comparison: %d networks apart", n), bytesize(apart)})
	return nil
}

func (r *Report) tiles(p *page) {
	f := r.Frontier
	if f == nil || len(f.Points) == 0 {
		p.Tiles = []tile{{fmt.Sprint(p.Groups), "width groups"}, {fmt.Sprintf("%d of %d", p.Important, p.Operations), "operations on the important path"}}
		return
	}
	low, high := f.Points[0], f.Points[len(f.Points)-1]
	p.Tiles = []tile{
		{fmt.Sprintf("%.0f → %.0f %%", 100*low.Accuracy, 100*high.Accuracy), "accuracy along the frontier"},
		{fmt.Sprintf("%.1f×", high.Costs.Of(axisOf(f).kind)/low.Costs.Of(axisOf(f).kind)), "range of " + axisOf(f).name},
	}
	if a, b := r.time(low), r.time(high); a > 0 && b > 0 {
		p.Tiles = append(p.Tiles, tile{fmt.Sprintf("%.0f → %s", us(a), micro(b)), "an image, on this machine"})
	}
	sizes, err := f.Sizes()
	if err == nil {
		p.Tiles = append(p.Tiles, tile{bytesize(int64(sizes.Choices)), fmt.Sprintf("to store %d choices", len(f.Points))})
	}
	if r.WeightsBytes > 0 {
		p.Tiles = append(p.Tiles, tile{bytesize(r.WeightsBytes), "of weights for all of them"})
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// micro is a short time in microseconds, a longer one in milliseconds.
func micro(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", us(d)/1e3)
	case d >= 10*time.Microsecond:
		return fmt.Sprintf("%.0f µs", us(d))
	}
	return fmt.Sprintf("%.1f µs", us(d))
}

// count is a large number with a unit.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f G", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0f k", float64(n)/1e3)
	case n >= 1e3:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// bytesize is a number of bytes in binary units.
func bytesize(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
