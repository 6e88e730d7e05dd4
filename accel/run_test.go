//go:build xla

package accel

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tips/judge"
	"tips/train"
	"tips/weights"
)

const tinyRecipe = `
version: 2
name: tiny
network: "mlp:depth=3,width=24,inputs=64,classes=4,divisor=8"
data: "synthetic:train=96,test=32,size=8,channels=1,classes=4"
holdout: 16
epochs: 4
batch: 16
method:
  name: ds-net
  loss: own
sgd:
  rate: 0.05
  momentum: 0.9
evaluate:
  every: 1
  subnets: [full, smallest]
  calibration: 32
threads: 1
`

// TestRunMoves: a run that goes from the processor to the device and back, every few
// steps, ends as one that stays.
func TestRunMoves(t *testing.T) {
	d := openTestDevice(t)
	r, err := train.ReadRecipe(strings.NewReader(tinyRecipe))
	if err != nil {
		t.Fatal(err)
	}
	stays, moves := t.TempDir(), t.TempDir()
	if _, err := train.Run(context.Background(), train.Options{Recipe: r, Out: stays}); err != nil {
		t.Fatal(err)
	}
	parts := 0
	for ; ; parts++ {
		o := train.Options{Recipe: r, Out: moves, StopAfter: 4}
		if parts%2 == 0 {
			o.Executor = d.NewExecutor
		}
		_, err := train.Run(context.Background(), o)
		var stopped *train.InterruptedError
		if err == nil {
			break
		}
		if !errors.As(err, &stopped) {
			t.Fatal(err)
		}
	}
	if parts < 3 {
		t.Errorf("%d parts", parts+1)
	}
	var sets [2]*weights.Set
	for i, dir := range []string{stays, moves} {
		if sets[i], err = weights.Open(filepath.Join(dir, train.WeightsFile), nil); err != nil {
			t.Fatal(err)
		}
	}
	sameSets(t, "weights", sets[1], sets[0], weights.Random(sets[0].Network, 0), 1e-3)
	for i := range sets[0].Ops {
		for k, v := range sets[0].Ops[i].Variance {
			if !near(float64(sets[1].Ops[i].Variance[k]), float64(v), 1e-3) {
				t.Fatalf("operation %d, channel %d: variance %v; want %v", i, k, sets[1].Ops[i].Variance[k], v)
			}
		}
	}
}

// TestJudge: subnetworks are judged on the device as on the processor, and verdicts
// of the two are not taken for each other.
func TestJudge(t *testing.T) {
	d := openTestDevice(t)
	r, err := train.ReadRecipe(strings.NewReader(tinyRecipe))
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	if _, err := train.Run(context.Background(), train.Options{Recipe: r, Out: run}); err != nil {
		t.Fatal(err)
	}
	verdicts := func(executor func(train.Settings) (train.Executor, error)) (list []judge.Verdict, identity string) {
		j, err := judge.Open(judge.Options{Run: run, Threads: 1, Executor: executor})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		subs := subnets(j.Network(), 10, 1, true)
		list = make([]judge.Verdict, len(subs))
		if err := j.All(context.Background(), subs, func(i int, v judge.Verdict) { list[i] = v }); err != nil {
			t.Fatal(err)
		}
		return list, j.Identity()
	}
	want, processor := verdicts(nil)
	got, device := verdicts(d.NewExecutor)
	if processor == device {
		t.Errorf("both are %s", device)
	}
	for i, w := range want {
		if g := got[i]; g.Correct != w.Correct || g.Images != w.Images || !near(g.Loss, w.Loss, 1e-4) {
			t.Errorf("%v: %d of %d, loss %v; want %d of %d, loss %v", w.Subnet, g.Correct, g.Images, g.Loss, w.Correct, w.Images, w.Loss)
		}
	}
}
