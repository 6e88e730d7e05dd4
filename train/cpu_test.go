package train

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tips/dataset"
	"tips/nn"
	"tips/supernet"
	"tips/train/method"
	"tips/weights"
)

const tinyNetwork = "resnet_small:width=16,data=fashion-mnist,size=8,divisor=8"

// randomBatch is a batch of noise for a network.
func randomBatch(n *supernet.Network, images int, seed uint64) *dataset.Batch {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := &dataset.Batch{N: images, Images: make([]float32, images*int(n.Input().Elements())), Labels: make([]int32, images)}
	for i := range b.Images {
		b.Images[i] = float32(rng.NormFloat64())
	}
	for i := range b.Labels {
		b.Labels[i] = int32(rng.IntN(10))
	}
	return b
}

func newTestCPU(t testing.TB, n *supernet.Network, s Settings, state *State) *CPU {
	t.Helper()
	s.Network = n
	c := NewCPU(s, 1)
	t.Cleanup(func() { c.Close() })
	if err := c.Restore(state); err != nil {
		t.Fatal(err)
	}
	return c
}

func step(t testing.TB, c *CPU, s Step) Outcome {
	t.Helper()
	o, err := c.Step(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// lessonsOfAllKinds has every teacher and every loss but a live one, which would
// have a finite difference of its own.
func lessonsOfAllKinds(n *supernet.Network) []method.Lesson {
	half, _ := n.Uniform(0.5)
	return []method.Lesson{
		{Label: 1},
		{Subnet: n.Smallest(), Label: 0.5, Soft: 1, Teachers: []method.Teacher{{Source: method.Frozen}, {Source: method.Average, Subnet: half}}},
		{Subnet: half, Soft: 1, Teachers: []method.Teacher{{Source: method.Average}}, Divergence: method.Alpha},
	}
}

// TestStepFollowsTheGradient: without momentum, the update of a step is the
// gradient of its loss, along any direction as finite differences find it.
func TestStepFollowsTheGradient(t *testing.T) {
	n := network(t, tinyNetwork)
	// Small logits: where Alpha clips a ratio its gradient is deliberately another.
	unsure := func(seed uint64) *weights.Set {
		s := randomised(n, seed)
		for i := range s.Ops[len(s.Ops)-1].Weight {
			s.Ops[len(s.Ops)-1].Weight[i] *= 0.2
		}
		return s
	}
	base := unsure(1)
	state := &State{Weights: base, Momentum: zeros(n), Average: unsure(7), Frozen: unsure(9)}
	s := Step{Batch: randomBatch(n, 12, 3), Lessons: lessonsOfAllKinds(n), Rate: 1}
	settings := Settings{Smoothing: 0.1, Average: 0.5}
	c := newTestCPU(t, n, settings, state)
	step(t, c, s)
	after, err := c.State()
	if err != nil {
		t.Fatal(err)
	}
	w, _ := values(base)
	moved, _ := values(after.Weights)

	for trial := range 4 {
		// Along the gradient itself, and a random sign for each value.
		rng := rand.New(rand.NewPCG(uint64(trial), 1))
		direction := randomised(n, 1)
		slope, length := 0.0, 0.0
		i := 0
		each(direction, func(_ nn.Role, v []float32) {
			for j := range v {
				g := float64(w[i] - moved[i])
				v[j] = float32(g)
				if trial > 0 && rng.IntN(2) == 0 {
					v[j] = 0
				}
				slope += g * float64(v[j])
				length += float64(v[j]) * float64(v[j])
				i++
			}
		})
		eps := 5e-4 / math.Sqrt(length)
		loss := func(by float64) float64 {
			shifted := base.Clone()
			d, _ := values(direction)
			i := 0
			each(shifted, func(_ nn.Role, v []float32) {
				for j := range v {
					v[j] += float32(by * float64(d[i]))
					i++
				}
			})
			state := &State{Weights: shifted, Momentum: zeros(n), Average: unsure(7), Frozen: unsure(9)}
			return step(t, newTestCPU(t, n, settings, state), s).Loss()
		}
		found := (loss(eps) - loss(-eps)) / (2 * eps)
		if math.Abs(found-slope) > 0.02*math.Abs(slope) {
			t.Errorf("trial %d: slope %v, finite differences say %v", trial, slope, found)
		}
	}
}

// TestTeachersAgree: a teacher that has the weights of now says what the live
// network says.
func TestTeachersAgree(t *testing.T) {
	n := network(t, tinyNetwork)
	set := randomised(n, 1)
	batch := randomBatch(n, 8, 2)
	var losses []float64
	for _, teachers := range [][]method.Teacher{
		{{Source: method.Live, Lesson: 0}},
		{{Source: method.Frozen}},
		{{Source: method.Average}},
		{{Source: method.Frozen}, {Source: method.Average}, {Source: method.Live}},
	} {
		c := newTestCPU(t, n, Settings{Average: 0.9}, &State{Weights: set, Momentum: zeros(n), Average: set, Frozen: set})
		o := step(t, c, Step{Batch: batch, Rate: 0.1, Lessons: []method.Lesson{{Label: 1}, {Subnet: n.Smallest(), Soft: 1, Teachers: teachers}}})
		losses = append(losses, o.Lessons[1].Loss)
	}
	for i, l := range losses {
		if math.Abs(l-losses[0]) > 1e-6*losses[0] {
			t.Errorf("teachers %d: loss %v; the live one's is %v", i, l, losses[0])
		}
	}
	for what, l := range map[string]method.Lesson{
		"no teacher":       {Soft: 1},
		"a later lesson":   {Soft: 1, Teachers: []method.Teacher{{Source: method.Live, Lesson: 3}}},
		"nothing frozen":   {Soft: 1, Teachers: []method.Teacher{{Source: method.Frozen}}},
		"no average":       {Soft: 1, Teachers: []method.Teacher{{Source: method.Average}}},
		"foreign subnet":   {Label: 1, Subnet: network(t, "mobilenet_v2").Smallest()},
		"foreign teachers": {Soft: 1, Teachers: []method.Teacher{{Source: method.Live, Lesson: 0}}},
	} {
		c := newTestCPU(t, n, Settings{}, NewState(set, false))
		if _, err := c.Step(context.Background(), Step{Batch: batch, Rate: 1, Lessons: []method.Lesson{l}}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestStateMoves: a run goes on from a state as it would have without.
func TestStateMoves(t *testing.T) {
	n := network(t, tinyNetwork)
	settings := Settings{Update: Update{Momentum: 0.9, WeightDecay: 1e-3}, Average: 0.9}
	take := func(c *CPU, i int) {
		step(t, c, Step{Batch: randomBatch(n, 8, uint64(i)), Rate: 0.05, Lessons: []method.Lesson{
			{Label: 1},
			{Subnet: n.Smallest(), Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Average}, {Source: method.Frozen}}},
		}})
	}
	start := NewState(weights.Random(n, 1), true)
	start.Frozen = weights.Random(n, 2)
	whole := newTestCPU(t, n, settings, start)
	for i := range 6 {
		take(whole, i)
	}
	moved := newTestCPU(t, n, settings, start)
	for i := range 6 {
		if i%2 == 1 {
			s, err := moved.State()
			if err != nil {
				t.Fatal(err)
			}
			moved = newTestCPU(t, n, settings, s)
		}
		take(moved, i)
	}
	a, _ := whole.State()
	b, _ := moved.State()
	for i, s := range a.sets() {
		x, _ := values(*s.set)
		y, _ := values(*b.sets()[i].set)
		if !slices.Equal(x, y) {
			t.Errorf("%s differ", s.name)
		}
	}
	if err := moved.Restore(NewState(weights.Random(n, 1), false)); err == nil {
		t.Error("a state without the average was taken")
	}
}

// TestNotFinite: the error names the network, and nothing has changed.
func TestNotFinite(t *testing.T) {
	n := network(t, tinyNetwork)
	set := weights.Random(n, 1)
	// The last channels belong to the full network only.
	last, _ := n.Index("stage4.block1.conv1")
	set.Ops[last].Scale[len(set.Ops[last].Scale)-1] = float32(math.Inf(1))
	c := newTestCPU(t, n, Settings{}, NewState(set, false))
	_, err := c.Step(context.Background(), Step{Batch: randomBatch(n, 8, 2), Rate: 1, Lessons: []method.Lesson{{Subnet: n.Smallest(), Label: 1}, {Label: 1}}})
	var bad *NotFiniteError
	if !errors.As(err, &bad) || bad.Lesson != 1 || !bad.Subnet.IsFull() {
		t.Fatalf("%v", err)
	}
	s, _ := c.State()
	got, _ := values(s.Weights)
	want, _ := values(set)
	if !slices.Equal(got, want) {
		t.Error("the weights have changed")
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Step(canceled, Step{Batch: randomBatch(n, 8, 2), Lessons: []method.Lesson{{Label: 1}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestGradientNotFinite: a gradient that overflows where the loss does not is
// somebody's too, and the error tells whose.
func TestGradientNotFinite(t *testing.T) {
	n := network(t, tinyNetwork)
	set := weights.Random(n, 1)
	half, err := n.Uniform(0.5)
	if err != nil {
		t.Fatal(err)
	}
	live := []method.Teacher{{Source: method.Live}}
	// Losses are sums of float64, gradients of float32, which end at 3.4e38.
	for name, l := range map[string]method.Lesson{
		"labels": {Subnet: half, Label: 1e39}, "taught": {Subnet: half, Label: 1, Soft: 1e39, Teachers: live},
	} {
		c := newTestCPU(t, n, Settings{}, NewState(set, false))
		_, err := c.Step(context.Background(), Step{Batch: randomBatch(n, 8, 2), Rate: 1, Lessons: []method.Lesson{
			{Label: 1}, l, {Subnet: n.Smallest(), Label: 1, Soft: 1, Teachers: live},
		}})
		var bad *NotFiniteError
		if !errors.As(err, &bad) || bad.Lesson != 1 || bad.Subnet != half || !bad.Gradient || finite(bad.Value) {
			t.Fatalf("%s: %v", name, err)
		}
		if want := "the norm of the gradient of subnetwork " + half.String() + " is "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
		s, _ := c.State()
		got, _ := values(s.Weights)
		want, _ := values(set)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the weights have changed", name)
		}
	}
}

func batches(list ...*dataset.Batch) func(func(*dataset.Batch, error) bool) {
	return func(yield func(*dataset.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// TestEvaluateCalibrates: with the statistics of a batch, the network that is
// judged on it computes what it did with batch statistics.
func TestEvaluateCalibrates(t *testing.T) {
	n := network(t, tinyNetwork)
	set := randomised(n, 4) // whose own statistics are nonsense
	c := newTestCPU(t, n, Settings{Average: 0.9}, &State{Weights: set, Momentum: zeros(n), Average: randomised(n, 6)})
	batch := randomBatch(n, 64, 1)
	subs := []supernet.Subnet{{}, n.Smallest()}
	want, err := c.Losses(context.Background(), batch, subs)
	if err != nil {
		t.Fatal(err)
	}
	small := &dataset.Batch{N: 16, Images: batch.Images[:16*64], Labels: batch.Labels[:16]}
	rest := &dataset.Batch{N: 48, Images: batch.Images[16*64:], Labels: batch.Labels[16:]}
	scores, err := c.Evaluate(context.Background(), Examination{Subnets: subs, Calibration: batches(batch), Test: batches(rest, small)})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range scores {
		if s.Images != 64 || math.Abs(s.Loss-want[i]) > 0.02*want[i] {
			t.Errorf("subnetwork %d: loss %v on %d images; with batch statistics %v", i, s.Loss, s.Images, want[i])
		}
		if s.Correct < 0 || s.Accuracy() != float64(s.Correct)/64 {
			t.Errorf("%+v", s)
		}
	}
	other, err := c.Evaluate(context.Background(), Examination{Subnets: subs, Average: true, Calibration: batches(batch), Test: batches(batch)})
	if err != nil {
		t.Fatal(err)
	}
	if other[0].Loss == scores[0].Loss {
		t.Error("the average was not judged")
	}
	if _, err := c.Evaluate(context.Background(), Examination{Subnets: subs, Calibration: batches(), Test: batches(batch)}); err == nil {
		t.Error("judged without calibration")
	}
}

// TestCalibrationAverages: means of means, and of unbiased variances, by images.
func TestCalibrationAverages(t *testing.T) {
	n := network(t, tinyNetwork)
	c := newTestCPU(t, n, Settings{}, NewState(randomised(n, 4), false))
	a, b := randomBatch(n, 8, 1), randomBatch(n, 24, 2)
	scores, err := c.Evaluate(context.Background(), Examination{Subnets: []supernet.Subnet{{}}, Calibration: batches(a, b), Test: batches()})
	if err != nil {
		t.Fatal(err)
	}
	var parts []*weights.Statistics
	for _, x := range []*dataset.Batch{a, b} {
		if _, err := c.learner.Forward(c.weights, supernet.Subnet{}, x.Images, x.N); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, c.learner.Statistics())
	}
	got := scores[0].Statistics
	for i, op := range n.Ops() {
		if !op.Norm {
			if got.Mean[i] != nil {
				t.Errorf("%s has no batch norm", op.Name)
			}
			continue
		}
		pixels := float64(n.Full().Ops[i].Out.Height * n.Full().Ops[i].Out.Width)
		for k := range got.Mean[i] {
			mean := 0.25*float64(parts[0].Mean[i][k]) + 0.75*float64(parts[1].Mean[i][k])
			variance := 0.25*float64(parts[0].Variance[i][k])*8*pixels/(8*pixels-1) + 0.75*float64(parts[1].Variance[i][k])*24*pixels/(24*pixels-1)
			if math.Abs(float64(got.Mean[i][k])-mean) > 1e-5*(1+math.Abs(mean)) || math.Abs(float64(got.Variance[i][k])-variance) > 1e-5*(1+variance) {
				t.Fatalf("%s channel %d: %v, %v; want %v, %v", op.Name, k, got.Mean[i][k], got.Variance[i][k], mean, variance)
			}
		}
	}
}
