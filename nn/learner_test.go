package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/kernel"
	"tips/internal/randnet"
	"tips/internal/reference"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// fataler is a test or a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// problem is a subnetwork, a batch, and the loss Σ logits·direction.
type problem struct {
	set       *weights.Set
	sub       supernet.Subnet
	view      *supernet.View
	batch     int
	images    []float32
	direction []float32
}

func newProblem(t fataler, set *weights.Set, sub supernet.Subnet, batch int, rng *rand.Rand) *problem {
	v, err := set.Network.View(sub, set.Network.Input())
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &problem{set: set, sub: sub, view: v, batch: batch}
	p.images = randomInput(rng, batch*int(v.Input.Elements()))
	p.direction = randomInput(rng, batch*int(v.Shape(v.Output()).Elements()))
	return p
}

// inputs are the images for the reference.
func (p *problem) inputs() [][]float64 {
	var inputs [][]float64
	for x := range slices.Chunk(p.images, int(p.view.Input.Elements())) {
		inputs = append(inputs, channelsFirst(x, p.view.Input))
	}
	return inputs
}

// logits are the definition's.
func (p *problem) logits() []float64 {
	var all []float64
	for _, y := range reference.RunBatch(p.set, p.view, p.inputs()) {
		all = append(all, channelsLast(y, p.view.Shape(p.view.Output()))...)
	}
	return all
}

func (p *problem) loss() float64 {
	sum := 0.0
	for i, y := range p.logits() {
		sum += y * float64(p.direction[i])
	}
	return sum
}

// gradients are the learner's.
func (p *problem) gradients(t fataler, threads int, v kernel.Variant) (logits []float32, grads *weights.Set) {
	t.Helper()
	l := NewLearner(threads)
	defer l.Close()
	l.variant = v
	params := NewParameters(p.set)
	g := params.Zeros()
	logits, err := l.Forward(params, p.sub, p.images, p.batch)
	if err != nil {
		t.Fatalf("%v", err)
	}
	logits = slices.Clone(logits)
	l.Backward(g, p.direction)
	return logits, g.Set()
}

// tensors are the learnt parameters of an operation, in the order of their names.
func tensors(p *weights.Params) [][]float32 { return [][]float32{p.Weight, p.Bias, p.Scale, p.Shift} }

var tensorNames = []string{"weight", "bias", "scale", "shift"}

// check compares the learner with the definitions: logits and all gradients.
func (p *problem) check(t fataler, threads int, v kernel.Variant, tolerance float64) *weights.Set {
	t.Helper()
	logits, grads := p.gradients(t, threads, v)
	if err := p.compare(logits, grads, tolerance); err != nil {
		t.Fatalf("%s of %s, batch %d, %d threads, %v: %v", p.sub, p.set.Network.Name(), p.batch, threads, v, err)
	}
	return grads
}

// compare holds logits and gradients against the definitions.
func (p *problem) compare(logits []float32, grads *weights.Set, tolerance float64) error {
	want := p.logits()
	for i := range logits {
		if d := math.Abs(float64(logits[i]) - want[i]); !(d <= tolerance*largest(want)) {
			return fmt.Errorf("logit %d is %v; want %v", i, logits[i], want[i])
		}
	}
	exact := p.exact()
	steepest := 0.0 // of all tensors: what is far below it may be roundings
	for _, e := range exact {
		steepest = max(steepest, length(e.Weight), length(e.Shift))
	}
	for i, e := range exact {
		op := p.set.Network.Ops()[i]
		for k, want := range [][]float64{e.Weight, e.Bias, e.Scale, e.Shift} {
			got := tensors(&grads.Ops[i])[k]
			off := make([]float64, len(want))
			for j := range want {
				off[j] = float64(got[j]) - want[j]
				if got[j] != 0 && !p.uses(i, k, j) {
					return fmt.Errorf("gradient of %s %d of %s, which is not used, is %v", tensorNames[k], j, op.Name, got[j])
				}
			}
			if !(length(off) <= tolerance*length(want)+1e-5*steepest) {
				return fmt.Errorf("gradient of the %s of %s of length %v is off by %v (steepest %v)", tensorNames[k], op.Name, length(want), length(off), steepest)
			}
		}
	}
	return nil
}

// exact are the gradients by their definitions.
func (p *problem) exact() []reference.OpGradients {
	var direction [][]float64
	out := p.view.Shape(p.view.Output())
	for d := range slices.Chunk(p.direction, int(out.Elements())) {
		direction = append(direction, channelsFirst(d, out))
	}
	return reference.Gradients(p.set, p.view, p.inputs(), direction)
}

// checkNearby is check, but takes gradients that are right for images that differ in
// their last digits: where a ReLU is at its kink, gradients jump, and roundings decide
// which side is taken.
func (p *problem) checkNearby(t fataler, threads int, v kernel.Variant, tolerance float64) {
	t.Helper()
	logits, grads := p.gradients(t, threads, v)
	first := p.compare(logits, grads, tolerance)
	saved, rng := p.images, rand.New(rand.NewPCG(1, 1))
	defer func() { p.images = saved }()
	for err, tries := first, 0; err != nil; tries++ {
		if tries == 100 {
			t.Fatalf("%s of %s, batch %d, %d threads, %v: %v", p.sub, p.set.Network.Name(), p.batch, threads, v, first)
		}
		p.images = slices.Clone(saved)
		for i := range p.images {
			p.images[i] *= 1 + float32(3e-7*rng.NormFloat64())
		}
		err = p.compare(logits, grads, tolerance)
	}
}

// uses tells whether the subnetwork uses value j of tensor k of operation i.
func (p *problem) uses(i, k, j int) bool {
	op, o := p.set.Network.Ops()[i], p.view.Ops[i]
	if !o.Runs || k > 0 {
		return o.Runs && j < o.Out.Channels
	}
	taps := max(op.Kernel, 1) * max(op.Kernel, 1)
	full := p.set.Network.Full().Ops[i]
	in := full.In[0].Channels / full.Groups
	return j/taps/in < o.Out.Channels && j/taps%in < o.In[0].Channels/o.Groups
}

// checkDifferences compares gradients with differences of the loss, along a random
// direction and along themselves.
func (p *problem) checkDifferences(t fataler, grads *weights.Set, rng *rand.Rand) {
	t.Helper()
	steepest := 0.0
	for i := range grads.Ops {
		for _, g := range tensors(&grads.Ops[i]) {
			steepest = max(steepest, length(g))
		}
	}
	for i := range grads.Ops {
		op := p.set.Network.Ops()[i]
		values := tensors(&p.set.Ops[i])
		for k, g := range tensors(&grads.Ops[i]) {
			if len(g) == 0 {
				continue
			}
			random, along := make([]float64, len(g)), make([]float64, len(g))
			for j := range g {
				random[j], along[j] = rng.NormFloat64(), float64(g[j])
			}
			what := fmt.Sprintf("%s: %s of %s", p.sub, tensorNames[k], op.Name)
			p.difference(t, what, values[k], g, random, 0.02, steepest)
			if length(g) > 1e-4*steepest {
				p.difference(t, what+" along itself", values[k], g, along, 3e-3, steepest)
			}
		}
	}
}

// difference compares the gradient g of some values with the difference that a
// small step along a direction makes to the loss.
func (p *problem) difference(t fataler, what string, values, g []float32, direction []float64, tolerance, steepest float64) {
	t.Helper()
	n := float64(len(values))
	h := 1e-5 * (length(values) + 0.01*math.Sqrt(n)) / length(direction)
	saved := slices.Clone(values)
	step := func(sign float64) float64 {
		for i := range values {
			values[i] = float32(float64(saved[i]) + sign*h*direction[i])
		}
		return p.loss()
	}
	up := step(1)
	high := slices.Clone(values)
	down := step(-1)
	want, moved := 0.0, make([]float64, len(values))
	for i := range values {
		moved[i] = float64(high[i]) - float64(values[i])
		want += float64(g[i]) * moved[i]
	}
	copy(values, saved)
	// A direction at random has about this much of the gradient in it.
	typical := length(g)*length(moved)/math.Sqrt(n) + math.Abs(want)
	if d := math.Abs(up - down - want); !(d <= tolerance*typical+1e-5*steepest*length(moved)) {
		t.Fatalf("%s: the loss changes by %v; its gradient says %v (typically %v)", what, up-down, want, typical)
	}
}

func length[T float32 | float64](x []T) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// variants are those to test; plain Go is slow under an emulator or detector.
func variants() []kernel.Variant {
	if testing.Short() {
		return []kernel.Variant{kernel.Best()}
	}
	return kernel.Variants()
}

// TestLearnOddNetworks holds every operation against its definition and against
// differences.
func TestLearnOddNetworks(t *testing.T) {
	for name, n := range oddNetworks(t, 11, 9) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			set := weights.Random(n, 1)
			set.RandomNorm(2)
			for k, v := range variants() {
				sub := supernet.Subnet{}
				if k > 0 {
					sub = randnet.Subnet(n, rng)
				}
				p := newProblem(t, set, sub, 3, rng)
				grads := p.check(t, 1+k, v, 5e-4)
				if k > 0 || testing.Short() {
					p.checkDifferences(t, grads, rng)
				}
			}
		})
	}
}

func TestLearnRandomNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := randnet.Draw(t)
		d.Input.Height, d.Input.Width = 6, 5
		n, err := supernet.New(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Ops()) > 40 {
			t.Skip("slow")
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		set := weights.Random(n, 1)
		set.RandomNorm(2)
		sub := randnet.Subnet(n, rng)
		p := newProblem(t, set, sub, 4, rng)
		// Where batch norm divides by nearly nothing, roundings decide.
		want, saved := p.logits(), p.images
		p.images = lastDigits(saved)
		if distance(p.logits(), want) > 1e-4 {
			t.Skip("roundings decide")
		}
		p.images = saved
		p.checkNearby(t, 1+rng.IntN(3), kernel.Best(), 5e-3)
	})
}

// TestLearnZoo holds real networks against the definitions, the whole of them and
// a subnetwork.
func TestLearnZoo(t *testing.T) {
	for _, name := range []string{"mobilenet_v2:width=0.35,classes=4,size=32", "resnet18:classes=4,size=32,divisor=1,min=0.06", "efficientnet_b0:classes=4,size=32,divisor=2,min=0.2", "mlp:depth=4"} {
		n, err := zoo.New(name)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		set := weights.Random(n, 1)
		set.RandomNorm(2)
		for _, sub := range []supernet.Subnet{n.Smallest(), randnet.Subnet(n, rng)} {
			newProblem(t, set, sub, 4, rng).check(t, 2, kernel.Best(), 1e-2)
			if testing.Short() {
				break
			}
		}
	}
}
