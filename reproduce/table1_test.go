package reproduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/frontier"
	"tips/plot"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
	"tips/weights"
)

const table1Network = "resnet_small:width=16,data=fashion-mnist,size=8,divisor=2"

// table1Recipe is what madeUp writes, but for method and seed.
const table1Recipe = `version: 2
name: test
network: %s
data: synthetic:train=64,test=32
holdout: %d
epochs: %d
batch: 32
seed: %d
method: {name: %s, smallest: false}
sgd: {rate: %v}
augment: {}
evaluate: {calibration: %d}
`

// made are the parts of a run that tests change.
type made struct {
	network, method, frontier string // the last: the file to write it to; "": none
	seed, holdout, images     int
	epochs                    int // 0: 3
	rate                      float64
	calibration               int
	heldOut                   []float64 // accuracies of the frontier, in rising order of cost
}

// madeUp writes a run that nobody trained: random weights, and a frontier of uniform
// widths, cheapest first, with made-up accuracies.
func madeUp(t *testing.T, m made) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fmt.Sprint(m.method, m.seed))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n, err := zoo.New(m.network)
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, uint64(m.seed))
	var description, recipe, tensors bytes.Buffer
	recipe.WriteString(fmt.Sprintf(table1Recipe, m.network, m.holdout, max(m.epochs, 3), m.seed, m.method, m.rate, max(m.calibration, 64)))
	if err := errors.Join(n.Write(&description), set.Write(&tensors)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]*bytes.Buffer{train.RecipeFile: &recipe, train.NetworkFile: &description, train.WeightsFile: &tensors} {
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if m.frontier == "" {
		return dir
	}
	f := &frontier.Frontier{Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs}}
	for i, accuracy := range m.heldOut {
		s, err := n.Uniform(0.5 + 0.5*float64(i)/float64(len(m.heldOut)-1))
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		f.Points = append(f.Points, frontier.Judged(s, int(accuracy*float64(m.images)+0.5), m.images, frontier.CostsOf(v.Costs()), nil))
	}
	if err := f.Save(filepath.Join(dir, m.frontier)); err != nil {
		t.Fatal(err)
	}
	answers := fmt.Sprintf(`{"format":"tips-search","version":1,"network":"%s","identity":"made up"}`+"\n", f.Network.Hash())
	for _, p := range f.Points {
		answers += fmt.Sprintf(`{"subnet":"%s","correct":%d,"images":%d}`+"\n", p.Subnet, p.Correct, p.Images)
	}
	if err := os.WriteFile(filepath.Join(dir, "search.state"), []byte(answers), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// madeUpJudge knows test accuracies by run and cost: the more MACs, the fewer right
// answers, so that what held-out images choose is not what test images would.
type madeUpJudge struct {
	network *supernet.Network
	plus    int
	on      string
}

func (j madeUpJudge) Accuracy(_ context.Context, s supernet.Subnet) (int, int, *weights.Statistics, error) {
	v, err := j.network.View(s, j.network.Input())
	if err != nil {
		return 0, 0, nil, err
	}
	full := j.network.Full().Costs().MACs
	return 900 + j.plus - int(100*v.Costs().MACs/full), 1000, nil, nil
}
func (j madeUpJudge) On() string { return j.on }
func (madeUpJudge) Close() error { return nil }

func TestTable1(t *testing.T) {
	n, err := zoo.New(table1Network)
	if err != nil {
		t.Fatal(err)
	}
	usual := made{network: table1Network, method: "tips", frontier: "net.frontier", seed: 1, holdout: 32, images: 20, rate: 0.05, heldOut: []float64{0.5, 0.6, 0.7}}
	with := func(change func(*made)) string {
		m := usual
		change(&m)
		return madeUp(t, m)
	}
	runs := []string{
		with(func(m *made) {}),
		with(func(m *made) { m.seed = 2 }),
		with(func(m *made) { m.method = "us-nets" }),
		with(func(m *made) { m.method, m.heldOut = "ofa", []float64{0.5, 0.6} }), // its cheapest is the same
	}
	plus := map[string]int{runs[0]: 20, runs[1]: 40, runs[2]: 10}
	var at []int64 // budgets: below all, at the cheapest, just below the full network, above it
	half, err := n.Uniform(0.5)
	if err != nil {
		t.Fatal(err)
	}
	v, err := n.View(half, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	cheapest, full := v.Costs().MACs, n.Full().Costs().MACs
	at = []int64{cheapest - 1, cheapest, full - 1, 2 * full}
	var progress []int
	o := Table1Options{
		Runs: runs, FrontierFile: "net.frontier", SearchFile: "search.state", At: at,
		Judge:    func(run string) (Judge, error) { return madeUpJudge{n, plus[run], "test"}, nil },
		Progress: func(done, total int) { progress = append(progress, done, total) },
	}
	f, err := Table1(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	goldenFigure(t, f, "table1")
	if want := 2*(3+2) + 2*(3+1); progress[len(progress)-2] != want || progress[len(progress)-1] != want {
		t.Errorf("%v of %v judged; want %d", progress[len(progress)-2], progress[len(progress)-1], want)
	}
	// By held-out images the widest is best and by test images the narrowest: the first
	// choose, the second are told.
	for _, row := range f.Rows {
		if row[2] == bestWithin && row[0] == "tips" && row[3] == fmt.Sprint(2*full) && (row[4] != "full" || row[7] != "0.7" || row[9] != map[string]string{"1": "0.82", "2": "0.84"}[row[1]]) {
			t.Errorf("above the full network's cost there is %v", row)
		}
	}
	if len(f.Chart.Series) != 3 || len(f.Chart.Series[0].X) != 3 || f.Chart.Series[0].Y[2] != 83 || math.Abs(f.Chart.Series[0].Deviation[2]-math.Sqrt2) > 1e-9 {
		t.Errorf("drawn is %+v", f.Chart.Series)
	}
	if sheet := f.Picture.(plot.Sheet); len(sheet) != 2 || len(sheet[1].Series) != 3 {
		t.Errorf("drawn are %d charts: %+v", len(sheet), sheet)
	}

	// Kept without weights they give the same table, and can be kept again.
	for _, dir := range runs {
		if err := os.WriteFile(filepath.Join(dir, train.MetricsFile), []byte("{\"step\":{\"number\":0,\"epoch\":0,\"rate\":1,\"loss\":2,\"norm\":3,\"lessons\":null,\"seconds\":1}}\n{\"epoch\":{\"number\":1,\"steps\":1,\"loss\":2,\"label\":1,\"accuracy\":0.5,\"seconds\":1}}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keeping := o
	for range 2 {
		keeping.Keep = t.TempDir()
		if f, err = Table1(context.Background(), keeping); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/table1.csv", csvOf(t, f))
		keeping.Runs = nil
		for _, dir := range runs {
			kept := filepath.Join(keeping.Keep, filepath.Base(dir))
			keeping.Runs = append(keeping.Runs, kept)
			if _, err := os.Stat(filepath.Join(kept, train.WeightsFile)); err == nil {
				t.Errorf("%s has weights", kept)
			}
		}
		keeping.Judge = nil
		if f, err := Fig4b(Fig4bOptions{Runs: keeping.Runs}); err != nil || len(f.Rows) != len(runs) {
			t.Errorf("figure of runs that were kept: %v; %d rows", err, len(f.Rows))
		}
	}
	keeping.At = []int64{(cheapest + full) / 2}
	if _, err := Table1(context.Background(), keeping); err != nil { // what is best there, the others had judged
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(keeping.Runs[0], testedFile), []byte("subnetwork,macs,correct,images\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Table1(context.Background(), keeping); err == nil || !strings.Contains(err.Error(), "has no verdict on") {
		t.Errorf("without verdicts: %v", err)
	}
	twice := o
	twice.Keep, twice.Runs = t.TempDir(), []string{runs[0], with(func(m *made) { m.method = "us-nets" })}
	if err := os.Rename(twice.Runs[1], filepath.Join(filepath.Dir(twice.Runs[1]), filepath.Base(runs[0]))); err != nil {
		t.Fatal(err)
	}
	twice.Runs[1] = filepath.Join(filepath.Dir(twice.Runs[1]), filepath.Base(runs[0]))
	if _, err := Table1(context.Background(), twice); err == nil || !strings.Contains(err.Error(), "would both be kept as") {
		t.Errorf("two runs of one name: %v", err)
	}

	for name, c := range map[string]struct {
		runs  []string
		judge string
		at    []int64
		usage bool
		want  string
	}{
		"none":              {nil, "test", at, true, "no runs to compare"},
		"no paper":          {runs, "test", nil, true, "which the paper's tables for CIFAR-100 do not have; want mobilenet_v2:width=1.4,data=cifar100 or resnet34:data=cifar100, or budgets of your own with --at"},
		"twice":             {[]string{runs[0], runs[0]}, "test", at, false, "are both of tips with seed 1"},
		"no frontier":       {[]string{with(func(m *made) { m.frontier = "" })}, "test", at, false, "net.frontier is missing; 'tips search "},
		"other rate":        {[]string{runs[0], with(func(m *made) { m.method, m.rate = "us-nets", 0.1 })}, "test", at, false, "differ in more than method and seed: sgd.rate is 0.05 and 0.1; not to be compared"},
		"other calibration": {[]string{runs[0], with(func(m *made) { m.method, m.calibration = "us-nets", 128 })}, "test", at, false, "evaluate.calibration is 64 and 128; not to be compared"},
		"other network":     {[]string{runs[0], with(func(m *made) { m.method, m.network = "us-nets", table1Network+",min=0.3" })}, "test", at, false, "differ in more than method and seed: network is " + table1Network},
		"longer":            {[]string{runs[0], with(func(m *made) { m.epochs = 9 })}, "test", at, false, "differ in more than method and seed: epochs is 3 and 9"},
		"no held-out":       {[]string{with(func(m *made) { m.holdout = 0 })}, "test", at, false, "kept no images back from training"},
		"too many":          {[]string{with(func(m *made) { m.images = 40 })}, "test", at, false, "was chosen by 40 images, and the run kept 32 back"},
		"wrong images":      {runs[:1], "held-out", at, false, "is judged by held-out images; want test"},
		"nowhere":           {[]string{"nowhere"}, "test", at, false, "want the folder of a training run"},
	} {
		bad := o
		bad.Runs, bad.At = c.runs, c.at
		bad.Judge = func(string) (Judge, error) { return madeUpJudge{n, 0, c.judge}, nil }
		_, err := Table1(context.Background(), bad)
		if err == nil || !strings.Contains(err.Error(), c.want) || IsUsage(err) != c.usage {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	failing := errors.New("no judge today")
	o.Judge = func(string) (Judge, error) { return nil, failing }
	if _, err := Table1(context.Background(), o); !errors.Is(err, failing) {
		t.Errorf("a judge that fails: %v", err)
	}
}

// TestTable1Noise: runs that are not in the table tell of chance, if nothing but
// method, seed and epochs differs and there are two of them or one in the table.
func TestTable1Noise(t *testing.T) {
	n, err := zoo.New(table1Network)
	if err != nil {
		t.Fatal(err)
	}
	run := func(m made) string {
		m.network, m.frontier, m.holdout, m.images, m.heldOut = table1Network, "net.frontier", 32, 20, []float64{0.5, 0.6, 0.7}
		m.rate = max(m.rate, 0.05)
		return madeUp(t, m)
	}
	runs := []string{run(made{method: "tips", seed: 1}), run(made{method: "us-nets", seed: 1})}
	others := t.TempDir()
	plus := map[string]int{runs[0]: 20, runs[1]: 10} // of 1000
	add := func(name string, m made, more int) {
		dir := filepath.Join(others, name)
		if err := os.Rename(run(m), dir); err != nil {
			t.Fatal(err)
		}
		plus[dir] = more
	}
	table := func() (Figure, error) {
		return Table1(context.Background(), Table1Options{
			Runs: runs, Noise: others, FrontierFile: "net.frontier", SearchFile: "search.state", At: []int64{2 * n.Full().Costs().MACs},
			Judge: func(run string) (Judge, error) {
				more, known := plus[run]
				if !known {
					t.Errorf("%s is judged", run)
				}
				return madeUpJudge{n, more, "test"}, nil
			},
		})
	}
	// None of these counts: a copy, one of its kind, another rate, another file.
	add("copy", made{method: "tips", seed: 1}, -100)
	add("alone", made{method: "joslim", seed: 1}, -100)
	add("rate", made{method: "us-nets", seed: 2, rate: 0.1}, -100)
	if err := os.WriteFile(filepath.Join(others, "notes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := table(); err == nil || !strings.Contains(err.Error(), "has no run that is not in the table, was searched, differs from") {
		t.Errorf("without any: %v", err)
	}
	// Two apart by 0.2 points around their mean, longer; one apart by 0.4 from one in the table.
	add("long 1", made{method: "joslim", seed: 1, epochs: 9}, 0)
	add("long 2", made{method: "joslim", seed: 2, epochs: 9}, 4)
	add("second", made{method: "us-nets", seed: 2}, 14)
	f, err := table()
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Chart.Series) != 2 || f.Chart.Series[1].Y[0] != 81 {
		t.Errorf("others are in the chart: %+v", f.Chart.Series)
	}
	// Each pair deviates by 0.4/√2, with one degree of freedom.
	text := strings.Join(f.Remarks, "\n")
	for _, want := range []string{"deviate by 0.3 points (2 degrees of freedom)", "That is by 3 runs of 3, 9 epochs as well, which are not in the table"} {
		if !strings.Contains(text, want) {
			t.Errorf("the remarks do not say %q:\n%s", want, text)
		}
	}
	others = filepath.Join(others, "nowhere")
	if _, err := table(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--noise") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestPaperTable1: the paper's tables are found by their networks, whatever range
// widths have, and stand beside what was measured.
func TestPaperTable1(t *testing.T) {
	for name, want := range map[string]int64{
		"mobilenet_v2:width=1.4,data=cifar100": 20e6, "mobilenet_v2:width=1.4,data=cifar100,min=0.25": 20e6, "resnet34:data=cifar100": 120e6,
		"mobilenet_v2:data=cifar100": 0, "resnet18:data=cifar100": 0, "mobilenet_v2:width=1.4": 0,
	} {
		n, err := zoo.New(name)
		if err != nil {
			t.Fatal(err)
		}
		table, err := paperOf(n)
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 && table.budgets != nil || want > 0 && (len(table.budgets) != 6 || table.budgets[0] != want) {
			t.Errorf("%s: budgets %v", name, table.budgets)
		}
	}
	for _, table := range append(paperTable1, paperOneShot) {
		ours := table.row("tips")
		for _, r := range table.rows {
			if len(r.accuracy) != len(table.budgets) || r.deviation != nil && len(r.deviation) != len(table.budgets) {
				t.Errorf("%s: %s has %d accuracies", table.network, r.name, len(r.accuracy))
			}
			for i := range r.accuracy {
				if r.method != "tips" && r.accuracy[i] >= ours.accuracy[i] {
					t.Errorf("%s: %s is not behind TIPS at %d, as the paper has it", table.network, r.name, table.budgets[i])
				}
			}
		}
	}
}

// TestNoise: the deviation of runs from their method's mean is pooled, and how few
// they are counts; without two runs of any method nothing is clear.
func TestNoise(t *testing.T) {
	n := noiseOf(estimate{deviation: 1, runs: 3}, estimate{runs: 1}, estimate{deviation: 2, runs: 2}, estimate{})
	if want := math.Sqrt((2*1.0 + 1*4.0) / 3); math.Abs(n.deviation-want) > 1e-12 || n.freedom != 3 {
		t.Errorf("deviation %v with %d degrees of freedom; want %v with 3", n.deviation, n.freedom, want)
	}
	one := func(mean, counting float64, runs int) estimate {
		return estimate{mean: mean, counting: counting, runs: runs}
	}
	for _, c := range []struct {
		noise       noise
		a, b        estimate
		err, chance float64 // with Student's t at 97.5 % from a printed table
	}{
		{noise{1, 2}, one(60, 0.1, 2), one(58, 0.1, 2), 1, 4.303},
		{noise{1, 10}, one(60, 0.1, 1), one(58, 0.1, 1), math.Sqrt2, 2.228 * math.Sqrt2},
		{noise{0.01, 1}, one(60, 0.5, 1), one(58, 0.5, 1), 0.5 * math.Sqrt2, 1.960 * 0.5 * math.Sqrt2}, // counting is the larger, and well known
		{noise{}, one(60, 0.5, 1), one(50, 0.5, 1), 0.5 * math.Sqrt2, math.Inf(1)},
	} {
		l := c.noise.lead(c.a, c.b)
		if l.points != c.a.mean-c.b.mean || math.Abs(l.err-c.err) > 1e-9 || !(math.Abs(l.chance-c.chance) < 1e-3 || l.chance == c.chance) {
			t.Errorf("%+v: %+v; want an error of %v, and chance up to %v", c, l, c.err, c.chance)
		}
		if l.clear() != (math.Abs(l.points) > c.chance) {
			t.Errorf("%+v: clear %v", l, l.clear())
		}
	}
}

// TestTable1Findings: leads and orders of made-up runs.
func TestTable1Findings(t *testing.T) {
	paper := paperTable1[0]
	n, err := zoo.New(paper.network)
	if err != nil {
		t.Fatal(err)
	}
	// A method has two runs, apart by what is said, around accuracies by budget.
	epochs := paperEpochs
	var made, beside []*table1Run // what was in the table last, and what is not in the next
	table := func(apart float64, methods ...any) string {
		table := &table1{budgets: paper.budgets, paper: paper, beside: beside}
		for i := 0; i < len(methods); i += 2 {
			var runs []*table1Run
			for _, sign := range []float64{-0.5, 0.5} {
				r := &table1Run{run: &run{network: n, recipe: &train.Recipe{Epochs: epochs, Method: train.MethodRecipe{Name: methods[i].(string)}}, frontier: &frontier.Frontier{}}, smallest: &table1Cell{}}
				for _, mean := range methods[i+1].([]float64) {
					p := frontier.Judged(n.Smallest(), int(100*(mean+sign*apart)), 10000, frontier.Costs{MACs: 1e6}, nil)
					r.cells = append(r.cells, &table1Cell{chosen: p, tested: p})
					r.frontier.Points = append(r.frontier.Points, p)
				}
				runs = append(runs, r)
			}
			table.methods = append(table.methods, table1MethodOf(methods[i].(string), runs, len(paper.budgets)))
			table.runs = append(table.runs, runs...)
		}
		made = table.runs
		table.compare()
		return textOf(Figure{Findings: table.findings(), Table: table.lines()})
	}
	tips := []float64{60, 61, 62, 63, 64, 65}
	early := func() string { // after fewer epochs than the paper's
		epochs = 60
		defer func() { epochs = paperEpochs }()
		return table(1, "tips", []float64{60, 60, 60, 60, 60, 60}, "joslim", []float64{60.5, 60, 59, 59, 59, 59})
	}
	known := func() string { // with shorter runs that lie farther apart
		epochs = 60
		table(6, "us-nets", []float64{59, 59, 59, 59, 59, 59})
		epochs, beside = paperEpochs, made
		defer func() { beside = nil }()
		return table(0.2, "tips", tips, "us-nets", []float64{59, 59, 59, 59, 59, 59})
	}
	golden(t, "testdata/table1-findings.txt", strings.Join([]string{
		"clear:", table(0.2, "tips", tips, "us-nets", []float64{59, 59, 59, 59, 59, 59}, "ofa", []float64{67, 67, 67, 67, 67, 67}),
		"by chance:", table(6, "tips", tips, "us-nets", []float64{59, 59, 59, 59, 59, 59}, "joslim", []float64{60, 60, 60, 60, 60, 60}),
		"behind at one budget:", table(0.2, "tips", tips, "ds-net", []float64{64, 59, 59, 59, 59, 59}),
		"more than the paper's:", table(0.2, "tips", []float64{70, 70, 70, 70, 70, 70}, "us-nets", []float64{60, 60, 60, 60, 60, 60}),
		"open, and less than the paper's:", table(1, "tips", []float64{60, 60, 60, 60, 60, 60}, "joslim", []float64{60.5, 60, 59, 59, 59, 59}),
		"the same after fewer epochs:", early(),
		"by shorter runs that are not in the table, less clear:", known(),
		"by default, and not as published:", table(0.2, byDefault, tips, "us-nets", []float64{59, 59, 59, 59, 59, 59}),
		"the other way round:", table(0.2, "tips", []float64{58, 58, 58, 58, 58, 58}, "us-nets", []float64{62, 62, 62, 62, 62, 62}),
	}, "\n"))
}

// FuzzTested: whatever a file of verdicts holds is refused, or makes sense.
func FuzzTested(f *testing.F) {
	n, err := zoo.New(table1Network)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("subnetwork,macs,correct,images\nfull,93856,5,10\nsmallest,14096,5,10\n")
	for _, bad := range []string{"", "a,b,c,d\n", "subnetwork,macs,correct,images\nfull,1,5,10\n", "subnetwork,macs,correct,images\nfull,93856,11,10\n", "subnetwork,macs,correct,images\nfull,93856,0,0\n",
		"subnetwork,macs,correct,images\nfull,93856,-1,1\n", "subnetwork,macs,correct,images\nfull,93856,1,2\nfull,93856,1,2\n", "subnetwork,macs,correct,images\nnothing,1,2,3\n", "subnetwork,macs,correct,images\nfull,93856\n"} {
		if _, err := readTested(strings.NewReader(bad), n); err == nil {
			f.Errorf("%q was read", bad)
		}
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readTested(strings.NewReader(text), n)
		for s, v := range list {
			if err != nil || n.Check(s) != nil || v.correct < 0 || v.correct > v.images || v.images < 1 {
				t.Errorf("%v: %v of %v (%v)", s, v.correct, v.images, err)
			}
		}
	})
}

// goldenFigure compares what a figure of made-up runs says with two files, and its name.
func goldenFigure(t *testing.T, f Figure, kind string) {
	t.Helper()
	golden(t, "testdata/"+kind+".csv", csvOf(t, f))
	golden(t, "testdata/"+kind+".txt", textOf(f))
	if want := kind + "-synthetic-resnet_small"; f.Name != want {
		t.Errorf("it is called %s; want %s", f.Name, want)
	}
}

// golden compares a text with a file, or writes it where TIPS_UPDATE is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("TIPS_UPDATE") != "" {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (TIPS_UPDATE=1 writes it anew):\n%s", name, diff)
	}
}

func csvOf(t *testing.T, f Figure) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// textOf is what a figure says to people.
func textOf(f Figure) string {
	var b strings.Builder
	for _, row := range f.Table {
		fmt.Fprintln(&b, strings.Join(row, " | "))
	}
	for _, finding := range f.Findings {
		fmt.Fprintf(&b, "%v (open: %v): %s: %s\n", finding.Holds, finding.Open, finding.Claim, finding.Measured)
	}
	for _, r := range f.Remarks {
		if at := strings.Index(r, string(filepath.Separator)); at == 0 { // the folder of a test
			r = "…/" + filepath.Base(r[:strings.Index(r, ":")]) + r[strings.Index(r, ":"):]
		}
		fmt.Fprintln(&b, r)
	}
	return b.String()
}
