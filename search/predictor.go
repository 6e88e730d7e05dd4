package search

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"tips/frontier"
	"tips/internal/gp"
	"tips/internal/rank"
)

// predictor predicts the accuracy of subnetworks that nobody judged from those that
// somebody did. On the scale of warp, that is a linear function of the logarithms of
// width ratios (and depths) and of the cost, by ridge regression, and a Gaussian
// process for what that leaves unexplained. In the distances of the process, a width
// counts for as much as it weighs in the linear part.
type predictor struct {
	linear  []float64 // weights of standardised features
	mean    []float64 // of features
	scale   []float64
	weight  []float64 // of genes in distances
	process *gp.Process
	base    float64 // mean of the warped accuracies
	spread  float64 // standard deviation of what the linear part leaves
}

// ridge is the penalty on linear weights, in standard deviations of observations.
const ridge = 0.3

// leastPoints is how many subnetworks a predictor is fitted to at least.
const leastPoints = 10

// features are logarithms: to halve a width hurts about as much wherever it stands, and
// so does to halve the cost. Genes of depth may be 0.
func features(c *candidate) []float64 {
	f := make([]float64, len(c.genes)+1)
	for i, g := range c.genes {
		f[i] = math.Log(g + 0.05)
	}
	f[len(c.genes)] = math.Log(math.Max(c.cost, 1e-12))
	return f
}

func fitPredictor(list []individual) (*predictor, error) {
	if len(list) < leastPoints {
		return nil, fmt.Errorf("search: a predictor of %d subnetworks; want %d or more", len(list), leastPoints)
	}
	rows := make([][]float64, len(list))
	values := make([]float64, len(list))
	p := &predictor{}
	for i := range list {
		rows[i] = features(&list[i].candidate)
		values[i] = warp(list[i].point)
		p.base += values[i] / float64(len(list))
	}
	p.standardise(rows)
	for i, row := range rows {
		rows[i] = p.normal(row)
		values[i] -= p.base
	}
	if err := p.fitLinear(rows, values); err != nil {
		return nil, err
	}
	variance := 0.0
	for i, row := range rows {
		values[i] -= dot(p.linear, row)
		variance += values[i] * values[i] / float64(len(rows))
	}
	p.spread = math.Sqrt(variance)
	if p.spread < 1e-9 {
		p.spread = 1e-9
	}
	for i := range values {
		values[i] /= p.spread
	}
	// A floor keeps widths in play that seem not to matter.
	p.weight = make([]float64, len(p.linear)-1)
	largest := 0.0
	for j := range p.weight {
		largest = max(largest, math.Abs(p.linear[j]))
	}
	for j := range p.weight {
		p.weight[j] = 1
		if largest > 0 {
			p.weight[j] = 0.3 + 0.7*math.Abs(p.linear[j])/largest
		}
	}
	points := make([][]float64, len(rows))
	for i, row := range rows {
		points[i] = p.place(row)
	}
	var err error
	p.process, err = gp.Fit(points, values)
	return p, err
}

// standardise finds mean and deviation of the features.
func (p *predictor) standardise(rows [][]float64) {
	n := len(rows[0])
	p.mean, p.scale = make([]float64, n), make([]float64, n)
	count := float64(len(rows))
	for _, row := range rows {
		for j, x := range row {
			p.mean[j] += x / count
		}
	}
	for _, row := range rows {
		for j, x := range row {
			p.scale[j] += (x - p.mean[j]) * (x - p.mean[j]) / count
		}
	}
	for j := range p.scale {
		if p.scale[j] = math.Sqrt(p.scale[j]); p.scale[j] < 1e-9 {
			p.scale[j] = 1
		}
	}
}

func (p *predictor) normal(row []float64) []float64 {
	out := make([]float64, len(row))
	for j, x := range row {
		out[j] = (x - p.mean[j]) / p.scale[j]
	}
	return out
}

// place is where a subnetwork of normal features is in the process: its genes.
func (p *predictor) place(row []float64) []float64 {
	out := make([]float64, len(p.weight))
	for j, w := range p.weight {
		out[j] = w * row[j]
	}
	return out
}

func (p *predictor) fitLinear(rows [][]float64, values []float64) error {
	n := len(rows[0])
	gram := mat.NewSymDense(n, nil)
	right := mat.NewVecDense(n, nil)
	for i, row := range rows {
		gram.SymRankOne(gram, 1, mat.NewVecDense(n, row))
		right.AddScaledVec(right, values[i], mat.NewVecDense(n, row))
	}
	for j := range n {
		gram.SetSym(j, j, gram.At(j, j)+ridge*math.Sqrt(float64(len(rows))))
	}
	var factor mat.Cholesky
	if !factor.Factorize(gram) {
		return fmt.Errorf("search: a predictor of %d subnetworks has no solution", len(rows))
	}
	w := mat.NewVecDense(n, nil)
	if err := factor.SolveVecTo(w, right); err != nil {
		return fmt.Errorf("search: predictor: %w", err)
	}
	p.linear = w.RawVector().Data
	return nil
}

// predict gives the mean and the standard deviation of the accuracy of candidates.
func (p *predictor) predict(list []candidate) (mean, deviation []float64) {
	rows, points := make([][]float64, len(list)), make([][]float64, len(list))
	for i := range list {
		rows[i] = p.normal(features(&list[i]))
		points[i] = p.place(rows[i])
	}
	mean, deviation = p.process.Predict(points)
	for i, row := range rows {
		errors := math.Exp(-(p.base + dot(p.linear, row) + p.spread*mean[i]))
		mean[i] = 1 - errors
		deviation[i] *= p.spread * errors
	}
	return mean, deviation
}

// warp is the scale that accuracies are predicted on: the logarithm of the errors.
// Accuracy saturates: between small subnetworks lie tens of percent, between large
// ones tenths, and a process that takes both for differences of one kind predicts
// neither. On a trained mobilenet_v2 this scale and logarithms of widths raised the rank
// correlation on held-out subnetworks from 0.84 to 0.92.
func warp(p frontier.Point) float64 {
	return -math.Log(max(1-p.Accuracy, 0.5/float64(max(p.Images, 1))))
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// Quality is how well a predictor orders subnetworks that it was not fitted to.
type Quality struct {
	Kendall  float64 `json:"kendall"`  // τ-b
	Spearman float64 `json:"spearman"` // ρ
	Error    float64 `json:"error"`    // root mean square, of the accuracy
	Points   int     `json:"points"`   // held out, each once
}

// folds of cross-validation.
const folds = 5

// crossValidate predicts every subnetwork from four fifths of the others.
func crossValidate(list []individual) (*Quality, error) {
	predicted, actual := make([]float64, len(list)), make([]float64, len(list))
	for fold := range folds {
		var fitted []individual
		var held []candidate
		var at []int
		for i, x := range list {
			if i%folds == fold {
				held, at = append(held, x.candidate), append(at, i)
			} else {
				fitted = append(fitted, x)
			}
		}
		p, err := fitPredictor(fitted)
		if err != nil {
			return nil, err
		}
		mean, _ := p.predict(held)
		for j, i := range at {
			predicted[i], actual[i] = mean[j], list[i].point.Accuracy
		}
	}
	return quality(predicted, actual), nil
}

func quality(predicted, actual []float64) *Quality {
	q := &Quality{Kendall: rank.Kendall(predicted, actual), Spearman: rank.Spearman(predicted, actual), Points: len(actual)}
	for i, p := range predicted {
		q.Error += (p - actual[i]) * (p - actual[i]) / float64(len(actual))
	}
	q.Error = math.Sqrt(q.Error)
	return q
}
