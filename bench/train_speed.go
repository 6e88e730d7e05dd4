package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"tips/train"
)

// The networks whose training is compared, and how many times as many images a
// second as PyTorch's ours must learn from.
var trainCases = []struct {
	reference string
	limit     float64
}{
	{"mobilenet_v2:width=1.4,data=cifar100", 2},
	{"resnet34:data=cifar100", 1},
}

const trainBatch, trainRate = 64, 0.01

var trainUpdate = train.Update{Momentum: 0.9, WeightDecay: 1e-4, DecayNorm: true, DecayBias: true}

// Steps take a second or more, so that turns are single steps and caches do not
// matter; a comparison takes so many times what one of inferences does.
var longRuns = pace{runs: 1, rounds: 5}

const longer = 8

// torchWays are the ways to run a step that are tried; the fastest is compared
// with. One backward pass for the sum of all losses, or the optimiser's multi-tensor
// form, changes nothing that can be measured, and the former takes twice the memory.
var torchWays = []torchWay{
	{layout: "channels_last", slices: "view"},
	{layout: "channels_first", slices: "view"},
	{layout: "channels_last", slices: "contiguous"},
	{layout: "channels_last", slices: "leaf"},
}

// trainSpeed measures whole steps on both sides.
func trainSpeed(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("Whole steps: the whole network and the same three random subnetworks on both sides, each forwards and backwards, cross-entropy with the labels and with the "+
			"whole network's softmax, then SGD with momentum and weight decay; %d images of 32×32. Sides take turns, a step each, PyTorch in a process of its own. The ratio, of images a second, ours/theirs, is the median over rounds; "+
			"rounds in which threads had to wait for a core do not count, where %d others are left (rounds: quiet/all). CPU time, on one thread, is theirs/ours of what was spent on the core.", trainBatch, longRuns.rounds),
			"PyTorch slices the weights, works in place where it can, goes backwards network by network, and runs in the fastest way of those tried before: its two memory formats, slices as views, as contiguous copies, " +
				"and as leaves whose gradients are added by hand. Tuned: the same with the C library told to keep freed memory (" + tunedMalloc[0] + "), which PyTorch does not come with."},
		columns: []string{"network", "ours images/s", "theirs images/s", "ratio", "limit", holdsColumn, "CPU time", "theirs tuned images/s", "ratio to tuned", "ours p10–p90 s", "theirs p10–p90 s", "their way", "rounds"},
	}
	_, missing := findTorch()
	for _, c := range trainCases {
		if missing != nil {
			t.skip(c.reference, missing)
			continue
		}
		for threads := 1; threads <= min(2, runtime.NumCPU()); threads++ {
			if err := t.trainRow(c.reference, threads, c.limit, s); err != nil {
				return table{}, fmt.Errorf("%s: %w", c.reference, err)
			}
		}
	}
	return t, nil
}

// trainRow measures one network on both sides and adds it to the table.
func (t *table) trainRow(reference string, threads int, limit float64, s settings) error {
	set, err := loadNetwork(reference, s.seed)
	if err != nil {
		return err
	}
	e, err := newExercise(set, trainUpdate, trainBatch, 1, trainRate, s.seed)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tips-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := e.write(dir); err != nil {
		return err
	}
	way, err := fastest(dir, threads)
	if err != nil {
		return err
	}
	plain, err := way.serve(dir)
	if err != nil {
		return err
	}
	defer plain.close()
	way.env = tunedMalloc
	tuned, err := way.serve(dir)
	if err != nil {
		return err
	}
	defer tuned.close()
	c, err := e.executor(e.update, threads)
	if err != nil {
		return err
	}
	defer c.Close()

	var losses []float64
	step := func() error {
		o, err := c.Step(context.Background(), e.steps[0])
		losses = losses[:0]
		for _, l := range o.Lessons {
			losses = append(losses, l.Loss)
		}
		return err
	}
	// A comparison of different results would mean nothing. Later steps may drift
	// apart.
	if err := step(); err != nil {
		return err
	}
	if err := plain.step(); err != nil {
		return err
	}
	if d := lossDifference(losses, plain.losses); d > 1e-3 {
		return fmt.Errorf("losses %.5f and %.5f differ by %.1e", losses, plain.losses, d)
	}
	m, err := takeTurns(longer*s.box, longRuns, side{run: step}, plain.side(), tuned.side())
	if err != nil {
		return err
	}

	rate := func(d time.Duration) string { return fmt.Sprintf("%.1f", trainBatch/d.Seconds()) }
	spread := func(x samples) string { return fmt.Sprintf("%.2f–%.2f", x.at(0.1).Seconds(), x.at(0.9).Seconds()) }
	name, cpu := fmt.Sprintf("%s, %d threads", reference, threads), ""
	if threads == 1 {
		name, cpu = reference+", 1 thread", fmt.Sprintf("%.2f", m.cpuRatio(1, 0))
	}
	r := m.ratio(1, 0) // of times
	t.add(name, rate(m.sides[0].at(0.5)), rate(m.sides[1].at(0.5)), fmt.Sprintf("%.2f", r), fmt.Sprintf("≥ %.1f", limit), verdict(r >= limit), cpu,
		rate(m.sides[2].at(0.5)), fmt.Sprintf("%.2f", m.ratio(2, 0)), spread(m.sides[0]), spread(m.sides[1]), way.String(), fmt.Sprintf("%d/%d", m.quiet, m.rounds))
	progress("%s: ours %s images/s, theirs %s (tuned %s), ratio %.2f, CPU time %s, %d of %d rounds quiet", name,
		rate(m.sides[0].at(0.5)), rate(m.sides[1].at(0.5)), rate(m.sides[2].at(0.5)), r, cpu, m.quiet, m.rounds)
	return nil
}

// fastest tries the ways to run a step, in turns.
func fastest(dir string, threads int) (best torchWay, err error) {
	ways := make([]torchWay, len(torchWays))
	sides := make([]side, len(ways))
	for i, way := range torchWays {
		way.threads = threads
		server, err := way.serve(dir)
		if err != nil {
			return best, err
		}
		defer server.close()
		ways[i], sides[i] = way, server.side()
	}
	m, err := takeTurns(0, pace{runs: 1, rounds: 3}, sides...)
	if err != nil {
		return best, err
	}
	least := time.Duration(0)
	for i, way := range ways {
		progress("PyTorch, %s, threads %d: %.2f s a step", way, threads, m.sides[i].at(0).Seconds())
		// The least disturbed of each: medians of three are a matter of luck.
		if t := m.sides[i].at(0); i == 0 || t < least {
			best, least = way, t
		}
	}
	return best, nil
}
