package cost

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tips/supernet"
	"tips/supernet/zoo"
)

func network(t testing.TB, name string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExact(t *testing.T) {
	n := network(t, "mobilenet_v2")
	want := map[string]float64{"macs": 300774272, "params": 3504872, "weights": 4 * 3504872, "memory": float64(n.Full().Costs().PeakBytes)}
	for _, c := range Exact() {
		if got, err := c.Of(n.Full()); err != nil || got != want[c.Name()] {
			t.Errorf("%s of mobilenet_v2 is %v (%v); want %v", c.Name(), got, err, want[c.Name()])
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name   string
		amount float64
		want   string
	}{
		{"macs", 30e6, "30 M"}, {"macs", 999, "999"}, {"params", 3504872, "3.505 M"}, {"macs", 4.1e9, "4.1 G"},
		{"weights", 1 << 20, "1 MiB"}, {"memory", 100, "100 B"},
		{"latency", 0.02, "20 ms"}, {"latency", 2e-6, "2 µs"}, {"latency", 3, "3 s"},
		{"energy", 0.25, "250 mJ"}, {"energy", 2, "2 J"}, {"price", 1.25, "1.25"},
	} {
		if got := Format(c.name, c.amount); got != c.want {
			t.Errorf("Format(%s, %v) = %q; want %q", c.name, c.amount, got, c.want)
		}
	}
}

func TestParseBudget(t *testing.T) {
	table := &Table{Energy: &Energy{}}
	costs := append(Exact(), table.Costs()...)
	for text, want := range map[string]string{
		"":                        "none",
		"macs<=30M":               "macs ≤ 30 M",
		" macs <= 1.5G ":          "macs ≤ 1.5 G",
		"macs≤30M,latency<=20ms":  "macs ≤ 30 M, latency ≤ 20 ms",
		"latency<=1500us":         "latency ≤ 1.5 ms",
		"latency<=1500µs":         "latency ≤ 1.5 ms",
		"memory<=1.5MiB":          "memory ≤ 1.5 MiB",
		"weights<=1024":           "weights ≤ 1 KiB",
		"energy<=0.5J,params<=2M": "energy ≤ 500 mJ, params ≤ 2 M",
		"macs<=3e7":               "macs ≤ 30 M",
	} {
		b, err := ParseBudget(text, costs...)
		if err != nil || b.String() != want {
			t.Errorf("%q is %q (%v); want %q", text, b, err, want)
		}
	}
	for _, text := range []string{
		"macs", "macs<30M", "macs<=", "macs<=0", "macs<=-1", "macs<=30Q", "macs<=NaN", "macs<=1e999", "macs<=M", "cost<=1", "latency<=20", "memory<=1ms",
		"macs<=30M,", "macs=30M", "<=1",
	} {
		if b, err := ParseBudget(text, costs...); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is %v (%v); want an error in one line", text, b, err)
		}
	}
	if _, err := ParseBudget("latency<=1ms", Exact()...); err == nil || !strings.Contains(err.Error(), "tips profile") {
		t.Errorf("%v; want to be told how to get a table", err)
	}
	if _, err := ParseBudget("energy<=1J", Exact()...); err == nil || !strings.Contains(err.Error(), "counters") {
		t.Errorf("%v; want to be told that energy is measured", err)
	}
}

func FuzzParseBudget(f *testing.F) {
	f.Add("macs<=30M,latency<=20ms")
	f.Add("memory≤1.5MiB")
	costs := append(Exact(), (&Table{}).Costs()...)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBudget(text, costs...)
		if err != nil {
			return
		}
		for _, c := range b {
			if !(c.Most > 0) || math.IsInf(c.Most, 0) {
				t.Fatalf("%q caps %s at %v", text, c.Cost.Name(), c.Most)
			}
		}
	})
}

func TestBudget(t *testing.T) {
	n := network(t, "mobilenet_v2")
	b := Budget{{MACs(), 400e6}, {Params(), 1e6}, {MACs(), 350e6}}
	excess, which, err := b.Excess(n.Full())
	if err != nil || which != 1 || math.Abs(excess-3.504872) > 1e-9 {
		t.Errorf("%v, cap %d (%v); want 3.504872 times cap 1", excess, which, err)
	}
	if most, ok := b.Cap("macs"); !ok || most != 350e6 {
		t.Errorf("cap %v, %v; want the lower one", most, ok)
	}
	if _, ok := b.Cap("latency"); ok {
		t.Error("a cap that nobody set")
	}
	if excess, _, err := Budget(nil).Excess(n.Full()); err != nil || excess > 1 {
		t.Errorf("%v (%v) of no budget", excess, err)
	}
}

// fakePowercap makes a tree as Linux shows it.
func fakePowercap(t *testing.T, zones map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for zone, files := range zones {
		dir := filepath.Join(root, zone)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func zoneFiles(name string, energy, wrap int) map[string]string {
	return map[string]string{"name": name, "energy_uj": fmt.Sprint(energy), "max_energy_range_uj": fmt.Sprint(wrap)}
}

func TestMeter(t *testing.T) {
	root := fakePowercap(t, map[string]map[string]string{
		"intel-rapl:0":   zoneFiles("package-0", 900, 1000),
		"intel-rapl:0:0": zoneFiles("core", 5, 1000),
		"intel-rapl:0:1": zoneFiles("dram", 100, 1000),
		"intel-rapl:1":   zoneFiles("psys", 5, 1000),
		"intel-rapl":     {},
		"dtpm":           {},
	})
	m, err := OpenMeter(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Zones(), " "); got != "package-0 dram" {
		t.Errorf("zones %s; want package-0 and dram", got)
	}
	// The package wraps around, from 900 to 100 of 1000; the core is part of it.
	calls := 0
	set := func(zone string, energy int) {
		if err := os.WriteFile(filepath.Join(root, zone, "energy_uj"), []byte(fmt.Sprint(energy)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	joules, err := m.Measure(func() {
		if calls++; calls == 2 {
			set("intel-rapl:0", 100)
			set("intel-rapl:0:0", 900)
			set("intel-rapl:0:1", 250)
		}
	}, time.Nanosecond)
	if err != nil || calls != 2 || math.Abs(joules-350e-6) > 1e-12 {
		t.Errorf("%v J in %d calls (%v); want 350 µJ in the second", joules, calls, err)
	}
	set("intel-rapl:0", -1)
	if _, err := m.Measure(func() {}, 0); err == nil {
		t.Error("a negative counter is taken")
	}
}

func TestNoMeter(t *testing.T) {
	for name, zones := range map[string]map[string]map[string]string{
		"nothing":   {},
		"psys only": {"intel-rapl:0": zoneFiles("psys", 1, 2)},
	} {
		if _, err := OpenMeter(fakePowercap(t, zones)); !errors.Is(err, ErrNoCounters) {
			t.Errorf("%s: %v; want ErrNoCounters", name, err)
		}
	}
	if _, err := OpenMeter(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, ErrNoCounters) {
		t.Errorf("%v; want ErrNoCounters", err)
	}
	if _, err := OpenMeter(fakePowercap(t, map[string]map[string]string{"intel-rapl:0": {"name": "package-0", "max_energy_range_uj": "x"}})); err == nil || errors.Is(err, ErrNoCounters) {
		t.Errorf("%v; want to be told of a damaged counter", err)
	}
	root := fakePowercap(t, map[string]map[string]string{"intel-rapl:0": zoneFiles("package-0", 1, 2)})
	if err := os.Chmod(filepath.Join(root, "intel-rapl:0", "energy_uj"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMeter(root); os.Getuid() != 0 && !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v; want to be told of the permission", err)
	}
}

func TestFitEnergy(t *testing.T) {
	var runs []energyRun
	for i := range 10 {
		s, macs := 0.01+0.002*float64(i*i%7), 1e7*float64(1+i)
		runs = append(runs, energyRun{s, macs, 20*s + 3e-12*macs})
	}
	e := fitEnergy(runs)
	if math.Abs(e.PerSecond-20) > 0.01 || math.Abs(e.PerMAC-3e-12) > 1e-14 || e.Error > 1e-4 {
		t.Errorf("%+v; want 20 W and 3 pJ a MAC", *e)
	}
}

func TestCPU(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpuinfo")
	for text, want := range map[string]string{
		"processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t: a b\n":   "Fast CPU @ 3 GHz",
		"processor\t: 0\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4\n": "Raspberry Pi 4",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := cpuFrom(file); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	if err := os.WriteFile(file, []byte("CPU part\t: 0xd08\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := cpuFrom(file); !strings.Contains(got, "0xd08") {
		t.Errorf("%q; want the part", got)
	}
	if got := cpuFrom(file + "gone"); !strings.HasPrefix(got, "unknown") {
		t.Errorf("%q; want unknown", got)
	}
}

const header = "operation,in,out,cost,per\n"

func TestCSV(t *testing.T) {
	n := network(t, "mlp:depth=4,width=16,min=0.5")
	text := header + `stem,784,8,1,
stem,784,16,3,run
block1.linear1,,,10,run
block1.linear2,,,0.5,mac
classifier,,,2,byte
*,,,0.25,param
`
	c, err := ReadCSV("price", strings.NewReader(text), n)
	if err != nil {
		t.Fatal(err)
	}
	// The stem 3, a run 10, 256 MACs 128, 10 outputs of 4 bytes 80, an addition without
	// parameters nothing.
	for sub, want := range map[string]float64{"full": 3 + 10 + 128 + 80, "w8x2": 1 + 10 + 32 + 80, "d1": 3 + 80} {
		s, err := n.ParseSubnet(sub)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Of(v); err != nil || got != want {
			t.Errorf("%s costs %v (%v); want %v", sub, got, err, want)
		}
	}
	if c.Name() != "price" {
		t.Errorf("name %q", c.Name())
	}
	other := network(t, "mlp")
	if _, err := c.Of(other.Full()); err == nil {
		t.Error("a cost of another network")
	}
	// Beyond the grid.
	c, err = ReadCSV("price", strings.NewReader(header+"stem,784,8,1,\n*,,,1,run\n"), n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Of(n.Full()); err == nil || !strings.Contains(err.Error(), "stem") {
		t.Errorf("%v; want to be told what is beyond the grid", err)
	}
}

func TestGrid(t *testing.T) {
	g, err := newGrid([]point{{8, 8, 0}, {8, 16, 8}, {24, 8, 16}, {24, 16, 24}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, out int
		want    float64
	}{{8, 8, 0}, {24, 16, 24}, {8, 12, 4}, {16, 8, 8}, {16, 12, 12}} {
		if got, ok := g.at(c.in, c.out); !ok || got != c.want {
			t.Errorf("at %d and %d: %v, %v; want %v", c.in, c.out, got, ok, c.want)
		}
	}
	for _, c := range [][2]int{{7, 8}, {25, 8}, {8, 7}, {8, 17}} {
		if _, ok := g.at(c[0], c[1]); ok {
			t.Errorf("a cost at %v", c)
		}
	}
}

func TestBadCSV(t *testing.T) {
	n := network(t, "mlp:depth=4,width=16,min=0.5")
	for _, text := range []string{
		"", "operation,cost\n", header, header + "*,,,1\n", header + "*,,,1,run,\n", header + "*,,,-1,run\n", header + "*,,,NaN,run\n",
		header + "*,,,1,hour\n", header + "*,1,1,1,\n", header + "*,,,1,run\nnobody,,,1,run\n", header + "*,,,1,run\n*,,,1,run\n",
		header + "*,,,1,run\nstem,0,1,1,\n", header + "*,,,1,run\nstem,,1,1,\n", header + "*,,,1,run\nstem,1,1,1,mac\n",
		header + "*,,,1,run\nstem,1,1,1,\nstem,1,1,1,\n", header + "*,,,1,run\nstem,1,1,1,\nstem,2,2,1,\n", header + "*,,,1,run\nstem,1,1,1,\nstem,,,1,run\n",
		header + "*,,,1,run\nstem,,,1,run\nstem,1,1,1,\n", header + "\"", header + "stem,,,1,run\n",
	} {
		if _, err := ReadCSV("price", strings.NewReader(text), n); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want an error in one line", text, err)
		}
	}
	if _, err := ReadCSV("The Price", strings.NewReader(header+"*,,,1,run\n"), n); err == nil {
		t.Error("a name with blanks is taken")
	}
}

func FuzzCSV(f *testing.F) {
	n := network(f, "mlp:depth=4,width=16,min=0.5")
	f.Add(header + "*,,,1,run\n")
	f.Add(header + "stem,784,8,1,\nstem,784,16,3,run\n*,,,0.25,param\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCSV("price", strings.NewReader(text), n)
		if err != nil {
			return
		}
		if amount, err := c.Of(n.Full()); err == nil && !(amount >= 0) {
			t.Fatalf("%q costs %v", text, amount)
		}
	})
}
