package main

import (
	"slices"
	"syscall"
	"time"
)

// How samples are taken. Both sides keep threads that wait for work a while before
// they sleep, and leave the caches full of their own, so that sides take turns in
// blocks of several runs, with a pause before and the first run not counted.
//
// On a machine that others use too, rounds in which the kernel took a core away
// are put aside. If the time ends before there are enough quiet ones, a while more
// is spent waiting for them, and then all rounds count.
const (
	blockTime  = 60 * time.Millisecond
	blockRuns  = 3
	pause      = 10 * time.Millisecond
	minRounds  = 9
	patience   = 3                     // times the time box, while rounds are disturbed
	quietSlice = 20 * time.Millisecond // one loss of a core in this time is the kernel's own work
)

// samples are the times of single runs on one side, by block.
type samples [][]time.Duration

// measured is both sides of a comparison, round by round.
type measured struct {
	ours, theirs  samples
	quiet, rounds int // how many rounds were quiet, and how many there were
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
		x, calm, _ := block(func() error { ours(); return nil })
		y, calmToo, err := block(theirs)
		if err != nil {
			return measured{}, err
		}
		if round == 0 { // it warms up
			continue
		}
		all.add(x, y)
		if calm && calmToo {
			quiet.add(x, y)
		}
	}
}

func (m *measured) add(ours, theirs []time.Duration) {
	m.ours, m.theirs = append(m.ours, ours), append(m.theirs, theirs)
	m.rounds++
}

// block runs one side for a while, and tells whether it had the machine to itself.
func block(run func() error) (times []time.Duration, quiet bool, err error) {
	time.Sleep(pause)
	if err := run(); err != nil {
		return nil, false, err
	}
	start, lost := time.Now(), coresLost()
	for len(times) < blockRuns || time.Since(start) < blockTime {
		before := time.Now()
		if err := run(); err != nil {
			return nil, false, err
		}
		times = append(times, time.Since(before))
	}
	return times, time.Duration(coresLost()-lost) <= 1+time.Since(start)/quietSlice, nil
}

// coresLost counts how often a thread of this process had to leave its core
// although it had work.
func coresLost() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Nivcsw
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
