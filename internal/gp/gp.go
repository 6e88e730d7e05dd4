// Package gp is Gaussian process regression with a Matérn-5/2 kernel, for a few
// thousand points at most: exact, by Cholesky decomposition.
//
// The prior has mean zero and covariance s²·k(|x−x'|/ℓ), k(r) = (1 + √5r + 5r²/3)
// e^(−√5r); observations add noise of variance s²·η. The length scale ℓ and the
// noise η are those of a grid under which the observations are the most likely,
// the amplitude s² is then given in closed form.
package gp

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// The grid. Length scales are multiples of the root mean square distance between
// points, so that the grid fits whatever the units are.
var (
	lengths = []float64{0.25, 0.5, 1, 2, 4, 8}
	noises  = []float64{1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1}
)

// fitPoints is how many points hyperparameters are chosen by: more cost time and
// hardly change the choice. All points are then used for the regression.
const fitPoints = 192

// leastNoise is where more noise starts from, which a multiple of none would never
// be.
const leastNoise = 1e-10

// minAmplitude is the least amplitude, for observations that are all zero.
const minAmplitude = 1e-9

// Hyperparameters of a process.
type Hyperparameters struct {
	Length    float64 // ℓ
	Noise     float64 // η, relative to Amplitude
	Amplitude float64 // s²
}

// Process is a Gaussian process given observations.
type Process struct {
	Hyperparameters
	LogLikelihood float64 // of the observations
	points        [][]float64
	factor        mat.Cholesky // of R + ηI, R being the correlations
	weights       *mat.VecDense
}

// Fit conditions a process on observations, with hyperparameters that make them
// likely. Observations should be standardised: mean 0 and variance 1.
func Fit(points [][]float64, values []float64) (*Process, error) {
	if len(points) == 0 || len(points) != len(values) {
		return nil, fmt.Errorf("gp: %d points with %d values; want one or more, and as many of each", len(points), len(values))
	}
	for i, p := range points {
		if len(p) != len(points[0]) {
			return nil, fmt.Errorf("gp: point %d has %d coordinates; want %d", i, len(p), len(points[0]))
		}
		if v := values[i]; math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("gp: value %d is %v; want a finite number", i, v)
		}
	}
	some, theirs := spread(points, values)
	scale := distanceScale(some)
	var best *Process
	for _, l := range lengths {
		r := correlations(some, l*scale)
		for _, noise := range noises {
			p, err := condition(some, theirs, r, Hyperparameters{Length: l * scale, Noise: noise})
			if err == nil && (best == nil || p.LogLikelihood > best.LogLikelihood) {
				best = p
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("gp: no positive definite covariance for %d points", len(points))
	}
	if len(some) == len(points) {
		return best, nil
	}
	return Condition(points, values, Hyperparameters{Length: best.Length, Noise: best.Noise})
}

// Condition conditions a process on observations. An amplitude of 0 means the
// most likely one.
func Condition(points [][]float64, values []float64, h Hyperparameters) (*Process, error) {
	return condition(points, values, correlations(points, h.Length), h)
}

func condition(points [][]float64, values []float64, r *mat.SymDense, h Hyperparameters) (*Process, error) {
	n := len(points)
	p := &Process{Hyperparameters: h, points: points, weights: mat.NewVecDense(n, nil)}
	// Points that are equal but for rounding may need a little more on the
	// diagonal than the noise; that little is added to the noise.
	k := mat.NewSymDense(n, nil)
	for ok := false; !ok; {
		k.CopySym(r)
		for i := range n {
			k.SetSym(i, i, 1+p.Noise)
		}
		if ok = p.factor.Factorize(k); !ok {
			if p.Noise = 10 * max(p.Noise, leastNoise); p.Noise > 1 {
				return nil, fmt.Errorf("gp: the covariance of %d points is not positive definite", n)
			}
		}
	}
	y := mat.NewVecDense(n, slices.Clone(values))
	if err := p.factor.SolveVecTo(p.weights, y); err != nil && !isCondition(err) {
		return nil, fmt.Errorf("gp: %w", err)
	}
	quadratic := mat.Dot(y, p.weights)
	if p.Amplitude == 0 {
		p.Amplitude = max(minAmplitude, quadratic/float64(n))
	}
	p.LogLikelihood = -0.5 * (quadratic/p.Amplitude + p.factor.LogDet() + float64(n)*math.Log(2*math.Pi*p.Amplitude))
	return p, nil
}

// isCondition tells of a warning that a matrix is nearly singular: the noise is
// what bounds how far that goes.
func isCondition(err error) bool {
	_, is := err.(mat.Condition)
	return is
}

// Predict gives the mean and the standard deviation of the process, without the
// noise of an observation, at each point.
func (p *Process) Predict(at [][]float64) (mean, deviation []float64) {
	if len(at) == 0 {
		return nil, nil
	}
	n := len(p.points)
	cross := mat.NewDense(n, len(at), nil)
	for i, x := range p.points {
		row := cross.RawRowView(i)
		for j, y := range at {
			row[j] = Matern(distance(x, y) / p.Length)
		}
	}
	mean = make([]float64, len(at))
	m := mat.NewVecDense(len(at), mean)
	m.MulVec(cross.T(), p.weights)

	// With R + ηI = UᵀU, what the observations explain of the variance is the
	// square of U⁻ᵀ times the correlations. BLAS is called for it directly, because
	// mat would estimate the condition of U for every batch of points.
	u := p.factor.RawU().(*mat.TriDense).RawTriangular()
	blas64.Trsm(blas.Left, blas.Trans, 1, u, cross.RawMatrix())
	explained := make([]float64, len(at))
	for i := range n {
		for j, v := range cross.RawRowView(i) {
			explained[j] += v * v
		}
	}
	deviation = make([]float64, len(at))
	for j, e := range explained {
		deviation[j] = math.Sqrt(p.Amplitude * max(0, 1-e))
	}
	return mean, deviation
}

// Matern is the Matérn-5/2 correlation at a distance of r length scales.
func Matern(r float64) float64 {
	s := math.Sqrt(5) * r
	return (1 + s + s*s/3) * math.Exp(-s)
}

func correlations(points [][]float64, length float64) *mat.SymDense {
	n := len(points)
	r := mat.NewSymDense(n, nil)
	for i := range n {
		r.SetSym(i, i, 1)
		for j := range i {
			r.SetSym(i, j, Matern(distance(points[i], points[j])/length))
		}
	}
	return r
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		d := x - b[i]
		sum += d * d
	}
	return math.Sqrt(sum)
}

// spread picks fitPoints of the points, evenly over their order.
func spread(points [][]float64, values []float64) ([][]float64, []float64) {
	n := len(points)
	if n <= fitPoints {
		return points, values
	}
	some, theirs := make([][]float64, fitPoints), make([]float64, fitPoints)
	for i := range some {
		at := i * n / fitPoints
		some[i], theirs[i] = points[at], values[at]
	}
	return some, theirs
}

// distanceScale is the root mean square distance between points, 1 where they
// are all one.
func distanceScale(points [][]float64) float64 {
	sum, pairs := 0.0, 0
	for i, a := range points {
		for _, b := range points[:i] {
			d := distance(a, b)
			sum += d * d
			pairs++
		}
	}
	if sum == 0 {
		return 1
	}
	return math.Sqrt(sum / float64(pairs))
}

// Standardise shifts and scales values to mean 0 and variance 1, or all to 0
// where they are equal.
func Standardise(values []float64) []float64 {
	mean, variance := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values))
	}
	out := make([]float64, len(values))
	if deviation := math.Sqrt(variance); deviation > 1e-12*math.Abs(mean) {
		for i, v := range values {
			out[i] = (v - mean) / deviation
		}
	}
	return out
}
