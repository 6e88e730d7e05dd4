package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
	"tips/weights"
)

// What is learnt to compare numbers, and the bounds of what must hold: on losses,
// relative; on gradients and on what steps change, as a share of a tensor's norm;
// and on how much further than PyTorch's float32 ours may be from its float64.
const (
	gradientBatch = 16
	gradientSteps = 3
	gradientRate  = 0.02

	maxLossDifference     = 1e-4
	maxGradientDifference = 1e-3
	maxErrorRatio         = 3.0
)

var gradientCases = []struct {
	reference string
	update    train.Update
}{
	{"mobilenet_v2:data=cifar100", train.Update{Momentum: 0.9, WeightDecay: 1e-4, DecayNorm: true, DecayBias: true}},
	{"resnet18:data=cifar100", train.Update{Momentum: 0.9, Nesterov: true, WeightDecay: 5e-4}},
}

// trainGradients takes the same steps on both sides.
func trainGradients(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("Steps of the whole network and three random subnetworks that learn from the labels and from its softmax, %d images of 32×32, momentum and weight decay. "+
			"Both sides compute in float32 and are held against PyTorch in float64. Losses: the largest relative difference. Gradients of all parameters, added up over the networks: the norm of the difference as "+
			"a share of the tensor's norm, of the worst tensor; one below a thousandth of its operation's largest, because batch norm takes out what it would change, as a share of that. "+
			"Weights: the norm of the difference as a share of how far they moved (at least a thousandth of their own norm).", gradientBatch),
			"Rounding puts an activation on the other side of a kink now and then, and the gradient of a ReLU jumps there: with one of a layer's million values a tensor differs by a thousandth of its norm, whoever computes it. " +
				"So gradients are compared twice. Away from kinks, batch norm moves every channel clearly to one side of them, where the limits are absolute. As training starts, weights are random, " +
				"rounding errors grow from layer to layer, and the limit is how far PyTorch's own float32 is from float64."},
		columns: []string{"case", "ours", "theirs", "limit", holdsColumn},
	}
	if _, err := findTorch(); err != nil {
		for _, c := range gradientCases {
			t.skip(c.reference, err)
		}
		return t, nil
	}
	for _, c := range gradientCases {
		n, err := zoo.New(c.reference)
		if err != nil {
			return table{}, err
		}
		clear, start := weights.Random(n, s.seed), weights.Random(n, s.seed)
		awayFromKinks(clear, s.seed)
		progress("gradients of %s away from kinks", c.reference)
		e, err := newExercise(clear, c.update, gradientBatch, gradientSteps, gradientRate, s.seed)
		if err != nil {
			return table{}, err
		}
		if err := t.gradients(e, c.reference+", away from kinks", false); err != nil {
			return table{}, err
		}
		progress("gradients of %s as training starts", c.reference)
		if e, err = newExercise(start, c.update, gradientBatch, 1, gradientRate, s.seed); err != nil {
			return table{}, err
		}
		if err := t.gradients(e, c.reference+", as training starts", true); err != nil {
			return table{}, err
		}
	}
	return t, nil
}

// awayFromKinks sets batch norm such that what comes out of it is several standard
// deviations from where an activation bends, channel by channel on one side or the
// other. Rounding errors grow with means, so that few channels are beyond the upper
// kink, and means are zero where nothing bends.
func awayFromKinks(set *weights.Set, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6b696e6b73))
	ops := set.Network.Ops()
	bends := func(i int) bool {
		return ops[i].Activation != supernet.NoActivation ||
			slices.ContainsFunc(set.Network.Consumers(i), func(j int) bool { return ops[j].Kind == supernet.Add && ops[j].Activation != supernet.NoActivation })
	}
	for i, op := range ops {
		for c := range set.Ops[i].Scale {
			shift := 0.0
			if bends(i) {
				shift = 3 // between the kinks of ReLU6
			}
			if op.Activation != supernet.NoActivation {
				switch rng.IntN(12) {
				case 0, 1:
					shift = -3
				case 2:
					shift = 9
				}
			}
			set.Ops[i].Scale[c] = float32(0.4 + 0.2*rng.Float64())
			set.Ops[i].Shift[c] = float32(shift + 0.2*rng.NormFloat64())
		}
	}
}

// learnt is what one side found.
type learnt struct {
	losses    []float64 // of all networks of all steps
	gradients *weights.Set
	weights   []*weights.Set // after each step
}

// gradients compares an exercise on both sides and adds rows. Of an exercise whose
// float32 errors are large, the limits are relative to PyTorch's.
func (t *table) gradients(e *exercise, name string, relative bool) error {
	dir, err := os.MkdirTemp("", "tips-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := e.write(dir); err != nil {
		return err
	}
	way := torchWay{layout: "channels_last", slices: "view"}
	single, err := e.theirs(way, dir, filepath.Join(dir, "float32"))
	if err != nil {
		return err
	}
	way.double = true
	double, err := e.theirs(way, dir, filepath.Join(dir, "float64"))
	if err != nil {
		return err
	}
	ours, err := e.ours(1)
	if err != nil {
		return err
	}

	row := func(what string, a, b, limit float64, bound string) {
		t.add(name+": "+what, fmt.Sprintf("%.1e", a), fmt.Sprintf("%.1e", b), bound, verdict(a <= limit))
	}
	row("losses", lossDifference(ours.losses, double.losses), lossDifference(single.losses, double.losses), maxLossDifference, fmt.Sprintf("%.0e", maxLossDifference))
	nothing := zeroSet(e.set.Network)
	a, b := tensorErrors(ours.gradients, double.gradients, nothing, 0), tensorErrors(single.gradients, double.gradients, nothing, 0)
	if relative {
		x, y := median(a), median(b)
		row("gradients, median tensor", x, y, maxErrorRatio*y, fmt.Sprintf("%g × theirs", maxErrorRatio))
		return nil
	}
	row("gradients", slices.Max(a), slices.Max(b), maxGradientDifference, fmt.Sprintf("%.0e", maxGradientDifference))
	for _, k := range []int{1, len(e.steps)} {
		const floor = 1e-3 // a move that is less than this part of the weights is rounding
		a := slices.Max(tensorErrors(ours.weights[k-1], double.weights[k-1], e.set, floor))
		b := slices.Max(tensorErrors(single.weights[k-1], double.weights[k-1], e.set, floor))
		row(fmt.Sprintf("weights after step %d", k), a, b, maxGradientDifference, fmt.Sprintf("%.0e", maxGradientDifference))
	}
	return nil
}

// ours runs an exercise on our side.
func (e *exercise) ours(threads int) (learnt, error) {
	var l learnt
	// Without momentum and decay, the momentum of one step is its gradient.
	plain, err := e.executor(train.Update{}, threads)
	if err != nil {
		return l, err
	}
	defer plain.Close()
	if _, err := plain.Step(context.Background(), e.steps[0]); err != nil {
		return l, err
	}
	state, err := plain.State()
	if err != nil {
		return l, err
	}
	l.gradients = state.Momentum

	c, err := e.executor(e.update, threads)
	if err != nil {
		return l, err
	}
	defer c.Close()
	for _, step := range e.steps {
		o, err := c.Step(context.Background(), step)
		if err != nil {
			return l, err
		}
		for _, lesson := range o.Lessons {
			l.losses = append(l.losses, lesson.Loss)
		}
		if state, err = c.State(); err != nil {
			return l, err
		}
		l.weights = append(l.weights, state.Weights)
	}
	return l, nil
}

// theirs runs an exercise that was written to a folder on the other side.
func (e *exercise) theirs(way torchWay, dir, out string) (learnt, error) {
	var l learnt
	steps, err := way.steps(dir, out)
	if err != nil {
		return l, err
	}
	for k, step := range steps {
		l.losses = append(l.losses, step.Losses...)
		w, err := weights.Open(filepath.Join(out, fmt.Sprintf("weights%d.safetensors", k)), e.set.Network)
		if err != nil {
			return l, err
		}
		l.weights = append(l.weights, w)
	}
	l.gradients, err = weights.Open(filepath.Join(out, "gradients0.safetensors"), e.set.Network)
	return l, err
}

// lossDifference is the largest relative difference.
func lossDifference(have, want []float64) float64 {
	if len(have) != len(want) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range want {
		d := math.Abs(have[i]-want[i]) / math.Abs(want[i])
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		most = max(most, d)
	}
	return most
}

// zeroSet is parameters of value zero.
func zeroSet(n *supernet.Network) *weights.Set {
	set := weights.New(n)
	for i := range set.Ops {
		clear(set.Ops[i].Scale)
	}
	return set
}

// learntTensors are the parts of an operation that are learnt.
func learntTensors(p weights.Params) [][]float32 {
	return [][]float32{p.Weight, p.Bias, p.Scale, p.Shift}
}

// tensorErrors are, for every tensor that is learnt, the norm of the difference of
// have and want as a share of the norm of want − from, and that at least a given
// share of the norm of want itself. A tensor that is as good as zero beside others
// of its operation counts as a share of the largest of them.
func tensorErrors(have, want, from *weights.Set, floor float64) []float64 {
	const zero = 1e-3
	var errors []float64
	for i := range want.Ops {
		h, w, f := learntTensors(have.Ops[i]), learntTensors(want.Ops[i]), learntTensors(from.Ops[i])
		sizes, largest := make([]float64, len(w)), 0.0
		for j := range w {
			sizes[j] = max(distance(w[j], f[j]), floor*distance(w[j], make([]float32, len(w[j]))))
			largest = max(largest, sizes[j])
		}
		for j := range w {
			if len(w[j]) == 0 {
				continue
			}
			size := sizes[j]
			if size < zero*largest {
				size = largest
			}
			d := distance(h[j], w[j])
			if d != 0 { // not 0/0 where all is zero
				d /= size
			}
			errors = append(errors, d)
		}
	}
	return errors
}

// distance is the Euclidean one; of what is no number, infinite.
func distance(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return math.Sqrt(sum)
}
