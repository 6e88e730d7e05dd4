package nn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tips/supernet"
	"tips/weights"
)

// sameSets compares all values of two sets.
func sameSets(a, b *weights.Set) bool {
	for i := range a.Ops {
		p, q := &a.Ops[i], &b.Ops[i]
		if !slices.Equal(p.Weight, q.Weight) || !slices.Equal(p.Bias, q.Bias) || !slices.Equal(p.Scale, q.Scale) ||
			!slices.Equal(p.Shift, q.Shift) || !slices.Equal(p.Mean, q.Mean) || !slices.Equal(p.Variance, q.Variance) {
			return false
		}
	}
	return len(a.Ops) == len(b.Ops)
}

// TestParametersRoundTrip unpacks what was packed.
func TestParametersRoundTrip(t *testing.T) {
	for _, name := range small() {
		set := load(t, name)
		p := NewParameters(set)
		if !sameSets(set, p.Set()) {
			t.Fatalf("%s: unpacked otherwise than packed", name)
		}
		if !sameSets(set, p.Clone().Set()) {
			t.Fatalf("%s: a clone differs", name)
		}
		if i := slices.IndexFunc(p.Zeros().Values(), func(v float32) bool { return v != 0 }); i >= 0 {
			t.Fatalf("%s: value %d of Zeros is not", name, i)
		}
		// The tensors are all of the values but pad.
		nonzero := 0
		for _, v := range p.Values() {
			if v != 0 {
				nonzero++
			}
		}
		for _, x := range p.Tensors() {
			for _, v := range x.Values {
				if v != 0 {
					nonzero--
				}
			}
		}
		if nonzero != 0 {
			t.Fatalf("%s: %d values that are not zero are in no tensor", name, nonzero)
		}
	}
}

// TestParametersModel runs the same as a model packed from the set.
func TestParametersModel(t *testing.T) {
	for _, name := range small() {
		set := load(t, name)
		n := set.Network
		rng := rand.New(rand.NewPCG(1, 3))
		x := randomInput(rng, int(n.Input().Elements()))
		for _, s := range []supernet.Subnet{{}, n.Smallest()} {
			want := run(t, NewModel(set), s, n.Input(), 1, 1, 0, x, nil)
			got := run(t, NewParameters(set).Model(), s, n.Input(), 1, 1, 0, x, nil)
			if !slices.Equal(got, want) {
				t.Fatalf("%s %s: outputs differ", name, s)
			}
		}
	}
}

// TestLearnTwice gives the same bits again, whatever the learner did before.
func TestLearnTwice(t *testing.T) {
	set := load(t, "mobilenet_v2:width=0.35,classes=4,size=32")
	n := set.Network
	rng := rand.New(rand.NewPCG(1, 2))
	const batch = 6
	images := randomInput(rng, batch*int(n.Input().Elements()))
	direction := randomInput(rng, batch*4)
	p := NewParameters(set)
	once := func(l *Learner, s supernet.Subnet) ([]float32, *weights.Statistics) {
		g := p.Zeros()
		if _, err := l.Forward(p, s, images, batch); err != nil {
			t.Fatal(err)
		}
		statistics := l.Statistics()
		l.Backward(g, direction)
		return slices.Clone(g.Values()), statistics
	}
	for _, threads := range []int{1, 2, 3, 8} { // of 8, two have nothing to do
		l := NewLearner(threads)
		defer l.Close()
		first, statistics := once(l, n.Smallest())
		once(l, supernet.Subnet{})
		again, statisticsAgain := once(l, n.Smallest())
		if !slices.Equal(first, again) {
			t.Errorf("%d threads: gradients differ from one time to the next", threads)
		}
		for i := range statistics.Mean {
			if !slices.Equal(statistics.Mean[i], statisticsAgain.Mean[i]) || !slices.Equal(statistics.Variance[i], statisticsAgain.Variance[i]) {
				t.Errorf("%d threads: statistics of operation %d differ from one time to the next", threads, i)
			}
		}
	}
}

// TestLearnSeesChanges computes with weights as they are, after they were changed.
func TestLearnSeesChanges(t *testing.T) {
	set := load(t, "resnet18:data=cifar10,min=0.1")
	n := set.Network
	rng := rand.New(rand.NewPCG(1, 2))
	const batch = 2
	images := randomInput(rng, batch*int(n.Input().Elements()))
	direction := randomInput(rng, batch*10)
	l := NewLearner(1)
	defer l.Close()
	gradients := func(l *Learner, p *Parameters) []float32 {
		g := p.Zeros()
		if _, err := l.Forward(p, n.Smallest(), images, batch); err != nil {
			t.Fatal(err)
		}
		l.Backward(g, direction)
		return g.Values()
	}
	p := NewParameters(set)
	before := gradients(l, p)
	for _, x := range p.Tensors() {
		for i := range x.Values {
			x.Values[i] *= 1.5
		}
	}
	p.Changed()
	after := gradients(l, p)
	if slices.Equal(before, after) {
		t.Fatal("gradients are those of the weights before")
	}
	fresh := NewLearner(1)
	defer fresh.Close()
	if !slices.Equal(after, gradients(fresh, p)) {
		t.Fatal("gradients after a change differ from those of a new learner")
	}
}

func TestBadBatches(t *testing.T) {
	set := load(t, "mobilenet_v2:width=0.35,classes=4,size=32")
	l := NewLearner(1)
	defer l.Close()
	p := NewParameters(set)
	if _, err := l.Forward(p, supernet.Subnet{}, make([]float32, 7), 1); err == nil {
		t.Error("7 values are taken as an image")
	}
	if _, err := l.Forward(p, supernet.Subnet{}, nil, 0); err == nil {
		t.Error("an empty batch is taken")
	}
}
