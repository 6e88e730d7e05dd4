package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tips/nn"
	"tips/supernet"
	"tips/supernet/zoo"
)

// TestPeer holds both sides to the plain reference on the smallest subnetwork and
// a random one of every network of the zoo. The command does far more.
func TestPeer(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	library := peerLibrary(filepath.Join(cache, "tips-bench"))
	if _, err := os.Stat(library); err != nil {
		t.Skipf("ONNX Runtime is missing; `go run . conformance` fetches it: %v", err)
	}
	if err := startPeer(library); err != nil {
		t.Fatal(err)
	}
	session := nn.NewSession(1)
	defer session.Close()
	for _, m := range zoo.Models() {
		set, err := loadNetwork(m.Name, 1)
		if err != nil {
			t.Fatal(err)
		}
		subs, err := randomSubnets(set.Network, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		model := nn.NewModel(set)
		var c conformity
		for _, sub := range append(subs, set.Network.Smallest()) {
			if _, err := c.besideReference(set, model, session, sub, 1, 8e6); err != nil {
				t.Fatal(err)
			}
		}
		if !(c.reference <= maxDifference && c.theirsReference <= maxDifference) {
			t.Errorf("%s: ours differ by %.1e, theirs by %.1e", m.Name, c.reference, c.theirsReference)
		}
	}
}

func TestDifference(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		have, want []float32
		difference float64
	}{
		{[]float32{1, 2}, []float32{1, 4}, 0.5},
		{[]float32{1}, []float32{1, 4}, math.Inf(1)},
		{[]float32{nan}, []float32{nan}, math.Inf(1)},
		{[]float32{0}, []float32{0}, 0},
	} {
		if d := difference(c.have, c.want); d != c.difference {
			t.Errorf("%v and %v differ by %v; want %v", c.have, c.want, d, c.difference)
		}
	}
}

func TestChannelsFirst(t *testing.T) {
	to := make([]float32, 12)
	channelsFirst(to, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, supernet.Shape{Channels: 3, Height: 1, Width: 2})
	if want := []float32{1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}; !slices.Equal(to, want) {
		t.Errorf("%v; want %v", to, want)
	}
}

func TestSamples(t *testing.T) {
	ours := samples{{1, 2, 9}, {4, 4, 4}, {30, 20, 10}}
	m := measured{
		sides: []samples{ours, {{4, 4, 4}, {4, 4, 4}, {10, 10, 10}}},
		cpu:   [][]float64{{1, 6, 9}, {1, 2, 1}},
	}
	if r := m.ratio(0, 1); r != 1 { // of 0.5, 1 and 2
		t.Errorf("ratio %v", r)
	}
	if r := m.cpuRatio(0, 1); r != 3 { // of 1, 3 and 9
		t.Errorf("ratio of CPU time %v", r)
	}
	if ours.at(0) != 1 || ours.at(0.5) != 4 || ours.at(1) != 30 {
		t.Errorf("percentiles %v %v %v", ours.at(0), ours.at(0.5), ours.at(1))
	}
	runs := 0
	count := side{run: func() error { runs++; return nil }, process: strconv.Itoa(os.Getpid())}
	m, err := takeTurns(time.Millisecond, pace{runs: 2, rounds: 4}, side{run: func() error { return nil }}, count)
	if err != nil || m.rounds < 4 || len(m.sides) != 2 || len(m.sides[0]) != len(m.sides[1]) || len(m.sides[0]) != m.quiet && len(m.sides[0]) != m.rounds {
		t.Errorf("%d sides, %d of %d rounds quiet, %v", len(m.sides), m.quiet, m.rounds, err)
	}
	if want := 2 * (m.rounds + 1); runs != want {
		t.Errorf("%d runs in %d rounds and one to warm up; want %d", runs, m.rounds, want)
	}
	failure := errors.New("no")
	if _, err := takeTurns(time.Millisecond, shortRuns, count, side{run: func() error { return failure }}); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}

func TestReport(t *testing.T) {
	one := table{name: "speed", title: "3. Speed", notes: []string{"A note."}, columns: []string{"case", "ours", holdsColumn}}
	one.add("a", "1.5", verdict(true))
	one.add("b", "2.5", verdict(false))
	if failed := withVerdict([]table{one}, no); !slices.Equal(failed, []string{"speed: b"}) {
		t.Errorf("not holding: %q", failed)
	}
	dir := t.TempDir()
	where := func() table {
		w := table{name: "environment", title: "Where", columns: []string{"what", "value"}}
		w.add("cores", "2")
		return w
	}
	write := func(tables ...table) (page, values string) {
		t.Helper()
		if err := writeReport(dir, where(), tables); err != nil {
			t.Fatal(err)
		}
		p, err := os.ReadFile(filepath.Join(dir, "bench.md"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := os.ReadFile(filepath.Join(dir, "bench.csv"))
		if err != nil {
			t.Fatal(err)
		}
		return string(p), string(v)
	}
	page, values := write(one)
	if want := "| cores | 2 |\n\n## 3. Speed\n\nA note.\n\n| case | ours | holds |\n|---|---|---|\n| a | 1.5 | yes |\n| b | 2.5 | **no** |\n"; !strings.HasSuffix(page, want) {
		t.Errorf("the page is\n%s", page)
	}
	if want := "table,case,column,value\nenvironment,cores,value,2\nspeed,a,ours,1.5\nspeed,a,holds,yes\nspeed,b,ours,2.5\nspeed,b,holds,no\n"; values != want {
		t.Errorf("the values are\n%s", values)
	}

	// A part of the sections takes its own places only.
	two := table{name: "conformance", title: "1. Same numbers", columns: []string{"case", holdsColumn}}
	two.skip("checker", errors.New("no checker"))
	page, values = write(two)
	if want := "| cores | 2 |\n| kept from an earlier run | speed |\n\n## 1. Same numbers\n\nSkipped: no checker.\n\n| case | holds |\n|---|---|\n| checker | skipped |\n\n## 3. Speed\n\nA note."; !strings.Contains(page, want) {
		t.Errorf("the page is\n%s", page)
	}
	if want := "conformance,checker,holds,skipped\nspeed,a,ours,1.5\n"; !strings.Contains(values, want) {
		t.Errorf("the values are\n%s", values)
	}
	one.rows = one.rows[:1]
	page, _ = write(two, one)
	if again, _ := write(two, one); again != page || strings.Contains(page, "kept") || strings.Contains(page, "| b |") {
		t.Errorf("the page is\n%s\nand then\n%s", page, again)
	}
}

func TestUsage(t *testing.T) {
	u, err := ownUsage()
	if err != nil || u.Resident < u.Anonymous || u.Anonymous <= 0 {
		t.Errorf("%+v, %v", u, err)
	}
}
