package train

import (
	"math"

	"tips/internal/parallel"
	"tips/train/method"
)

// lessonLoss computes the loss of a lesson on a batch: from the logits and labels
// and, where it has teachers, their mean softmax. It stores the gradient of the
// mean over the batch in grad.
//
//	loss = Label·CE(labels, smoothed) + Soft·divergence(teachers)
func lessonLoss(l method.Lesson, logits []float32, labels []int32, teachers []float32, smoothing float64, grad []float32, threads int) LessonOutcome {
	batch := len(labels)
	classes := len(logits) / batch
	label, soft, correct := make([]float64, batch), make([]float64, batch), make([]bool, batch)
	const together = 16 // images
	parallel.Do((batch+together-1)/together, threads, func(part int) {
		towards := make([]float32, classes)
		for i := part * together; i < min((part+1)*together, batch); i++ {
			x, g := logits[i*classes:(i+1)*classes], grad[i*classes:(i+1)*classes]
			label[i], correct[i] = crossEntropy(x, int(labels[i]), smoothing, g)
			for c := range g {
				g[c] *= float32(l.Label / float64(batch))
			}
			if l.Soft == 0 {
				continue
			}
			soft[i] = l.Divergence.Loss(x, teachers[i*classes:(i+1)*classes], towards)
			for c := range g {
				g[c] += towards[c] * float32(l.Soft/float64(batch))
			}
		}
	})
	var o LessonOutcome
	for i := range batch {
		o.Label += label[i] / float64(batch)
		o.Soft += soft[i] / float64(batch)
		if correct[i] {
			o.Correct++
		}
	}
	o.Loss = l.Label*o.Label + l.Soft*o.Soft
	return o
}

// crossEntropy is that of an image's logits with its label, of which a part of
// the probability, smoothing, is spread over all classes. It stores the gradient
// in grad, unless that is nil, and tells whether the label has the largest logit.
func crossEntropy(logits []float32, label int, smoothing float64, grad []float32) (loss float64, correct bool) {
	best, shift := logSum(logits)
	each := smoothing / float64(len(logits))
	for c, x := range logits {
		target := each
		if c == label {
			target += 1 - smoothing
		}
		logq := float64(x) - shift
		if target > 0 { // not 0·−∞
			loss -= target * logq
		}
		if grad != nil {
			grad[c] = float32(math.Exp(logq) - target)
		}
	}
	return loss, best == label
}

// logSum gives the place of the largest logit, the first of them, and log Σ exp.
// A logit that is not a number makes the sum none either.
func logSum(logits []float32) (best int, sum float64) {
	for c, x := range logits {
		if x > logits[best] {
			best = c
		}
	}
	largest := float64(logits[best])
	for _, x := range logits {
		sum += math.Exp(float64(x) - largest)
	}
	return best, largest + math.Log(sum)
}

// softmax stores the probabilities of a batch of logits.
func softmax(to, logits []float32, batch, threads int) {
	classes := len(logits) / batch
	const together = 16
	parallel.Do((batch+together-1)/together, threads, func(part int) {
		for i := part * together; i < min((part+1)*together, batch); i++ {
			x, p := logits[i*classes:(i+1)*classes], to[i*classes:(i+1)*classes]
			_, shift := logSum(x)
			for c := range x {
				p[c] = float32(math.Exp(float64(x[c]) - shift))
			}
		}
	})
}
