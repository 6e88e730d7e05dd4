package method

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// softmax in float64.
func softmax(x []float32) []float64 {
	largest := float64(x[0])
	for _, v := range x {
		largest = max(largest, float64(v))
	}
	q := make([]float64, len(x))
	sum := 0.0
	for i, v := range x {
		q[i] = math.Exp(float64(v) - largest)
		sum += q[i]
	}
	for i := range q {
		q[i] /= sum
	}
	return q
}

// definition is a divergence by its definition, and the weights that its gradient
// holds constant.
func definition(d Divergence, q, p []float64) (loss float64, weights []float64) {
	if d == SoftCE {
		for i := range q {
			loss -= p[i] * math.Log(q[i])
		}
		return loss, p
	}
	one, minusOne := 0.0, 0.0
	clipped := make([]float64, len(q))
	for i := range q {
		one += p[i] * math.Log(p[i]/q[i])
		ratio := min(5, math.Pow(p[i]/q[i], -1))
		minusOne += q[i] * (ratio - 1) / (-1 * (-1 - 1))
		clipped[i] = q[i] * ratio / -1
	}
	if minusOne > one {
		return minusOne, clipped
	}
	return one, p
}

func surrogate(x []float64, weights []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v)
	}
	loss := 0.0
	for i, v := range x {
		loss -= weights[i] * (v - math.Log(sum))
	}
	return loss
}

// TestDivergences: the value is the definition's, the gradient the difference
// quotient of Σ −w log q with constant weights.
func TestDivergences(t *testing.T) {
	which := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "classes")
		logit := rapid.Float32Range(-6, 6)
		student := rapid.SliceOfN(logit, n, n).Draw(t, "student")
		p := softmax(rapid.SliceOfN(logit, n, n).Draw(t, "teacher"))
		teacher := make([]float32, n)
		for i, v := range p {
			teacher[i] = float32(v)
			p[i] = float64(teacher[i])
		}
		q := softmax(student)
		for _, d := range []Divergence{SoftCE, Alpha} {
			grad := make([]float32, n)
			for i := range grad {
				grad[i] = float32(math.NaN()) // old values play no role
			}
			loss := d.Loss(student, teacher, grad)
			want, weights := definition(d, q, p)
			if math.Abs(loss-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("%v: loss %v; want %v", d, loss, want)
			}
			if d == Alpha {
				if &weights[0] == &p[0] {
					which["one"]++
				} else {
					which["minus one"]++
				}
			}
			total := 0.0
			for i := range student {
				x := make([]float64, n)
				for j, v := range student {
					x[j] = float64(v)
				}
				const h = 1e-5
				x[i] += h
				up := surrogate(x, weights)
				x[i] -= 2 * h
				down := surrogate(x, weights)
				if difference := (up - down) / (2 * h); math.Abs(difference-float64(grad[i])) > 1e-4*(1+math.Abs(difference)) {
					t.Fatalf("%v: gradient %v; want %v", d, grad[i], difference)
				}
				total += float64(grad[i])
			}
			if math.Abs(total) > 1e-5 {
				t.Fatalf("%v: the gradient sums to %v", d, total)
			}
		}
	})
	if which["one"] == 0 || which["minus one"] == 0 {
		t.Errorf("divergences taken: %v; want some of each", which)
	}
}

// TestUnclippedAlpha: where nothing is clipped, the gradient is that of the
// divergence itself.
func TestUnclippedAlpha(t *testing.T) {
	student, teacher := []float32{1.2, 0.1, -0.3}, []float32{0.3, 0.4, 0.3}
	grad := make([]float32, 3)
	Alpha.Loss(student, teacher, grad)
	value := func(i int, h float32) float64 {
		x := append([]float32(nil), student...)
		x[i] += h
		return Alpha.Loss(x, teacher, make([]float32, 3))
	}
	for i := range student {
		const h = 1.0 / 1024
		if want := (value(i, h) - value(i, -h)) / (2 * h); math.Abs(want-float64(grad[i])) > 1e-4 {
			t.Errorf("gradient %v; want %v", grad[i], want)
		}
	}
}

// TestExtremes: a student or a teacher that is certain gives finite numbers, and
// one that agrees has nothing to learn.
func TestExtremes(t *testing.T) {
	for _, d := range []Divergence{SoftCE, Alpha} {
		for _, c := range []struct{ student, teacher []float32 }{
			{[]float32{1000, 0, 0}, []float32{0, 1, 0}},
			{[]float32{-1000, 1000, 0}, []float32{1, 0, 0}},
			{[]float32{0, 0, 0}, []float32{0, 0, 1}},
			{[]float32{3e38, -3e38, 0}, []float32{0.5, 0.5, 0}},
		} {
			grad := make([]float32, 3)
			loss := d.Loss(c.student, c.teacher, grad)
			for _, v := range append([]float32{float32(loss)}, grad...) {
				if math.IsNaN(float64(v)) {
					t.Errorf("%v of %v from %v: %v, gradient %v", d, c.student, c.teacher, loss, grad)
					break
				}
			}
		}
	}
	grad := make([]float32, 2)
	if loss := Alpha.Loss([]float32{2, 2}, []float32{0.5, 0.5}, grad); math.Abs(loss) > 1e-7 || math.Abs(float64(grad[0])) > 1e-7 || math.Abs(float64(grad[1])) > 1e-7 {
		t.Errorf("divergence %v from oneself, gradient %v", loss, grad)
	}
	defer func() {
		if recover() == nil {
			t.Error("slices of different lengths are taken")
		}
	}()
	SoftCE.Loss([]float32{1, 2}, []float32{1}, grad)
}
