package search_test

import (
	"context"
	"fmt"

	"tips/search"
	"tips/search/cost"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// price is a cost of one's own: a thousand multiply-accumulates cost one, and so does
// every kilobyte of weights.
type price struct{}

func (price) Name() string { return "price" }

func (price) Of(v *supernet.View) (float64, error) {
	c := v.Costs()
	return float64(c.MACs)/1000 + float64(c.WeightBytes)/1000, nil
}

// wide is a judge that likes wide networks; package judge has one that looks at images.
type wide struct{ n *supernet.Network }

func (w wide) Accuracy(_ context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	widths, _, err := w.n.Widths(s)
	for _, width := range widths {
		correct += width
	}
	return correct, 1000, nil, err
}

// A search that trades accuracy for a cost of one's own, within caps on that and on
// memory.
func Example() {
	n, err := zoo.New("mlp:depth=6,width=64,min=0.25,divisor=8")
	if err != nil {
		fmt.Println(err)
		return
	}
	budget, err := cost.ParseBudget("price<=100,memory<=8KiB", append(cost.Exact(), price{})...)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := search.Run(context.Background(), search.Options{
		Network: n, Judge: wide{n}, By: price{}, Budget: budget, Evaluations: 40, Seed: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	best, _ := r.Best(100)
	fmt.Println(r.Evaluations, "judged;", "the best is within the cap:", best.Costs.Own <= 100)

	budget[0].Most = 1
	_, err = search.Run(context.Background(), search.Options{Network: n, Judge: wide{n}, By: price{}, Budget: budget})
	fmt.Println(err)
	// Output:
	// 40 judged; the best is within the cap: true
	// search: no subnetwork is within the budget: the cheapest, w16x3, has price 69; the cap is 1
}
