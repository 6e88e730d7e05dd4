package reproduce

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/frontier"
	"tips/plot"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
)

// TestTable1Frontiers: the mean of frontiers begins where the last of them does, rises where
// any of them does, and ends at the full network.
func TestTable1Frontiers(t *testing.T) {
	n, err := zoo.New(table1Network)
	if err != nil {
		t.Fatal(err)
	}
	full := n.Full().Costs().MACs
	// A run's frontier: quarters of the full cost, and images of 100.
	runOf := func(points ...[2]int64) *table1Run {
		r := &table1Run{run: &run{network: n, recipe: &train.Recipe{Epochs: 1, Data: "cifar100"}, frontier: &frontier.Frontier{}}}
		for _, p := range points {
			r.frontier.Points = append(r.frontier.Points, frontier.Judged(supernet.Subnet{}, int(p[1]), 100, frontier.Costs{MACs: full * p[0] / 4}, nil))
		}
		return r
	}
	a, b := runOf([2]int64{1, 50}, [2]int64{3, 70}), runOf([2]int64{2, 60})
	table := table1{runs: []*table1Run{a, b}, methods: []*table1Method{{name: "both", runs: []*table1Run{a, b}}, {name: "one", runs: []*table1Run{a}}}}
	chart := table.frontiers()
	million := func(quarters ...int64) (list []float64) {
		for _, q := range quarters {
			list = append(list, float64(full*q/4)/1e6)
		}
		return list
	}
	want := []plot.Series{
		{Name: "both", X: million(2, 3, 4), Y: []float64{55, 65, 65}, Steps: true},
		{Name: "one", X: million(1, 3, 4), Y: []float64{50, 70, 70}, Steps: true},
	}
	near := cmp.Comparer(func(x, y float64) bool { return x-y < 1e-9 && y-x < 1e-9 })
	if diff := cmp.Diff(want, chart.Series, near); diff != "" {
		t.Error(diff)
	}
	if chart.Floor != 70-frontiersShown {
		t.Errorf("the chart begins at %v", chart.Floor)
	}
}
