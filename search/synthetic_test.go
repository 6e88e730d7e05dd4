package search

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// synthetic judges as a trained network might: accuracy saturates in the width of
// every group, groups differ in how much they matter, neighbours that are out of
// proportion hurt, and a number of images leaves binomial noise, the same at every
// asking.
type synthetic struct {
	network *supernet.Network
	matter  []float64 // by group, sum 1
	bend    []float64
	images  int // 0: no noise
	calls   atomic.Int64
}

func newSynthetic(n *supernet.Network, images int) *synthetic {
	rng := rand.New(rand.NewPCG(42, 42))
	s := &synthetic{network: n, images: images}
	sum := 0.0
	for range n.Groups() {
		m := math.Exp(0.9 * rng.NormFloat64())
		s.matter = append(s.matter, m)
		s.bend = append(s.bend, 2+3*rng.Float64())
		sum += m
	}
	for i := range s.matter {
		s.matter[i] /= sum
	}
	return s
}

func (s *synthetic) truth(sub supernet.Subnet) float64 {
	widths, without, err := s.network.Widths(sub)
	if err != nil {
		panic(err)
	}
	loss, before := 0.0, -1.0
	for g, group := range s.network.Groups() {
		r := float64(widths[g]) / float64(group.Channels)
		loss += s.matter[g] * 0.45 * (math.Exp(-s.bend[g]*r) - math.Exp(-s.bend[g])) / math.Exp(-0.35*s.bend[g])
		if before >= 0 { // a bottleneck between wider neighbours
			loss += 0.04 * s.matter[g] * (r - before) * (r - before) / 0.4225
		}
		before = r
	}
	loss += 0.012 * float64(len(without))
	return 0.72 - loss
}

func (s *synthetic) Accuracy(ctx context.Context, sub supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	s.calls.Add(1)
	if err := ctx.Err(); err != nil {
		return 0, 0, nil, err
	}
	p := s.truth(sub)
	if s.images == 0 {
		return int(p * 1e6), 1e6, nil, nil
	}
	h := uint64(14695981039346656037)
	for _, b := range []byte(sub.String()) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	rng := rand.New(rand.NewPCG(h, 7))
	for range s.images {
		if rng.Float64() < p {
			correct++
		}
	}
	return correct, s.images, nil, nil
}

func network(t testing.TB, name string) *supernet.Network {
	t.Helper()
	n, err := zoo.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
