package train

import (
	"math"
	"testing"
)

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Schedule
		want map[int]float64
	}{
		{"cosine", Schedule{Rate: 0.08, Decay: CosineDecay, Steps: 100}, map[int]float64{0: 0.08, 25: 0.04 * (1 + math.Sqrt2/2), 50: 0.04, 100: 0}},
		{"cosine to a part", Schedule{Rate: 1, Decay: CosineDecay, Steps: 10, FinalPer: 0.1}, map[int]float64{0: 1, 5: 0.55, 10: 0.1}},
		{"warm-up, then cosine", Schedule{Rate: 1, Decay: CosineDecay, Warmup: 4, Steps: 12}, map[int]float64{0: 0.25, 3: 1, 4: 1, 8: 0.5, 12: 0}},
		{"step", Schedule{Rate: 1, Decay: StepDecay, Steps: 9, Drops: []int{3, 6}, DropBy: 0.1}, map[int]float64{0: 1, 2: 1, 3: 0.1, 5: 0.1, 6: 0.01, 8: 0.01}},
		{"warm-up, then step", Schedule{Rate: 1, Decay: StepDecay, Steps: 9, Warmup: 2, Drops: []int{3}, DropBy: 0.5}, map[int]float64{0: 0.5, 1: 1, 2: 1, 3: 0.5}},
		{"constant", Schedule{Rate: 0.3, Decay: ConstantDecay, Steps: 3}, map[int]float64{0: 0.3, 2: 0.3}},
		{"warm-up to the end", Schedule{Rate: 1, Decay: CosineDecay, Warmup: 2, Steps: 2}, map[int]float64{0: 0.5, 1: 1}},
	} {
		for step, want := range c.want {
			if got := c.s.At(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %v at step %d; want %v", c.name, got, step, want)
			}
		}
	}
}

// TestRecipeSchedules: epochs of a recipe become steps.
func TestRecipeSchedules(t *testing.T) {
	r := synthetic(t, "epochs=10", "schedule.decay=step", "schedule.drops=[3, 7]", "schedule.warmup=0.5")
	s := r.schedule(14)
	if s.Steps != 140 || s.Warmup != 7 || len(s.Drops) != 2 || s.Drops[0] != 42 || s.Drops[1] != 98 {
		t.Errorf("%+v", s)
	}
}
