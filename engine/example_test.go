package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tips/engine"
	"tips/frontier"
	"tips/supernet/zoo"
	"tips/weights"
)

// files writes weights and a frontier of three subnetworks, as training and search
// would have left them.
func files() (weightsFile, frontierFile string, remove func()) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	network, err := zoo.New("mobilenet_v2:data=cifar10,size=8,width=0.35")
	must(err)
	set := weights.Random(network, 1)
	f := &frontier.Frontier{
		Network: network, Weights: set.Hash(), Input: network.Input(), By: []frontier.Kind{frontier.MACs},
		ClassNames: []string{"aeroplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "lorry"},
	}
	for i, ratio := range []float64{0.35, 0.6, 1} {
		s, err := network.Uniform(ratio)
		must(err)
		v, err := network.View(s, f.Input)
		must(err)
		f.Points = append(f.Points, frontier.Judged(s, 80+5*i, 100, frontier.CostsOf(v.Costs()), nil))
	}
	dir, err := os.MkdirTemp("", "example")
	must(err)
	weightsFile, frontierFile = filepath.Join(dir, "net.safetensors"), filepath.Join(dir, "net.frontier")
	must(set.Save(weightsFile))
	must(f.Save(frontierFile))
	return weightsFile, frontierFile, func() { os.RemoveAll(dir) }
}

// Open weights and frontier once, then infer under a budget of time.
func Example() {
	weightsFile, frontierFile, remove := files()
	defer remove()

	e, err := engine.Open(weightsFile, frontierFile, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	input := make([]float32, e.InputLen()) // height, width, channels, normalised
	r, err := e.Infer(context.Background(), input, engine.Budget{Time: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("point %d, fits: %v, %d classes\n", r.Point, r.Fits, len(e.Top(r.Output, 5)))
	// Output: point 2, fits: true, 5 classes
}

// Budgets of multiply-accumulates and memory, and what people type.
func ExampleEngine_Infer_budget() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	e, err := engine.Open(weightsFile, frontierFile, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	input := make([]float32, e.InputLen())

	middle := e.Frontier().Points[1]
	typed, err := engine.ParseBudget("smallest", e.Network())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range []engine.Budget{
		{},
		{MACs: middle.Costs.MACs},
		{Memory: middle.Costs.PeakBytes},
		{Subnet: &middle.Subnet},
		typed,
		{MACs: 1},
	} {
		r, err := e.Infer(context.Background(), input, b)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Point, r.Fits)
	}
	// Output:
	// 2 true
	// 1 true
	// 1 true
	// 1 true
	// 0 true
	// 0 false
}

// A deadline of the context picks what fits; the result tells how it went.
func ExampleEngine_Infer_deadline() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	e, err := engine.Open(weightsFile, frontierFile, engine.Options{Strict: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	input := make([]float32, e.InputLen())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := e.Infer(ctx, input, engine.Budget{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Point, r.Took > 0, r.Late)

	_, err = e.Infer(ctx, input, engine.Budget{Time: time.Nanosecond})
	fmt.Println(errors.Is(err, engine.ErrInfeasible))
	// Output:
	// 2 true false
	// true
}

// Switch sets what calls without a budget run, from any goroutine, at any time.
func ExampleEngine_Switch() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	e, err := engine.Open(weightsFile, frontierFile, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	input := make([]float32, e.InputLen())

	for point := range e.Frontier().Points {
		if err := e.Switch(point); err != nil {
			fmt.Println(err)
			return
		}
		r, err := e.Infer(context.Background(), input, engine.Budget{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Point)
	}
	// Output:
	// 0
	// 1
	// 2
}

// Files within the program, as go:embed puts them there.
func ExampleFromBytes() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	w, _ := os.ReadFile(weightsFile) // var w, f []byte with go:embed
	f, _ := os.ReadFile(frontierFile)

	e, err := engine.FromBytes(w, f, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	fmt.Println(e.Network().Name(), len(e.Frontier().Points))
	// Output: mobilenet_v2:data=cifar10,size=8,width=0.35 3
}

// A limit stands for all calls until it is changed.
func ExampleLimit() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	e, err := engine.Open(weightsFile, frontierFile, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	input := make([]float32, e.InputLen())

	limit := e.NewLimit()
	defer limit.Release()
	if err := limit.Set(engine.Budget{MACs: e.Frontier().Points[0].Costs.MACs}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := e.Infer(context.Background(), input, engine.Budget{})
	fmt.Println(r.Point, err)
	// Output: 0 <nil>
}

// Controllers move limits of their own while the program infers.
func ExampleController() {
	weightsFile, frontierFile, remove := files()
	defer remove()
	e, err := engine.Open(weightsFile, frontierFile, engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()

	latency, err := engine.NewLatencyController(e, engine.LatencyOptions{Target: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	memory, err := engine.NewMemoryController(e, engine.MemoryOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cpu, err := engine.NewCPUController(e, engine.CPUOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	for _, c := range []engine.Controller{latency, memory, cpu} {
		go func() { ended <- c.Run(ctx) }()
	}
	// … infer …
	stop()
	for range 3 {
		<-ended
	}
	fmt.Println("ended")
	// Output: ended
}
