package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/kernel"
	"tips/internal/randnet"
	"tips/internal/reference"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// small are networks of every family at sizes that the reference can do; of some
// families only, in short.
func small() []string {
	list := []string{
		"mlp:depth=6,width=40",
		"mobilenet_v2:data=cifar10,size=16,width=0.5",
		"efficientnet_b0:data=cifar10,size=16",
		"resnet18:data=cifar10,size=16",
		"resnet50:data=cifar10,size=16",
		"resnext50_32x4d:data=cifar10,size=16",
	}
	if testing.Short() {
		return list[:2]
	}
	return list
}

// load makes a network with random weights.
func load(t testing.TB, name string) *weights.Set {
	t.Helper()
	n, err := zoo.New(name)
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	return set
}

// loadAlive is load with statistics that fit, so that outputs depend on inputs:
// equal outputs of a network that says the same of everything would show nothing.
func loadAlive(t testing.TB, name string) *weights.Set {
	t.Helper()
	set := load(t, name)
	v := set.Network.Full()
	rng := rand.New(rand.NewPCG(1, 2))
	statistics := reference.Calibrate(set, v, channelsFirst(randomInput(rng, int(v.Input.Elements())), v.Input))
	for i := range set.Ops {
		set.Ops[i].Mean, set.Ops[i].Variance = statistics.Mean[i], statistics.Variance[i]
	}
	return set
}

// channelsFirst reorders a map for the reference.
func channelsFirst(x []float32, s supernet.Shape) []float64 {
	out := make([]float64, len(x))
	pixels := s.Height * s.Width
	for p := range pixels {
		for c := range s.Channels {
			out[c*pixels+p] = float64(x[p*s.Channels+c])
		}
	}
	return out
}

// channelsLast is the reverse.
func channelsLast(x []float64, s supernet.Shape) []float64 {
	out := make([]float64, len(x))
	pixels := s.Height * s.Width
	for p := range pixels {
		for c := range s.Channels {
			out[p*s.Channels+c] = x[c*pixels+p]
		}
	}
	return out
}

// referenceOutput is what the definitions give for one input.
func referenceOutput(set *weights.Set, v *supernet.View, x []float32, t *weights.Statistics) []float64 {
	return channelsLast(reference.Run(set, v, t, channelsFirst(x, v.Input)), v.Shape(v.Output()))
}

func randomInput(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func run(t testing.TB, m *Model, s supernet.Subnet, input supernet.Shape, batch, threads int, v kernel.Variant, x []float32, own *weights.Statistics) []float32 {
	t.Helper()
	p, err := m.Program(s, input, batch, own)
	if err != nil {
		t.Fatal(err)
	}
	session := NewSession(threads)
	defer session.Close()
	session.variant = v
	y := make([]float32, p.OutputLen())
	session.Run(p, y, x)
	return y
}

// distance is the largest difference relative to the largest value.
func distance(a, b []float64) float64 {
	difference, largest := 0.0, 0.0
	for i := range a {
		difference = max(difference, math.Abs(a[i]-b[i]))
		largest = max(largest, math.Abs(b[i]))
	}
	return difference / largest
}

// wantNear compares outputs relative to the largest of them.
func wantNear(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d outputs; want %d", what, len(got), len(want))
	}
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*largest) {
			t.Fatalf("%s: output %d is %v; want %v (largest %v)", what, i, got[i], want[i], largest)
		}
	}
}

// TestAgainstReference: the whole network, the smallest and random subnetworks
// agree with the definitions, in every variant the CPU has.
func TestAgainstReference(t *testing.T) {
	for _, name := range small() {
		t.Run(name, func(t *testing.T) {
			set := load(t, name)
			m := NewModel(set)
			rng := rand.New(rand.NewPCG(3, 3))
			subnets := []supernet.Subnet{{}, set.Network.Smallest()}
			for range 2 {
				subnets = append(subnets, randnet.Subnet(set.Network, rng))
			}
			for i, s := range subnets {
				input := set.Network.Input()
				if input.Height > 1 && i > 0 { // odd sizes too
					input.Height, input.Width = 9+rng.IntN(10), 9+rng.IntN(10)
				}
				v, err := set.Network.View(s, input)
				if err != nil {
					t.Fatal(err)
				}
				x := randomInput(rng, int(input.Elements()))
				own := reference.Calibrate(set, v, channelsFirst(x, input))
				want := referenceOutput(set, v, x, own)
				for _, variant := range kernel.Variants() {
					if variant == kernel.Generic && i > 1 {
						continue // slow, and the same code for all
					}
					got := run(t, m, s, input, 1, 1, variant, x, own)
					wantNear(t, fmt.Sprint(s, " on ", variant), got, want, 2e-5)
				}
				// Another input must give another output, or all this shows nothing.
				other := referenceOutput(set, v, randomInput(rng, len(x)), own)
				if d := distance(other, want); d < 1e-2 {
					t.Errorf("%s: another input changes the output by %v of its size only", s, d)
				}
			}
		})
	}
}

// oddNetworks have what no network of the zoo has: average pooling, batch norm and
// activations everywhere, sums of three, gates of full maps, the input read by
// all kinds.
func oddNetworks(t testing.TB, height, width int) map[string]*supernet.Network {
	conv := func(name, from string, c, k, stride, groups int) supernet.Op {
		return supernet.Op{Name: name, Kind: supernet.Conv, Inputs: []string{from}, Channels: c, Kernel: k, Stride: stride, Padding: k / 2, Groups: groups, Bias: true}
	}
	networks := map[string]*supernet.Network{}
	for name, ops := range map[string][]supernet.Op{
		"joins": {
			conv("a", "input", 12, 3, 1, 1),
			conv("b", "a", 12, 1, 1, 1),
			conv("c", "b", 12, 5, 1, 1),
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"a", "b", "c"}, Norm: true, Activation: supernet.SiLU},
			{Name: "gate", Kind: supernet.Mul, Inputs: []string{"sum", "a"}, Activation: supernet.Sigmoid},
			{Name: "twice", Kind: supernet.Add, Inputs: []string{"gate", "gate"}},
			{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{"twice"}, Norm: true, Activation: supernet.ReLU},
			{Name: "out", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 7, Bias: true, Activation: supernet.Sigmoid},
		},
		"input everywhere": {
			{Name: "dw", Kind: supernet.Depthwise, Inputs: []string{"input"}, Kernel: 3, Padding: 1, Norm: true},
			{Name: "avg", Kind: supernet.AvgPool, Inputs: []string{"input"}, Kernel: 3, Stride: 1, Padding: 1, Activation: supernet.ReLU6},
			{Name: "max", Kind: supernet.MaxPool, Inputs: []string{"input"}, Kernel: 3, Stride: 1, Padding: 1, Norm: true, Activation: supernet.SiLU},
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"dw", "avg", "max", "input"}},
			conv("conv", "sum", 3, 3, 1, 1),
			{Name: "res", Kind: supernet.Add, Inputs: []string{"conv", "input"}, Activation: supernet.ReLU},
			conv("last", "res", 5, 3, 2, 1),
		},
		"groups and odd windows": {
			conv("a", "input", 24, 4, 3, 1),
			conv("b", "a", 36, 3, 1, 6),
			conv("c", "b", 12, 2, 2, 3),
			{Name: "dw7", Kind: supernet.Depthwise, Inputs: []string{"c"}, Kernel: 7, Stride: 3, Padding: 3, Bias: true, Activation: supernet.Sigmoid},
			{Name: "pool", Kind: supernet.AvgPool, Inputs: []string{"dw7"}, Kernel: 2, Stride: 1, Padding: 1},
		},
		"residual that its own input is": {
			conv("a", "input", 16, 1, 1, 1),
			conv("b", "a", 16, 3, 1, 1),
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"a", "b"}, Activation: supernet.ReLU},
			conv("c", "sum", 16, 3, 1, 1),
			conv("d", "c", 16, 1, 1, 1),
			{Name: "sum2", Kind: supernet.Add, Inputs: []string{"d", "sum"}},
			{Name: "sum3", Kind: supernet.Add, Inputs: []string{"sum2", "sum"}},
		},
	} {
		n, err := supernet.New(supernet.Description{Name: "odd", Input: supernet.Shape{Channels: 3, Height: height, Width: width}, Elastic: supernet.Elastic{Divisor: 1}, Operations: ops})
		if err != nil {
			t.Fatal(err)
		}
		networks[name] = n
	}
	return networks
}

func TestOddNetworks(t *testing.T) {
	for name, n := range oddNetworks(t, 19, 23) {
		set := weights.Random(n, 1)
		set.RandomNorm(2)
		m := NewModel(set)
		rng := rand.New(rand.NewPCG(4, 4))
		for range 6 {
			s := randnet.Subnet(n, rng)
			v, err := n.View(s, n.Input())
			if err != nil {
				t.Fatal(err)
			}
			x := randomInput(rng, int(n.Input().Elements()))
			own := reference.Calibrate(set, v, channelsFirst(x, v.Input))
			want := referenceOutput(set, v, x, own)
			for _, variant := range kernel.Variants() {
				wantNear(t, fmt.Sprint(name, ", ", s, " on ", variant), run(t, m, s, n.Input(), 1, 2, variant, x, own), want, 2e-5)
			}
		}
	}
}

// TestRandomNetworks runs networks of any shape: strips wherever they can be, and
// nowhere, against the definitions.
func TestRandomNetworks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := supernet.New(randnet.Draw(t))
		if err != nil {
			t.Fatal(err)
		}
		set := weights.Random(n, 1)
		set.RandomNorm(2)
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		s := randnet.Subnet(n, rng)
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		x := randomInput(rng, int(v.Input.Elements()))
		own := reference.Calibrate(set, v, channelsFirst(x, v.Input))
		want := referenceOutput(set, v, x, own)
		// Where batch norm divides by nearly nothing, roundings grow: by as much as
		// a change of the input in its last digits does.
		rounding := distance(referenceOutput(set, v, lastDigits(x), own), want)
		always, never := withStrips(set, 1+rng.IntN(4))
		for _, m := range []*Model{always, never} {
			p, err := m.Program(s, v.Input, 1, own)
			if err != nil {
				t.Fatal(err)
			}
			session := NewSession(1 + rng.IntN(3))
			y := make([]float32, p.OutputLen())
			session.Run(p, y, x)
			session.Close()
			for i := range y {
				if math.IsNaN(float64(y[i])) || math.Abs(float64(y[i])-want[i]) > (1e-4+rounding)*largest(want) {
					t.Fatalf("%s of %+v: output %d is %v; want %v", s, n.Description(), i, y[i], want[i])
				}
			}
		}
	})
}

// lastDigits changes values by about ten roundings.
func lastDigits(x []float32) []float32 {
	y := slices.Clone(x)
	for i := range y {
		y[i] *= 1 + 1e-6
	}
	return y
}

func largest(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

// TestInPlaceEqualsExtracted: a subnetwork run from the shared weights gives, bit
// for bit, what weights of its own would.
func TestInPlaceEqualsExtracted(t *testing.T) {
	for _, name := range small() {
		set := loadAlive(t, name)
		m, _ := withStrips(set, 3) // the extracted network has none
		rng := rand.New(rand.NewPCG(5, 5))
		for range 4 {
			s := randnet.Subnet(set.Network, rng)
			alone, err := set.Extract(s)
			if err != nil {
				t.Fatal(err)
			}
			input := set.Network.Input()
			x := randomInput(rng, int(input.Elements()))
			v, err := set.Network.View(s, input)
			if err != nil {
				t.Fatal(err)
			}
			own := reference.Calibrate(set, v, channelsFirst(x, input))
			for i, op := range alone.Network.Ops() {
				from, _ := set.Network.Index(op.Name)
				alone.Ops[i].Mean, alone.Ops[i].Variance = own.Mean[from], own.Variance[from]
			}
			for _, variant := range kernel.Variants()[1:] {
				got := run(t, m, s, input, 1, 1, variant, x, own)
				want := run(t, NewModel(alone), supernet.Subnet{}, input, 1, 1, variant, x, nil)
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s on %s: %v in place, %v extracted", name, s, variant, got, want)
				}
			}
		}
	}
}

// TestThreadsAndBatches: neither the number of threads nor the company in a
// batch changes a bit.
func TestThreadsAndBatches(t *testing.T) {
	for _, name := range small() {
		set := loadAlive(t, name)
		m, _ := withStrips(set, 2)
		rng := rand.New(rand.NewPCG(6, 6))
		s := randnet.Subnet(set.Network, rng)
		input := set.Network.Input()
		const batch = 3
		each := int(input.Elements())
		x := randomInput(rng, batch*each)
		want := run(t, m, s, input, batch, 1, 0, x, nil)
		for _, threads := range []int{2, 3, 5} {
			if got := run(t, m, s, input, batch, threads, 0, x, nil); !slices.Equal(got, want) {
				t.Errorf("%s: %d threads give other results", name, threads)
			}
		}
		classes := len(want) / batch
		for i := range batch {
			if got := run(t, m, s, input, 1, 1, 0, x[i*each:(i+1)*each], nil); !slices.Equal(got, want[i*classes:(i+1)*classes]) {
				t.Errorf("%s: input %d gives other results by itself", name, i)
			}
		}
	}
}

// TestStatistics: a program uses the statistics it is given.
func TestStatistics(t *testing.T) {
	set := loadAlive(t, "resnet18:data=cifar10,size=16")
	rng := rand.New(rand.NewPCG(7, 7))
	s := randnet.Subnet(set.Network, rng)
	v, err := set.Network.View(s, set.Network.Input())
	if err != nil {
		t.Fatal(err)
	}
	own := &weights.Statistics{Mean: make([][]float32, len(v.Ops)), Variance: make([][]float32, len(v.Ops))}
	for i, op := range set.Network.Ops() {
		if op.Norm && v.Ops[i].Runs {
			own.Mean[i] = randomInput(rng, v.Ops[i].Out.Channels)
			own.Variance[i] = randomInput(rng, v.Ops[i].Out.Channels)
			for c := range own.Variance[i] {
				own.Variance[i][c] = own.Variance[i][c]*own.Variance[i][c] + 0.1
			}
		}
	}
	m := NewModel(set)
	p, err := m.Program(s, set.Network.Input(), 1, own)
	if err != nil {
		t.Fatal(err)
	}
	x := randomInput(rng, p.InputLen())
	y := make([]float32, p.OutputLen())
	session := NewSession(1)
	defer session.Close()
	session.Run(p, y, x)
	wantNear(t, "own statistics", y, referenceOutput(set, v, x, own), 2e-5)

	stem, _ := set.Network.Index("stem")
	own.Mean[stem] = own.Mean[stem][:1]
	if _, err := m.Program(s, set.Network.Input(), 1, own); err == nil {
		t.Error("statistics of too few channels were accepted")
	}
	if _, err := m.Program(s, set.Network.Input(), 1, &weights.Statistics{}); err == nil {
		t.Error("no statistics at all were accepted")
	}
}

// TestNoAllocation: once warm, running any program of those run before
// allocates nothing, whichever ran last.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	set := loadAlive(t, "mobilenet_v2:data=cifar10,size=16")
	m, _ := withStrips(set, 2)
	rng := rand.New(rand.NewPCG(8, 8))
	var programs []*Program
	for range 3 {
		p, err := m.Program(randnet.Subnet(set.Network, rng), set.Network.Input(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	for _, threads := range []int{1, 2} {
		session := NewSession(threads)
		x := randomInput(rng, programs[0].InputLen())
		y := make([]float32, programs[0].OutputLen())
		for _, p := range programs {
			session.Run(p, y, x)
		}
		next := 0
		if n := testing.AllocsPerRun(20, func() {
			session.Run(programs[next%len(programs)], y, x)
			next++
		}); n != 0 {
			t.Errorf("%d threads: %v allocations a run", threads, n)
		}
		session.Close()
	}
}

// TestManySessions: goroutines run different subnetworks of one model at once
// and get what each gets alone.
func TestManySessions(t *testing.T) {
	set := loadAlive(t, "efficientnet_b0:data=cifar10,size=16")
	m := NewModel(set)
	rng := rand.New(rand.NewPCG(9, 9))
	type job struct {
		program *Program
		x, want []float32
	}
	var jobs []job
	for range 4 {
		p, err := m.Program(randnet.Subnet(set.Network, rng), set.Network.Input(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := randomInput(rng, p.InputLen())
		jobs = append(jobs, job{p, x, run(t, m, p.Subnet(), set.Network.Input(), 1, 1, 0, x, nil)})
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			session := NewSession(1 + g%2)
			defer session.Close()
			y := make([]float32, len(jobs[0].want))
			for i := range 8 {
				j := jobs[(g+i)%len(jobs)]
				session.Run(j.program, y, j.x)
				if !slices.Equal(y, j.want) {
					t.Errorf("goroutine %d, run %d: another result", g, i)
				}
			}
		})
	}
	group.Wait()
}

// TestArenaIsTight: feature maps share memory; what a program takes is near what
// the cost model says, up to padding of channels.
func TestArenaIsTight(t *testing.T) {
	for _, name := range []string{"mobilenet_v2", "resnet50", "efficientnet_b0"} {
		n, err := zoo.New(name)
		if err != nil {
			t.Fatal(err)
		}
		set := weights.New(n)
		m := NewModel(set)
		p, err := m.Program(supernet.Subnet{}, set.Network.Input(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := 4*int64(p.arena), p.view.Costs().PeakBytes
		if float64(got) > 1.15*float64(want) {
			t.Errorf("%s: feature maps take %d bytes; the cost model says %d", name, got, want)
		}
	}
}

func TestBadPrograms(t *testing.T) {
	set := loadAlive(t, "mlp")
	m := NewModel(set)
	n := set.Network
	for name, make := range map[string]func() error{
		"batch 0": func() error { _, err := m.Program(supernet.Subnet{}, n.Input(), 0, nil); return err },
		"other input": func() error {
			_, err := m.Program(supernet.Subnet{}, supernet.Shape{Channels: 3, Height: 1, Width: 1}, 1, nil)
			return err
		},
		"other network": func() error {
			o := load(t, "resnet18").Network
			_, err := m.Program(o.Smallest(), n.Input(), 1, nil)
			return err
		},
	} {
		if make() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	p, err := m.Program(supernet.Subnet{}, n.Input(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an output of the wrong length was accepted")
		}
	}()
	s := NewSession(1)
	defer s.Close()
	s.Run(p, nil, randomInput(rand.New(rand.NewPCG(1, 1)), p.InputLen()))
}
