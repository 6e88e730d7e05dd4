package gp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

func randomData(seed uint64, n, d int) (points [][]float64, values []float64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for range n {
		x := make([]float64, d)
		y := 0.0
		for i := range x {
			x[i] = 0.35 + 0.65*rng.Float64()
			y += math.Sin(3*x[i]) * float64(i%3+1)
		}
		points = append(points, x)
		values = append(values, y+0.01*rng.NormFloat64())
	}
	return points, Standardise(values)
}

// TestAgainstInverse compares with the formulas written out with an inverse.
func TestAgainstInverse(t *testing.T) {
	for seed := range uint64(5) {
		points, values := randomData(seed, 30, 4)
		at, _ := randomData(seed+100, 7, 4)
		h := Hyperparameters{Length: 0.7, Noise: 0.02, Amplitude: 1.7}
		p, err := Condition(points, values, h)
		if err != nil {
			t.Fatal(err)
		}
		mean, deviation := p.Predict(at)

		kernel := func(a, b []float64) float64 {
			r2 := 0.0
			for i := range a {
				r2 += (a[i] - b[i]) * (a[i] - b[i]) / (h.Length * h.Length)
			}
			r := math.Sqrt(r2)
			return h.Amplitude * (1 + math.Sqrt(5)*r + 5*r2/3) * math.Exp(-math.Sqrt(5)*r)
		}
		n := len(points)
		k := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				k.Set(i, j, kernel(points[i], points[j]))
			}
			k.Set(i, i, k.At(i, i)+h.Amplitude*h.Noise)
		}
		var inverse mat.Dense
		if err := inverse.Inverse(k); err != nil {
			t.Fatal(err)
		}
		y := mat.NewVecDense(n, values)
		for j, x := range at {
			c := mat.NewVecDense(n, nil)
			for i := range n {
				c.SetVec(i, kernel(points[i], x))
			}
			wantMean := mat.Inner(c, &inverse, y)
			wantDeviation := math.Sqrt(h.Amplitude - mat.Inner(c, &inverse, c))
			if math.Abs(mean[j]-wantMean) > 1e-9 || math.Abs(deviation[j]-wantDeviation) > 1e-9 {
				t.Errorf("prediction %v ± %v; want %v ± %v", mean[j], deviation[j], wantMean, wantDeviation)
			}
		}
		logDet, _ := mat.LogDet(k)
		want := -0.5 * (mat.Inner(y, &inverse, y) + logDet + float64(n)*math.Log(2*math.Pi))
		if math.Abs(p.LogLikelihood-want) > 1e-8*math.Abs(want) {
			t.Errorf("log likelihood %v; want %v", p.LogLikelihood, want)
		}
	}
}

// TestKnownValues: one observation has answers that can be written down.
func TestKnownValues(t *testing.T) {
	p, err := Condition([][]float64{{0}}, []float64{2}, Hyperparameters{Length: 1, Noise: 1, Amplitude: 1})
	if err != nil {
		t.Fatal(err)
	}
	k := (1 + math.Sqrt(5) + 5.0/3) * math.Exp(-math.Sqrt(5)) // 0.5240
	if math.Abs(k-0.52399) > 1e-5 || math.Abs(Matern(1)-k) > 1e-15 || Matern(0) != 1 {
		t.Errorf("Matern(1) = %v; want %v", Matern(1), k)
	}
	mean, deviation := p.Predict([][]float64{{0}, {1}, {1000}})
	for i, want := range [][2]float64{{1, math.Sqrt(0.5)}, {k, math.Sqrt(1 - k*k/2)}, {0, 1}} {
		if math.Abs(mean[i]-want[0]) > 1e-12 || math.Abs(deviation[i]-want[1]) > 1e-12 {
			t.Errorf("prediction %d is %v ± %v; want %v ± %v", i, mean[i], deviation[i], want[0], want[1])
		}
	}
}

// TestFitIsTheMostLikely: no hyperparameters of the grid, nor another amplitude,
// make the observations likelier.
func TestFitIsTheMostLikely(t *testing.T) {
	points, values := randomData(3, 60, 3)
	p, err := Fit(points, values)
	if err != nil {
		t.Fatal(err)
	}
	scale := distanceScale(points)
	for _, l := range lengths {
		for _, noise := range noises {
			for _, amplitude := range []float64{0, 0.5 * p.Amplitude, 2 * p.Amplitude} {
				other, err := Condition(points, values, Hyperparameters{l * scale, noise, amplitude})
				if err == nil && other.LogLikelihood > p.LogLikelihood+1e-9 {
					t.Errorf("%+v is likelier than %+v", other.Hyperparameters, p.Hyperparameters)
				}
			}
		}
	}
}

// TestFitLearns: a smooth function of a few variables is predicted from more
// points than hyperparameters are fitted to.
func TestFitLearns(t *testing.T) {
	points, values := randomData(4, 300, 4)
	p, err := Fit(points[:250], values[:250])
	if err != nil {
		t.Fatal(err)
	}
	mean, deviation := p.Predict(points[250:])
	worst := 0.0
	for i, m := range mean {
		worst = max(worst, math.Abs(m-values[250+i]))
		if deviation[i] > 0.5 {
			t.Errorf("deviation %v at point %d", deviation[i], i)
		}
	}
	if worst > 0.2 {
		t.Errorf("off by %v of a standard deviation", worst)
	}
}

// TestDegenerate: repeated points, constant values, one point.
func TestDegenerate(t *testing.T) {
	for name, c := range map[string]struct {
		points [][]float64
		values []float64
	}{
		"repeated": {[][]float64{{1, 1}, {1, 1}, {1, 1}, {0, 1}}, []float64{0.5, 0.6, 0.4, -1.5}},
		"constant": {[][]float64{{1}, {2}, {3}}, Standardise([]float64{7, 7, 7})},
		"single":   {[][]float64{{1}}, []float64{0}},
		"flat":     {[][]float64{{}, {}}, []float64{1, -1}},
	} {
		p, err := Fit(c.points, c.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		mean, deviation := p.Predict(c.points)
		for i := range mean {
			if math.IsNaN(mean[i]) || math.IsNaN(deviation[i]) {
				t.Errorf("%s: prediction %v ± %v", name, mean[i], deviation[i])
			}
		}
	}
	for name, err := range map[string]error{
		"none":   second(Fit(nil, nil)),
		"uneven": second(Fit([][]float64{{1}, {1, 2}}, []float64{1, 2})),
		"nan":    second(Fit([][]float64{{1}}, []float64{math.NaN()})),
		"second": secondOf(FitAll([][]float64{{1}}, []float64{1}, []float64{1, 2})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second(_ *Process, err error) error     { return err }
func secondOf(_ []*Process, err error) error { return err }

func TestStandardise(t *testing.T) {
	got := fmt.Sprint(Standardise([]float64{1, 3}), Standardise([]float64{5, 5, 5}))
	if got != "[-1 1] [0 0 0]" {
		t.Error(got)
	}
}

func BenchmarkFit(b *testing.B) {
	points, values := randomData(1, 1000, 35)
	for b.Loop() {
		p, err := Fit(points, values)
		if err != nil {
			b.Fatal(err)
		}
		p.Predict(points[:500])
	}
}

// TestEqualPointsWithoutNoise: a covariance that is not positive definite is given
// noise, also where there is none to multiply.
func TestEqualPointsWithoutNoise(t *testing.T) {
	points := [][]float64{{0.5, 1}, {0.5, 1}, {1, 1}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p, err := Condition(points, []float64{-1, -1, 2}, Hyperparameters{Length: 1})
		if err != nil {
			t.Error(err)
			return
		}
		if p.Noise <= 0 || p.Noise > 1e-6 {
			t.Errorf("noise %v", p.Noise)
		}
		mean, _ := p.Predict(points)
		for i, want := range []float64{-1, -1, 2} {
			if math.Abs(mean[i]-want) > 1e-3 {
				t.Errorf("mean %v at point %d; want %v", mean[i], i, want)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the noise never grows")
	}
}

// TestThreads: results are the same bits on any number of cores, and whether
// functions are fitted together or one by one.
func TestThreads(t *testing.T) {
	points, values := randomData(6, 230, 5)
	others := make([]float64, len(values))
	for i, p := range points {
		others[i] = p[0] * p[1]
	}
	others = Standardise(others)
	at, _ := randomData(7, 301, 5)
	result := func(list ...*Process) string {
		text := ""
		for _, p := range list {
			mean, deviation := p.Predict(at)
			text += fmt.Sprintln(p.Hyperparameters, p.LogLikelihood, mean, deviation)
		}
		return text
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	a, err := Fit(points, values)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Fit(points, others)
	if err != nil {
		t.Fatal(err)
	}
	want := result(a, b)
	for _, threads := range []int{1, 2, 5, 16} {
		runtime.GOMAXPROCS(threads)
		list, err := FitAll(points, values, others)
		if err != nil {
			t.Fatal(err)
		}
		if result(list...) != want {
			t.Errorf("other bits on %d threads", threads)
		}
	}
}
