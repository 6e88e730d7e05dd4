package cost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tips/nn"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// pretend times steps by a law: a little for itself, and then for its work.
func pretend(s nn.Step) time.Duration {
	pixels := s.Out.Height * s.Out.Width
	work := pixels * s.Out.Channels
	switch s.Kind {
	case nn.ConvStep:
		work = pixels*s.Out.Channels*s.In.Channels*s.Kernel*s.Kernel/s.Groups/16 + pixels*s.Out.Channels
	case nn.StripsStep:
		work = pixels * s.Wide * (s.In.Channels + s.Out.Channels + 20) / 16
	}
	return time.Duration(2000 + work)
}

// pretended is a table of subnetworks whose steps take what pretend says.
func pretended(t testing.TB, n *supernet.Network, count int) *Table {
	t.Helper()
	subs, err := spread(n, false, count, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Machine: Machine{"a CPU", "avx2", 1}, Network: n.Name(), Input: n.Input(), Overall: 1.25}
	seen := map[nn.Step]bool{}
	for _, s := range subs {
		for _, step := range plan(t, n, s) {
			if !seen[step] {
				seen[step] = true
				table.Steps = append(table.Steps, Timing{step, pretend(step), 20})
			}
		}
	}
	table.sort()
	return table
}

func plan(t testing.TB, n *supernet.Network, s supernet.Subnet) []nn.Step {
	t.Helper()
	v, err := n.View(s, n.Input())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := nn.Plan(v, 1)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestPredict: a table predicts what its law says, also for steps that it does not
// hold.
func TestPredict(t *testing.T) {
	for _, name := range []string{"mobilenet_v2", "resnet18:data=cifar10", "efficientnet_b0"} {
		n := network(t, name)
		table := pretended(t, n, 60)
		subs, err := spread(n, false, 50, rand.New(rand.NewPCG(2, 2)))
		if err != nil {
			t.Fatal(err)
		}
		var off []float64
		unknown := 0
		for _, s := range subs {
			want := time.Duration(0)
			for _, step := range plan(t, n, s) {
				want += pretend(step)
				if !slices.ContainsFunc(table.Steps, func(x Timing) bool { return x.Step == step }) {
					unknown++
				}
			}
			v, _ := n.View(s, n.Input())
			got, err := table.Predict(v)
			if err != nil {
				t.Fatal(err)
			}
			off = append(off, math.Abs(float64(got)/(1.25*float64(want))-1))
		}
		if unknown < 50 {
			t.Errorf("%s: only %d steps had to be interpolated", name, unknown)
		}
		if m := median(off); m > 0.02 || off[len(off)-1] > 0.1 {
			t.Errorf("%s: median error %.4f, largest %.4f; want 0.02 and 0.1", name, m, off[len(off)-1])
		}
	}
}

// TestPredictAnywhere: other input sizes and depths are extrapolated, and a network
// of other steps is refused.
func TestPredictAnywhere(t *testing.T) {
	n := network(t, "mobilenet_v2")
	table := pretended(t, n, 30)
	half := supernet.Shape{Channels: 3, Height: 112, Width: 112}
	v, err := n.View(supernet.Subnet{}, half)
	if err != nil {
		t.Fatal(err)
	}
	small, err := table.Predict(v)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := table.Predict(n.Full())
	if err != nil || small <= 0 || small > whole {
		t.Errorf("%v at half the size, %v in full (%v)", small, whole, err)
	}
	if _, err := table.Predict(network(t, "efficientnet_b0").Full()); err == nil || !strings.Contains(err.Error(), "profile") {
		t.Errorf("%v; want to be told to profile the network", err)
	}
	if err := table.Covers(ThisMachine(1)); err == nil {
		t.Error("a table of another machine")
	}
	if err := table.Covers(table.Machine); err != nil {
		t.Error(err)
	}
	if c := table.Costs(); len(c) != 1 || c[0].Name() != LatencyName {
		t.Errorf("costs %v", c)
	}
	table.Energy = &Energy{PerSecond: 2, PerMAC: 1e-12}
	joules, err := table.Costs()[1].Of(n.Full())
	if want := 2*whole.Seconds() + 1e-12*300774272; err != nil || math.Abs(joules-want) > 1e-6 {
		t.Errorf("%v J (%v); want %v", joules, err, want)
	}
}

// TestProfile measures for real, a little.
func TestProfile(t *testing.T) {
	n := network(t, "mobilenet_v2:data=cifar100")
	root := fakePowercap(t, map[string]map[string]string{"intel-rapl:0": zoneFiles("package-0", 1, 1e9)})
	m, err := OpenMeter(root)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan bool)
	var moving sync.WaitGroup
	moving.Go(func() { // ten watts
		file, next := filepath.Join(root, "intel-rapl:0", "energy_uj"), filepath.Join(root, "next")
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if os.WriteFile(next, []byte(fmt.Sprint(10*time.Since(began).Microseconds())), 0o644) != nil || os.Rename(next, file) != nil {
				t.Error("the counter does not move")
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	told := 0
	o := ProfileOptions{Network: n, Subnets: 4, Checked: 3, Runs: 4, Time: time.Millisecond, Depths: true, Seed: 5, Meter: m, Progress: func(share float64) {
		if told++; !(share >= 0 && share <= 1) {
			t.Errorf("a share of %v is done", share)
		}
	}}
	table, report, err := Profile(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	moving.Wait()
	if table.Machine != ThisMachine(1) || table.Energy == nil || report.NoEnergy != "" || told == 0 {
		t.Errorf("%+v, energy %v", table.Machine, table.Energy)
	}
	if len(report.Checks) != 3 || report.MACsSpan <= 1 || !(report.Quiet >= 0 && report.Quiet <= 1) || report.Median <= 0 || report.P95 < report.Median {
		t.Errorf("%+v", report)
	}
	for _, c := range report.Checks {
		if c.Predicted <= 0 || c.Measured <= 0 {
			t.Errorf("%+v", c)
		}
	}
	roundTrip(t, table)
	// The counter stands still now.
	o.Runs, o.Subnets = 1, 2
	if table, report, err = Profile(context.Background(), o); err != nil || table.Energy != nil || !strings.Contains(report.NoEnergy, "did not move") {
		t.Errorf("%v, energy %v, %q; want a table without energy", err, table.Energy, report.NoEnergy)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Profile(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want context.Canceled", err)
	}
	o.Runs = -1
	if _, _, err := Profile(context.Background(), o); err == nil {
		t.Error("a negative number of runs is taken")
	}
}

func TestSamples(t *testing.T) {
	var s samples
	for i := range 8 {
		s.put(float64(10+i), false)
	}
	if got := s.typical(); got != 10.5 { // of the fastest quarter
		t.Errorf("%v; want 10.5", got)
	}
	for range enough {
		s.put(5, true)
	}
	if got := s.typical(); got != 5 || s.quiet() != enough || s.count() != 8+enough {
		t.Errorf("%v of %d quiet ones; want 5", got, s.quiet())
	}
}

func roundTrip(t *testing.T, table *Table) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "table.json")
	if err := table.Save(file); err != nil {
		t.Fatal(err)
	}
	again, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, again, cmpopts.IgnoreUnexported(Table{})); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestFile(t *testing.T) {
	n := network(t, "mlp:depth=4,width=16,min=0.5")
	table := pretended(t, n, 4)
	roundTrip(t, table)
	table.Energy = &Energy{1, 2e-12, 0.125}
	roundTrip(t, table)
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for name, bad := range map[string]struct {
		text string
		want error
	}{
		"empty":        {"", ErrCorrupt},
		"truncated":    {text[:len(text)/2], ErrCorrupt},
		"trailing":     {text + "{}", ErrCorrupt},
		"format":       {strings.Replace(text, "tips-latency", "tips-network", 1), ErrCorrupt},
		"version":      {strings.Replace(text, `"version":1`, `"version":9`, 1), ErrVersion},
		"field":        {strings.Replace(text, `"network"`, `"extra":1,"network"`, 1), ErrCorrupt},
		"negative":     {strings.Replace(text, `"ns":`, `"ns":-`, 1), ErrCorrupt},
		"overall":      {strings.Replace(text, `"overall":1.25`, `"overall":0`, 1), ErrCorrupt},
		"energy":       {strings.Replace(text, `"joules_per_second":1`, `"joules_per_second":-1`, 1), ErrCorrupt},
		"no steps":     {text[:strings.Index(text, "[")] + "[\n]}\n", ErrCorrupt},
		"size":         {strings.Replace(text, `"batch":1`, `"batch":0`, 1), ErrCorrupt},
		"threads":      {strings.Replace(text, `"threads":1`, `"threads":0`, 1), ErrCorrupt},
		"step's field": {strings.Replace(text, `"batch":1`, `"batch":1,"odd":2`, 1), ErrCorrupt},
	} {
		if _, err := Read(strings.NewReader(bad.text)); !errors.Is(err, bad.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %v", name, err, bad.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "gone")); err == nil {
		t.Error("a file that is not there is opened")
	}
}

func FuzzRead(f *testing.F) {
	n := network(f, "mlp:depth=4,width=16,min=0.5")
	var b bytes.Buffer
	if err := pretended(f, n, 3).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(bytes.Replace(b.Bytes(), []byte("conv"), []byte("strips"), -1))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if d, err := table.Predict(n.Full()); err == nil && d < 0 {
			t.Fatalf("it takes %v", d)
		}
	})
}

// TestMeasure: every program is run as often as asked, its median lies between its
// quartiles, and more work takes longer.
func TestMeasure(t *testing.T) {
	n, err := zoo.New("resnet_small:data=fashion-mnist")
	if err != nil {
		t.Fatal(err)
	}
	model := nn.NewModel(weights.Random(n, 1))
	var programs []*nn.Program
	for _, s := range []supernet.Subnet{n.Smallest(), {}} {
		p, err := model.Program(s, n.Input(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	share := 0.0
	times, err := Measure(context.Background(), programs, MeasureOptions{Runs: 10, Time: 20 * time.Millisecond, Progress: func(s float64) { share = s }})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range times {
		if m.Runs < 10 || m.Disturbed > m.Runs || !(0 < m.Low && m.Low <= m.Median && m.Median <= m.High) {
			t.Errorf("program %d: %+v", i, m)
		}
	}
	if times[0].Median >= times[1].Median || share < 0.9 {
		t.Errorf("the smallest takes %v, the full network %v; progress %v", times[0].Median, times[1].Median, share)
	}
	if _, err := Measure(context.Background(), programs, MeasureOptions{Threads: -1}); err == nil {
		t.Error("measured with -1 threads")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, programs, MeasureOptions{}); err == nil {
		t.Error("measured though cancelled")
	}
}
