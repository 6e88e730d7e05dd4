package train

import (
	"math"
	"slices"
	"testing"

	"tips/nn"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// randomised is a set with a value everywhere.
func randomised(n *supernet.Network, seed uint64) *weights.Set {
	s := weights.Random(n, seed)
	s.RandomNorm(seed + 1)
	return s
}

// each visits what a network learns, tensor by tensor.
func each(s *weights.Set, visit func(role nn.Role, values []float32)) {
	for i := range s.Ops {
		p := &s.Ops[i]
		visit(nn.RoleWeight, p.Weight)
		visit(nn.RoleBias, p.Bias)
		visit(nn.RoleScale, p.Scale)
		visit(nn.RoleShift, p.Shift)
	}
}

// values are all that a network learns, in one slice, with the role of each.
func values(s *weights.Set) (all []float32, roles []nn.Role) {
	each(s, func(role nn.Role, v []float32) {
		all = append(all, v...)
		roles = append(roles, slices.Repeat([]nn.Role{role}, len(v))...)
	})
	return all, roles
}

// TestUpdate compares several updates with PyTorch's formulas, value by value in
// float64.
func TestUpdate(t *testing.T) {
	n := network(t, "mobilenet_v2:width=0.35,data=cifar10")
	for name, u := range map[string]Update{
		"plain":              {},
		"momentum":           {Momentum: 0.9},
		"nesterov":           {Momentum: 0.8, Nesterov: true},
		"decay of all":       {Momentum: 0.9, WeightDecay: 0.1, DecayNorm: true, DecayBias: true},
		"decay of weights":   {Momentum: 0.9, WeightDecay: 0.1},
		"decay without bias": {Momentum: 0.9, Nesterov: true, WeightDecay: 0.1, DecayNorm: true},
		"clipped":            {Momentum: 0.9, WeightDecay: 0.1, ClipNorm: 0.5},
		"not clipped":        {Momentum: 0.9, ClipNorm: 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			const average = 0.9
			start := randomised(n, 1)
			w, m, a := nn.NewParameters(start), nn.NewParameters(zeros(n)), nn.NewParameters(start)
			want, roles := values(start)
			wide := func(x []float32) []float64 {
				y := make([]float64, len(x))
				for i := range x {
					y[i] = float64(x[i])
				}
				return y
			}
			ww := wide(want)
			wm, wa := make([]float64, len(ww)), slices.Clone(ww)
			for step := range 3 {
				g := randomised(n, uint64(10+step))
				rate := 0.1 / float64(1+step)
				grads := nn.NewParameters(g)
				total := norm(grads.Values(), 1+step%2)
				u.apply(w, grads, m, a, rate, total, average, 1+step%2)

				gv, _ := values(g)
				sum := 0.0
				for _, v := range gv {
					sum += float64(v) * float64(v)
				}
				if exact := math.Sqrt(sum); math.Abs(total-exact) > 1e-9*exact {
					t.Fatalf("norm %v; want %v", total, exact)
				}
				clip := 1.0
				if u.ClipNorm > 0 {
					clip = min(1, u.ClipNorm/math.Sqrt(sum))
				}
				for i := range ww {
					d := clip * float64(gv[i])
					switch roles[i] {
					case nn.RoleWeight:
						d += u.WeightDecay * ww[i]
					case nn.RoleBias:
						if u.DecayBias {
							d += u.WeightDecay * ww[i]
						}
					default:
						if u.DecayNorm {
							d += u.WeightDecay * ww[i]
						}
					}
					wm[i] = u.Momentum*wm[i] + d
					if u.Nesterov {
						ww[i] -= rate * (d + u.Momentum*wm[i])
					} else {
						ww[i] -= rate * wm[i]
					}
					wa[i] = average*wa[i] + (1-average)*ww[i]
				}
			}
			for what, pair := range map[string]struct {
				got  *nn.Parameters
				want []float64
			}{"weights": {w, ww}, "momentum": {m, wm}, "average": {a, wa}} {
				got, _ := values(pair.got.Set())
				for i := range got {
					if math.Abs(float64(got[i])-pair.want[i]) > 2e-6*(1+math.Abs(pair.want[i])) {
						t.Fatalf("%s: value %d is %v; want %v", what, i, got[i], pair.want[i])
					}
				}
			}
			// Pad values stay zero: unpacked and packed again, nothing is missing.
			if again := nn.NewParameters(w.Set()); !slices.Equal(again.Values(), w.Values()) {
				t.Error("there is something in the pad values")
			}
		})
	}
}

// TestClipByFar: the direction of a gradient that is clipped by many orders of
// magnitude stays what it was.
func TestClipByFar(t *testing.T) {
	n := network(t, "mlp:depth=2")
	g := nn.NewParameters(randomised(n, 1))
	before := slices.Clone(g.Values())
	total := norm(before, 1)
	clip := total * 1e-9
	w, m := g.Zeros(), g.Zeros()
	Update{ClipNorm: clip}.apply(w, g, m, nil, 1, total, 0, 1)
	for i, v := range w.Values() {
		if want := -1e-9 * float64(before[i]); math.Abs(float64(v)-want) > 1e-6*math.Abs(want) {
			t.Fatalf("value %d changes by %v; want %v", i, v, want)
		}
	}
}

// TestUpdateIgnoresThreads: the same bits for any number of them.
func TestUpdateIgnoresThreads(t *testing.T) {
	n := network(t, "resnet_small:data=cifar10")
	var want []float32
	for threads := 1; threads <= 5; threads++ {
		w, g, m := nn.NewParameters(randomised(n, 1)), nn.NewParameters(randomised(n, 2)), nn.NewParameters(zeros(n))
		u := Update{Momentum: 0.9, WeightDecay: 1e-3, ClipNorm: 1}
		u.apply(w, g, m, nil, 0.1, norm(g.Values(), threads), 0, threads)
		if want == nil {
			want = slices.Clone(w.Values())
		}
		if !slices.Equal(w.Values(), want) {
			t.Errorf("%d threads change the result", threads)
		}
	}
}
