package train

import (
	"math"

	"tips/internal/kernel"
	"tips/internal/parallel"
	"tips/nn"
)

// Update is stochastic gradient descent with momentum, as PyTorch computes it:
//
//	g ← gradient, scaled down to ClipNorm if its norm is larger
//	g ← g + WeightDecay·w
//	m ← Momentum·m + g
//	w ← w − rate·m, or with Nesterov w − rate·(g + Momentum·m)
type Update struct {
	Momentum    float64
	Nesterov    bool
	WeightDecay float64
	DecayNorm   bool    // whether scale and shift of batch norm decay too
	DecayBias   bool    // whether biases do
	ClipNorm    float64 // the largest norm of the gradient of all parameters; 0 for any
}

// decays tells how much the values of a role decay.
func (u Update) decays(r nn.Role) float64 {
	switch {
	case r == nn.RoleBias && !u.DecayBias, (r == nn.RoleScale || r == nn.RoleShift) && !u.DecayNorm:
		return 0
	}
	return u.WeightDecay
}

// chunk is how many values a thread takes at a time.
const chunk = 1 << 15

// norm is the Euclidean norm of all values.
func norm(x []float32, threads int) float64 {
	// Sums of fixed chunks, added in order: the same for any number of threads.
	partial := make([]float64, (len(x)+chunk-1)/chunk)
	parallel.Do(len(partial), threads, func(i int) {
		partial[i] = kernel.SumSquares(x[i*chunk : min((i+1)*chunk, len(x))])
	})
	sum := 0.0
	for _, v := range partial {
		sum += v
	}
	return math.Sqrt(sum)
}

// apply updates the weights w and the momentum m by the gradient g, whose norm is
// given, and the moving average a, if it is not nil. Pad values stay zero, because
// all of theirs are.
func (u Update) apply(w, g, m, a *nn.Parameters, rate, norm, average float64, threads int) {
	type part struct{ tensor, from, to int }
	var parts []part
	for i, t := range w.Tensors() {
		for from := 0; from < len(t.Values); from += chunk {
			parts = append(parts, part{i, from, min(from+chunk, len(t.Values))})
		}
	}
	parallel.Do(len(parts), threads, func(i int) {
		p := parts[i]
		of := func(x *nn.Parameters) []float32 { return x.Tensors()[p.tensor].Values[p.from:p.to] }
		if u.ClipNorm > 0 && norm > u.ClipNorm {
			// Not as x + (s−1)·x: where s is small, s−1 has few digits of it.
			scale, values := float32(u.ClipNorm/norm), of(g)
			for j := range values {
				values[j] *= scale
			}
		}
		step := kernel.Momentum{
			Rate: float32(rate), Momentum: float32(u.Momentum), Decay: float32(u.decays(w.Tensors()[p.tensor].Role)), Nesterov: u.Nesterov,
			W: of(w), V: of(m), G: of(g),
		}
		step.Run()
		if a != nil {
			kernel.Average(0, of(a), of(w), average)
		}
	})
	for _, x := range []*nn.Parameters{w, g, m, a} {
		if x != nil {
			x.Changed()
		}
	}
}
