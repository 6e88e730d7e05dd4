package method

import (
	"slices"
	"testing"

	"tips/sampling"
	"tips/supernet"
)

// chain is a network without a block to leave out.
func chain(t testing.TB) *supernet.Network {
	t.Helper()
	n, err := supernet.New(supernet.Description{
		Name: "chain", Input: supernet.Shape{Channels: 3, Height: 8, Width: 8},
		Operations: []supernet.Op{
			{Name: "a", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 32, Kernel: 3, Padding: 1},
			{Name: "b", Kind: supernet.Conv, Inputs: []string{"a"}, Channels: 64, Kernel: 3, Padding: 1},
			{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{"b"}},
			{Name: "c", Kind: supernet.Linear, Inputs: []string{"pool"}, Channels: 10},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOFA walks through whole trainings: 40 % full, 20 % depth, 40 % width.
func TestOFA(t *testing.T) {
	const steps = 1450
	for _, reference := range []string{"mobilenet_v2:width=1.4,data=cifar100", "resnet50", "chain"} {
		n := chain(t)
		if reference != "chain" {
			n = network(t, reference)
		}
		// Ends of phases: two of depths, 25 to 120, two of widths likewise.
		fullEnd, depthEnd := 580, 870
		firstDepth, firstWidth := 580+50, 870+100
		if len(sampling.Stages(n)) == 0 {
			depthEnd, firstDepth, firstWidth = 580, 580, 580+150
		}
		for _, loss := range []Loss{Paper, Own} {
			m := newMethod(t, "ofa", Config{Network: n, Steps: steps, Loss: loss})
			deepest := map[int]int{} // most blocks of a stage left out, by phase
			narrow := map[int]bool{} // whether the smallest widths occur
			for step := range steps {
				s := plan(t, m, step, uint64(step), nil)
				wantValid(t, n, s)
				var want []Action
				if step == fullEnd {
					want = append(want, Freeze)
				}
				if step == depthEnd {
					want = append(want, SortChannels)
				}
				if !slices.Equal(s.Before, want) {
					t.Fatalf("%s: step %d begins with %v; want %v", reference, step, s.Before, want)
				}
				phase, count := 0, 1
				switch {
				case step >= firstWidth:
					phase, count = 4, 4
				case step >= depthEnd:
					phase, count = 3, 4
				case step >= firstDepth:
					phase, count = 2, 2
				case step >= fullEnd:
					phase, count = 1, 2
				}
				if len(s.Lessons) != count {
					t.Fatalf("%s: step %d trains %d networks; want %d", reference, step, len(s.Lessons), count)
				}
				for _, l := range s.Lessons {
					if phase == 0 {
						if !l.Subnet.IsFull() || l.Label != 1 || l.Soft != 0 {
							t.Fatalf("%s: step %d: %+v", reference, step, l)
						}
						continue
					}
					if l.Label != 1 || l.Soft != 1 || !slices.Equal(l.Teachers, []Teacher{{Source: Frozen}}) || l.Divergence != SoftCE {
						t.Fatalf("%s: step %d: %+v", reference, step, l)
					}
					w, without, err := n.Widths(l.Subnet)
					if err != nil {
						t.Fatal(err)
					}
					for _, stage := range sampling.Stages(n) {
						left := 0
						for _, b := range stage {
							if slices.Contains(without, b) {
								left++
							}
						}
						deepest[phase] = max(deepest[phase], left)
					}
					for g, group := range n.Groups() {
						allowed := []int{group.Channels}
						if phase >= 3 {
							allowed = append(allowed, group.Round(0.675))
						}
						if phase == 4 {
							allowed = append(allowed, group.Round(0.35))
							narrow[phase] = narrow[phase] || w[g] == group.Round(0.35) && w[g] != group.Round(0.675)
						}
						if !slices.Contains(allowed, w[g]) {
							t.Fatalf("%s: step %d: width %d of %s; want one of %v", reference, step, w[g], group.Name, allowed)
						}
					}
				}
			}
			want := map[int]int{1: 1, 2: 2, 3: 2, 4: 2}
			for phase := 1; phase <= 4 && reference != "chain"; phase++ {
				if deepest[phase] != want[phase] {
					t.Errorf("%s: phase %d leaves out up to %d blocks of a stage; want %d", reference, phase, deepest[phase], want[phase])
				}
			}
			if !narrow[4] {
				t.Errorf("%s: the smallest widths never occur", reference)
			}
		}
	}
}

// TestShortOFA: however few steps there are, nobody learns from a teacher that is
// not there, and every action comes once at most.
func TestShortOFA(t *testing.T) {
	for _, n := range []*supernet.Network{network(t, "resnet18:data=cifar10"), chain(t)} {
		for steps := 1; steps < 40; steps++ {
			m := newMethod(t, "ofa", Config{Network: n, Steps: steps})
			var done []Action
			for step := range steps {
				s := plan(t, m, step, uint64(step), nil)
				done = append(done, s.Before...)
				for _, l := range s.Lessons {
					if l.Soft > 0 && !slices.Contains(done, Freeze) {
						t.Fatalf("%d steps: step %d learns from a network that was not frozen", steps, step)
					}
				}
				if step == 0 && (len(s.Before) != 0 || !s.Lessons[0].Subnet.IsFull()) {
					t.Fatalf("%d steps: the first is %+v", steps, s)
				}
			}
			if want := []Action{Freeze, SortChannels}; !slices.Equal(done, want[:min(len(done), 2)]) || steps > 2 && len(done) != 2 {
				t.Errorf("%d steps: actions %v", steps, done)
			}
		}
	}
}

// TestTrainedDepths: search may leave out as many blocks as training did.
func TestTrainedDepths(t *testing.T) {
	for _, name := range Names() {
		want := 0
		if name == "ofa" {
			want = 2
		}
		if got := Depths(name); got != want {
			t.Errorf("%s leaves out %d blocks of a stage; want %d", name, got, want)
		}
	}
}
