package topology

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tips/supernet"
)

// allPaths lists every way from input to output.
func allPaths(g *Graph) [][]int {
	var paths [][]int
	var walk func(at int, after []int)
	walk = func(at int, after []int) {
		path := append([]int{at}, after...)
		if at == 0 {
			paths = append(paths, path)
			return
		}
		first, end := g.Into(at)
		for _, e := range g.edges[first:end] {
			walk(e.From, path)
		}
	}
	walk(g.Output(), nil)
	return paths
}

// TestBestPaths compares every rule with the best of all paths.
func TestBestPaths(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		g := randomGraph(t, rng, 3+rng.IntN(9), rng.IntN(10), false)
		scores := make([]float64, len(g.nodes))
		for v := range scores {
			switch seed % 3 {
			case 0:
				scores[v] = float64(rng.IntN(4)) // many ties
			case 1:
				scores[v] = rng.Float64()
			case 2:
				scores[v] = rng.NormFloat64()
			}
		}
		total, mean := math.Inf(-1), math.Inf(-1)
		byLength := map[int]float64{}
		for _, p := range allPaths(g) {
			sum := Path{Nodes: p}.Sum(scores)
			total = max(total, sum)
			mean = max(mean, sum/float64(len(p)))
			if best, known := byLength[len(p)]; !known || sum > best {
				byLength[len(p)] = sum
			}
		}
		check := func(rule string, p Path, err error, got, want float64) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, rule, err)
			}
			if math.Abs(got-want) > 1e-12 {
				t.Fatalf("seed %d, %s: path %v has %v; the best has %v", seed, rule, p.Nodes, got, want)
			}
			if p.Nodes[0] != 0 || p.Nodes[len(p.Nodes)-1] != g.Output() || len(p.Edges) != len(p.Nodes)-1 {
				t.Fatalf("seed %d, %s: path %v by %v", seed, rule, p.Nodes, p.Edges)
			}
			for i, e := range p.Edges {
				if g.edges[e].From != p.Nodes[i] || g.edges[e].To != p.Nodes[i+1] {
					t.Fatalf("seed %d, %s: edge %d does not join %v", seed, rule, e, p.Nodes[i:i+2])
				}
			}
		}
		p, err := HighestTotal(g, scores)
		check("total", p, err, p.Sum(scores), total)
		p, err = HighestMean(g, scores)
		check("mean", p, err, p.Mean(scores), mean)
		for nodes := 2; nodes <= len(g.nodes); nodes++ {
			want, exists := byLength[nodes]
			p, err := HighestOfLength(g, scores, nodes)
			if !exists {
				if !errors.Is(err, ErrNoPath) {
					t.Fatalf("seed %d: there is no path of %d nodes; error %v, path %v", seed, nodes, err, p.Nodes)
				}
				continue
			}
			check("length", p, err, p.Sum(scores), want)
			if len(p.Nodes) != nodes {
				t.Fatalf("seed %d: %d nodes; want %d", seed, len(p.Nodes), nodes)
			}
		}
	}
}

// TestPathsOfTheZoo checks the graphs and the default paths against the numbers
// of the specification, for several seeds and for expected scores.
func TestPathsOfTheZoo(t *testing.T) {
	for _, c := range []struct {
		reference          string
		nodes, edges, path int
	}{
		{"mobilenet_v2", 55, 64, 35},
		{"mobilenet_v2:width=1.4,data=cifar100", 55, 64, 35},
		{"resnet18", 21, 28, 13},
		{"resnet34", 37, 52, 21},
		{"resnet50", 53, 68, 21},
		{"wide_resnet50_2", 53, 68, 21},
		{"resnext50_32x4d", 53, 68, 21},
		{"mlp:depth=80", 81, 119, 42},
	} {
		n, g := zooGraph(t, c.reference)
		if len(g.nodes) != c.nodes || len(g.edges) != c.edges {
			t.Errorf("%s: %d nodes, %d edges; want %d, %d", c.reference, len(g.nodes), len(g.edges), c.nodes, c.edges)
		}
		for seed := range uint64(50) {
			a, err := Analyze(n, Options{Seed: seed, Expected: seed == 0})
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Path.Nodes) != c.path {
				t.Fatalf("%s, seed %d: the path has %d nodes; want %d", c.reference, seed, len(a.Path.Nodes), c.path)
			}
		}
	}
}

// TestStrideTwoBlocksAreImportant is what the paper found on MobileNet-v2.
func TestStrideTwoBlocksAreImportant(t *testing.T) {
	n, _ := zooGraph(t, "mobilenet_v2")
	a, err := Analyze(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	important := map[string]bool{}
	for _, name := range a.Path.Operations(a.Graph) {
		important[name] = true
	}
	blocks := 0
	for _, op := range n.Ops() {
		if op.Kind != supernet.Depthwise || op.Stride != 2 {
			continue
		}
		blocks++
		block, _, _ := strings.Cut(op.Name, ".")
		for _, layer := range []string{".expand", ".depthwise", ".project"} {
			if !important[block+layer] {
				t.Errorf("%s is not important", block+layer)
			}
		}
	}
	if blocks != 4 {
		t.Errorf("%d blocks of stride 2; want 4", blocks)
	}
	favoured := map[string]bool{}
	for _, g := range a.FavouredGroups(n) {
		favoured[n.Groups()[g].Name] = true
	}
	for _, g := range n.Groups() {
		// All but the expansions inside residual blocks.
		i, _ := n.Index(g.Name)
		if want := n.BlockOf(i) < 0; favoured[g.Name] != want {
			t.Errorf("group %s is favoured: %t; want %t", g.Name, favoured[g.Name], want)
		}
	}
}

func TestAnalysisIsDeterministic(t *testing.T) {
	n, _ := zooGraph(t, "efficientnet_b0")
	first, err := Analyze(n, Options{Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Analyze(n, Options{Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Analyze(n, Options{Seed: 12})
	if err != nil {
		t.Fatal(err)
	}
	same := true
	for v := range first.TAS {
		if first.TAS[v] != again.TAS[v] {
			t.Fatalf("node %d: %v, then %v", v, first.TAS[v], again.TAS[v])
		}
		same = same && first.TAS[v] == other.TAS[v]
	}
	if same {
		t.Error("another seed gives the same scores")
	}
}

func TestRules(t *testing.T) {
	n, _ := zooGraph(t, "mobilenet_v2")
	for _, c := range []struct {
		options Options
		nodes   int
	}{
		{Options{Rule: ByTotal}, 55},
		{Options{PathNodes: 45}, 45},
		{Options{Directed: true, Rule: ByTotal}, 55},
	} {
		a, err := Analyze(n, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Path.Nodes) != c.nodes {
			t.Errorf("%+v: %d nodes; want %d", c.options, len(a.Path.Nodes), c.nodes)
		}
	}
	for _, o := range []Options{
		{Subnets: -1}, {Subnets: 1e6}, {Lambda: 2}, {Lambda: -1}, {Lambda: math.NaN()}, {Kappa: 1}, {Kappa: -1},
		{Rule: "best"}, {Rule: ByLength}, {Rule: ByMean, PathNodes: 5}, {PathNodes: -3}, {Expected: true, Directed: true},
	} {
		if _, err := Analyze(n, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	_, err := Analyze(n, Options{PathNodes: 36})
	if !errors.Is(err, ErrNoPath) || !strings.Contains(err.Error(), "35 to 55") {
		t.Errorf("a path of 36 nodes: error %v", err)
	}
}

// TestJoins: what feeds only an addition or a multiplication is its edge.
func TestJoins(t *testing.T) {
	n, err := supernet.New(supernet.Description{
		Name: "test", Input: supernet.Shape{Channels: 8, Height: 4, Width: 4},
		Operations: []supernet.Op{
			{Name: "a", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 8, Kernel: 1},
			{Name: "b", Kind: supernet.Conv, Inputs: []string{"a"}, Channels: 8, Kernel: 1}, // feeds the sum only
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"b", "a"}},
			{Name: "mean", Kind: supernet.GlobalPool, Inputs: []string{"sum"}}, // feeds the gate only
			{Name: "gate", Kind: supernet.Mul, Inputs: []string{"sum", "mean"}},
			{Name: "twice", Kind: supernet.Add, Inputs: []string{"gate", "sum"}}, // a join is a node of its own
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := FromNetwork(n)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(g.Nodes(), " "), "input a sum gate twice"; got != want {
		t.Errorf("nodes %s; want %s", got, want)
	}
	var got []string
	for _, e := range g.Edges() {
		got = append(got, e.Name+":"+g.Nodes()[e.From]+"-"+g.Nodes()[e.To])
	}
	if want := "a:input-a b:a-sum sum:a-sum mean:sum-gate gate:sum-gate twice:sum-twice twice:gate-twice"; !sameWords(got, want) {
		t.Errorf("edges %s; want %s", strings.Join(got, " "), want)
	}
}

func sameWords(got []string, want string) bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(want) {
		words[w] = true
	}
	for _, g := range got {
		if !words[g] {
			return false
		}
		delete(words, g)
	}
	return len(words) == 0
}
