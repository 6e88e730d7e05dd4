package reproduce

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/topology"
)

func network(t *testing.T, reference string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantHolds checks what the figure says of itself, and its data.
func wantHolds(t *testing.T, f Figure, findings int) {
	t.Helper()
	if len(f.Findings) != findings {
		t.Errorf("%d findings; want %d", len(f.Findings), findings)
	}
	for _, finding := range f.Findings {
		if !finding.Holds {
			t.Errorf("%s: %s", finding.Claim, finding.Measured)
		}
	}
	var b bytes.Buffer
	if err := f.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(f.Rows)+1 || len(rows) < 10 {
		t.Errorf("the CSV has %d rows", len(rows))
	}
}

func TestFig4a(t *testing.T) {
	f, err := Fig4a(Fig4aOptions{Draws: 3})
	if err != nil {
		t.Fatal(err)
	}
	wantHolds(t, f, 4)
	if want := 4 * 3 * 200; len(f.Rows) != want {
		t.Errorf("%d paths; want %d", len(f.Rows), want)
	}
	again, err := Fig4a(Fig4aOptions{Draws: 3})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(f.Rows) != fmt.Sprint(again.Rows) {
		t.Error("the same seed gives other data")
	}
}

// TestPathsOf50Nodes is why fig4a joins any two nodes.
func TestPathsOf50Nodes(t *testing.T) {
	for depth, exists := range map[int]bool{80: true, 100: false, 120: false, 140: false} {
		g, err := topology.FromNetwork(network(t, fmt.Sprintf("mlp:depth=%d", depth)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newPathSampler(g, 50, true)
		if (err == nil) != exists {
			t.Errorf("%d layers: a path of 50 nodes from input to output exists: %t; want %t", depth, err == nil, exists)
		}
	}
}

func TestFig5(t *testing.T) {
	f, err := Fig5(network(t, "mobilenet_v2"), Fig5Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantHolds(t, f, 2)
	if want := 19 * 10; len(f.Rows) != want {
		t.Errorf("%d rows; want %d", len(f.Rows), want)
	}
}

func TestFig6(t *testing.T) {
	for _, model := range []string{"mobilenet_v2", "resnet34", "efficientnet_b0"} {
		f, err := Fig6(network(t, model), Fig6Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantHolds(t, f, 1)
		// The rows are ordered by path within each λ: the ranking itself.
		for i := 1; i < len(f.Rows); i++ {
			if f.Rows[i][0] != f.Rows[i-1][0] {
				continue
			}
			before, _ := strconv.ParseFloat(f.Rows[i-1][3], 64)
			now, _ := strconv.ParseFloat(f.Rows[i][3], 64)
			if now >= before {
				t.Errorf("%s, λ=%s: path %s has %v, the one before it %v", model, f.Rows[i][0], f.Rows[i][1], now, before)
			}
		}
	}
	if _, err := Fig6(network(t, "mobilenet_v2"), Fig6Options{PathNodes: 36}); err == nil {
		t.Error("paths of 36 nodes were found where there are none")
	}
}

// TestMeanCombined compares the shortcut with the singular values of the whole
// matrix [W I].
func TestMeanCombined(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range [][2]int{{6, 6}, {4, 9}} {
		w := mat.NewDense(size[0], size[1], nil)
		w.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, w)
		values := func(m mat.Matrix) []float64 {
			var svd mat.SVD
			if !svd.Factorize(m, mat.SVDNone) {
				t.Fatal("no singular values")
			}
			return svd.Values(nil)
		}
		for identities := range 3 {
			var whole mat.Dense
			whole.CloneFrom(w)
			for range identities {
				eye := mat.NewDiagDense(size[0], nil)
				for i := range size[0] {
					eye.SetDiag(i, 1)
				}
				var wider mat.Dense
				wider.Augment(&whole, eye)
				whole.CloneFrom(&wider)
			}
			want := 0.0
			for _, s := range values(&whole) {
				want += s / float64(size[0])
			}
			if got := meanCombined(values(w), identities); math.Abs(got-want) > 1e-12 {
				t.Errorf("%v with %d identities: %v; want %v", size, identities, got, want)
			}
		}
	}
	if got := meanCombined(nil, 1); got != 1 {
		t.Errorf("an identity alone: %v", got)
	}
	if got := meanCombined(nil, 0); got != 0 {
		t.Errorf("nothing: %v", got)
	}
}

// TestAverageDegree counts links by hand: mlp:depth=4 is input, stem, inner layer,
// sum, classifier, with one block over two layers of 80 neurons.
func TestAverageDegree(t *testing.T) {
	n := network(t, "mlp:depth=4")
	g, err := topology.FromNetwork(n)
	if err != nil {
		t.Fatal(err)
	}
	subnets := topology.Sample(g, 8, rand.New(rand.NewPCG(1, 1)))
	kept := 0
	for _, e := range g.Edges() {
		if e.Name == "block1.linear1" {
			kept = subnets.Count(e)
		}
	}
	if kept == 0 || kept == 8 {
		t.Fatalf("the block is in %d of 8 subnetworks: nothing to tell apart", kept)
	}
	j := layerJacobians{network: n, graph: g, subnets: subnets}
	part := float64(kept) / 8
	for _, c := range []struct {
		path []int
		want float64
	}{
		{[]int{1}, 784},                       // the stem reads all inputs
		{[]int{2}, 80 * part},                 // inside the block
		{[]int{3}, 1 + 80*part},               // the sum: an identity, and a layer where the block is kept
		{[]int{4}, 80},                        // the classifier
		{[]int{3, 4}, (1 + 80*part + 80) / 2}, // an average over nodes
	} {
		if got := j.averageDegree(c.path); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("path %v: average degree %v; want %v", c.path, got, c.want)
		}
	}
}

// TestPathsAreDrawnUniformly draws many paths of a small graph that has few.
func TestPathsAreDrawnUniformly(t *testing.T) {
	g, err := topology.FromNetwork(network(t, "mlp:depth=8"))
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		nodes := 4 + 3*btoi(whole)
		s, err := newPathSampler(g, nodes, whole)
		if err != nil {
			t.Fatal(err)
		}
		const draws = 40000
		rng := rand.New(rand.NewPCG(1, 2))
		counts := map[string]int{}
		for range draws {
			p := s.draw(rng)
			if whole && (p[0] != 0 || p[len(p)-1] != g.Output()) {
				t.Fatalf("path %v does not go from input to output", p)
			}
			counts[fmt.Sprint(p)]++
		}
		want := countPaths(g, nodes, whole)
		if len(counts) != want {
			t.Fatalf("%d different paths of %d nodes; there are %d", len(counts), nodes, want)
		}
		// χ² with want−1 degrees of freedom: mean want−1, deviation √(2(want−1)).
		chi := 0.0
		expected := float64(draws) / float64(want)
		for _, c := range counts {
			chi += (float64(c) - expected) * (float64(c) - expected) / expected
		}
		if limit := float64(want-1) + 5*math.Sqrt(2*float64(want-1)); chi > limit {
			t.Errorf("χ² is %.1f for %d paths; want below %.1f", chi, want, limit)
		}
	}
}

// countPaths counts by walking all of them.
func countPaths(g *topology.Graph, nodes int, whole bool) int {
	var walk func(v, left int) int
	walk = func(v, left int) int {
		if left == 1 {
			return btoi(v == 0 || !whole)
		}
		total := 0
		for _, e := range into(g, v) {
			total += walk(e.From, left-1)
		}
		return total
	}
	total := 0
	for v := range g.Nodes() {
		if v == g.Output() || !whole {
			total += walk(v, nodes)
		}
	}
	return total
}

func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 300}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 4, 3}, 0.8},
		{[]float64{1, 1, 2}, []float64{1, 1, 5}, 1}, // equal values share a rank
	} {
		if got := spearman(c.x, c.y); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v: %v; want %v", c.x, c.y, got, c.want)
		}
	}
}
