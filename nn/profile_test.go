package nn

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// TestProfile: a run with a clock computes what a run without one does, and every
// step takes some time.
func TestProfile(t *testing.T) {
	for _, name := range []string{"mobilenet_v2:data=cifar100", "efficientnet_b0", "resnet18:data=cifar10", "mlp"} {
		n, err := zoo.New(name)
		if err != nil {
			t.Fatal(err)
		}
		input := n.Input()
		if name == "efficientnet_b0" {
			input.Height, input.Width = 64, 64
		}
		p, err := NewModel(weights.Random(n, 1)).Program(n.Smallest(), input, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, p.InputLen())
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		want, got := make([]float32, p.OutputLen()), make([]float32, p.OutputLen())
		s := NewSession(2)
		defer s.Close()
		s.Run(p, want, x)
		took := make([]time.Duration, len(p.Steps()))
		s.Profile(p, got, x, took)
		if !slices.Equal(got, want) {
			t.Errorf("%s: a run with a clock computes something else", name)
		}
		for i, d := range took {
			if d <= 0 {
				t.Errorf("%s: %s takes %v", name, p.Steps()[i], d)
			}
		}
		if s.Threads() != 2 || Variant() == "" {
			t.Errorf("%d threads, kernels %q", s.Threads(), Variant())
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: room for too few steps is taken", name)
				}
			}()
			s.Profile(p, got, x, took[1:])
		}()
	}
}

// TestSteps: what an inverted residual block is computed in.
func TestSteps(t *testing.T) {
	n, err := zoo.New("mobilenet_v2")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := Plan(n.Full(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, s.String())
	}
	for _, want := range []string{
		"conv 3×224×224→32×112×112 k3s2p1 relu6",
		"strips 24×56×56→144→24×56×56 k3s1p1 +add relu6",
		"conv 160×7×7→960×7×7 k1s1p0 relu6",
		"depthwise 960×7×7→960×7×7 k3s1p1 relu6",
		"conv 960×7×7→160×7×7 k1s1p0 +add",
		"mean 1280×7×7→1280×1×1",
		"conv 1280×1×1→1000×1×1 k1s1p0",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no step %q among %q", want, got)
		}
	}
	if _, err := Plan(n.Full(), 0); err == nil {
		t.Error("a batch of 0 is planned")
	}
}

// TestPlan: a plan without weights has the steps of the program with weights.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := supernet.New(randnet.Draw(t))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewModel(weights.Random(n, 1)).Program(n.Smallest(), n.Input(), 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := Plan(p.View(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(steps, p.Steps()) {
			t.Fatalf("planned %v; the program has %v", steps, p.Steps())
		}
	})
}
