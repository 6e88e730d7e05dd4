package judge_test

import (
	"context"
	"fmt"
	"log"

	"tips/judge"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// Judge two subnetworks of weights in memory; with Run, the weights and data are those
// of a training run.
func ExampleOpen() {
	n, err := zoo.New("mlp:inputs=64")
	if err != nil {
		log.Fatal(err)
	}
	j, err := judge.Open(judge.Options{Set: weights.Random(n, 1), Data: "synthetic:size=8,test=50"})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	err = j.All(context.Background(), []supernet.Subnet{{}, n.Smallest()}, func(i int, v judge.Verdict) {
		fmt.Printf("%d: judged by %d %s images\n", i, v.Images, j.On())
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0: judged by 50 test images
	// 1: judged by 50 test images
}
