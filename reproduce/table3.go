package reproduce

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"time"

	"tips/engine"
	"tips/frontier"
	"tips/nn"
	"tips/search/cost"
	"tips/supernet"
	"tips/weights"
)

// Table3Options say which frontiers are measured, and how thoroughly.
type Table3Options struct {
	// Runs are folders of training runs that were searched. Several are compared at
	// equal latencies: methods, and seeds of a method, which are averaged.
	Runs []string
	// Weights and Frontier are files to take instead of a run's.
	Weights, Frontier string
	// LatencyFile and FrontierFile are what runs call these.
	LatencyFile, FrontierFile string

	// Judge gives what counts accuracies of a run anew, by test images; nil leaves
	// those of the frontiers, by the images that chose them.
	Judge func(run string) (Judge, error)

	Rows    int // subnetworks, at evenly spaced latencies; the paper has 5
	Threads int // 0: those that the frontier's latencies are for, or 1
	Repeats int // measurements of each, at least
	Time    time.Duration
	Machine string // this machine, for people

	Progress func(share float64) // of measuring; may be nil
}

// table3Run is one frontier, and its subnetworks that are in the table.
type table3Run struct {
	*run
	name     string          // of the method, for people
	chosenOn string          // which images the frontier was chosen by
	on       string          // which images accuracies were counted on
	by       string          // whose predictions
	latency  []time.Duration // of all points, predicted
	cells    []table3Cell    // by budget
}

// table3Cell is a subnetwork in the table.
type table3Cell struct {
	budget    time.Duration
	point     frontier.Point // with the accuracy shown
	predicted time.Duration
	measured  cost.Times
	engine    sample // what the engine predicted before each of its runs, in seconds
	wrong     sample // by how much that was too long, as a share of what the run took
}

// Table3 is the form of the paper's Table 3: for a few latencies the most accurate
// subnetwork that keeps them, as predicted, with its latency measured on this
// machine.
func Table3(ctx context.Context, o Table3Options) (Figure, error) {
	for _, c := range []struct {
		name             string
		value, low, high int
	}{{"--rows", o.Rows, 2, 100}, {"--threads", o.Threads, 0, 128}, {"--repeats", o.Repeats, 1, 1_000_000}} {
		if err := within(c.name, c.value, c.low, c.high); err != nil {
			return Figure{}, err
		}
	}
	runs, err := o.open()
	if err != nil {
		return Figure{}, err
	}
	if o.Threads == 0 {
		o.Threads = max(1, runs[0].frontier.Threads)
	}
	for _, r := range runs {
		if err := r.predict(o); err != nil {
			return Figure{}, err
		}
	}
	for _, r := range runs {
		r.choose(table3Budgets(runs, o.Rows), len(runs) == 1)
	}
	for _, r := range runs {
		if err := r.judge(ctx, o); err != nil {
			return Figure{}, err
		}
	}
	if err := table3Measure(ctx, runs, o); err != nil {
		return Figure{}, err
	}
	return table3Figure(runs, o), nil
}

// open reads all runs.
func (o *Table3Options) open() ([]*table3Run, error) {
	if len(o.Runs) > 1 && (o.Weights != "" || o.Frontier != "") {
		return nil, usage{errors.New("--weights and --frontier are of one run; several were named")}
	}
	if len(o.Runs) == 0 {
		if o.Weights == "" || o.Frontier == "" {
			return nil, usage{errors.New("nothing to measure; name the folder of a training run that was searched, or --weights and --frontier")}
		}
		r := &run{}
		if err := o.read(r); err != nil {
			return nil, err
		}
		return []*table3Run{{run: r, name: filepath.Base(o.Frontier)}}, nil
	}
	opened, err := openRuns(o.Runs, o.read)
	if err != nil {
		return nil, err
	}
	var runs []*table3Run
	for _, r := range opened {
		t := &table3Run{run: r, name: r.method(), on: "test"}
		if r.recipe.Holdout > 0 {
			t.on = "held-out"
		}
		t.chosenOn = t.on
		runs = append(runs, t)
	}
	return runs, nil
}

// read reads weights and frontier, of the run or those of the options.
func (o *Table3Options) read(r *run) error {
	var err error
	if o.Weights == "" {
		err = r.readWeights()
	} else if r.weights, err = weights.Open(o.Weights, nil); err == nil {
		r.network = r.weights.Network
	}
	if err != nil {
		return err
	}
	if o.Frontier == "" {
		return r.readFrontier(o.FrontierFile)
	}
	r.frontier, err = openFrontier(o.Frontier, r.weights)
	return err
}

// predict takes the latencies of all points from the frontier, from a table beside
// it, or from an engine.
func (r *table3Run) predict(o Table3Options) error {
	r.latency = make([]time.Duration, len(r.frontier.Points))
	here := cost.ThisMachine(o.Threads)
	if f := r.frontier; f.CPU == here.CPU && f.Threads == o.Threads {
		known := true
		for i, p := range f.Points {
			r.latency[i] = p.Costs.Latency
			known = known && p.Costs.Latency > 0
		}
		if known {
			r.by = "the latency table that the frontier was made with"
			return nil
		}
	}
	if r.dir != "" {
		table, err := cost.Open(filepath.Join(r.dir, o.LatencyFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil && table.Covers(here) == nil {
			r.by = "the run's latency table"
			for i, p := range r.frontier.Points {
				v, err := r.network.View(p.Subnet, r.frontier.Input)
				if err != nil {
					return err
				}
				if r.latency[i], err = table.Predict(v); err != nil {
					return err
				}
			}
			return nil
		}
	}
	r.by = "the engine, after a moment of measuring"
	e, err := r.openEngine(o)
	if err != nil {
		return err
	}
	defer e.Close()
	for i, p := range r.frontier.Points {
		if r.latency[i], err = e.Predict(p.Subnet); err != nil {
			return err
		}
	}
	return nil
}

func (r *table3Run) openEngine(o Table3Options) (*engine.Engine, error) {
	return engine.New(r.weights, r.frontier, engine.Options{Threads: o.Threads, MaxConcurrent: 1, Measure: 300 * time.Millisecond})
}

// table3Budgets are latencies, evenly spaced: from the least that all runs can keep to
// the most that any needs.
func table3Budgets(runs []*table3Run, rows int) []time.Duration {
	var low, high time.Duration
	for _, r := range runs {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for _, d := range r.latency {
			least, most = min(least, d), max(most, d)
		}
		low, high = max(low, least), max(high, most)
	}
	budgets := make([]time.Duration, rows)
	for i := range budgets {
		budgets[i] = low + (high-low)*time.Duration(i)/time.Duration(rows-1)
	}
	return budgets
}

// choose takes the most accurate point within each budget, each once if asked to.
func (r *table3Run) choose(budgets []time.Duration, once bool) {
	last := -1
	for _, b := range budgets {
		best := -1
		for i, p := range r.frontier.Points {
			if r.latency[i] <= b && (best < 0 || p.Accuracy > r.frontier.Points[best].Accuracy || p.Accuracy == r.frontier.Points[best].Accuracy && r.latency[i] < r.latency[best]) {
				best = i
			}
		}
		if once && best == last {
			continue
		}
		last = best
		r.cells = append(r.cells, table3Cell{budget: b, point: r.frontier.Points[best], predicted: r.latency[best]})
	}
}

// table3Measure measures the subnetworks of all runs, which take turns. Weights make
// no difference: what several runs have is measured once.
func table3Measure(ctx context.Context, runs []*table3Run, o Table3Options) error {
	var programs []*nn.Program
	place := map[supernet.Subnet]int{}
	for _, r := range runs {
		model := nn.NewModel(r.weights)
		for _, c := range r.cells {
			if _, known := place[c.point.Subnet]; known {
				continue
			}
			p, err := model.Program(c.point.Subnet, r.frontier.Input, 1, c.point.Statistics)
			if err != nil {
				return err
			}
			place[c.point.Subnet] = len(programs)
			programs = append(programs, p)
		}
	}
	times, err := cost.Measure(ctx, programs, cost.MeasureOptions{Threads: o.Threads, Runs: o.Repeats, Time: o.Time, Progress: o.Progress})
	if err != nil {
		return err
	}
	for _, r := range runs {
		for i := range r.cells {
			r.cells[i].measured = times[place[r.cells[i].point.Subnet]]
		}
		if err := r.checkEngine(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// checkEngine compares what an engine predicts before each run with what the run
// takes.
func (r *table3Run) checkEngine(ctx context.Context, o Table3Options) error {
	e, err := r.openEngine(o)
	if err != nil {
		return err
	}
	defer e.Close()
	input, output := make([]float32, e.InputLen()), make([]float32, e.Classes())
	for range o.Repeats {
		for i := range r.cells {
			c := &r.cells[i]
			result, err := e.InferTo(ctx, output, input, engine.Budget{Subnet: &c.point.Subnet})
			if err != nil {
				return err
			}
			c.engine = append(c.engine, result.Predicted.Seconds())
			c.wrong = append(c.wrong, off(result.Predicted, result.Took))
		}
	}
	return nil
}

// judge counts the accuracies anew, where there is a judge.
func (r *table3Run) judge(ctx context.Context, o Table3Options) error {
	if o.Judge == nil || r.dir == "" {
		return nil
	}
	j, err := o.Judge(r.dir)
	if err != nil {
		return err
	}
	defer j.Close()
	r.on = j.On()
	known := map[supernet.Subnet]frontier.Point{}
	for i := range r.cells {
		p := r.cells[i].point
		judged, ok := known[p.Subnet]
		if !ok {
			correct, images, t, err := j.Accuracy(ctx, p.Subnet)
			if err != nil {
				return err
			}
			judged = frontier.Judged(p.Subnet, correct, images, p.Costs, t)
			known[p.Subnet] = judged
		}
		r.cells[i].point = judged
	}
	return nil
}
