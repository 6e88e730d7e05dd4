//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tips/dataset"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// TestGradients: losses and gradients of one step are those of the processor. Without
// momentum, and at a rate of one, what a step changes is the gradient.
func TestGradients(t *testing.T) {
	d := openTestDevice(t)
	for _, reference := range networks {
		for _, depth := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,%v", reference, depth), func(t *testing.T) {
				n := network(t, reference)
				state := train.NewState(randomSet(n, 1), false)
				p := newPair(t, d, train.Settings{Network: n, Smoothing: 0.1}, state)
				subs := subnets(n, 3, 7, depth)
				s := train.Step{Batch: randomBatch(n, 12, 3), Rate: 1, Lessons: []method.Lesson{
					{Label: 1},
					{Subnet: subs[0], Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}},
					{Subnet: subs[1], Label: 0.5, Soft: 2, Teachers: []method.Teacher{{Source: method.Live, Lesson: 1}, {Source: method.Live}}},
					{Subnet: subs[2], Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}, Divergence: method.Alpha},
				}}
				p.step(t, s, 1e-4)
				p.sameState(t, state, 1e-4)
			})
		}
	}
}

// TestDepthwise: the gradients of depthwise convolutions of all sizes, which are
// computed in different ways.
func TestDepthwise(t *testing.T) {
	d := openTestDevice(t)
	for _, c := range []struct{ size, kernel, stride, padding int }{
		{7, 3, 1, 1}, {8, 3, 2, 1}, {7, 3, 2, 1}, {2, 3, 1, 1}, {4, 3, 2, 1}, {3, 3, 1, 1}, {5, 5, 1, 2}, {9, 5, 2, 2}, {6, 5, 2, 2},
		{8, 3, 3, 1}, {7, 2, 2, 0}, {9, 4, 3, 0}, {6, 3, 2, 2}, {1, 3, 1, 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			n, err := supernet.New(supernet.Description{
				Name: "depthwise", Input: supernet.Shape{Channels: 3, Height: c.size, Width: c.size}, Elastic: supernet.Elastic{Divisor: 2},
				Operations: []supernet.Op{
					{Name: "stem", Kind: supernet.Conv, Inputs: []string{supernet.InputName}, Channels: 6, Kernel: 1, Norm: true, Activation: supernet.ReLU6},
					{Name: "depthwise", Kind: supernet.Depthwise, Inputs: []string{"stem"}, Kernel: c.kernel, Stride: c.stride, Padding: c.padding, Bias: true, Activation: supernet.SiLU},
					{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{"depthwise"}},
					{Name: "classifier", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 4, Bias: true},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			state := train.NewState(randomSet(n, 1), false)
			p := newPair(t, d, train.Settings{Network: n}, state)
			p.step(t, train.Step{Batch: randomBatch(n, 9, 3), Rate: 1, Lessons: []method.Lesson{{Label: 1}, {Subnet: n.Smallest(), Label: 1}}}, 1e-4)
			p.sameState(t, state, 1e-4)
		})
	}
}

// TestBFloat16: with fewer digits losses and gradients are about the same.
func TestBFloat16(t *testing.T) {
	d := openTestDevice(t)
	n := network(t, "mobilenet_v2:width=0.25,data=cifar10,size=12→block6.add")
	state := train.NewState(randomSet(n, 1), false)
	p := newPair(t, d, train.Settings{Network: n}, state)
	p.device.narrow = dtypes.BFloat16
	s := train.Step{Batch: randomBatch(n, 32, 3), Rate: 1, Lessons: []method.Lesson{{Label: 1}, {Subnet: n.Smallest(), Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}}}}
	want, err := p.cpu.Step(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.device.Step(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want.Lessons {
		if g := got.Lessons[i]; !near(g.Loss, w.Loss, 0.03) {
			t.Errorf("lesson %d: loss %v; want about %v", i, g.Loss, w.Loss)
		}
	}
	if !near(got.Norm, want.Norm, 0.1) {
		t.Errorf("norm %v; want about %v", got.Norm, want.Norm)
	}
	a, err := p.cpu.State()
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.device.State()
	if err != nil {
		t.Fatal(err)
	}
	product := 0.0
	other := p.device.layout.pack(b.Momentum)
	for k, v := range p.device.layout.pack(a.Momentum) {
		product += float64(v) * float64(other[k])
	}
	if cosine := product / (want.Norm * got.Norm); cosine < 0.9 {
		t.Errorf("the gradients' cosine is %v", cosine)
	}
}

// TestFits: a program serves steps whose teachers are equal by chance, and no others.
func TestFits(t *testing.T) {
	n := network(t, "mlp:depth=4,width=24,inputs=20,classes=5,divisor=4")
	subs := subnets(n, 3, 1, false)
	batch := randomBatch(n, 4, 1)
	// The smallest network of DS-Net's own loss learns from three.
	step := func(first, second supernet.Subnet) train.Step {
		full := method.Teacher{Source: method.Average}
		return train.Step{Batch: batch, Lessons: []method.Lesson{
			{Label: 1},
			{Subnet: n.Smallest(), Soft: 1, Teachers: []method.Teacher{full, {Source: method.Average, Subnet: first}, {Source: method.Average, Subnet: second}}},
			{Subnet: first, Soft: 1, Teachers: []method.Teacher{full}},
		}}
	}
	a, others, err := arrange(step(subs[0], subs[1]), 4, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := others[method.Average]; len(got) != 3 {
		t.Fatalf("%d teachers; want 3, the full network once", len(got))
	}
	for _, s := range []train.Step{step(subs[1], subs[2]), step(subs[1], subs[1]), step(supernet.Subnet{}, subs[1])} {
		if _, ok := a.fits(s, 4, false); !ok {
			t.Error("a step with teachers that are equal by chance does not fit")
		}
	}
	other := step(subs[0], subs[1])
	other.Lessons[2].Teachers = []method.Teacher{{Source: method.Average, Subnet: subs[2]}}
	if _, ok := a.fits(other, 4, false); ok {
		t.Error("a step with a fourth teacher fits")
	}
	if _, ok := a.fits(step(subs[0], subs[1]), 4, true); ok {
		t.Error("a step with left-out blocks fits a program without")
	}
	if _, ok := a.fits(step(subs[0], subs[1]), 5, false); ok {
		t.Error("a step with more images fits")
	}
	other = step(subs[0], subs[1])
	other.Lessons[1].Divergence = method.Alpha
	if _, ok := a.fits(other, 4, false); ok {
		t.Error("a step with another divergence fits")
	}
	for _, bad := range [][]method.Teacher{nil, {{Source: method.Live, Lesson: 2}}} {
		other = step(subs[0], subs[1])
		other.Lessons[2].Teachers = bad
		if _, _, err := arrange(other, 4, false); err == nil {
			t.Errorf("teachers %v are no error", bad)
		}
	}
}

// TestTenSteps: after ten steps of every method, in both forms of its loss, weights,
// momentum, moving average and frozen teacher are those of the processor.
func TestTenSteps(t *testing.T) {
	d := openTestDevice(t)
	const steps = 10
	for i, c := range []struct {
		name string
		loss method.Loss
	}{
		{"tips", method.Paper}, {"us-nets", method.Paper}, {"us-nets", method.Own}, {"joslim", method.Paper}, {"ds-net", method.Own},
		{"ofa", method.Paper}, {"attentive-nas", method.Own}, {"alphanet", method.Own}, {"static", method.Paper},
	} {
		// Each on a network with blocks, widths and batch norm; in turn.
		reference := []string{"resnet_small:width=8,data=cifar10,size=10,divisor=4→stage3.block2.add", "mlp:depth=4,width=24,inputs=20,classes=5,divisor=4"}[i%2]
		t.Run(fmt.Sprintf("%s,%s", c.name, c.loss), func(t *testing.T) {
			n := network(t, reference)
			m, err := method.New(c.name, method.Config{Network: n, Loss: c.loss, Steps: steps})
			if err != nil {
				t.Fatal(err)
			}
			settings := train.Settings{
				Network: n, Smoothing: 0.1, Average: m.EMA(),
				Update: train.Update{Momentum: 0.9, WeightDecay: 1e-3, Nesterov: i%3 == 0, DecayNorm: i%2 == 0, DecayBias: i%4 == 0, ClipNorm: float64(i%2) * 2},
			}
			state := train.NewState(randomSet(n, 1), m.EMA() != 0)
			p := newPair(t, d, settings, state)
			for k := range steps {
				batch := randomBatch(n, 16, uint64(k))
				judge := judges{t, p, batch}
				rng := rand.New(rand.NewPCG(1, uint64(k)))
				if tau := m.Interval(); tau > 0 && k%tau == 0 {
					if err := m.Review(context.Background(), k, rng, judge); err != nil {
						t.Fatal(err)
					}
				}
				plan, err := m.Step(context.Background(), k, rng, judge)
				if err != nil {
					t.Fatal(err)
				}
				for _, action := range plan.Before {
					p.act(t, action)
				}
				p.step(t, train.Step{Batch: batch, Lessons: plan.Lessons, Rate: 0.01}, 1e-3)
			}
			p.sameState(t, state, 1e-3)
			if n := len(p.device.steps); n > 5 {
				t.Errorf("%d programs for ten steps", n)
			}
		})
	}
}

// TestTenStepsOfNetworks: after ten steps weights are those of the processor, for
// each family of networks, with subnetworks that leave out blocks.
func TestTenStepsOfNetworks(t *testing.T) {
	d := openTestDevice(t)
	for _, reference := range []string{
		"mlp:depth=4,width=24,inputs=20,classes=5,divisor=4",
		"mobilenet_v2:width=0.25,data=cifar10,size=10→block3.add",
		"resnet_small:width=8,data=cifar10,size=10,divisor=4→stage3.block2.add",
		"efficientnet_b0:data=cifar10,size=7→block3.add",
	} {
		t.Run(reference, func(t *testing.T) {
			n := network(t, reference)
			state := train.NewState(randomSet(n, 1), false)
			p := newPair(t, d, train.Settings{Network: n, Update: train.Update{Momentum: 0.9, WeightDecay: 1e-4}}, state)
			for k := range 10 {
				s := train.Step{Batch: randomBatch(n, 16, uint64(k)), Rate: 0.01, Lessons: []method.Lesson{{Label: 1}}}
				for _, sub := range subnets(n, 2, uint64(k), true) {
					s.Lessons = append(s.Lessons, method.Lesson{Subnet: sub, Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}})
				}
				p.step(t, s, 1e-3)
			}
			p.sameState(t, state, 1e-3)
		})
	}
}

// judges asks both executors, and compares.
type judges struct {
	t     *testing.T
	p     *pair
	batch *dataset.Batch
}

func (j judges) Losses(ctx context.Context, subs []supernet.Subnet) ([]float64, error) {
	want, err := j.p.cpu.Losses(ctx, j.batch, subs)
	if err != nil {
		return nil, err
	}
	got, err := j.p.device.Losses(ctx, j.batch, subs)
	if err != nil {
		return nil, err
	}
	for i := range want {
		if !near(got[i], want[i], 1e-3) {
			j.t.Errorf("loss %d: %v; want %v", i, got[i], want[i])
		}
	}
	return want, nil
}

// act does to both what a method wants done: their states leave one executor and
// come back in the other.
func (p *pair) act(t *testing.T, action method.Action) {
	t.Helper()
	cpu, device := p.states(t)
	switch action {
	case method.Freeze:
		cpu.Frozen, device.Frozen = cpu.Weights.Clone(), device.Weights.Clone()
	case method.SortChannels:
		// Orders may differ where channels are as good as equal: both take that of one.
		order := weights.ChannelOrder(cpu.Weights)
		for _, s := range []*train.State{cpu, device} {
			for _, set := range []*weights.Set{s.Weights, s.Momentum, s.Average} {
				if set != nil {
					order.Apply(set)
				}
			}
		}
	}
	if err := p.cpu.Restore(cpu); err != nil {
		t.Fatal(err)
	}
	if err := p.device.Restore(device); err != nil {
		t.Fatal(err)
	}
}

// TestEvaluate: losses, right answers and statistics are those of the processor,
// for more subnetworks than run at once and batches of different sizes.
func TestEvaluate(t *testing.T) {
	d := openTestDevice(t)
	for _, reference := range []string{networks[0], networks[1], networks[2]} {
		t.Run(reference, func(t *testing.T) {
			n := network(t, reference)
			state := train.NewState(randomSet(n, 1), true)
			state.Average = randomSet(n, 2)
			p := newPair(t, d, train.Settings{Network: n, Average: 0.9}, state)
			e := train.Examination{
				Subnets: append(subnets(n, 5, 3, true), supernet.Subnet{}), Average: true,
				Calibration: batches(randomBatch(n, 24, 1), randomBatch(n, 7, 2)),
				Test:        batches(randomBatch(n, 20, 3), randomBatch(n, 9, 4)),
			}
			want, err := p.cpu.Evaluate(context.Background(), e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.device.Evaluate(context.Background(), e)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want {
				g := got[i]
				if !near(g.Loss, w.Loss, 1e-4) || g.Correct != w.Correct || g.Images != w.Images {
					t.Errorf("subnetwork %d: %+v; want %+v", i, g, w)
				}
				sameStatistics(t, g.Statistics, w.Statistics)
			}
			if programs := len(p.device.forwards); programs != 2 {
				t.Errorf("%d programs; want 2, whatever the size of the last batch", programs)
			}
		})
	}
}

func sameStatistics(t *testing.T, got, want *weights.Statistics) {
	t.Helper()
	for op, variance := range want.Variance {
		if len(got.Mean[op]) != len(variance) || len(got.Variance[op]) != len(variance) {
			t.Fatalf("operation %d has %d means and %d variances; want %d", op, len(got.Mean[op]), len(got.Variance[op]), len(variance))
		}
		for k, v := range variance {
			mean, apart := want.Mean[op][k], float64(got.Mean[op][k]-want.Mean[op][k])
			if math.Abs(apart) > 1e-4*math.Sqrt(float64(v)) || !near(float64(got.Variance[op][k]), float64(v), 1e-4) {
				t.Fatalf("operation %d, channel %d: mean %v, variance %v; want %v, %v", op, k, got.Mean[op][k], got.Variance[op][k], mean, v)
			}
		}
	}
}

// TestNotFinite: a step that is not finite changes nothing, and says which lesson is
// to blame.
func TestNotFinite(t *testing.T) {
	d := openTestDevice(t)
	n := network(t, "mlp:depth=4,width=24,inputs=20,classes=5,divisor=4")
	for _, c := range []struct {
		name     string
		spoil    func(*train.State, *train.Step)
		lesson   int
		gradient bool
	}{
		{"loss", func(s *train.State, _ *train.Step) { s.Weights.Ops[len(s.Weights.Ops)-1].Bias[0] = float32(math.NaN()) }, 0, false},
		{"gradient", func(_ *train.State, s *train.Step) { s.Lessons[1].Label = 1e38 }, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := train.NewState(randomSet(n, 1), false)
			s := train.Step{Batch: randomBatch(n, 6, 1), Rate: 0.1, Lessons: []method.Lesson{
				{Label: 1}, {Subnet: n.Smallest(), Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live}}},
			}}
			c.spoil(state, &s)
			p := newPair(t, d, train.Settings{Network: n, Update: train.Update{Momentum: 0.9}}, state)
			before, err := p.device.State()
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.device.Step(context.Background(), s)
			var bad *train.NotFiniteError
			if !errors.As(err, &bad) || bad.Lesson != c.lesson || bad.Gradient != c.gradient {
				t.Fatalf("error %v; want one of lesson %d", err, c.lesson)
			}
			after, err := p.device.State()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Momentum.Ops, after.Momentum.Ops); diff != "" {
				t.Error("the momentum has changed:", diff)
			}
			if diff := cmp.Diff(before.Weights.Ops, after.Weights.Ops, cmpopts.EquateNaNs()); diff != "" {
				t.Error("weights have changed:", diff)
			}
		})
	}
}

// TestStateRoundTrip: what was put in comes out, bit by bit.
func TestStateRoundTrip(t *testing.T) {
	d := openTestDevice(t)
	for _, reference := range networks {
		n := network(t, reference)
		state := &train.State{Weights: randomSet(n, 1), Momentum: randomSet(n, 2), Average: randomSet(n, 3), Frozen: randomSet(n, 4)}
		p := newPair(t, d, train.Settings{Network: n, Average: 0.5}, state)
		got, err := p.device.State()
		if err != nil {
			t.Fatal(err)
		}
		for i, sets := range [][2]*weights.Set{{got.Weights, state.Weights}, {got.Momentum, state.Momentum}, {got.Average, state.Average}, {got.Frozen, state.Frozen}} {
			if diff := cmp.Diff(sets[1].Ops, sets[0].Ops); diff != "" {
				t.Errorf("%s, %d: %s", reference, i, diff)
			}
		}
	}
}
