package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"tips/frontier"
	"tips/supernet"
	"tips/supernet/zoo"
)

// Table1Options say which runs are compared, and at which budgets.
type Table1Options struct {
	// Runs are folders of finished training runs of one network that were searched, by
	// method and seed.
	Runs         []string
	FrontierFile string // what runs call their frontier
	SearchFile   string // and what they call the answers that it was chosen of

	// Judge gives what counts the accuracies of a run's subnetworks by test images.
	Judge func(run string) (Judge, error)

	At []int64 // budgets in MACs; nil: those of the paper for this network

	// Noise is a folder with folders of runs that are not in the table and tell more of
	// what chance does: those that were searched and differ from Runs in nothing but method,
	// seed and epochs. "": none.
	Noise string

	// Keep is a folder that gets a folder for each run, of the same name, with all but its
	// weights; "": none. Runs may be such folders.
	Keep string

	Progress func(done, total int) // in subnetworks to be judged; may be nil
}

// paperEpochs is how long the paper trains on CIFAR-100.
const paperEpochs = 200

// paperTable1 is what the paper reports for CIFAR-100, mean and deviation of three
// runs: the upper parts of Tables 1 and 2, with the deviations of its appendix.
var paperTable1 = []paperTable{
	{"mobilenet_v2:width=1.4,data=cifar100", []int64{20e6, 30e6, 35e6, 40e6, 45e6, 50e6}, []paperRow{
		{"us-nets", "US-Nets", []float64{61.5, 62.9, 64.8, 65.5, 65.6, 66.5}, []float64{0.4, 0.6, 0.3, 0.3, 0.1, 0.1}},
		{"joslim", "Joslim", []float64{62.0, 62.7, 63.1, 63.7, 64.1, 65.0}, []float64{0.4, 0.4, 0.3, 0.2, 0.3, 0.2}},
		{"ds-net", "DS-Net", []float64{61.8, 63.8, 64.8, 65.3, 65.5, 66.7}, []float64{0.6, 0.3, 0.2, 0.2, 0.3, 0.2}},
		{"tips", "TIPS", []float64{66.4, 66.9, 67.0, 67.6, 67.7, 68.2}, []float64{0.5, 0.1, 0.1, 0.3, 0.1, 0.3}},
	}},
	{"resnet34:data=cifar100", []int64{120e6, 180e6, 200e6, 220e6, 240e6, 260e6}, []paperRow{
		{"us-nets", "US-Nets", []float64{63.1, 63.9, 64.4, 64.8, 65.0, 65.4}, []float64{0.2, 0.1, 0.3, 0.2, 0.1, 0.1}},
		{"joslim", "Joslim", []float64{65.8, 66.2, 66.7, 67.0, 67.3, 67.4}, []float64{0.1, 0.3, 0.4, 0.2, 0.4, 0.4}},
		{"ds-net", "DS-Net", []float64{64.4, 65.9, 66.2, 66.4, 66.5, 66.6}, []float64{0.3, 0.1, 0.3, 0.1, 0.3, 0.1}},
		{"tips", "TIPS", []float64{67.3, 67.4, 67.8, 67.9, 68.1, 68.2}, []float64{0.1, 0.2, 0.2, 0.3, 0.2, 0.3}},
	}},
}

// paperOneShot is the paper's table of one-shot NAS, which it has for mobilenet_v2 on
// ImageNet alone.
var paperOneShot = paperTable{"mobilenet_v2:width=1.4", []int64{260e6, 320e6, 400e6, 450e6, 500e6, 600e6}, []paperRow{
	{"ofa", "OFA", []float64{70.4, 71.4, 72.3, 72.8, 73.4, 74.0}, nil},
	{"tips", "TIPS", []float64{71.8, 73.2, 73.6, 74.0, 74.3, 74.7}, nil},
}}

// paperTable is a table of the paper: accuracies by budget.
type paperTable struct {
	network string
	budgets []int64 // MACs
	rows    []paperRow
}

type paperRow struct {
	method, name        string    // ours, the paper's
	accuracy, deviation []float64 // %
}

// row is that of a method, nil if there is none.
func (t *paperTable) row(method string) *paperRow {
	for i := range t.rows {
		if t.rows[i].method == method {
			return &t.rows[i]
		}
	}
	return nil
}

// at is where a budget stands, -1 if the paper has another.
func (t *paperTable) at(budget int64) int { return slices.Index(t.budgets, budget) }

// paperOf finds the table of a network: of the same model at the same cost, whatever
// may be left out of it. It has no rows if there is none.
func paperOf(n *supernet.Network) (paperTable, error) {
	for _, t := range paperTable1 {
		same, err := zoo.New(t.network)
		if err != nil {
			return paperTable{}, err
		}
		if model(n.Name()) == model(t.network) && n.Full().Costs() == same.Full().Costs() {
			return t, nil
		}
	}
	return paperTable{}, nil
}

// table1Run is a run and its subnetworks that are in the table.
type table1Run struct {
	*run
	cells         []*table1Cell // by budget; nil: nothing on its frontier is that cheap
	smallest, own *table1Cell   // the network's smallest, and the method's; the latter nil where it is the same
}

// table1Cell is a subnetwork in the table.
type table1Cell struct {
	choice string         // why it is there
	budget int64          // 0: none
	chosen frontier.Point // as the frontier has it; without accuracy where it chose nothing
	tested frontier.Point // by test images
}

// Why a subnetwork is in the table.
const (
	bestWithin  = "best within budget"
	allSmallest = "smallest"
	ownSmallest = "own smallest"
)

// Table1 is the form of the paper's Tables 1 and 2 for CIFAR-100: for every budget of
// MACs, the most accurate subnetwork of each run's frontier by held-out images, and
// its accuracy by test images; mean and deviation over the seeds of a method.
func Table1(ctx context.Context, o Table1Options) (Figure, error) {
	frontiers := func(r *run) error { return r.readFrontier(o.FrontierFile) }
	searches := func(r *run) error { return r.readSearch(o.SearchFile) }
	opened, err := openRuns(o.Runs, (*run).readWeightsOrKept, frontiers, searches, (*run).checkHeldOut)
	if err != nil {
		return Figure{}, err
	}
	if o.Keep != "" {
		if err := keepable(opened, o.Keep); err != nil {
			return Figure{}, err
		}
	}
	n := opened[0].network
	paper, err := paperOf(n)
	if err != nil {
		return Figure{}, err
	}
	budgets := o.At
	if len(budgets) == 0 {
		if budgets = paper.budgets; len(budgets) == 0 {
			return Figure{}, usage{fmt.Errorf("%s is of %s, which the paper's tables for CIFAR-100 do not have; want %s or %s, or budgets of your own with --at",
				opened[0].dir, n.Name(), paperTable1[0].network, paperTable1[1].network)}
		}
	}
	others, err := otherRuns(o.Noise, opened, o.FrontierFile, (*run).readWeightsOrKept, frontiers, (*run).checkHeldOut)
	if err != nil {
		return Figure{}, err
	}
	var runs []*table1Run
	for _, r := range append(slices.Clone(opened), others...) {
		t := &table1Run{run: r}
		if err := t.choose(budgets); err != nil {
			return Figure{}, fmt.Errorf("%s: %w", r.dir, err)
		}
		runs = append(runs, t)
	}
	if err := table1Judge(ctx, runs, o); err != nil {
		return Figure{}, err
	}
	runs, beside := runs[:len(opened)], runs[len(opened):]
	if o.Keep != "" {
		for _, r := range runs {
			if err := r.keep(o); err != nil {
				return Figure{}, fmt.Errorf("keeping %s: %w", r.dir, err)
			}
		}
	}
	return table1Figure(runs, beside, budgets, paper), nil
}

// readWeightsOrKept reads what there is.
func (r *run) readWeightsOrKept() error {
	if kept, err := r.readKept(); kept || err != nil {
		return err
	}
	return r.readWeights()
}

// keepable reads the metrics of runs that are to be kept, and refuses runs that would
// take each other's place.
func keepable(runs []*run, dir string) error {
	names := map[string]string{}
	for _, r := range runs {
		name := filepath.Base(filepath.Clean(r.dir))
		if other, taken := names[name]; taken {
			return fmt.Errorf("%s and %s would both be kept as %s", other, r.dir, filepath.Join(dir, name))
		}
		names[name] = r.dir
		if err := r.readMetrics(); err != nil {
			return err
		}
	}
	return nil
}

func (r *table1Run) keep(o Table1Options) error {
	var points []frontier.Point
	for _, c := range r.all() {
		points = append(points, c.tested)
	}
	// What was kept before may know more.
	for s, v := range r.tested {
		view, err := r.network.View(s, r.network.Input())
		if err != nil {
			return err
		}
		points = append(points, frontier.Judged(s, v.correct, v.images, frontier.CostsOf(view.Costs()), nil))
	}
	slices.SortStableFunc(points, func(a, b frontier.Point) int {
		return cmp.Or(cmp.Compare(a.Costs.MACs, b.Costs.MACs), cmp.Compare(a.Subnet.String(), b.Subnet.String()))
	})
	return r.run.keep(filepath.Join(o.Keep, filepath.Base(filepath.Clean(r.dir))), o, points)
}

// checkHeldOut refuses a frontier that test images may have chosen.
func (r *run) checkHeldOut() error {
	kept := r.recipe.Holdout
	if kept == 0 {
		return fmt.Errorf("%s kept no images back from training: its frontier was chosen by test images, by which it is to be judged; train with --set holdout=5000", r.dir)
	}
	for _, p := range r.frontier.Points {
		if p.Images > kept || p.Images == 0 {
			return fmt.Errorf("the frontier of %s was chosen by %s, and the run kept %d back; 'tips search %s --fresh' chooses by these", r.dir, plural(p.Images, "image"), kept, r.dir)
		}
	}
	return nil
}

// within is the most accurate point of the frontier within a budget, the cheapest of
// equals; nil if there is none.
func (r *table1Run) within(budget int64) *frontier.Point {
	var best *frontier.Point
	for i, p := range r.frontier.Points {
		if p.Costs.MACs > budget {
			continue
		}
		if best == nil || p.Accuracy > best.Accuracy || p.Accuracy == best.Accuracy && p.Costs.MACs < best.Costs.MACs {
			best = &r.frontier.Points[i]
		}
	}
	return best
}

// choose takes the best point of the frontier within each budget, and the smallest
// subnetworks.
func (r *table1Run) choose(budgets []int64) error {
	for _, budget := range budgets {
		best := r.within(budget)
		if best == nil {
			r.cells = append(r.cells, nil)
			continue
		}
		r.cells = append(r.cells, &table1Cell{choice: bestWithin, budget: budget, chosen: *best})
	}
	at := func(choice string, s supernet.Subnet) (*table1Cell, error) {
		v, err := r.network.View(s, r.network.Input())
		if err != nil {
			return nil, err
		}
		return &table1Cell{choice: choice, chosen: frontier.Point{Subnet: s, Costs: frontier.CostsOf(v.Costs())}}, nil
	}
	own, another, err := r.recipe.OwnSmallest(r.network)
	if err != nil {
		return err
	}
	if r.smallest, err = at(allSmallest, r.network.Smallest()); err != nil || !another {
		return err
	}
	r.own, err = at(ownSmallest, own)
	return err
}

// all are the subnetworks in the table, those for budgets first.
func (r *table1Run) all() []*table1Cell {
	var list []*table1Cell
	for _, c := range append(slices.Clone(r.cells), r.smallest, r.own) {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// table1Judge judges the subnetworks of all runs by test images.
func table1Judge(ctx context.Context, runs []*table1Run, o Table1Options) error {
	total, done := 0, 0
	for _, r := range runs {
		total += len(r.all())
	}
	for _, r := range runs {
		if err := r.judge(ctx, o, func() {
			if done++; o.Progress != nil {
				o.Progress(done, total)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *table1Run) judge(ctx context.Context, o Table1Options, judged func()) error {
	var j Judge = keptJudge{r.run}
	if r.tested == nil {
		var err error
		if j, err = o.Judge(r.dir); err != nil {
			return err
		}
	}
	defer j.Close()
	var subnets []supernet.Subnet
	for _, c := range r.all() {
		subnets = append(subnets, c.chosen.Subnet)
	}
	verdicts, err := r.byTest(ctx, j, subnets, judged)
	if err != nil {
		return err
	}
	for i, c := range r.all() {
		c.tested = frontier.Judged(c.chosen.Subnet, verdicts[i].correct, verdicts[i].images, c.chosen.Costs, nil)
	}
	return nil
}

// judgedTogether is how many subnetworks a judge is asked about at once. One that can
// judge several together does; more would only be lost together by a kill.
const judgedTogether = 8

// byTest judges subnetworks by test images, those that stand there twice once. It calls
// judged after each, one call at a time.
func (r *run) byTest(ctx context.Context, j Judge, subnets []supernet.Subnet, judged func()) ([]verdict, error) {
	if j.On() != "test" {
		return nil, fmt.Errorf("reproduce: %s is judged by %s images; want test", r.dir, j.On())
	}
	places := map[supernet.Subnet][]int{}
	for i, s := range subnets {
		places[s] = append(places[s], i)
	}
	var (
		list  = make([]verdict, len(subnets))
		errs  = make([]error, len(subnets))
		turns = make(chan struct{}, judgedTogether)
		all   sync.WaitGroup
		mu    sync.Mutex
	)
	for i, s := range subnets {
		if places[s][0] != i {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			correct, images, _, err := j.Accuracy(ctx, s)
			if errs[i] = err; err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, place := range places[s] {
				list[place] = verdict{correct, images}
				judged()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
