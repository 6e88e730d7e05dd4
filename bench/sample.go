package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// How samples are taken. Both sides keep threads that wait for work a while before
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
)

// samples are the times of single runs on one side, by block.
type samples [][]time.Duration

// measured is both sides of a comparison, round by round.
type measured struct {
	ours, theirs  samples
	cpu           []float64 // ratio of CPU time, by round
	quiet, rounds int       // how many rounds were quiet, and how many there were
}

// sides takes turns for a while: a block here, a block there.
func sides(box time.Duration, ours func(), theirs func() error) (measured, error) {
	var all, quiet measured
	start := time.Now()
	for round := 0; ; round++ {
		switch spent := time.Since(start); {
		case spent >= box && quiet.rounds >= minRounds:
			quiet.quiet, quiet.rounds = quiet.rounds, all.rounds
			return quiet, nil
		case spent >= patience*box && all.rounds >= minRounds:
			all.quiet = quiet.rounds
			return all, nil
		}
		x, err := takeBlock(func() error { ours(); return nil })
		if err != nil {
			return measured{}, err
		}
		y, err := takeBlock(theirs)
		if err != nil {
			return measured{}, err
		}
		if round == 0 { // it warms up
			continue
		}
		all.add(x, y)
		if x.quiet && y.quiet {
			quiet.add(x, y)
		}
	}
}

func (m *measured) add(ours, theirs block) {
	m.ours, m.theirs = append(m.ours, ours.times), append(m.theirs, theirs.times)
	m.cpu = append(m.cpu, float64(ours.cpu)/float64(theirs.cpu))
	m.rounds++
}

// block is some runs of one side.
type block struct {
	times []time.Duration
	cpu   time.Duration // of the process, a run
	quiet bool          // nobody else wanted the cores
}

func takeBlock(run func() error) (block, error) {
	time.Sleep(pause)
	if err := run(); err != nil {
		return block{}, err
	}
	var b block
	cpu, waited, start := cpuTime(), waitTime(), time.Now()
	for len(b.times) < blockRuns || time.Since(start) < blockTime {
		before := time.Now()
		if err := run(); err != nil {
			return block{}, err
		}
		b.times = append(b.times, time.Since(before))
	}
	spent := time.Since(start)
	b.cpu = (cpuTime() - cpu) / time.Duration(len(b.times))
	b.quiet = (waitTime() - waited).Seconds() <= quietWait*spent.Seconds()
	return b, nil
}

// cpuTime is how long threads of this process have run.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waitTime is how long threads of this process could have run and had no core.
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

// at is the time that a share of all samples stays below.
func (s samples) at(share float64) time.Duration {
	all := slices.Concat(s...)
	slices.Sort(all)
	return all[int(share*float64(len(all)-1)+0.5)]
}

// ratio is the median over rounds of the ratio of both sides' medians in that
// round: what slows the machine down for a while slows both.
func (m measured) ratio() float64 {
	ratios := make([]float64, len(m.ours))
	for i := range ratios {
		ratios[i] = float64(samples{m.ours[i]}.at(0.5)) / float64(samples{m.theirs[i]}.at(0.5))
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
