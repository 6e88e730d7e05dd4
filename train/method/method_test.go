package method

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/topology"
)

// references are the networks that rules are checked on.
var references = []string{
	"mobilenet_v2:width=1.4,data=cifar100", "resnet18:data=cifar10", "resnet50", "efficientnet_b0", "mlp:depth=8,width=80",
}

func network(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newMethod(t testing.TB, name string, c Config) Method {
	t.Helper()
	m, err := New(name, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func plan(t testing.TB, m Method, step int, seed uint64, j Judge) Step {
	t.Helper()
	s, err := m.Step(context.Background(), step, rng(seed), j)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func widths(t testing.TB, n *supernet.Network, s supernet.Subnet) []int {
	t.Helper()
	w, _, err := n.Widths(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wantValid checks what all of a step's lessons have in common.
func wantValid(t testing.TB, n *supernet.Network, s Step) {
	t.Helper()
	for i, l := range s.Lessons {
		if err := n.Check(l.Subnet); err != nil {
			t.Fatal(err)
		}
		if (l.Soft > 0) != (len(l.Teachers) > 0) || l.Label < 0 || l.Label+l.Soft <= 0 {
			t.Fatalf("lesson %d: %+v", i, l)
		}
		for _, teacher := range l.Teachers {
			if teacher.Source == Live && (teacher.Lesson < 0 || teacher.Lesson >= i || s.Lessons[teacher.Lesson].Subnet != teacher.Subnet) {
				t.Fatalf("lesson %d learns from %+v", i, teacher)
			}
			if err := n.Check(teacher.Subnet); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ready is a method that can plan any step.
func ready(t testing.TB, name string, c Config, j Judge) Method {
	t.Helper()
	if c.Steps == 0 {
		c.Steps = 1000
	}
	m := newMethod(t, name, c)
	if m.Interval() > 0 {
		if err := m.Review(context.Background(), 0, rng(77), j); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// sandwiches are the methods that always train the full and the smallest network.
var sandwiches = []string{"us-nets", "joslim", "ds-net", "attentive-nas", "alphanet"}

func TestNames(t *testing.T) {
	want := append([]string{"tips", "ofa", "static"}, sandwiches...)
	got := Names()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("methods %v; want %v", got, want)
	}
}

// TestPaperLoss: in the paper's comparison every method's loss has TIPS's form.
func TestPaperLoss(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		j := &pretend{network: n}
		for _, name := range append([]string{"tips"}, sandwiches...) {
			for _, loss := range []Loss{"", Paper} {
				m := ready(t, name, Config{Network: n, Loss: loss}, j)
				if m.EMA() != 0 || m.Name() != name {
					t.Errorf("%s: name %s, average %v", name, m.Name(), m.EMA())
				}
				for seed := range uint64(5) {
					s := plan(t, m, int(seed), seed, j)
					wantValid(t, n, s)
					if len(s.Lessons) != 4 || len(s.Before) != 0 {
						t.Fatalf("%s: %d lessons", name, len(s.Lessons))
					}
					for i, l := range s.Lessons {
						want := Lesson{Subnet: l.Subnet, Label: 1}
						if i > 0 {
							want.Soft, want.Teachers = 1, []Teacher{{Source: Live, Lesson: 0}}
						}
						if fmt.Sprint(l) != fmt.Sprint(want) {
							t.Fatalf("%s: lesson %d is %v; want %v", name, i, l, want)
						}
					}
				}
			}
		}
	}
}

// TestOwnLoss: the losses that methods were published with.
func TestOwnLoss(t *testing.T) {
	n := network(t, "mobilenet_v2:width=1.4,data=cifar100")
	j := &pretend{network: n}
	live := []Teacher{{Source: Live}}
	for _, name := range append([]string{"tips"}, sandwiches...) {
		m := ready(t, name, Config{Network: n, Loss: Own}, j)
		for seed := range uint64(20) {
			s := plan(t, m, int(seed), seed, j)
			wantValid(t, n, s)
			subs := make([]supernet.Subnet, 4)
			for i, l := range s.Lessons {
				subs[i] = l.Subnet
			}
			average := func(i int) Teacher { return Teacher{Source: Average, Subnet: subs[i]} }
			want := []Lesson{{Label: 1}}
			for i := 1; i < 4; i++ {
				l := Lesson{Subnet: subs[i], Soft: 1, Teachers: live}
				switch {
				case name == "tips":
					l.Label = 1
				case name == "alphanet":
					l.Divergence = Alpha
				case name == "ds-net" && i == 1: // the smallest: the mean of three
					l.Teachers = []Teacher{average(0), average(2), average(3)}
				case name == "ds-net":
					l.Teachers = []Teacher{average(0)}
				}
				want = append(want, l)
			}
			if fmt.Sprint(s.Lessons) != fmt.Sprint(want) {
				t.Fatalf("%s: lessons\n%v; want\n%v", name, s.Lessons, want)
			}
		}
		if want := map[bool]float64{true: 0.997}[name == "ds-net"]; m.EMA() != want {
			t.Errorf("%s: average with a decay of %v; want %v", name, m.EMA(), want)
		}
	}
}

func TestSandwich(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		j := &pretend{network: n}
		for _, name := range sandwiches {
			for _, loss := range []Loss{Paper, Own} {
				m := ready(t, name, Config{Network: n, Loss: loss}, j)
				for seed := range uint64(10) {
					s := plan(t, m, 0, seed, j)
					if !s.Lessons[0].Subnet.IsFull() || s.Lessons[1].Subnet != n.Smallest() {
						t.Fatalf("%s: the step trains %v and %v first; want the full and the smallest network", name, s.Lessons[0].Subnet, s.Lessons[1].Subnet)
					}
				}
			}
		}
	}
}

// TestTIPS: three subnetworks, each with its own base ratios; the width that an
// important operation writes is Round(min(1, factor × base)).
func TestTIPS(t *testing.T) {
	for _, reference := range references {
		n := network(t, reference)
		a, err := topology.Analyze(n, topology.Options{})
		if err != nil {
			t.Fatal(err)
		}
		important := make([]bool, len(n.Groups()))
		for e, is := range a.Important() {
			if i, ok := n.Index(a.Graph.Edges()[e].Name); ok && is && n.GroupOf(i) >= 0 {
				important[n.GroupOf(i)] = true
			}
		}
		if !slices.Contains(important, true) {
			t.Errorf("%s: no important group", reference)
		}
		for _, o := range []Options{{}, {Factor: 1}, {Factor: 1.25}, {Factor: 2}, {Together: true}} {
			m := newMethod(t, "tips", Config{Network: n, Options: o})
			for seed := range uint64(15) {
				s := plan(t, m, 3, seed, nil)
				base := rng(seed)
				ratio := 0.0
				for i, l := range s.Lessons[1:] {
					w := widths(t, n, l.Subnet)
					for g, group := range n.Groups() {
						if g == 0 || !o.Together {
							ratio = 0.35 + 0.65*base.Float64()
						}
						r := ratio
						if important[g] {
							r = min(1, r*map[bool]float64{true: 1.5, false: o.Factor}[o.Factor == 0])
						}
						if want := group.Round(r); w[g] != want {
							t.Fatalf("%s, %+v: subnetwork %d: width %d of group %s; want %d", reference, o, i, w[g], group.Name, want)
						}
					}
				}
			}
		}
	}
}

// TestTIPSFavours: which operations of MobileNet-v2 are drawn wider, by name.
func TestTIPSFavours(t *testing.T) {
	n := network(t, "mobilenet_v2:width=1.4,data=cifar100")
	m := newMethod(t, "tips", Config{Network: n})
	least := make([]int, len(n.Groups()))
	for i, g := range n.Groups() {
		least[i] = g.Channels
	}
	for seed := range uint64(400) {
		for _, l := range plan(t, m, 0, seed, nil).Lessons[1:] {
			for g, w := range widths(t, n, l.Subnet) {
				least[g] = min(least[g], w)
			}
		}
	}
	// With the smallest in every step it is the first of three, and the others are drawn.
	always := newMethod(t, "tips", Config{Network: n, Options: Options{Smallest: true}})
	usual := plan(t, m, 0, 7, nil).Lessons
	if got := plan(t, always, 0, 7, nil).Lessons; len(got) != 4 || got[1].Subnet != n.Smallest() || got[2].Subnet != usual[1].Subnet || got[3].Subnet != usual[2].Subnet {
		t.Errorf("with the smallest in every step: %v", got)
	}
	if always.(Bounded).OwnSmallest() != n.Smallest() {
		t.Error("its own smallest is another than the smallest that it trains")
	}
	// Plain ones are the last, from the same base ratios.
	even := plan(t, newMethod(t, "tips", Config{Network: n, Options: Options{Factor: 1}}), 0, 7, nil).Lessons
	for plain := 1; plain <= 3; plain++ {
		mixed := newMethod(t, "tips", Config{Network: n, Options: Options{Plain: plain}})
		got := plan(t, mixed, 0, 7, nil).Lessons
		for i := 1; i <= 3; i++ {
			if want := map[bool]supernet.Subnet{false: usual[i].Subnet, true: even[i].Subnet}[i > 3-plain]; got[i].Subnet != want || usual[i].Subnet == even[i].Subnet {
				t.Errorf("with %d plain subnetworks: %d is %v; want %v", plain, i, got[i].Subnet, want)
			}
		}
		if mixed.(Bounded).OwnSmallest() != n.Smallest() {
			t.Errorf("%d plain subnetworks may be the smallest, which is not said", plain)
		}
	}
	// The control boosts what is not important, by as much, from the same base ratios.
	analysis, err := topology.Analyze(n, topology.Options{})
	if err != nil {
		t.Fatal(err)
	}
	important := analysis.FavouredGroups(n)
	control := plan(t, newMethod(t, "tips", Config{Network: n, Options: Options{Others: true}}), 0, 7, nil).Lessons
	wider := 0
	for i := 1; i <= 3; i++ {
		plain, got := widths(t, n, even[i].Subnet), widths(t, n, control[i].Subnet)
		for g := range n.Groups() {
			if got[g] < plain[g] || slices.Contains(important, g) && got[g] != plain[g] {
				t.Errorf("others favoured: group %d has width %d, without favour %d", g, got[g], plain[g])
			}
			if got[g] > plain[g] {
				wider++
			}
		}
	}
	if others := 3 * (len(n.Groups()) - len(important)); wider < others*3/4 { // some were full already
		t.Errorf("others favoured: %d of %d are wider", wider, others)
	}
	both := plan(t, newMethod(t, "tips", Config{Network: n, Options: Options{Plain: 2, Smallest: true}}), 0, 7, nil).Lessons
	if len(both) != 4 || both[1].Subnet != n.Smallest() || both[2].Subnet != even[1].Subnet || both[3].Subnet != even[2].Subnet {
		t.Errorf("the smallest and two plain ones: %v", both)
	}
	for name, favoured := range map[string]bool{
		"stem": true, "head": true, "block2.project": true, "block2.expand": true, "block4.expand": true, "block14.project": true,
		"block3.expand": false, "block5.expand": false, "block16.expand": false,
	} {
		i, _ := n.Index(name)
		g := n.GroupOf(i)
		group := n.Groups()[g]
		want := group.Round(0.355) // 1200 draws come as near to the end
		if favoured {
			want = group.Round(1.5 * 0.355)
		}
		if own := widths(t, n, m.(Bounded).OwnSmallest())[g]; least[g] < own || own > want {
			t.Errorf("%s: own smallest width %d; %d was drawn", name, own, least[g])
		}
		if least[g] > want || favoured && least[g] < group.Round(1.5*0.35) {
			t.Errorf("%s: the smallest width of 1200 is %d; want %d, favoured being %v", name, least[g], want, favoured)
		}
	}
}

func TestStatic(t *testing.T) {
	n := network(t, "resnet18:data=cifar10")
	for _, sub := range []supernet.Subnet{{}, n.Smallest()} {
		for _, loss := range []Loss{Paper, Own} {
			s := plan(t, newMethod(t, "static", Config{Network: n, Loss: loss, Options: Options{Subnet: sub}}), 5, 1, nil)
			if want := []Lesson{{Subnet: sub, Label: 1}}; fmt.Sprint(s.Lessons) != fmt.Sprint(want) {
				t.Errorf("lessons %v; want %v", s.Lessons, want)
			}
		}
	}
}

// TestSameGeneratorSameStep, whatever was drawn before.
func TestSameGeneratorSameStep(t *testing.T) {
	n := network(t, "mobilenet_v2:width=1.4,data=cifar100")
	j := &pretend{network: n, noise: 0.1}
	for _, name := range Names() {
		a, b := ready(t, name, Config{Network: n}, j), ready(t, name, Config{Network: n}, j)
		differ := false
		before := ""
		for _, step := range []int{3, 450, 999} {
			plan(t, a, 0, 5, j)
			got, want := fmt.Sprint(plan(t, a, step, uint64(step), j)), fmt.Sprint(plan(t, b, step, uint64(step), j))
			if got != want {
				t.Errorf("%s: step %d is %s, then %s", name, step, got, want)
			}
			differ = differ || got != before
			before = got
		}
		if !differ {
			t.Errorf("%s: all steps are alike", name)
		}
	}
}

// TestRandomNetworks: every method plans valid steps of any network.
func TestRandomNetworks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, err := supernet.New(randnet.Draw(rt))
		if err != nil {
			rt.Fatal(err)
		}
		j := &pretend{network: n}
		loss := rapid.SampledFrom([]Loss{Paper, Own}).Draw(rt, "loss")
		steps := rapid.IntRange(1, 30).Draw(rt, "steps")
		for _, name := range Names() {
			if name == "attentive-nas" && steps%3 > 0 {
				continue // its distribution of costs takes a while
			}
			m := ready(t, name, Config{Network: n, Loss: loss, Steps: steps}, j)
			for step := range min(steps, 12) {
				wantValid(t, n, plan(t, m, step, uint64(step), j))
			}
		}
	})
}

// TestStatelessState: what has no state takes none.
func TestStatelessState(t *testing.T) {
	n := network(t, "mlp")
	for _, name := range Names() {
		if name == "joslim" {
			continue
		}
		m := newMethod(t, name, Config{Network: n, Steps: 10})
		state, err := m.State()
		if err != nil || state != nil {
			t.Errorf("%s: state %s, error %v", name, state, err)
		}
		if err := m.Restore(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := m.Restore([]byte("{}")); err == nil {
			t.Errorf("%s takes a state", name)
		}
		if err := m.Review(context.Background(), 0, rng(1), nil); err != nil || m.Interval() != 0 {
			t.Errorf("%s: a review every %d steps, error %v", name, m.Interval(), err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	n := network(t, "mlp")
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"tipps", Config{Network: n}, `unknown method "tipps"; want one of tips, us-nets`},
		{"tips", Config{}, "without a network"},
		{"tips", Config{Network: n, Loss: "mine"}, `loss "mine"; want paper or own`},
		{"tips", Config{Network: n, Options: Options{Factor: 0.3}}, "factor 0.3"},
		{"tips", Config{Network: n, Options: Options{Topology: topology.Options{Lambda: 3}}}, "lambda 3"},
		{"tips", Config{Network: n, Steps: -1}, "-1 steps"},
		{"tips", Config{Network: n, Options: Options{Plain: 4}}, "4 plain subnetworks; want 0 to the 3"},
		{"tips", Config{Network: n, Options: Options{Plain: 3, Smallest: true}}, "3 plain subnetworks; want 0 to the 2"},
		{"tips", Config{Network: n, Options: Options{Plain: -1}}, "-1 plain"},
		{"tips", Config{Network: n, Options: Options{Plain: 3, Factor: 0.3}}, "factor 0.3"},
		{"tips", Config{Network: network(t, "mobilenet_v2"), Options: Options{Others: true, Topology: topology.Options{Rule: topology.ByTotal}}}, "no others"},
		{"ofa", Config{Network: n}, "0 steps"},
		{"joslim", Config{Network: n}, "0 steps"},
		{"static", Config{Network: n, Options: Options{Subnet: network(t, "resnet18").Smallest()}}, "widths"},
		{"attentive-nas", Config{Network: n, Input: supernet.Shape{Channels: 1, Height: 1, Width: 1}}, "channels"},
	} {
		_, err := New(c.name, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "method: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v; want one with %q", c.name, err, c.want)
		}
	}
}
