package reproduce

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tips/train"
)

// learnt writes a run with the metrics of some epochs: the full network's losses, 0
// where it is not trained.
func learnt(t *testing.T, method string, seed int, losses ...float64) string {
	t.Helper()
	dir := madeUp(t, made{network: "mobilenet_v2:width=1.4,data=cifar100", method: method, seed: seed, holdout: 32, rate: 0.05})
	// Nothing but recipe and metrics is needed.
	for _, name := range []string{train.WeightsFile, train.NetworkFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	add := func(r train.Record) {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	for i, loss := range losses {
		e := i + 1
		add(train.Record{Step: &train.StepRecord{Number: 10 * i, Epoch: i, Loss: 4 * loss}})
		add(train.Record{Epoch: &train.EpochRecord{Number: e, Steps: 10 * e, Loss: 4*loss + 1, Label: loss, Accuracy: loss / 10, Seconds: 1.5 * float64(e)}})
		if e%2 == 0 {
			add(train.Record{Evaluation: &train.EvaluationRecord{Epoch: e, Steps: 10 * e, On: "test", Results: train.Results{{Name: "full", Accuracy: 0.1 * float64(e)}, {Name: "0.5", Accuracy: 0.05 * float64(e)}}}})
		}
	}
	if err := os.WriteFile(filepath.Join(dir, train.MetricsFile), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTrainsFull: an epoch counts where every step trained the full network; older
// metrics only tell that some did.
func TestTrainsFull(t *testing.T) {
	for _, c := range []struct {
		label float64
		full  int
		want  bool
	}{{1, 10, true}, {1, 3, false}, {1, 0, true}, {0, 0, false}} {
		if got := trainsFull(&train.EpochRecord{Number: 4, Steps: 40, Label: c.label, Full: c.full}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestFig4b(t *testing.T) {
	runs := []string{
		learnt(t, "tips", 1, 3, 2, 1.2), learnt(t, "tips", 2, 4, 1, 1.1), // 3.5, 1.5, 1.15
		learnt(t, "us-nets", 1, 4, 3, 1.5), learnt(t, "joslim", 1, 4, 2, 1.1), learnt(t, "ofa", 1, 2, 1.9, 0), learnt(t, "ds-net", 1, 4, 3),
	}
	f, err := Fig4b(Fig4bOptions{Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/fig4b.csv", csvOf(t, f))
	golden(t, "testdata/fig4b.txt", textOf(f))
	if f.Name != "fig4b-synthetic-mobilenet_v2" || !strings.Contains(f.Chart.Title, "mobilenet_v2 on synthetic") {
		t.Errorf("it is called %s, and %q", f.Name, f.Chart.Title)
	}
	if s := f.Chart.Series; len(s) != 5 || fmt.Sprint(s[0].X, s[0].Y) != "[1 2 3] [3.5 1.5 1.15]" || len(s[3].X) != 2 {
		t.Errorf("drawn is %+v", s)
	}
	if f, err = Fig4b(Fig4bOptions{Runs: runs, Time: true}); err != nil {
		t.Fatal(err)
	}
	if s := f.Chart; fmt.Sprint(s.Series[0].X) != "[0.025 0.05 0.075]" || s.XLabel != "minutes of training" {
		t.Errorf("by time, drawn is %q at %v", s.XLabel, s.Series[0].X)
	}

	for want, runs := range map[string][]string{
		"no runs to compare":                       nil,
		"no run has ended an epoch yet":            {learnt(t, "tips", 1)},
		"are both of tips with seed 1":             {runs[0], runs[0]},
		"want the folder of a training run":        {"nowhere"},
		"metrics.jsonl: no such file or directory": {madeUp(t, made{network: table1Network, method: "tips", holdout: 32, rate: 0.05})},
	} {
		if _, err := Fig4b(Fig4bOptions{Runs: runs}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestFig4bFindings: what another method ends with, and what it has after half of its
// epochs, unless that is the same.
func TestFig4bFindings(t *testing.T) {
	f, err := Fig4b(Fig4bOptions{Runs: []string{
		learnt(t, "tips", 1, 4, 2, 1, 0.5),
		learnt(t, "us-nets", 1, 5, 4, 2, 1), learnt(t, "joslim", 1, 5, 0.4, 0.3, 0.2), learnt(t, "ds-net", 1, 3, 1, 1, 1),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Finding{
		{Holds: true, Measured: "a loss of 1.00 takes us-nets 4 epochs and TIPS 3: 0.75 times as many; a loss of 4.00 takes us-nets 2 epochs and TIPS 1: 0.50 times as many"},
		{Measured: "a loss of 0.200 takes joslim 4 epochs, and TIPS does not reach it: 0.500 after 4; a loss of 0.400 takes joslim 2 epochs, and TIPS does not reach it: 0.500 after 4"},
		{Measured: "a loss of 1.00 takes ds-net 2 epochs and TIPS 3: 1.50 times as many"},
	} {
		if got := f.Findings[i]; got.Holds != want.Holds || got.Measured != want.Measured {
			t.Errorf("%v, %q; want %v, %q", got.Holds, got.Measured, want.Holds, want.Measured)
		}
	}
}
