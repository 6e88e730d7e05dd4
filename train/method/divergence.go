package method

import (
	"fmt"
	"math"
)

// Divergence is how far a student is from what its teachers say.
type Divergence int

// The divergences.
const (
	// SoftCE is the cross-entropy with the teachers' probabilities.
	SoftCE Divergence = iota
	// Alpha is AlphaNet's adaptive α-divergence (Wang et al., 2021).
	Alpha
)

func (d Divergence) String() string {
	switch d {
	case SoftCE:
		return "soft CE"
	case Alpha:
		return "alpha"
	}
	return fmt.Sprintf("Divergence(%d)", int(d))
}

// AlphaClip bounds the importance ratio (teacher/student)^α that Alpha weighs
// classes by.
const AlphaClip = 5

// Loss is the divergence of one sample: of the student's logits from the
// teachers' probabilities, which sum to one. It stores the gradient with respect
// to the logits in grad, whose old values play no role.
//
// With p the teachers', q the student's softmax, Alpha is the larger of two
// α-divergences 1/(α(α−1)) · Σ q((p/q)^α − 1): α = −1, which punishes a student
// that is surer than its teacher, and the limit α → 1, KL(p‖q), which punishes
// one that misses what its teacher sees. The importance ratio (p/q)^−1 is clipped
// at AlphaClip. That of α = 1 is not, as in the published code: what it weighs a
// class by, q·(p/q) = p, is bounded whatever the student says.
//
// The gradient of Alpha is that of −Σ wᵢ log qᵢ with constant weights
// w = q·(p/q)^α/α, the ratio clipped: the gradient of the divergence itself where
// nothing is clipped, and one that still pulls the student back where something
// is, and the divergence as clipped is flat.
func (d Divergence) Loss(student, teacher, grad []float32) float64 {
	if len(teacher) != len(student) || len(grad) != len(student) {
		panic(fmt.Sprintf("method: a divergence of %d logits from %d probabilities with a gradient of %d", len(student), len(teacher), len(grad)))
	}
	norm := logSumExp(student) // log q = x − norm
	if d == SoftCE {
		return softCE(student, teacher, grad, norm)
	}
	kl, inverse := 0.0, 0.0 // α = 1; mean of (p/q)^−1 under q
	for i, x := range student {
		p, logq := float64(teacher[i]), float64(x)-norm
		q := math.Exp(logq)
		if p > 0 {
			kl += p * (math.Log(p) - logq)
		}
		inverse += q * inverseRatio(p, q)
	}
	if other := (inverse - 1) / 2; other > kl { // α = −1
		for i, x := range student {
			q := math.Exp(float64(x) - norm)
			grad[i] = float32(q * (inverseRatio(float64(teacher[i]), q) - inverse))
		}
		return other
	}
	softCE(student, teacher, grad, norm)
	return kl
}

func logSumExp(x []float32) float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, float64(v))
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - largest)
	}
	return largest + math.Log(sum)
}

func softCE(student, teacher, grad []float32, norm float64) float64 {
	loss, mass := 0.0, 0.0 // mass is 1 up to rounding
	for i, x := range student {
		p := float64(teacher[i])
		loss -= p * (float64(x) - norm)
		mass += p
	}
	for i, x := range student {
		grad[i] = float32(mass*math.Exp(float64(x)-norm) - float64(teacher[i]))
	}
	return loss
}

// inverseRatio is (p/q)^−1, clipped; p may be 0.
func inverseRatio(p, q float64) float64 {
	if q >= AlphaClip*p {
		return AlphaClip
	}
	return q / p
}
