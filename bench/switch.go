package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"tips/nn"
	"tips/onnx"
	"tips/supernet"
	"tips/weights"
)

const (
	switches    = 1000
	switchLimit = time.Microsecond
)

// switching measures what it takes to run another subnetwork of mobilenet_v2 than
// the one before, on one thread.
func switching(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("%d subnetworks of mobilenet_v2 at 224×224, %d switches between them in random order, one thread. To switch is to find the program of a "+
			"subnetwork and run it: found is the time to look it up by the subnetwork; the inference after a switch is compared with the same program's inference after itself, "+
			"median over all, caches included. ONNX Runtime keeps a session for each, or makes one.", manySubnets, switches)},
		columns: []string{"what", "ours µs", "theirs µs", "limit", holdsColumn},
	}
	set, err := loadNetwork("mobilenet_v2", s.seed)
	if err != nil {
		return table{}, err
	}
	subs, err := randomSubnets(set.Network, 2*manySubnets, s.seed)
	if err != nil {
		return table{}, err
	}
	subs, unseen := subs[:manySubnets], subs[manySubnets:]
	rng := rand.New(rand.NewPCG(s.seed, 0x737769746368))
	order := make([]int, switches)
	for i := range order { // never the same twice in a row
		order[i] = rng.IntN(manySubnets)
		if i > 0 && order[i] == order[i-1] {
			order[i] = (order[i] + 1) % manySubnets
		}
	}

	model := nn.NewModel(set)
	input := set.Network.Input()
	programs := map[supernet.Subnet]*nn.Program{}
	for _, sub := range subs {
		if programs[sub], err = model.Program(sub, input, 1, nil); err != nil {
			return table{}, err
		}
	}
	us := func(d time.Duration) string {
		if d < 10*time.Microsecond {
			return fmt.Sprintf("%.3f", d.Seconds()*1e6)
		}
		return fmt.Sprint(d.Microseconds())
	}

	found := lookUp(programs, subs, order)
	t.add("found among twelve", us(found), "", "≤ 1", verdict(found <= switchLimit))

	session := nn.NewSession(1)
	defer session.Close()
	x := randomImages(input, 1, 1)
	y := make([]float32, programs[subs[0]].OutputLen())
	run := func(i int) error { session.Run(programs[subs[i]], y, x); return nil }
	ours, allocations, err := afterSwitch(order, run)
	if err != nil {
		return table{}, err
	}
	theirs, err := theirSwitch(set, subs, order, x)
	if err != nil {
		return table{}, err
	}
	t.add("inference after a switch, beside one after itself", us(ours), us(theirs), "", "")
	t.add(fmt.Sprintf("allocations in %d switches and inferences", switches), fmt.Sprint(allocations), "", "0", verdict(allocations == 0))

	prepared, exporting, created, err := neverSeen(set, model, unseen)
	if err != nil {
		return table{}, err
	}
	t.add("a subnetwork never seen: program, session", us(prepared), us(created), "", "")
	t.add("a subnetwork never seen: its ONNX model, in memory", "", us(exporting), "", "")
	return t, nil
}

// lookUp is the median time to find a program by its subnetwork.
func lookUp(programs map[supernet.Subnet]*nn.Program, subs []supernet.Subnet, order []int) time.Duration {
	var times []time.Duration
	for range 21 {
		start := time.Now()
		for _, i := range order {
			if programs[subs[i]] == nil { // what is found must be looked at
				panic("a program is missing")
			}
		}
		times = append(times, time.Since(start)/time.Duration(len(order)))
	}
	return samples{times}.at(0.5)
}

// afterSwitch is by how much an inference after a switch is slower than one of
// the same subnetwork again, and what all of the former allocate.
func afterSwitch(order []int, run func(i int) error) (extra time.Duration, allocations uint64, err error) {
	again := make([]time.Duration, manySubnets)
	for i := range again {
		for range 2 {
			if err := run(i); err != nil {
				return 0, 0, err
			}
		}
		times := make([]time.Duration, 0, 30)
		for range cap(times) {
			start := time.Now()
			if err := run(i); err != nil {
				return 0, 0, err
			}
			times = append(times, time.Since(start))
		}
		again[i] = samples{times}.at(0.5)
	}
	extras := make([]time.Duration, len(order))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for k, i := range order {
		start := time.Now()
		if err := run(i); err != nil {
			return 0, 0, err
		}
		extras[k] = time.Since(start) - again[i]
	}
	runtime.ReadMemStats(&after)
	slices.Sort(extras)
	return extras[len(extras)/2], after.Mallocs - before.Mallocs, nil
}

// theirSwitch is afterSwitch with a session for each subnetwork.
func theirSwitch(set *weights.Set, subs []supernet.Subnet, order []int, x []float32) (time.Duration, error) {
	sessions := make([]*theirs, len(subs))
	for i, sub := range subs {
		view, err := set.Network.View(sub, set.Network.Input())
		if err != nil {
			return 0, err
		}
		model, err := exported(set, onnx.Options{Subnet: sub})
		if err != nil {
			return 0, err
		}
		if sessions[i], err = openModel(model, view, 1, 1); err != nil {
			return 0, err
		}
		defer sessions[i].close()
		channelsFirst(sessions[i].in.GetData(), x, view.Input)
	}
	extra, _, err := afterSwitch(order, func(i int) error { return sessions[i].run() })
	return extra, err
}

// neverSeen is the median time to make a program, a model and a session of
// subnetworks met for the first time.
func neverSeen(set *weights.Set, model *nn.Model, subs []supernet.Subnet) (program, export, session time.Duration, err error) {
	var programs, exports, sessions []time.Duration
	for _, sub := range subs {
		start := time.Now()
		p, err := model.Program(sub, set.Network.Input(), 1, nil)
		if err != nil {
			return 0, 0, 0, err
		}
		programs = append(programs, time.Since(start))

		start = time.Now()
		m, err := exported(set, onnx.Options{Subnet: sub, Batch: 1})
		if err != nil {
			return 0, 0, 0, err
		}
		exports = append(exports, time.Since(start))

		start = time.Now()
		t, err := openModel(m, p.View(), 1, 1)
		if err != nil {
			return 0, 0, 0, err
		}
		sessions = append(sessions, time.Since(start))
		t.close()
	}
	return samples{programs}.at(0.5), samples{exports}.at(0.5), samples{sessions}.at(0.5), nil
}
