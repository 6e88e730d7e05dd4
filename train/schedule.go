package train

import (
	"fmt"
	"math"
)

// Schedule is how the learning rate changes during a run.
type Schedule struct {
	Rate     float64 // the highest
	Decay    Decay   // after the warm-up
	Warmup   int     // steps in which the rate rises in a straight line to Rate
	Steps    int     // of the whole run, warm-up included
	Drops    []int   // StepDecay: steps before which the rate is multiplied by DropBy
	DropBy   float64
	FinalPer float64 // CosineDecay: the part of Rate that it ends at
}

// Decay is the form of a schedule.
type Decay string

// The forms.
const (
	CosineDecay   Decay = "cosine"   // half a cosine from Rate to FinalPer·Rate
	StepDecay     Decay = "step"     // multiplied by DropBy at each of Drops
	ConstantDecay Decay = "constant" // Rate to the end
)

// At is the learning rate of a step, counted from 0. Rates change step by step,
// not epoch by epoch: the same curve, without its stairs.
func (s Schedule) At(step int) float64 {
	if step < s.Warmup {
		return s.Rate * float64(step+1) / float64(s.Warmup)
	}
	switch s.Decay {
	case CosineDecay:
		done := float64(step-s.Warmup) / float64(max(s.Steps-s.Warmup, 1))
		return s.Rate * (s.FinalPer + (1-s.FinalPer)*(1+math.Cos(math.Pi*done))/2)
	case StepDecay:
		rate := s.Rate
		for _, at := range s.Drops {
			if step >= at {
				rate *= s.DropBy
			}
		}
		return rate
	case ConstantDecay:
		return s.Rate
	}
	panic(fmt.Sprintf("train: schedule %q", s.Decay)) // Recipe.Validate knows them all
}
