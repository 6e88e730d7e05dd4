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

	"tips/dataset"
	"tips/sampling"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
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

// states are those of both.
func (p *pair) states(t testing.TB) (cpu, device *train.State) {
	t.Helper()
	var errs [2]error
	cpu, errs[0] = p.cpu.State()
	device, errs[1] = p.device.State()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return cpu, device
}

// sameState compares the states of both: every tensor within a part of its largest
// change from base.
func (p *pair) sameState(t testing.TB, base *train.State, relative float64) {
	t.Helper()
	want, got := p.states(t)
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

func batches(list ...*dataset.Batch) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}
