package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// How samples are taken. All sides keep threads that wait for work a while before
// they sleep, and leave the caches full of their own, so that sides take turns in
// blocks of several runs, with a pause before and the first run not counted.
//
// On a machine that others use too, rounds in which threads had to wait for a core
// are put aside. If the time ends before there are enough quiet ones, a while more
// is spent waiting for them, and then all rounds count.
const (
	blockTime = 60 * time.Millisecond
	blockRuns = 3
	pause     = 40 * time.Millisecond
	minRounds = 9
	patience  = 3    // times the time box, while rounds are disturbed
	quietWait = 0.03 // share of its time that a quiet block waits for cores

	workerShare = 0.05 // of the time, that a thread runs whose waiting counts
)

// pace is how long a turn is, and how many there are at least. Warm tells that the
// first run of a turn does not count: what the caches hold matters where runs are
// short.
type pace struct {
	warm         bool
	runs, rounds int
	time         time.Duration
}

var shortRuns = pace{warm: true, runs: blockRuns, rounds: minRounds, time: blockTime}

// side is one of those compared. Process is where its threads are, as /proc names
// it; empty is this one.
type side struct {
	run     func() error
	process string
}

// samples are the times of single runs on one side, by block.
type samples [][]time.Duration

// measured is all sides of a comparison, round by round.
type measured struct {
	sides         []samples
	cpu           [][]float64 // seconds on cores of a run, by side and round
	quiet, rounds int         // how many rounds were quiet, and how many there were
}

// takeTurns has sides take turns for a while: a block here, a block there.
func takeTurns(box time.Duration, p pace, sides ...side) (measured, error) {
	var all, quiet measured
	start := time.Now()
	for round := 0; ; round++ {
		switch spent := time.Since(start); {
		case spent >= box && quiet.rounds >= p.rounds:
			quiet.quiet, quiet.rounds = quiet.rounds, all.rounds
			return quiet, nil
		case spent >= patience*box && all.rounds >= p.rounds:
			all.quiet = quiet.rounds
			return all, nil
		}
		blocks := make([]block, len(sides))
		calm := true
		for i, s := range sides {
			var err error
			if blocks[i], err = p.take(s); err != nil {
				return measured{}, err
			}
			calm = calm && blocks[i].quiet
		}
		if round == 0 { // it warms up
			continue
		}
		all.add(blocks)
		if calm {
			quiet.add(blocks)
		}
	}
}

func (m *measured) add(blocks []block) {
	if m.sides == nil {
		m.sides, m.cpu = make([]samples, len(blocks)), make([][]float64, len(blocks))
	}
	for i, b := range blocks {
		m.sides[i] = append(m.sides[i], b.times)
		m.cpu[i] = append(m.cpu[i], b.cpu.Seconds())
	}
	m.rounds++
}

// block is some runs of one side.
type block struct {
	times []time.Duration
	cpu   time.Duration // of the process, a run
	quiet bool          // nobody else wanted the cores
}

func (p pace) take(s side) (block, error) {
	time.Sleep(pause)
	if p.warm {
		if err := s.run(); err != nil {
			return block{}, err
		}
	}
	var b block
	before, start := threadsOf(s.process), time.Now()
	for len(b.times) < p.runs || time.Since(start) < p.time {
		before := time.Now()
		if err := s.run(); err != nil {
			return block{}, err
		}
		b.times = append(b.times, time.Since(before))
	}
	spent := time.Since(start)
	var all, waited time.Duration
	for id, after := range threadsOf(s.process) {
		ran := after.ran - before[id].ran
		all += ran
		// Go's monitor and the like wake up often, where the others are, and wait
		// longer than they run.
		if ran.Seconds() >= workerShare*spent.Seconds() {
			waited += after.waited - before[id].waited
		}
	}
	b.cpu = all / time.Duration(len(b.times))
	b.quiet = waited.Seconds() <= quietWait*spent.Seconds()
	return b, nil
}

// threadTime is how long a thread ran, and how long it could have run and had no
// core.
type threadTime struct{ ran, waited time.Duration }

// threadsOf reads those of a process, by their number.
func threadsOf(process string) map[string]threadTime {
	threads := map[string]threadTime{}
	files, err := filepath.Glob(filepath.Join("/proc", cmp.Or(process, "self"), "task", "*", "schedstat"))
	if err != nil {
		return nil
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		var t threadTime
		if _, err := fmt.Sscan(string(text), &t.ran, &t.waited); err == nil {
			threads[filepath.Base(filepath.Dir(name))] = t
		}
	}
	return threads
}

// at is the time that a share of all samples stays below.
func (s samples) at(share float64) time.Duration {
	all := slices.Concat(s...)
	slices.Sort(all)
	return all[int(share*float64(len(all)-1)+0.5)]
}

// ratio is the median over rounds of the ratio of two sides' medians in that
// round: what slows the machine down for a while slows both.
func (m measured) ratio(a, b int) float64 {
	ratios := make([]float64, len(m.sides[a]))
	for i := range ratios {
		ratios[i] = float64(samples{m.sides[a][i]}.at(0.5)) / float64(samples{m.sides[b][i]}.at(0.5))
	}
	return median(ratios)
}

// cpuRatio is the same of the time on cores.
func (m measured) cpuRatio(a, b int) float64 {
	ratios := make([]float64, len(m.cpu[a]))
	for i := range ratios {
		ratios[i] = m.cpu[a][i] / m.cpu[b][i]
	}
	return median(ratios)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}
