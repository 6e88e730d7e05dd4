package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Class is one answer of a classifier.
type Class struct {
	Index       int     `json:"class"`
	Name        string  `json:"name,omitempty"` // empty if the frontier holds no names
	Probability float64 `json:"probability"`
}

// String is the name of the class, or its number.
func (c Class) String() string {
	if c.Name != "" {
		return c.Name
	}
	return fmt.Sprintf("class %d", c.Index)
}

// Top gives the n most probable classes of the logits of one input, the most
// probable first, by their softmax.
func (e *Engine) Top(logits []float32, n int) []Class {
	largest := math.Inf(-1)
	for _, v := range logits {
		largest = max(largest, float64(v))
	}
	list, sum := make([]Class, len(logits)), 0.0
	for i, v := range logits {
		list[i].Index, list[i].Probability = i, math.Exp(float64(v)-largest)
		sum += list[i].Probability
	}
	for i := range list {
		list[i].Probability /= sum
		if i < len(e.front.ClassNames) {
			list[i].Name = e.front.ClassNames[i]
		}
	}
	slices.SortStableFunc(list, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return list[:max(0, min(n, len(list)))]
}
