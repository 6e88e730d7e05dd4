//go:build xla

package accel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tips/dataset"
	"tips/sampling"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// The device that tests run on: the Go backend, unless TIPS_DEVICE names another.
// Tests compare with train.CPU digit by digit, so a device that would round to
// fewer digits must not: see docs/accelerators.md.
func openTestDevice(t testing.TB) *Device {
	t.Helper()
	name := os.Getenv("TIPS_DEVICE")
	if name == "" {
		name = GoName
	}
	d, err := Open(name, Options{Precision: Float32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// network makes a network of the zoo or, where the reference ends in an arrow and
// the name of an operation, the beginning of one up to there, with a classifier.
// Whole ones have so many layers that the last digits of the first become the first
// of the last.
func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	reference, last, cut := strings.Cut(reference, "→")
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	if !cut {
		return n
	}
	i, ok := n.Index(last)
	if !ok {
		t.Fatalf("%s has no operation %s", reference, last)
	}
	description := n.Description()
	description.Operations = append(description.Operations[:i+1],
		supernet.Op{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{last}},
		supernet.Op{Name: "classifier", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 10, Bias: true})
	if n, err = supernet.New(description); err != nil {
		t.Fatal(err)
	}
	return n
}

func randomBatch(n *supernet.Network, images int, seed uint64) *dataset.Batch {
	rng := rand.New(rand.NewPCG(seed, 5))
	classes := n.Full().Ops[len(n.Ops())-1].Out.Channels
	b := &dataset.Batch{N: images, Images: make([]float32, images*int(n.Input().Elements())), Labels: make([]int32, images)}
	for i := range b.Images {
		b.Images[i] = float32(rng.NormFloat64())
	}
	for i := range b.Labels {
		b.Labels[i] = int32(rng.IntN(classes))
	}
	return b
}

func randomSet(n *supernet.Network, seed uint64) *weights.Set {
	s := weights.Random(n, seed)
	s.RandomNorm(seed)
	return s
}

// pair is the same on the processor and on the device.
type pair struct {
	cpu    *train.CPU
	device *Executor
}

func newPair(t testing.TB, d *Device, s train.Settings, state *train.State) *pair {
	t.Helper()
	x, err := d.newExecutor(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{train.NewCPU(s, 1), x}
	t.Cleanup(func() {
		p.cpu.Close()
		p.device.Close()
	})
	for _, e := range []train.Executor{p.cpu, p.device} {
		if err := e.Restore(state); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func near(a, b, relative float64) bool {
	return math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b))+1e-7
}

// step takes one step on both, and compares what they tell.
func (p *pair) step(t testing.TB, s train.Step, relative float64) {
	t.Helper()
	want, err := p.cpu.Step(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.device.Step(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Lessons) != len(want.Lessons) {
		t.Fatalf("%d lessons; want %d", len(got.Lessons), len(want.Lessons))
	}
	for i, w := range want.Lessons {
		g := got.Lessons[i]
		if !near(g.Loss, w.Loss, relative) || !near(g.Label, w.Label, relative) || !near(g.Soft, w.Soft, relative) || g.Correct != w.Correct {
			t.Errorf("lesson %d: %+v; want %+v", i, g, w)
		}
	}
	if !near(got.Norm, want.Norm, relative) {
		t.Errorf("norm %v; want %v", got.Norm, want.Norm)
	}
}

// sameState compares the states of both: every tensor within a part of its largest
// change from base.
func (p *pair) sameState(t testing.TB, base *train.State, relative float64) {
	t.Helper()
	want, err := p.cpu.State()
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.device.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what            string
		got, want, base *weights.Set
	}{{"weights", got.Weights, want.Weights, base.Weights}, {"momentum", got.Momentum, want.Momentum, base.Momentum}, {"average", got.Average, want.Average, base.Average}, {"frozen", got.Frozen, want.Frozen, base.Frozen}} {
		if (c.got == nil) != (c.want == nil) {
			t.Fatalf("%s: %v; want %v", c.what, c.got, c.want)
		}
		if c.got != nil {
			if c.base == nil { // frozen on the way
				c.base = base.Weights
			}
			sameSets(t, c.what, c.got, c.want, c.base, relative)
		}
	}
}

func sameSets(t testing.TB, what string, got, want, base *weights.Set, relative float64) {
	t.Helper()
	roles := func(s *weights.Set, i int) [][]float32 {
		p := s.Ops[i]
		return [][]float32{p.Weight, p.Bias, p.Scale, p.Shift}
	}
	whole, apart := 0.0, 0.0 // squares
	type off struct {
		name           string
		worst, largest float64
	}
	var offs []off
	for i, op := range got.Network.Ops() {
		g, w, b := roles(got, i), roles(want, i), roles(base, i)
		for role := range w {
			o := off{name: fmt.Sprintf("%s, %d", op.Name, role)}
			for k, v := range w[role] {
				change, error := math.Abs(float64(v-b[role][k])), math.Abs(float64(g[role][k]-v))
				o.largest, o.worst = max(o.largest, change), max(o.worst, error)
				whole += change * change
				apart += error * error
			}
			offs = append(offs, o)
		}
	}
	if apart > relative*relative*whole {
		t.Errorf("%s: off by %v of a change of %v", what, math.Sqrt(apart), math.Sqrt(whole))
	}
	for _, o := range offs {
		// A change of nothing, such as that of a shift before another batch norm, is
		// what is left of sums that cancel out.
		if o.worst > 10*relative*o.largest+1e-7*math.Sqrt(whole)+1e-6 {
			t.Errorf("%s of %s: off by %v where the largest change is %v", what, o.name, o.worst, o.largest)
		}
	}
}

// subnets draws subnetworks, those with every third block left out among them.
func subnets(n *supernet.Network, count int, seed uint64, depth bool) []supernet.Subnet {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := sampling.PerGroup(n)
	var list []supernet.Subnet
	for i := range count {
		s := draw.Draw(rng)
		if depth && i%2 == 0 {
			widths, _, _ := n.Widths(s)
			var without []int
			for b := range n.Blocks() {
				if (b+i/2)%3 == 0 {
					without = append(without, b)
				}
			}
			s, _ = n.Subnet(widths, without)
		}
		list = append(list, s)
	}
	return list
}

// The networks that executors are compared on: small, and every kind of operation
// is in one of them.
var networks = []string{
	"mlp:depth=4,width=24,inputs=20,classes=5,divisor=4",
	"mobilenet_v2:width=0.25,data=cifar10,size=12→block6.add",
	"resnet_small:width=8,data=cifar10,size=12,divisor=4",
	"resnet18:data=cifar10,size=7,divisor=16→stage1.block1.add", // has a pooling
	"resnext50_32x4d:data=cifar10,size=8→stage1.block2.add",     // has groups
	"efficientnet_b0:data=cifar10,size=9→block5.add",
}

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

func batches(list ...*dataset.Batch) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
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
	cpu, err := p.cpu.State()
	if err != nil {
		t.Fatal(err)
	}
	device, err := p.device.State()
	if err != nil {
		t.Fatal(err)
	}
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
