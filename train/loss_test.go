package train

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"tips/train/method"
)

// TestLossGradients: the gradient of every loss is what finite differences find,
// of its mean over the batch.
func TestLossGradients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes, batch := rapid.IntRange(2, 8).Draw(t, "classes"), rapid.IntRange(1, 40).Draw(t, "batch")
		lesson := method.Lesson{
			Label:      rapid.SampledFrom([]float64{0, 1, 0.5}).Draw(t, "label"),
			Soft:       rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "soft"),
			Divergence: rapid.SampledFrom([]method.Divergence{method.SoftCE, method.Alpha}).Draw(t, "divergence"),
		}
		smoothing := rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "smoothing")
		// Where Alpha clips a ratio its gradient is deliberately another: logits this
		// near each other keep all ratios below 5.
		most := 1000
		if lesson.Divergence == method.Alpha {
			most = 100
		}
		draw := rapid.Custom(func(t *rapid.T) float32 { return float32(rapid.IntRange(-most, most).Draw(t, "x")) / 256 })
		logits := rapid.SliceOfN(draw, batch*classes, batch*classes).Draw(t, "logits")
		teacherLogits := rapid.SliceOfN(draw, batch*classes, batch*classes).Draw(t, "teacher")
		labels := make([]int32, batch)
		for i := range labels {
			labels[i] = int32(i*7) % int32(classes)
		}
		teachers := make([]float32, len(logits))
		softmax(teachers, teacherLogits, batch, 2)
		for i := range batch {
			sum := 0.0
			for _, p := range teachers[i*classes : (i+1)*classes] {
				sum += float64(p)
			}
			if math.Abs(sum-1) > 1e-6 {
				t.Fatalf("probabilities sum to %v", sum)
			}
		}
		grad, scratch := make([]float32, len(logits)), make([]float32, len(logits))
		o := lessonLoss(lesson, logits, labels, teachers, smoothing, grad, 2)
		if want := lesson.Label*o.Label + lesson.Soft*o.Soft; o.Loss != want {
			t.Fatalf("loss %v; want %v", o.Loss, want)
		}
		at := rapid.IntRange(0, len(logits)-1).Draw(t, "at")
		const eps = 1.0 / 4096
		loss := func(by float32) float64 {
			x := append([]float32(nil), logits...)
			x[at] += by
			return lessonLoss(lesson, x, labels, teachers, smoothing, scratch, 1).Loss
		}
		// Alpha is the larger of two divergences, and has a kink where they meet.
		left, right := (loss(0)-loss(-eps))/eps, (loss(eps)-loss(0))/eps
		low, high := min(left, right), max(left, right)
		slack := 0.001 * (lesson.Label + lesson.Soft) / float64(batch)
		if g := float64(grad[at]); g < low-slack || g > high+slack {
			t.Fatalf("gradient %v; finite differences say %v to %v", g, low, high)
		}
	})
}

// TestCrossEntropy compares with numbers worked out by hand.
func TestCrossEntropy(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(5))} // softmax 1/8, 2/8, 5/8
	for _, c := range []struct {
		label     int
		smoothing float64
		want      float64
		correct   bool
	}{
		{0, 0, math.Log(8), false},
		{2, 0, math.Log(8. / 5), true},
		{1, 0.3, 0.8*math.Log(4) + 0.1*math.Log(8) + 0.1*math.Log(8./5), false},
	} {
		got, correct := crossEntropy(logits, c.label, c.smoothing, nil)
		if math.Abs(got-c.want) > 1e-7 || correct != c.correct {
			t.Errorf("label %d, smoothing %v: %v, %v; want %v, %v", c.label, c.smoothing, got, correct, c.want, c.correct)
		}
	}
	for _, bad := range [][]float32{
		{0, float32(math.NaN())}, {float32(math.NaN()), 0}, {float32(math.Inf(1)), 0},
	} {
		if loss, _ := crossEntropy(bad, 0, 0, nil); finite(loss) {
			t.Errorf("the loss of %v is %v", bad, loss)
		}
	}
	if loss, _ := crossEntropy([]float32{1e30, -1e30}, 0, 0, nil); loss != 0 {
		t.Errorf("the loss of a sure network is %v", loss)
	}
}
