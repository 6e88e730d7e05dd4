package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"tips/train"
)

// trainProgress shows a run to whoever waits for it: a bar on a terminal, a line
// now and then elsewhere.
type trainProgress struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil if the output is no terminal
	start train.Start
	line  time.Time // when the last line was written

	loss, accuracy, rate float64 // of the last steps; rate in images a second
}

// quiet is the time between two lines where there is no terminal.
const quiet = 10 * time.Second

func newTrainProgress(out io.Writer) *trainProgress { return &trainProgress{out: out} }

// countBar is a bar that counts up to a total; nothing shows where nobody looks.
func countBar(w io.Writer, total int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(isTerminal(w)), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
}

func (p *trainProgress) Started(s train.Start) {
	p.start, p.line = s, time.Now()
	verb := "training"
	if s.Resumed {
		verb = fmt.Sprintf("going on after step %d with", s.Step)
	}
	fmt.Fprintf(p.out, "%s %s by %s: %d images, %d steps of %d in %s, %s\n", verb, s.Network.Name(), s.Method,
		s.TrainImages, s.Steps, s.Batch, plural(s.Steps/s.StepsPerEpoch, "epoch"), plural(s.Threads, "thread"))
	if isTerminal(p.out) {
		p.bar = progressbar.NewOptions(s.Steps,
			progressbar.OptionSetWriter(p.out), progressbar.OptionShowCount(), progressbar.OptionThrottle(200*time.Millisecond),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())
		_ = p.bar.Set(s.Step)
	}
}

func (p *trainProgress) Stepped(r train.StepRecord) {
	// Averages over some twenty steps; the first stands for those before it.
	blend := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
		*x += (v - *x) / 20
	}
	first := r.Lessons[0] // the full network in all methods but those that train no other
	blend(&p.loss, first.Label)
	blend(&p.accuracy, first.Accuracy)
	blend(&p.rate, float64(p.start.Batch)/max(r.Seconds, 1e-9))
	done := r.Number + 1
	left := float64(p.start.Steps-done) * float64(p.start.Batch) / p.rate
	text := fmt.Sprintf("epoch %d/%d  loss %.3f  accuracy %.1f %%  %.0f images/s  %s left", r.Epoch+1, p.start.Steps/p.start.StepsPerEpoch, p.loss, 100*p.accuracy, p.rate, duration(left))
	if p.bar != nil {
		p.bar.Describe(text)
		_ = p.bar.Set(done)
		return
	}
	if time.Since(p.line) >= quiet {
		p.line = time.Now()
		fmt.Fprintf(p.out, "step %d/%d  %s\n", done, p.start.Steps, text)
	}
}

func (p *trainProgress) EpochEnded(r train.EpochRecord) {
	p.say("epoch %d  loss %.3f  full: loss %.3f, accuracy %.1f %%  %s\n", r.Number, r.Loss, r.Label, 100*r.Accuracy, duration(r.Seconds))
}

func (p *trainProgress) Evaluating(subnets int) {
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("judging %s on %d images", plural(subnets, "subnetwork"), p.start.JudgedOn))
	}
}

func (p *trainProgress) Evaluated(r train.EvaluationRecord) {
	text := ""
	for _, result := range r.Results {
		text += fmt.Sprintf("  %s %.2f %%", result.Name, 100*result.Accuracy)
	}
	p.say("epoch %d  %s accuracy:%s\n", r.Epoch, r.On, text)
}

func (p *trainProgress) Saved(string, int) {}

// say writes a line of its own.
func (p *trainProgress) say(format string, args ...any) {
	p.clear()
	p.line = time.Now()
	fmt.Fprintf(p.out, format, args...)
}

// clear takes the bar away; the next step draws it again.
func (p *trainProgress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// duration writes seconds as people do.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}
