package reproduce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tips/frontier"
	"tips/search/cost"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// searched trains a network for a moment and leaves a frontier beside it, with
// made-up accuracies.
func searched(t *testing.T, dir, method string, seed, points int) string {
	t.Helper()
	r, err := train.ReadRecipe(strings.NewReader(fmt.Sprintf(`version: 2
name: test
network: resnet_small:data=fashion-mnist,size=16,divisor=2
data: synthetic:train=64,test=32
seed: %d
epochs: 1
batch: 32
threads: 1
holdout: 32
method:
  name: %s
sgd:
  rate: 0.05
evaluate:
  subnets: [smallest]
  calibration: 32
`, seed, method)))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, fmt.Sprint(method, seed))
	if _, err := train.Run(context.Background(), train.Options{Recipe: r, Out: out}); err != nil {
		t.Fatal(err)
	}
	set, err := weights.Open(filepath.Join(out, train.WeightsFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := OverheadOptions{Weights: set, Subnets: points, Seed: uint64(seed)}
	f, err := o.drawFrontier()
	if err != nil {
		t.Fatal(err)
	}
	// With the latencies of a machine that takes a microsecond for each 1000 MACs.
	f.CPU, f.Threads = cost.CPU(), 1
	for i := range f.Points {
		p := &f.Points[i]
		*p = frontier.Judged(p.Subnet, 10+i, 32, p.Costs, p.Statistics)
		p.Costs.Latency = time.Duration(p.Costs.MACs)
	}
	if err := f.Save(filepath.Join(out, "net.frontier")); err != nil {
		t.Fatal(err)
	}
	return out
}

type fakeJudge struct{ asked *int }

func (j fakeJudge) Accuracy(_ context.Context, s supernet.Subnet) (correct, images int, _ *weights.Statistics, _ error) {
	*j.asked++
	return 500 + len(s.String()), 1000, nil, nil
}
func (fakeJudge) On() string   { return "test" }
func (fakeJudge) Close() error { return nil }

func table3Options(runs ...string) Table3Options {
	return Table3Options{Runs: runs, FrontierFile: "net.frontier", LatencyFile: "latency.json", Rows: 5, Repeats: 4, Time: time.Millisecond, Machine: "a machine"}
}

func TestTable3(t *testing.T) {
	dir := t.TempDir()
	tips := searched(t, dir, "tips", 1, 9)
	set, err := weights.Open(filepath.Join(tips, train.WeightsFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := frontier.Open(filepath.Join(tips, "net.frontier"), set.Network)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Table3(context.Background(), table3Options(tips))
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int {
		for i, h := range f.Header {
			if h == name {
				return i
			}
		}
		t.Fatalf("no column %q", name)
		return 0
	}
	number := func(row []string, name string) float64 {
		v, err := strconv.ParseFloat(row[column(name)], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	if len(f.Rows) != 5+10 {
		t.Fatalf("%d rows; want 5 of the run and 10 of the paper", len(f.Rows))
	}
	low, high := whole.Points[0].Costs.Latency, whole.Points[8].Costs.Latency
	for i, row := range f.Rows[:5] {
		// Chosen another way: points are sorted by latency, accuracies rise.
		budget := low + (high-low)*time.Duration(i)/4
		best := whole.Points[0]
		for _, p := range whole.Points {
			if p.Costs.Latency <= budget {
				best = p
			}
		}
		if row[column("subnetwork")] != best.Subnet.String() {
			t.Errorf("within %v: %s; want %s", budget, row[column("subnetwork")], best.Subnet)
		}
		if got := number(row, "predicted_ms"); got != ms(best.Costs.Latency) {
			t.Errorf("predicted %v ms; want %v", got, best.Costs.Latency)
		}
		if number(row, "accuracy") != best.Accuracy || number(row, "images") != 32 || row[column("judged_on")] != "held-out" {
			t.Errorf("row %v; want accuracy %v of 32 held-out images", row, best.Accuracy)
		}
		if l, m, h := number(row, "quartile1_ms"), number(row, "latency_ms"), number(row, "quartile3_ms"); !(0 < l && l <= m && m <= h) {
			t.Errorf("latency %v, middle half %v to %v", m, l, h)
		}
		if number(row, "runs") < 4 || number(row, "engine_ms") <= 0 {
			t.Errorf("row %v", row)
		}
	}
	if last := f.Rows[14]; last[0] != "paper: TIPS" || number(last, "latency_ms") != 413 || number(last, "accuracy") != 0.747 {
		t.Errorf("last row of the paper: %v", last)
	}
	if text := strings.Join(f.Remarks, " "); !strings.Contains(text, "flatters") || !strings.Contains(text, "the latency table that the frontier was made with") {
		t.Errorf("remarks: %s", text)
	}

	// Judged anew, each subnetwork once, by other images.
	asked := 0
	o := table3Options(tips)
	o.Rows = 3
	o.Judge = func(run string) (Judge, error) {
		if run != tips {
			t.Errorf("judge of %s", run)
		}
		return fakeJudge{&asked}, nil
	}
	judged, err := Table3(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if asked != 3 || judged.Rows[0][column("images")] != "1000" || judged.Rows[0][column("judged_on")] != "test" || !strings.Contains(strings.Join(judged.Remarks, " "), "None of them chose the subnetworks: held-out ones did") {
		t.Errorf("%d asked; row %v", asked, judged.Rows[0])
	}
	o.Judge = func(string) (Judge, error) { return nil, errors.New("no data") }
	if _, err := Table3(context.Background(), o); err == nil || err.Error() != "no data" {
		t.Errorf("without a judge: %v", err)
	}

	// Files by their names; another number of threads than the table's: the engine
	// predicts.
	o = table3Options()
	o.Weights, o.Frontier, o.Threads = filepath.Join(tips, train.WeightsFile), filepath.Join(tips, "net.frontier"), 2
	byEngine, err := Table3(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(byEngine.Remarks, " "), "predicted by the engine") {
		t.Errorf("remarks: %v", byEngine.Remarks)
	}
}

// TestTable3Methods: runs beside each other have the same budgets, and seeds of a
// method are averaged.
func TestTable3Methods(t *testing.T) {
	dir := t.TempDir()
	runs := []string{searched(t, dir, "tips", 1, 9), searched(t, dir, "joslim", 1, 7), searched(t, dir, "tips", 2, 8)}
	f, err := Table3(context.Background(), table3Options(runs...))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Rows) != 3*5+10 || len(f.Chart.Series) != 2 {
		t.Fatalf("%d rows and %d series; want 25 and 2", len(f.Rows), len(f.Chart.Series))
	}
	cell := func(run, i, column int) float64 {
		v, err := strconv.ParseFloat(f.Rows[run*5+i][column], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i := range 5 {
		if cell(0, i, 2) != cell(1, i, 2) || cell(0, i, 2) != cell(2, i, 2) {
			t.Errorf("budgets differ: %v, %v, %v", cell(0, i, 2), cell(1, i, 2), cell(2, i, 2))
		}
		// The two runs of tips come first, then joslim.
		if want, got := 50*(cell(0, i, 13)+cell(1, i, 13)), f.Chart.Series[0].Y[i]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("mean accuracy %v; want %v", got, want)
		}
		if want, got := 100*cell(2, i, 13), f.Chart.Series[1].Y[i]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("accuracy of joslim %v; want %v", got, want)
		}
	}
	if got := f.Findings[len(f.Findings)-1].Measured; !strings.Contains(got, "more accurate than joslim within ") {
		t.Errorf("finding: %s", got)
	}

	for name, wrong := range map[string]struct {
		change func(*Table3Options)
		want   string
		usage  bool
	}{
		"no run":        {func(o *Table3Options) { o.Runs = nil }, "nothing to measure", true},
		"rows":          {func(o *Table3Options) { o.Rows = 1 }, "--rows 1", true},
		"repeats":       {func(o *Table3Options) { o.Repeats = 0 }, "--repeats 0", true},
		"two frontiers": {func(o *Table3Options) { o.Frontier = "x" }, "several were named", true},
		"twice":         {func(o *Table3Options) { o.Runs = []string{runs[0], runs[0]} }, "both of tips, smallest with seed 1", false},
		"nowhere":       {func(o *Table3Options) { o.Runs = []string{filepath.Join(dir, "nowhere")} }, "want the folder of a training run", false},
		"other weights": {func(o *Table3Options) { o.Runs, o.Weights = runs[:1], filepath.Join(runs[1], train.WeightsFile) }, frontier.ErrMismatch.Error(), false},
	} {
		o := table3Options(runs...)
		wrong.change(&o)
		if _, err := Table3(context.Background(), o); err == nil || !strings.Contains(err.Error(), wrong.want) || IsUsage(err) != wrong.usage || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", name, err, wrong.want)
		}
	}
	if err := os.Remove(filepath.Join(runs[0], "net.frontier")); err != nil {
		t.Fatal(err)
	}
	if _, err := Table3(context.Background(), table3Options(runs[0])); err == nil || !strings.Contains(err.Error(), "'tips search "+runs[0]+"' finds it") {
		t.Errorf("not searched: %v", err)
	}
}
