package nn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tips/supernet"
)

// BenchmarkRun is one inference, batch 1, at 224×224, by model and threads.
func BenchmarkRun(b *testing.B) {
	for _, reference := range []string{
		"mobilenet_v2:width=1.4", "mobilenet_v2", "mobilenet_v2:width=0.35", "resnet34", "resnet50", "efficientnet_b0", "resnext50_32x4d",
	} {
		set := load(b, reference)
		m := NewModel(set)
		p, err := m.Program(supernet.Subnet{}, set.Network.Input(), 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		x := randomInput(rand.New(rand.NewPCG(1, 1)), p.InputLen())
		y := make([]float32, p.OutputLen())
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", reference, threads), func(b *testing.B) {
				s := NewSession(threads)
				defer s.Close()
				s.Run(p, y, x)
				b.ReportAllocs()
				for b.Loop() {
					s.Run(p, y, x)
				}
				flops := 2 * float64(p.view.Costs().MACs)
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkProgram is the planning of a subnetwork never seen before.
func BenchmarkProgram(b *testing.B) {
	set := load(b, "mobilenet_v2")
	m := NewModel(set)
	s := set.Network.Smallest()
	for b.Loop() {
		if _, err := m.Program(s, set.Network.Input(), 1, nil); err != nil {
			b.Fatal(err)
		}
	}
}
