package reproduce

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tips/train"
)

// TestMethods trains two methods for a moment and compares them.
func TestMethods(t *testing.T) {
	dir := t.TempDir()
	var runs []string
	for _, m := range []string{"tips", "us-nets"} {
		for seed := 1; seed <= 2; seed++ {
			r, err := train.ReadRecipe(strings.NewReader(fmt.Sprintf(`version: 2
name: test
network: resnet_small:width=8,data=fashion-mnist,size=16,divisor=4
data: synthetic:train=256,test=128
seed: %d
epochs: 2
batch: 32
threads: 1
method:
  name: %s
sgd:
  rate: 0.05
evaluate:
  calibration: 64
`, seed, m)))
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(dir, fmt.Sprint(m, seed))
			if _, err := train.Run(context.Background(), train.Options{Recipe: r, Out: out}); err != nil {
				t.Fatal(err)
			}
			runs = append(runs, out)
		}
	}
	o := MethodsOptions{Runs: runs, Candidates: 30, Images: 64, Threads: 2, Seed: 1}
	total := 0
	o.Progress = func(done, of int) { total = of }
	curves, frontiers, err := Methods(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(curves.Chart.Series) != 4 || len(curves.Chart.Series[0].X) != 2 {
		t.Errorf("%d curves of %d epochs; want 4 of 2", len(curves.Chart.Series), len(curves.Chart.Series[0].X))
	}
	if total != 4*30 {
		t.Errorf("%d candidates judged; want %d", total, 4*30)
	}
	if len(frontiers.Chart.Series) != 2 || len(frontiers.Findings) != 1 {
		t.Fatalf("%d frontiers and %d findings; want 2 and 1", len(frontiers.Chart.Series), len(frontiers.Findings))
	}
	if want := 2 * 2 * budgets; len(frontiers.Rows) != want {
		t.Fatalf("%d rows; want %d", len(frontiers.Rows), want)
	}
	for _, row := range frontiers.Rows {
		budget, _ := strconv.ParseInt(row[2], 10, 64)
		macs, _ := strconv.ParseInt(row[3], 10, 64)
		accuracy, _ := strconv.ParseFloat(row[5], 64)
		if macs <= 0 || macs > budget {
			t.Errorf("%s: %d MACs within a budget of %d", row[4], macs, budget)
		}
		if !(accuracy > 0 && accuracy <= 1) {
			t.Errorf("%s: accuracy %v", row[4], accuracy)
		}
	}
	// What recipes have by default stands for TIPS where the method as published is not there.
	if list := frontiers.Findings; len(list) != 1 || list[0].Claim != "TIPS is ahead of us-nets at every budget" || !strings.HasPrefix(list[0].Measured, "tips, smallest: ahead at ") {
		t.Errorf("findings: %+v", list)
	}
	// The same again: nothing is left to chance.
	_, again, err := Methods(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range frontiers.Rows {
		if strings.Join(row, ",") != strings.Join(again.Rows[i], ",") {
			t.Fatalf("row %d is %v the second time, and was %v", i, again.Rows[i], row)
		}
	}

	if _, _, err := Methods(context.Background(), MethodsOptions{Candidates: 2, Images: 1, Threads: 1}); !IsUsage(err) {
		t.Errorf("no runs: %v; want an error about the usage", err)
	}
	o.Runs = []string{runs[0], runs[0]}
	if _, _, err := Methods(context.Background(), o); err == nil || !strings.Contains(err.Error(), "both of tips, smallest with seed 1") {
		t.Errorf("a run beside itself: %v", err)
	}
	o.Runs = []string{filepath.Join(dir, "nothing")}
	if _, _, err := Methods(context.Background(), o); err == nil || IsUsage(err) {
		t.Errorf("a run that is not there: %v", err)
	}
}
