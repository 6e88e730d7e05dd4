package frontier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tips/internal/randnet"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

func newNetwork(t testing.TB, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// random makes a frontier of as many subnetworks, some with statistics.
func random(t testing.TB, n *supernet.Network, points int, seed uint64) *Frontier {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	f := &Frontier{
		Network: n, Weights: supernet.Hash{byte(seed), 1, 2}, Input: n.Input(), By: []Kind{MACs},
		CPU: "a CPU — 3 GHz", Threads: 2, OwnName: "cents",
		Preprocess: Preprocess{Resize: 256, Mean: []float32{0.5}, Std: []float32{0.25}},
	}
	classes := n.Full().Ops[len(n.Ops())-1].Out.Channels
	for range classes {
		f.ClassNames = append(f.ClassNames, "class")
	}
	var all []Point
	for range points {
		s := randnet.Subnet(n, rng)
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		c := CostsOf(v.Costs())
		c.Latency, c.Energy, c.Own = time.Duration(rng.IntN(1e6)), rng.Float64(), rng.Float64()
		p := Judged(s, 0, 1<<20, c, nil)
		if rng.IntN(4) > 0 {
			p.Statistics = &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
			for i, op := range n.Ops() {
				if !op.Norm || !v.Ops[i].Runs {
					continue
				}
				for range v.Ops[i].Out.Channels {
					p.Statistics.Mean[i] = append(p.Statistics.Mean[i], float32(rng.NormFloat64()))
					p.Statistics.Variance[i] = append(p.Statistics.Variance[i], rng.Float32())
				}
			}
		}
		all = append(all, p)
	}
	// Accuracies that rise with the cost, so that none of them is dominated.
	for i := range all {
		cheaper := 0
		for j := range all {
			if all[j].Costs.MACs < all[i].Costs.MACs {
				cheaper++
			}
		}
		all[i].Correct = 1000 + cheaper
		all[i].Accuracy = float64(all[i].Correct) / float64(all[i].Images)
	}
	f.Points = Front(all, MACs)
	if rng.IntN(2) == 0 {
		last := &f.Points[len(f.Points)-1]
		last.Images, last.Correct, last.Accuracy = 0, 0, 0.9
	}
	return f
}

var exact = cmp.Options{
	cmp.AllowUnexported(supernet.Subnet{}),
	cmp.Comparer(func(a, b *supernet.Network) bool { return a.Hash() == b.Hash() }),
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, err := supernet.New(randnet.Draw(r))
		if err != nil {
			r.Fatal(err)
		}
		f := random(t, n, rapid.IntRange(1, 8).Draw(r, "points"), rapid.Uint64().Draw(r, "seed"))
		data, err := f.Encode()
		if err != nil {
			r.Fatal(err)
		}
		again, err := Decode(data, n)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(f, again, exact...); diff != "" {
			r.Fatal(diff)
		}
		twice, err := again.Encode()
		if err != nil || !bytes.Equal(data, twice) {
			r.Fatalf("what was read is written otherwise (%v)", err)
		}
		sizes, err := f.Sizes()
		if err != nil || sizes.Total() != len(data) {
			r.Fatalf("sizes %+v of a file of %d bytes (%v)", sizes, len(data), err)
		}
	})
}

// TestTwelveSubnetworks is the paper's comparison: twelve width configurations of
// mobilenet_v2 take 1.9 KB there.
func TestTwelveSubnetworks(t *testing.T) {
	n := newNetwork(t, "mobilenet_v2")
	for seed := range uint64(4) {
		f := random(t, n, 12, seed)
		sizes, err := f.Sizes()
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Points) != 12 || sizes.Choices > 700 {
			t.Errorf("seed %d: the choices of %d subnetworks take %d bytes; want 12 in at most 700", seed, len(f.Points), sizes.Choices)
		}
		if seed == 0 {
			t.Logf("bytes: %+v", sizes)
		}
	}
}

func TestSaveAndOpen(t *testing.T) {
	n := newNetwork(t, "mobilenet_v2:data=cifar10,width=0.35")
	f := random(t, n, 5, 1)
	f.Weights = weights.Random(n, 1).Hash()
	name := filepath.Join(t.TempDir(), "net.frontier")
	if err := f.Save(name); err != nil {
		t.Fatal(err)
	}
	again, err := Open(name, n)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, again, exact...); diff != "" {
		t.Error(diff)
	}
	if err := again.CheckWeights(weights.Random(n, 1)); err != nil {
		t.Error(err)
	}
	if i := again.Index(f.Points[1].Subnet); i != 1 {
		t.Errorf("subnetwork 1 has index %d", i)
	}
}

// TestRefused: one line, of the right kind, for everything that does not belong.
func TestRefused(t *testing.T) {
	n := newNetwork(t, "mobilenet_v2:data=cifar10,width=0.35")
	narrower := newNetwork(t, "mobilenet_v2:data=cifar10,width=0.5")
	f := random(t, n, 3, 1)
	data, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	line := func(err, kind error, words string) {
		t.Helper()
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v; want one line of kind %q with %q", err, kind, words)
		}
	}
	_, err = Decode(data, narrower)
	line(err, ErrMismatch, "not of "+narrower.Name())
	line(f.CheckWeights(weights.Random(n, 2)), ErrMismatch, "was made for weights")
	line(f.CheckWeights(weights.Random(narrower, 1)), ErrMismatch, "network")
	_, err = Decode([]byte("PNG"), n)
	line(err, ErrCorrupt, "does not begin")
	_, err = Decode(nil, n)
	line(err, ErrCorrupt, "does not begin")
	later := bytes.Clone(data)
	later[len(magic)] = 2
	_, err = Decode(later, n)
	line(err, ErrVersion, "2; this program reads up to 1")
	if _, err = Open(filepath.Join(t.TempDir(), "none"), n); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}

	// Cut off anywhere, or changed anywhere.
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		_, err := Decode(data[:rng.IntN(len(data))], n)
		line(err, ErrCorrupt, "")
		damaged := bytes.Clone(data)
		at := rng.IntN(len(data))
		damaged[at] ^= 1 << rng.IntN(8)
		if _, err := Decode(damaged, n); !errors.Is(err, ErrCorrupt) && at != len(magic) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
}

// TestValidate: what a frontier cannot be.
func TestValidate(t *testing.T) {
	n := newNetwork(t, "mobilenet_v2:data=cifar10,width=0.35")
	whole := weights.New(n).Statistics()
	other, err := newNetwork(t, "resnet18").Uniform(0.5)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words  string
		change func(f *Frontier)
	}{
		{"no network", func(f *Frontier) { f.Network = nil }},
		{"input", func(f *Frontier) { f.Input.Height = 0 }},
		{"over 0 costs", func(f *Frontier) { f.By = nil }},
		{"want different ones", func(f *Frontier) { f.By = []Kind{MACs, MACs} }},
		{"want different ones", func(f *Frontier) { f.By = []Kind{kinds} }},
		{"not in the order", func(f *Frontier) { f.Points[0], f.Points[1] = f.Points[1], f.Points[0] }},
		{"not in the order", func(f *Frontier) { f.Points[0].Costs.MACs = f.Points[2].Costs.MACs + 1 }},
		{"subnetwork 2 costs no more than 1", func(f *Frontier) { f.Points[0].Costs.MACs = f.Points[1].Costs.MACs }},
		{"costs no more than", func(f *Frontier) { f.Points[1].Accuracy, f.Points[1].Images, f.Points[1].Correct = 0, 0, 0 }},
		{"0 subnetworks", func(f *Frontier) { f.Points = nil }},
		{"latency is unknown", func(f *Frontier) { f.By = []Kind{MACs, Latency}; f.Points[1].Costs.Latency = 0 }},
		{"subnetwork 2", func(f *Frontier) { f.Points[1].Subnet = other }},
		{"accuracy", func(f *Frontier) { f.Points[0].Accuracy += 0.001 }},
		{"accuracy NaN", func(f *Frontier) { f.Points[0].Accuracy = math.NaN() }},
		{"of 5 images", func(f *Frontier) { f.Points[0].Images, f.Points[0].Correct = 5, 6 }},
		{"macs -1", func(f *Frontier) { f.Points[0].Costs.MACs = -1 }},
		{"energy NaN", func(f *Frontier) { f.Points[0].Costs.Energy = math.NaN() }},
		{"own -1", func(f *Frontier) { f.Points[0].Costs.Own = -1 }},
		{"9 names of classes", func(f *Frontier) { f.ClassNames = f.ClassNames[:9] }},
		{"printable", func(f *Frontier) { f.ClassNames[3] = "a\nb" }},
		{"printable", func(f *Frontier) { f.CPU = strings.Repeat("x", 300) }},
		{"of 2 channels", func(f *Frontier) { f.Preprocess.Mean = []float32{1, 2} }},
		{"more than 0", func(f *Frontier) { f.Preprocess.Std = []float32{0} }},
		{"resize", func(f *Frontier) { f.Preprocess.Resize = -1 }},
		{"threads", func(f *Frontier) { f.Threads = -1 }},
		{"statistics of 0 and 0 operations", func(f *Frontier) { f.Points[2].Statistics = &weights.Statistics{} }},
		{"channels; it has", func(f *Frontier) {
			f.Points[0].Statistics = whole
		}},
	} {
		f := random(t, n, 3, 4)
		if f.Points[0].Subnet.IsFull() || len(f.Points) != 3 {
			t.Fatal("the test wants three subnetworks, the first of them small")
		}
		c.change(f)
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v; want one with %q", err, c.words)
		}
		if _, err := f.Encode(); err == nil {
			t.Errorf("what is wrong with %q is written", c.words)
		}
	}
}

// TestVersions: a file of every version that ever was stays readable, and means
// what it meant. They are not to be written anew; TIPS_UPDATE=1 makes those of the
// current version where they are missing.
func TestVersions(t *testing.T) {
	description, err := os.Open("testdata/network.json")
	if err != nil {
		t.Fatal(err)
	}
	defer description.Close()
	n, err := supernet.Read(description)
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= currentVersion; version++ {
		name := filepath.Join("testdata", fmt.Sprintf("v%d.frontier", version))
		_, err := os.Stat(name)
		create := err != nil && os.Getenv("TIPS_UPDATE") != "" && version == currentVersion
		if create {
			if err := random(t, n, 3, 9).Save(name); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Open(name, n)
		if err != nil {
			t.Error(err)
			continue
		}
		var statistics []*weights.Statistics
		for _, p := range f.Points {
			statistics = append(statistics, p.Statistics)
		}
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "bytes") // they are those of a file written now
		got, err := json.MarshalIndent(map[string]any{"frontier": fields, "statistics": statistics}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		meaning := strings.TrimSuffix(name, "frontier") + "json"
		if create {
			if err := os.WriteFile(meaning, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(meaning)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if len(decoders) != currentVersion {
		t.Errorf("%d decoders for %d versions", len(decoders), currentVersion)
	}
}

func TestShow(t *testing.T) {
	n := newNetwork(t, "mobilenet_v2:data=cifar10,width=0.35")
	f := random(t, n, 3, 1)
	var table strings.Builder
	if err := f.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "cents") || !strings.Contains(lines[2], f.Points[1].Subnet.String()) {
		t.Errorf("table:\n%s", table.String())
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		By     []string
		Points []struct {
			Subnet string
			MACs   int64
		}
		Bytes Sizes
	}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.By[0] != "macs" || len(back.Points) != 3 || back.Points[0].MACs != f.Points[0].Costs.MACs ||
		back.Points[2].Subnet != f.Points[2].Subnet.String() || back.Bytes.Statistics == 0 {
		t.Errorf("JSON: %s", data)
	}
	for k := range kinds {
		if again, err := ParseKind(k.String()); err != nil || again != k {
			t.Errorf("cost %s is read as %s (%v)", k, again, err)
		}
	}
	if _, err := ParseKind("heat"); err == nil {
		t.Error("a cost of another name is taken")
	}
}
