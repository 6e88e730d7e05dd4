package cost

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// samples are measurements, those that no other program disturbed apart.
type samples struct{ calm, disturbed []float64 }

// quietWait is the share of their time that threads may wait for a core in runs
// that count as undisturbed.
const quietWait = 0.02

// undisturbed tells whether what ran since a moment, and ends now, had its cores for
// itself; waited is what waitTime gave then.
func undisturbed(waited time.Duration, since time.Time) bool {
	took := time.Since(since)
	return (waitTime() - waited).Seconds() <= quietWait*took.Seconds()
}

func (s *samples) put(value float64, quiet bool) {
	if quiet {
		s.calm = append(s.calm, value)
	} else {
		s.disturbed = append(s.disturbed, value)
	}
}

func (s *samples) quiet() int { return len(s.calm) }
func (s *samples) count() int { return len(s.calm) + len(s.disturbed) }

// longRun is a run that hardly notices that the system was asked before it.
const longRun = time.Millisecond

// timed is a run and how long it took.
type timed struct {
	seconds float64
	quiet   bool
}

// several times a run, count times at least and for at least a while, after one
// that warms caches and does not count. To ask the system who else ran empties
// caches: before short runs it is asked once, and all of them are undisturbed or none.
func several(count int, atLeast time.Duration, run func(r int)) []timed {
	var list []timed
	waited, asked := waitTime(), time.Now()
	run(-1)
	long := time.Since(asked) >= longRun
	for r := 0; r < count || time.Since(asked) < atLeast; r++ {
		var before time.Duration
		if long {
			before = waitTime()
		}
		began := time.Now()
		run(r)
		took := timed{seconds: time.Since(began).Seconds()}
		if long {
			took.quiet = undisturbed(before, began)
		}
		list = append(list, took)
	}
	if !long {
		quiet := undisturbed(waited, asked)
		for r := range list {
			list[r].quiet = quiet
		}
	}
	return list
}

// enough is how many undisturbed measurements make the others needless.
const enough = 3

// typical is the median of undisturbed measurements. Where there are too few of
// them it is the median of the fastest quarter of all: what disturbs a run makes it
// slower.
func (s *samples) typical() float64 {
	if len(s.calm) >= enough {
		return median(s.calm)
	}
	all := append(append([]float64(nil), s.calm...), s.disturbed...)
	median(all) // sorts
	return median(all[:(len(all)+3)/4])
}

// waitTime is how long threads of this process could have run and had no core, as
// far as the system tells: Linux does.
func waitTime() (total time.Duration) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return 0
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			total += waited
		}
	}
	return total
}
