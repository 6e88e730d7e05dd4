package main

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"tips/nn"
	"tips/onnx"
	"tips/supernet"
	"tips/weights"
)

// The networks whose speed is compared, and what the ratio must not exceed on one
// thread; on two it is 1 for all.
var speedCases = []struct {
	reference string
	limit     float64
}{
	{"mobilenet_v2:width=1.4", 0.85},
	{"mobilenet_v2", 0.85},
	{"mobilenet_v2:width=0.35", 0.85},
	{"resnet34", 1},
	{"resnet50", 1},
	{"efficientnet_b0", 1},
}

const (
	twoThreadsLimit  = 1.0
	manySubnets      = 12 // of mobilenet_v2
	manySubnetsLimit = 0.85
)

// speed measures single images on both sides.
func speed(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("One image of 224×224 at a time, the same weights on both sides, in one process. Sides take turns in blocks of %v or more; times are medians of "+
			"single runs, the ratio ours/theirs is the median over rounds of the ratio of a round's medians, best that of the fastest runs. CPU time, on one thread, is the ratio of what was "+
			"spent on the core, which others on the machine disturb less. Rounds in which threads had to wait for a core do not count, where %d others are left (rounds: quiet/all). ONNX Runtime has all graph "+
			"optimisations, the same number of threads, sequential execution, and input and output bound once.", blockTime, minRounds)},
		columns: []string{"network", "ours ms", "theirs ms", "ratio", "limit", holdsColumn, "best", "CPU time", "ours GFLOP/s", "theirs GFLOP/s", "ours p10–p90 ms", "theirs p10–p90 ms", "rounds"},
	}
	for _, c := range speedCases {
		set, err := loadNetwork(c.reference, s.seed)
		if err != nil {
			return table{}, err
		}
		model := nn.NewModel(set)
		for threads := 1; threads <= min(2, runtime.NumCPU()); threads++ {
			limit := c.limit
			if threads == 2 {
				limit = twoThreadsLimit
			}
			if _, err := t.race(c.reference, set, model, supernet.Subnet{}, threads, s.box, limit); err != nil {
				return table{}, err
			}
		}
	}

	set, err := loadNetwork("mobilenet_v2", s.seed)
	if err != nil {
		return table{}, err
	}
	subs, err := randomSubnets(set.Network, manySubnets, s.seed)
	if err != nil {
		return table{}, err
	}
	model := nn.NewModel(set)
	product := 1.0
	for i, sub := range subs {
		r, err := t.race(fmt.Sprintf("mobilenet_v2 subnetwork %d", i+1), set, model, sub, 1, s.box/2, 0)
		if err != nil {
			return table{}, err
		}
		product *= r
	}
	mean := math.Pow(product, 1.0/manySubnets)
	t.add(fmt.Sprintf("%d subnetworks, geometric mean", manySubnets), "", "", fmt.Sprintf("%.3f", mean), fmt.Sprintf("%.2f", manySubnetsLimit), verdict(mean <= manySubnetsLimit),
		"", "", "", "", "", "", "")
	return t, nil
}

// race measures one subnetwork on both sides and adds it to the table. A limit of
// 0 is none.
func (t *table) race(name string, set *weights.Set, model *nn.Model, sub supernet.Subnet, threads int, box time.Duration, limit float64) (float64, error) {
	input := set.Network.Input()
	p, err := prepare(set, model, onnx.Options{Subnet: sub, Input: input, Batch: 1}, 1)
	if err != nil {
		return 0, err
	}
	other, err := openModel(p.model, p.program.View(), 1, threads)
	if err != nil {
		return 0, err
	}
	defer other.close()
	x, y := randomImages(input, 1, 1), make([]float32, p.program.OutputLen())
	channelsFirst(other.in.GetData(), x, input)
	session := nn.NewSession(threads)
	defer session.Close()

	m, err := takeTurns(box, shortRuns, side{run: func() error { session.Run(p.program, y, x); return nil }}, side{run: other.run})
	if err != nil {
		return 0, err
	}
	// A comparison of different results would mean nothing.
	if d := difference(y, other.out.GetData()); d > maxDifference {
		return 0, fmt.Errorf("%s %s: outputs differ by %.1e", name, sub, d)
	}
	r, ours, theirs := m.ratio(0, 1), m.sides[0], m.sides[1]
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }
	rate := func(d time.Duration) string {
		return fmt.Sprintf("%.0f", 2*float64(p.program.View().Costs().MACs)/d.Seconds()/1e9)
	}
	spread := func(s samples) string { return ms(s.at(0.1)) + "–" + ms(s.at(0.9)) }
	bound, holds := "", ""
	if limit > 0 {
		bound, holds = fmt.Sprintf("%.2f", limit), verdict(r <= limit)
	}
	cpu := "" // threads that wait for work by turning round would count
	if threads == 1 {
		name += ", 1 thread"
		cpu = fmt.Sprintf("%.3f", m.cpuRatio(0, 1))
	} else {
		name += fmt.Sprintf(", %d threads", threads)
	}
	t.add(name, ms(ours.at(0.5)), ms(theirs.at(0.5)), fmt.Sprintf("%.3f", r), bound, holds, fmt.Sprintf("%.3f", float64(ours.at(0))/float64(theirs.at(0))), cpu,
		rate(ours.at(0.5)), rate(theirs.at(0.5)), spread(ours), spread(theirs), fmt.Sprintf("%d/%d", m.quiet, m.rounds))
	progress("%s: ours %s ms, theirs %s ms, ratio %.3f (CPU time %s), %d of %d rounds quiet", name, ms(ours.at(0.5)), ms(theirs.at(0.5)), r, cpu, m.quiet, m.rounds)
	return r, nil
}
