package topology

import (
	"fmt"
	"runtime"
	"testing"

	"tips/supernet"
)

// BenchmarkAnalyze is the whole of step 1 on mobilenet_v2, T = 8: graph, draw,
// scores, path. The paper reports 39 s.
func BenchmarkAnalyze(b *testing.B) {
	n, _ := zooGraph(b, "mobilenet_v2")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Analyze(n, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSparseSolver is the general solver on the same chain, scores alone.
func BenchmarkSparseSolver(b *testing.B) {
	_, g := zooGraph(b, "mobilenet_v2")
	s := Sample(g, DefaultSubnets, newRand(0))
	c := Chain{Lambda: DefaultLambda, Kappa: DefaultKappa}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Solve(g, s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPowerIteration is what one would do without the closed form: the
// dense 440×440 matrix, iterated until π changes by less than 1e-12.
func BenchmarkPowerIteration(b *testing.B) {
	_, g := zooGraph(b, "mobilenet_v2")
	p := denseTransitions(g, Sample(g, DefaultSubnets, newRand(0)), Chain{Lambda: DefaultLambda, Kappa: DefaultKappa})
	sweeps := 0
	for b.Loop() {
		_, sweeps = powerScores(p, len(g.nodes), 1e-12)
	}
	b.ReportMetric(float64(sweeps), "sweeps")
}

// largeGraph is a network of residual blocks x→a→b→c with about that many edges.
func largeGraph(b *testing.B, edges int) *Graph {
	blocks := edges / 4
	nodes := make([]string, 0, 3*blocks+2)
	list := make([]Edge, 0, 4*blocks+1)
	parents := make([]int, blocks)
	nodes = append(nodes, "input")
	at := 0
	for k := range blocks {
		parents[k] = -1
		for range 3 {
			nodes = append(nodes, "map")
			list = append(list, Edge{Name: "op", Kind: supernet.Conv, From: len(nodes) - 2, To: len(nodes) - 1, Block: k})
		}
		list = append(list, Edge{Name: "add", Kind: supernet.Add, From: at, To: len(nodes) - 1, Block: -1})
		at = len(nodes) - 1
	}
	g, err := NewGraph(nodes, list, parents)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// BenchmarkScaling shows that time and memory grow with the number of edges.
func BenchmarkScaling(b *testing.B) {
	for _, edges := range []int{1e3, 1e4, 1e5, 1e6} {
		b.Run(fmt.Sprintf("edges=%d", edges), func(b *testing.B) {
			g := largeGraph(b, edges)
			b.ReportAllocs()
			runtime.GC()
			for b.Loop() {
				if _, err := AnalyzeGraph(g, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(g.edges)), "ns/edge")
		})
	}
}
