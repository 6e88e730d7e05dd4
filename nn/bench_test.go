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

// BenchmarkLearn is what a training step costs but for the optimiser: the whole
// network and three subnetworks, forwards and back.
func BenchmarkLearn(b *testing.B) {
	for _, name := range []string{"mobilenet_v2:width=1.4,data=cifar100", "resnet34:data=cifar100"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				const batch = 64
				set := load(b, name)
				n := set.Network
				rng := rand.New(rand.NewPCG(1, 2))
				subs := []supernet.Subnet{{}, n.Smallest(), uniform(b, n, 0.5), uniform(b, n, 0.75)}
				macs := 0.0
				for _, s := range subs {
					v, err := n.View(s, n.Input())
					if err != nil {
						b.Fatal(err)
					}
					macs += float64(v.Costs().MACs)
				}
				p := NewParameters(set)
				grads := p.Zeros()
				l := NewLearner(threads)
				defer l.Close()
				images := randomInput(rng, batch*int(n.Input().Elements()))
				dlogits := randomInput(rng, batch*n.Full().Ops[len(n.Ops())-1].Out.Channels)
				for b.Loop() {
					for _, s := range subs {
						if _, err := l.Forward(p, s, images, batch); err != nil {
							b.Fatal(err)
						}
						l.Backward(grads, dlogits)
					}
					p.Changed()
				}
				seconds := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(batch/seconds, "images/s")
				b.ReportMetric(6*macs*batch/seconds/1e9, "GFLOP/s")
			})
		}
	}
}

func uniform(b *testing.B, n *supernet.Network, ratio float64) supernet.Subnet {
	s, err := n.Uniform(ratio)
	if err != nil {
		b.Fatal(err)
	}
	return s
}
