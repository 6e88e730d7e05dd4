// Package gp is Gaussian process regression with a Matérn-5/2 kernel, for a few
// thousand points at most: exact, by Cholesky decomposition.
//
// The prior has mean zero and covariance s²·k(|x−x'|/ℓ), k(r) = (1 + √5r + 5r²/3)
// e^(−√5r); observations add noise of variance s²·η. The length scale ℓ and the
// noise η are those of a grid under which the observations are the most likely,
// the amplitude s² is then given in closed form.
package gp

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"tips/internal/parallel"
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
	factor        blas64.Triangular // U of R + ηI = UᵀU, R being the correlations
	weights       []float64
}

// Fit conditions a process on observations, with hyperparameters that make them
// likely. Observations should be standardised: mean 0 and variance 1.
func Fit(points [][]float64, values []float64) (*Process, error) {
	list, err := FitAll(points, values)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// FitAll does what Fit does for several functions that were observed at the same
// points, in less time: which hyperparameters there are to choose from depends on
// the points alone. It uses all cores; results do not depend on their number.
func FitAll(points [][]float64, values ...[]float64) ([]*Process, error) {
	for _, v := range values {
		if err := check(points, v); err != nil {
			return nil, err
		}
	}
	some := spread(points)
	theirs := make([][]float64, len(values))
	for k, v := range values {
		theirs[k] = spread(v)
	}
	scale := distanceScale(some)
	similar := make([]*mat.SymDense, len(lengths))
	parallel.Do(len(lengths), 0, func(i int) { similar[i] = correlations(some, lengths[i]*scale) })
	grid := make([][]*Process, len(lengths)*len(noises)) // nil where there is none
	parallel.Do(len(grid), 0, func(i int) {
		l, noise := i/len(noises), noises[i%len(noises)]
		u, noise, err := factorise(similar[l], noise)
		if err != nil {
			return
		}
		for _, v := range theirs {
			grid[i] = append(grid[i], condition(some, v, u, Hyperparameters{Length: lengths[l] * scale, Noise: noise}))
		}
	})
	list, errs := make([]*Process, len(values)), make([]error, len(values))
	for _, cell := range grid {
		for k, p := range cell {
			if list[k] == nil || p.LogLikelihood > list[k].LogLikelihood {
				list[k] = p
			}
		}
	}
	parallel.Do(len(list), 0, func(k int) {
		switch best := list[k]; {
		case best == nil:
			errs[k] = fmt.Errorf("gp: no positive definite covariance for %d points", len(points))
		case len(some) < len(points):
			list[k], errs[k] = Condition(points, values[k], Hyperparameters{Length: best.Length, Noise: best.Noise})
		}
	})
	return list, errors.Join(errs...)
}

func check(points [][]float64, values []float64) error {
	if len(points) == 0 || len(points) != len(values) {
		return fmt.Errorf("gp: %d points with %d values; want one or more, and as many of each", len(points), len(values))
	}
	for i, p := range points {
		if len(p) != len(points[0]) {
			return fmt.Errorf("gp: point %d has %d coordinates; want %d", i, len(p), len(points[0]))
		}
		if v := values[i]; math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("gp: value %d is %v; want a finite number", i, v)
		}
	}
	return nil
}

// Condition conditions a process on observations. An amplitude of 0 means the
// most likely one.
func Condition(points [][]float64, values []float64, h Hyperparameters) (*Process, error) {
	u, noise, err := factorise(correlations(points, h.Length), h.Noise)
	if err != nil {
		return nil, err
	}
	h.Noise = noise
	return condition(points, values, u, h), nil
}

// factorise gives U of R + ηI = UᵀU, and η: points that are equal but for rounding
// may need a little more on the diagonal than the noise, and that little is added to
// the noise. LAPACK is called directly, because mat would estimate the condition
// of R + ηI, which takes most of the time that U does; the noise is what bounds it.
func factorise(r *mat.SymDense, noise float64) (u blas64.Triangular, _ float64, _ error) {
	n := r.SymmetricDim()
	k := mat.NewSymDense(n, nil)
	for {
		k.CopySym(r)
		for i := range n {
			k.SetSym(i, i, 1+noise)
		}
		u, ok := lapack64.Potrf(k.RawSymmetric())
		if ok {
			return u, noise, nil
		}
		if noise = 10 * max(noise, leastNoise); noise > 1 {
			return u, noise, fmt.Errorf("gp: the covariance of %d points is not positive definite", n)
		}
	}
}

func condition(points [][]float64, values []float64, u blas64.Triangular, h Hyperparameters) *Process {
	n := len(points)
	p := &Process{Hyperparameters: h, points: points, factor: u, weights: slices.Clone(values)}
	lapack64.Potrs(u, blas64.General{Rows: n, Cols: 1, Stride: 1, Data: p.weights})
	quadratic := mat.Dot(mat.NewVecDense(n, values), mat.NewVecDense(n, p.weights))
	if p.Amplitude == 0 {
		p.Amplitude = max(minAmplitude, quadratic/float64(n))
	}
	logDet := 0.0
	for i := range n {
		logDet += 2 * math.Log(u.Data[i*u.Stride+i])
	}
	p.LogLikelihood = -0.5 * (quadratic/p.Amplitude + logDet + float64(n)*math.Log(2*math.Pi*p.Amplitude))
	return p
}

// Predict gives the mean and the standard deviation of the process, without the
// noise of an observation, at each point. It uses all cores; results do not depend
// on their number.
func (p *Process) Predict(at [][]float64) (mean, deviation []float64) {
	mean, deviation = make([]float64, len(at)), make([]float64, len(at))
	// As many points at a time as keep all cores busy, within what is quick.
	const quick, most = 16, 128 // multiples of 4, which BLAS takes at a time
	width := len(at)/runtime.GOMAXPROCS(0) + 1
	width = min(most, (width+quick-1)/quick*quick)
	parallel.Do((len(at)+width-1)/width, 0, func(i int) {
		from, to := i*width, min(i*width+width, len(at))
		p.predict(at[from:to], mean[from:to], deviation[from:to])
	})
	return mean, deviation
}

func (p *Process) predict(at [][]float64, mean, deviation []float64) {
	n := len(p.points)
	cross := blas64.General{Rows: n, Cols: len(at), Stride: len(at), Data: make([]float64, n*len(at))}
	for i, x := range p.points {
		row := cross.Data[i*len(at):][:len(at)]
		for j, y := range at {
			row[j] = Matern(distance(x, y) / p.Length)
		}
	}
	blas64.Gemv(blas.Trans, 1, cross, blas64.Vector{N: n, Inc: 1, Data: p.weights}, 0, blas64.Vector{N: len(at), Inc: 1, Data: mean})

	// What the observations explain of the variance is the square of U⁻ᵀ times the
	// correlations.
	blas64.Trsm(blas.Left, blas.Trans, 1, p.factor, cross)
	explained := make([]float64, len(at))
	for i := range n {
		for j, v := range cross.Data[i*len(at):][:len(at)] {
			explained[j] += v * v
		}
	}
	for j, e := range explained {
		deviation[j] = math.Sqrt(p.Amplitude * max(0, 1-e))
	}
}

// Matern is the Matérn-5/2 correlation at a distance of r length scales.
func Matern(r float64) float64 {
	s := math.Sqrt(5) * r
	return (1 + s + s*s/3) * math.Exp(-s)
}

func correlations(points [][]float64, length float64) *mat.SymDense {
	n := len(points)
	r := mat.NewSymDense(n, nil)
	parallel.Do(n, 0, func(i int) {
		r.SetSym(i, i, 1)
		for j := i + 1; j < n; j++ { // a row of what is stored
			r.SetSym(i, j, Matern(distance(points[i], points[j])/length))
		}
	})
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

// spread picks fitPoints of a list, evenly over its order.
func spread[T any](list []T) []T {
	n := len(list)
	if n <= fitPoints {
		return list
	}
	some := make([]T, fitPoints)
	for i := range some {
		some[i] = list[i*n/fitPoints]
	}
	return some
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
