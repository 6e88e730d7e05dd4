package cost

import (
	"context"
	"fmt"
	"time"

	"tips/nn"
)

// MeasureOptions say how programs are measured. Zero values mean what their
// comments say.
type MeasureOptions struct {
	Threads int           // 0: 1
	Runs    int           // of each program, at least; 0: 20
	Time    time.Duration // to measure for, at least; 0: 1 s
	// Progress is told how much is done, 0 to 1; may be nil.
	Progress func(share float64)
}

// Times are how long whole runs of a program took, warm. Runs that other programs
// disturbed are left out as far as there are others.
type Times struct {
	Median    time.Duration `json:"median_ns"`
	Low       time.Duration `json:"quartile1_ns"`
	High      time.Duration `json:"quartile3_ns"`
	Runs      int           `json:"runs"`
	Disturbed int           `json:"disturbed"` // of them, by other programs
}

// visitTime is the least time that a program runs for when its turn comes.
const visitTime = 2 * time.Millisecond

// Measure times whole runs of programs of one network, which take turns, so that a
// machine that changes its speed does so for all alike.
func Measure(ctx context.Context, programs []*nn.Program, o MeasureOptions) ([]Times, error) {
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.Runs == 0 {
		o.Runs = 20
	}
	if o.Time == 0 {
		o.Time = time.Second
	}
	if o.Threads < 1 || o.Runs < 1 || o.Time < 0 {
		return nil, fmt.Errorf("cost: measure %d runs with %d threads for %v; want 1 or more, and a time", o.Runs, o.Threads, o.Time)
	}
	if len(programs) == 0 {
		return nil, nil
	}
	session := nn.NewSession(o.Threads)
	defer session.Close()
	took := make([]samples, len(programs))
	visits := (o.Runs + visit - 1) / visit
	began := time.Now()
	for v := 0; ; v++ {
		lacking := false // undisturbed runs
		for i := range took {
			lacking = lacking || took[i].quiet() < o.Runs
		}
		if time.Since(began) >= o.Time && v >= visits && (!lacking || v >= patience*visits) {
			break
		}
		for i, p := range programs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			input, output := make([]float32, p.InputLen()), make([]float32, p.OutputLen())
			for k := range input {
				input[k] = float32(k%17)/8 - 1
			}
			for _, run := range several(visit, visitTime, func(int) { session.Run(p, output, input) }) {
				took[i].put(run.seconds, run.quiet)
			}
		}
		if o.Progress != nil {
			o.Progress(min(1, float64(v+1)/float64(visits), time.Since(began).Seconds()/max(o.Time.Seconds(), 1e-9)))
		}
	}
	times := make([]Times, len(programs))
	for i := range took {
		times[i] = took[i].times()
	}
	return times, nil
}

// times are the median as typical gives it, and the quartiles of what it is the
// median of.
func (s *samples) times() Times {
	t := Times{Median: duration(s.typical()), Runs: s.count(), Disturbed: len(s.disturbed)}
	list := s.calm
	if len(list) < enough {
		list = append(append([]float64(nil), s.calm...), s.disturbed...)
	}
	list = append([]float64(nil), list...)
	median(list) // sorts
	t.Low, t.High = duration(list[len(list)/4]), duration(list[len(list)*3/4])
	t.Low, t.High = min(t.Low, t.Median), max(t.High, t.Median)
	return t
}
