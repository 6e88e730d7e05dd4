package topology

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tips/internal/randnet"
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

// TestSubnetworksAreThoseOfTheNetwork: for random networks and random blocks
// left out, the operations of the graph that are there are those of the view.
func TestSubnetworksAreThoseOfTheNetwork(t *testing.T) {
	joinsInBlocks := 0
	rapid.Check(t, func(t *rapid.T) {
		n, err := supernet.New(randnet.Draw(t))
		if err != nil {
			t.Fatal(err)
		}
		g, err := FromNetwork(n)
		if err != nil {
			t.Fatal(err)
		}
		dropped := make([]bool, len(n.Blocks()))
		var without []int
		for b, block := range n.Blocks() {
			dropped[b] = rapid.Bool().Draw(t, "dropped") || block.Parent >= 0 && dropped[block.Parent]
			if dropped[b] {
				without = append(without, b)
			}
		}
		widths := make([]int, len(n.Groups()))
		for i, group := range n.Groups() {
			widths[i] = group.Channels
		}
		s, err := n.Subnet(widths, without)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		// A map exists where its operation runs or stands for its shortcut.
		exists := func(i int) bool {
			return i == supernet.FromInput || n.BlockOf(i) < 0 || !dropped[n.BlockOf(i)]
		}
		for _, e := range g.Edges() {
			there := e.Block < 0 || !dropped[e.Block]
			i, _ := n.Index(e.Name)
			from := supernet.FromInput
			if name := g.Nodes()[e.From]; name != supernet.InputName {
				from, _ = n.Index(name)
			}
			want := exists(i) && exists(from)
			if exists(i) && !v.Ops[i].Runs { // closes a block that is left out
				for _, b := range n.Blocks() {
					if b.Add == i {
						want = want && from == b.Shortcut
					}
				}
			}
			if there != want {
				t.Fatalf("%s from %s, without %v: in the graph %t, in the network %t", e.Name, g.Nodes()[e.From], without, there, want)
			}
			if from != supernet.FromInput && n.BlockOf(from) > n.BlockOf(i) {
				joinsInBlocks++
			}
		}
		if _, err := AnalyzeGraph(g, Options{}); err != nil {
			t.Fatal(err)
		}
	})
	if joinsInBlocks == 0 {
		t.Error("no branch ended in a join: nothing was tested")
	}
}

// TestTiesGoToTheShorterPath, and an operation that two others read is a node.
func TestTiesGoToTheShorterPath(t *testing.T) {
	edge := func(from, to int) Edge { return Edge{Name: "op", From: from, To: to, Block: -1} }
	g, err := NewGraph([]string{"input", "a", "b", "output"}, []Edge{edge(0, 1), edge(1, 2), edge(2, 3), edge(1, 3), edge(0, 3)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal := []float64{2, 2, 2, 2}
	if p, err := HighestMean(g, equal); err != nil || len(p.Nodes) != 2 {
		t.Errorf("mean: path %v, %v; want the shortest", p.Nodes, err)
	}
	if p, err := HighestTotal(g, []float64{1, 0, 0, 1}); err != nil || len(p.Nodes) != 2 {
		t.Errorf("total: path %v, %v; want the shortest", p.Nodes, err)
	}

	n, err := supernet.New(supernet.Description{
		Name: "test", Input: supernet.Shape{Channels: 8, Height: 4, Width: 4},
		Operations: []supernet.Op{
			{Name: "a", Kind: supernet.Conv, Inputs: []string{"input"}, Channels: 8, Kernel: 1},
			{Name: "b", Kind: supernet.Conv, Inputs: []string{"a"}, Channels: 8, Kernel: 1}, // read by both
			{Name: "sum", Kind: supernet.Add, Inputs: []string{"b", "a"}},
			{Name: "sum2", Kind: supernet.Add, Inputs: []string{"sum", "b"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = FromNetwork(n); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(g.Nodes(), " "), "input a b sum sum2"; got != want {
		t.Errorf("nodes %s; want %s", got, want)
	}
}

// TestTheSolverRefusesTheImpossible in little time.
func TestTheSolverRefusesTheImpossible(t *testing.T) {
	const nodes = 3000
	rng := rand.New(rand.NewPCG(1, 1))
	var edges []Edge
	for v := 1; v < nodes; v++ {
		edges = append(edges, Edge{Name: "op", From: v - 1, To: v, Block: -1})
	}
	for range 30000 {
		from := rng.IntN(nodes - 1)
		edges = append(edges, Edge{Name: "op", From: from, To: from + 1 + rng.IntN(nodes-1-from), Block: -1})
	}
	g, err := NewGraph(make([]string, nodes), edges, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AnalyzeGraph(g, Options{}); err != nil {
		t.Errorf("the closed form: %v", err)
	}
	if _, err := AnalyzeGraph(g, Options{Directed: true, Subnets: 1000}); err == nil || !strings.Contains(err.Error(), "too many for the sparse solver") {
		t.Errorf("too many states: error %v", err)
	}
	if testing.Short() {
		return
	}
	if _, err := AnalyzeGraph(g, Options{Directed: true}); err == nil || !strings.Contains(err.Error(), "too entangled") {
		t.Errorf("an entangled graph: error %v", err)
	}
}
