package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"tips/internal/reference"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// everyKind is a small network with an operation of every kind, in every form that
// torch_step.py has a case for.
func everyKind(t *testing.T) *supernet.Network {
	t.Helper()
	n, err := supernet.New(supernet.Description{
		Name: "every-kind", Input: supernet.Shape{Channels: 3, Height: 9, Width: 8}, Elastic: supernet.Elastic{MinRatio: 0.25, Divisor: 4},
		Operations: []supernet.Op{
			{Name: "stem", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 16, Kernel: 3, Padding: 1, Norm: true, Activation: supernet.ReLU6},
			{Name: "wide", Kind: supernet.Conv, Inputs: []string{"stem"}, Channels: 16, Kernel: 3, Padding: 1, Groups: 4, Bias: true, Norm: true, NormEps: 1e-3, Activation: supernet.SiLU},
			{Name: "deep", Kind: supernet.Depthwise, Inputs: []string{"wide"}, Kernel: 5, Padding: 2, Bias: true},
			{Name: "first", Kind: supernet.Add, Inputs: []string{"deep", "stem"}, Activation: supernet.ReLU},
			{Name: "largest", Kind: supernet.MaxPool, Inputs: []string{"first"}, Kernel: 3, Stride: 2, Padding: 1},
			{Name: "mean", Kind: supernet.AvgPool, Inputs: []string{"first"}, Kernel: 3, Stride: 2, Padding: 1, Norm: true},
			{Name: "fine", Kind: supernet.Conv, Inputs: []string{"largest"}, Channels: 16, Kernel: 1, Norm: true},
			{Name: "three", Kind: supernet.Add, Inputs: []string{"fine", "largest", "mean"}},
			{Name: "squeeze", Kind: supernet.GlobalPool, Inputs: []string{"three"}},
			{Name: "gate", Kind: supernet.Linear, Inputs: []string{"squeeze"}, Channels: 16, Bias: true, Activation: supernet.Sigmoid},
			{Name: "scale", Kind: supernet.Mul, Inputs: []string{"three", "gate"}, Norm: true},
			{Name: "square", Kind: supernet.Mul, Inputs: []string{"scale", "mean"}, Activation: supernet.ReLU},
			{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{"square"}},
			{Name: "classifier", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 7, Bias: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// small is an exercise of two steps on everyKind.
func small(t *testing.T) *exercise {
	t.Helper()
	set := weights.Random(everyKind(t), 1)
	set.RandomNorm(2)
	e, err := newExercise(set, train.Update{Momentum: 0.9, WeightDecay: 0.01, DecayBias: true}, 4, 2, 0.1, 3)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestProgram holds what torch_step.py is given to the views it comes from.
func TestProgram(t *testing.T) {
	e := small(t)
	p, err := e.program()
	if err != nil {
		t.Fatal(err)
	}
	fewer := false
	for k, step := range p.Steps {
		if len(step.Networks) != 4 || len(step.Labels) != p.Batch || step.Networks[0].Soft != 0 {
			t.Fatalf("step %d has %d networks and %d labels, soft loss %v of the first", k, len(step.Networks), len(step.Labels), step.Networks[0].Soft)
		}
		for i, network := range step.Networks {
			view, err := e.set.Network.View(e.steps[k].Lessons[i].Subnet, e.set.Network.Input())
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for j, op := range e.set.Network.Ops() {
				if !view.Ops[j].Runs {
					fewer = true
					continue
				}
				got := network.Ops[at]
				if got.Name != op.Name || got.Out != view.Ops[j].Out.Channels || got.In != view.Ops[j].In[0].Channels || got.Groups != view.Ops[j].Groups {
					t.Errorf("operation %d of network %d is %+v; want %s of %+v", at, i, got, op.Name, view.Ops[j])
				}
				for x, from := range got.Operands {
					if from >= at || from >= 0 && network.Ops[from].Name != e.set.Network.Ops()[view.Ops[j].Operands[x]].Name {
						t.Errorf("operation %d of network %d reads %d", at, i, from)
					}
				}
				at++
			}
			if at != len(network.Ops) || network.Ops[network.Output].Name != "classifier" {
				t.Errorf("network %d has %d operations and output %d; want %d", i, len(network.Ops), network.Output, at)
			}
		}
	}
	if !fewer {
		t.Error("no subnetwork leaves a block out; choose another seed")
	}
	if want := []string{"stem.norm.weight", "stem.norm.bias"}; !slices.Equal(p.WithoutDecay[:2], want) || slices.Contains(p.WithoutDecay, "wide.bias") {
		t.Errorf("without decay: %q", p.WithoutDecay)
	}
}

// TestTorchStep holds torch_step.py to the plain reference, to the definitions of
// losses and optimiser, and to ours: what judges must be right itself.
func TestTorchStep(t *testing.T) {
	if _, err := findTorch(); err != nil {
		t.Skip(err)
	}
	e := small(t)
	dir := t.TempDir()
	if err := e.write(dir); err != nil {
		t.Fatal(err)
	}
	way := torchWay{layout: "channels_first", slices: "view", double: true}
	out := filepath.Join(dir, "float64")
	steps, err := way.steps(dir, out)
	if err != nil {
		t.Fatal(err)
	}
	e.checkForward(t, steps[0])
	e.checkUpdate(t, out)

	double, err := e.theirs(way, dir, out)
	if err != nil {
		t.Fatal(err)
	}
	nothing := zeroSet(e.set.Network)
	check := func(name string, l learnt) {
		t.Helper()
		if d := lossDifference(l.losses, double.losses); d > 1e-5 {
			t.Errorf("%s: losses %v and %v", name, l.losses, double.losses)
		}
		if d := slices.Max(tensorErrors(l.gradients, double.gradients, nothing, 0)); d > 1e-4 {
			t.Errorf("%s: gradients differ by %.1e", name, d)
		}
		if d := slices.Max(tensorErrors(l.weights[1], double.weights[1], e.set, 1e-3)); d > 1e-3 {
			t.Errorf("%s: weights differ by %.1e", name, d)
		}
	}
	for _, slices := range []string{"contiguous", "leaf"} {
		way := torchWay{layout: "channels_last", slices: slices}
		l, err := e.theirs(way, dir, filepath.Join(dir, slices))
		if err != nil {
			t.Fatal(err)
		}
		check(way.String(), l)
	}
	l, err := e.ours(2)
	if err != nil {
		t.Fatal(err)
	}
	check("ours", l)
}

// checkForward computes logits image by image with the statistics of the batch,
// and losses from logits.
func (e *exercise) checkForward(t *testing.T, step torchStep) {
	t.Helper()
	n, batch := e.set.Network, e.steps[0].Batch
	var teacher [][]float64
	for i, lesson := range e.steps[0].Lessons {
		view, err := n.View(lesson.Subnet, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		statistics := &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
		for name, s := range step.Statistics[i] {
			at, _ := n.Index(name)
			for c := range s.Mean {
				statistics.Mean[at] = append(statistics.Mean[at], float32(s.Mean[c]))
				statistics.Variance[at] = append(statistics.Variance[at], float32(s.Variance[c]))
			}
		}
		loss := 0.0
		size := len(batch.Images) / batch.N
		var probabilities [][]float64
		for b := range batch.N {
			x := make([]float64, size)
			channelsFirst(x, batch.Images[b*size:][:size], n.Input())
			want := reference.Run(e.set, view, statistics, x)
			got := step.Logits[i][b*len(want):][:len(want)]
			total := 0.0
			for c := range want {
				if d := math.Abs(got[c] - want[c]); !(d <= 1e-5) {
					t.Fatalf("network %d, image %d: logits %v; want %v", i, b, got, want)
				}
				total += math.Exp(want[c])
			}
			p := make([]float64, len(want))
			for c := range want {
				p[c] = math.Exp(want[c]) / total
			}
			probabilities = append(probabilities, p)
			loss -= lesson.Label * math.Log(p[batch.Labels[b]]) / float64(batch.N)
			if lesson.Soft > 0 {
				for c := range p {
					loss -= lesson.Soft * teacher[b][c] * math.Log(p[c]) / float64(batch.N)
				}
			}
		}
		if i == 0 {
			teacher = probabilities
		}
		if math.Abs(loss-step.Losses[i]) > 1e-5*loss {
			t.Errorf("network %d: loss %v; want %v", i, step.Losses[i], loss)
		}
	}
}

// checkUpdate follows the optimiser's definition from the gradients that were
// written.
func (e *exercise) checkUpdate(t *testing.T, out string) {
	t.Helper()
	open := func(name string, k int) *weights.Set {
		s, err := weights.Open(filepath.Join(out, fmt.Sprintf("%s%d.safetensors", name, k)), e.set.Network)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before, momentum := e.set, zeroSet(e.set.Network)
	for k := range e.steps {
		gradients, after := open("gradients", k), open("weights", k)
		for i := range before.Ops {
			g, m, w, got := learntTensors(gradients.Ops[i]), learntTensors(momentum.Ops[i]), learntTensors(before.Ops[i]), learntTensors(after.Ops[i])
			for j := range g {
				decay := e.update.WeightDecay
				if j >= 2 && !e.update.DecayNorm {
					decay = 0
				}
				for x := range g[j] {
					m[j][x] = float32(e.update.Momentum*float64(m[j][x]) + float64(g[j][x]) + decay*float64(w[j][x]))
					if want := float64(w[j][x]) - e.steps[k].Rate*float64(m[j][x]); math.Abs(want-float64(got[j][x])) > 1e-5 {
						t.Fatalf("step %d, %s: weight %v; want %v", k, e.set.Network.Ops()[i].Name, got[j][x], want)
					}
				}
			}
		}
		before = after
	}
}

// TestTorchServer talks to the process that sides take turns with.
func TestTorchServer(t *testing.T) {
	if _, err := findTorch(); err != nil {
		t.Skip(err)
	}
	e := small(t)
	dir := t.TempDir()
	if err := e.write(dir); err != nil {
		t.Fatal(err)
	}
	server, err := torchWay{layout: "channels_last", slices: "view", env: tunedMalloc}.serve(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	m, err := takeTurns(0, pace{runs: 1, rounds: 2}, server.side())
	if err != nil || m.rounds != 2 || len(server.losses) != 4 || m.cpu[0][0] <= 0 {
		t.Errorf("%+v, losses %v, %v", m, server.losses, err)
	}
	if server.in.Write([]byte("jump\n")); server.step() == nil {
		t.Error("a command that does not exist is answered with numbers")
	}
	if f, err := (torchWay{layout: "channels_last", slices: "view"}).memory(dir, 2); err != nil || f.Before <= 0 || f.Peak < f.Before {
		t.Errorf("memory %+v, %v", f, err)
	}
}

func TestTensorErrors(t *testing.T) {
	n := everyKind(t)
	want, have, nothing := zeroSet(n), zeroSet(n), zeroSet(n)
	stem, _ := n.Index("stem")
	copy(want.Ops[stem].Weight, []float32{3, 4})
	copy(have.Ops[stem].Weight, []float32{3, 4.5})
	have.Ops[stem].Shift[0] = 0.05 // and zero is wanted
	errors := tensorErrors(have, want, nothing, 0)
	if math.Abs(errors[0]-0.1) > 1e-6 || errors[1] != 0 || math.Abs(errors[2]-0.01) > 1e-6 || slices.Max(errors[3:]) != 0 {
		t.Errorf("errors %v; want 0.1 of the weight, 0.01 of the shift", errors[:4])
	}
	if errors := tensorErrors(have, want, want, 0.2); math.Abs(errors[0]-0.5) > 1e-6 {
		t.Errorf("error %v with a floor of 0.2·5; want 0.5", errors[0])
	}
	have.Ops[stem].Weight[7] = float32(math.NaN())
	if errors := tensorErrors(have, want, nothing, 0); !math.IsInf(errors[0], 1) {
		t.Errorf("what is no number differs by %v", errors[0])
	}
	for _, c := range []struct {
		have, want []float64
		difference float64
	}{
		{[]float64{1, 3}, []float64{1, 2}, 0.5},
		{[]float64{1}, []float64{1, 2}, math.Inf(1)},
		{[]float64{math.NaN()}, []float64{1}, math.Inf(1)},
	} {
		if d := lossDifference(c.have, c.want); d != c.difference {
			t.Errorf("losses %v and %v differ by %v; want %v", c.have, c.want, d, c.difference)
		}
	}
}

func TestAwayFromKinks(t *testing.T) {
	set := weights.Random(everyKind(t), 1)
	awayFromKinks(set, 1)
	for i, op := range set.Network.Ops() {
		for c, shift := range set.Ops[i].Shift {
			if op.Activation == supernet.ReLU6 && min(math.Abs(float64(shift)), math.Abs(float64(shift)-6)) < 3*float64(set.Ops[i].Scale[c]) {
				t.Errorf("%s, channel %d: %v ± %v is near a kink", op.Name, c, shift, set.Ops[i].Scale[c])
			}
		}
	}
}

// TestSkipped: what cannot run is in the table, with the reason, and no error.
func TestSkipped(t *testing.T) {
	c := section{verb: "speed", title: "3. Speed", needsPeer: true, run: func(settings) (table, error) { panic("it ran") }}
	got, err := c.runWith(settings{}, fmt.Errorf("%w: no npm", errNoPeer))
	if err != nil || got.name != "speed" || !slices.Equal(withVerdict([]table{got}, skipped), []string{"speed: all"}) || !slices.Equal(got.notes, []string{"Skipped: ONNX Runtime is not at hand: no npm."}) {
		t.Errorf("%+v, %v", got, err)
	}
	failure := errors.New("a broken library")
	if _, err := c.runWith(settings{}, failure); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	missing := settings{data: t.TempDir()}
	got, err = accuracy(missing)
	if err != nil || len(got.rows) != 1 || len(withVerdict([]table{got}, skipped)) != 1 {
		t.Errorf("accuracy without images: %+v, %v", got, err)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		verbs []string
		want  int
	}{
		{[]string{"all"}, len(sections)},
		{[]string{"train"}, 3},
		{[]string{"train-memory", "train", "speed"}, 4},
		{[]string{"speed", "nonsense"}, -1},
	} {
		chosen, err := choose(c.verbs)
		if c.want < 0 && err == nil || c.want >= 0 && (err != nil || len(chosen) != c.want) {
			t.Errorf("%q: %d sections, %v; want %d", c.verbs, len(chosen), err, c.want)
		}
	}
}
