package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"

	"tips/weights"
)

const (
	trainMemoryNetwork = "mobilenet_v2:width=1.4,data=cifar100"
	trainMemorySteps   = 3
	trainMemoryLimit   = 1.0
)

// trainMemory measures processes that only learn.
func trainMemory(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("The most resident memory of a process that does %d of the steps of table 7 on one thread, in MiB. Before: what is resident before the first step, when libraries and weights are loaded. "+
			"PyTorch in each of its memory formats, going backwards network by network; limits are against the smaller one.", trainMemorySteps)},
		columns: []string{"network", "ours", "theirs", "ratio", "limit", holdsColumn, "ours before", "theirs before", "ours above before", "theirs above before", "their way"},
	}
	name := fmt.Sprintf("%s, %d images", trainMemoryNetwork, trainBatch)
	if _, err := findTorch(); err != nil {
		t.skip(name, err)
		return t, nil
	}
	dir, err := os.MkdirTemp("", "tips-bench-*")
	if err != nil {
		return table{}, err
	}
	defer os.RemoveAll(dir)
	set, err := loadNetwork(trainMemoryNetwork, s.seed)
	if err != nil {
		return table{}, err
	}
	e, err := newExercise(set, trainUpdate, trainBatch, 1, trainRate, s.seed)
	if err != nil {
		return table{}, err
	}
	if err := e.write(dir); err != nil {
		return table{}, err
	}
	ours, err := learningChild(dir, s)
	if err != nil {
		return table{}, err
	}
	var theirs footprint
	var way torchWay
	for _, w := range []torchWay{{layout: "channels_last", slices: "view"}, {layout: "channels_first", slices: "view"}} {
		f, err := w.memory(dir, trainMemorySteps)
		if err != nil {
			return table{}, err
		}
		if theirs.Peak == 0 || f.Peak < theirs.Peak {
			theirs, way = f, w
		}
	}
	mib := func(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }
	r := float64(ours.Peak) / float64(theirs.Peak)
	t.add(name, mib(ours.Peak), mib(theirs.Peak), fmt.Sprintf("%.2f", r), fmt.Sprintf("≤ %.1f", trainMemoryLimit), verdict(r <= trainMemoryLimit),
		mib(ours.Before), mib(theirs.Before), mib(ours.Peak-ours.Before), mib(theirs.Peak-theirs.Before), way.String())
	progress("%s: ours %s MiB, theirs %s", name, mib(ours.Peak), mib(theirs.Peak))
	return t, nil
}

// learnVerb makes this program learn and measure itself; nobody types it.
const learnVerb = "train-memory-child"

// learningChild is the median of several processes.
func learningChild(dir string, s settings) (footprint, error) {
	self, err := os.Executable()
	if err != nil {
		return footprint{}, err
	}
	var all []footprint
	for range 3 {
		c := exec.Command(self, learnVerb, dir, strconv.FormatUint(s.seed, 10))
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return footprint{}, fmt.Errorf("%s: %w", learnVerb, err)
		}
		var f footprint
		if err := json.Unmarshal(out, &f); err != nil {
			return footprint{}, err
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b footprint) int { return cmp.Compare(a.Peak, b.Peak) })
	return all[len(all)/2], nil
}

// learn runs the steps of an exercise in a folder and prints what that took.
func learn(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s takes 2 arguments and got %d", learnVerb, len(args))
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	set, err := weights.Open(filepath.Join(args[0], weightsFile), nil)
	if err != nil {
		return err
	}
	e, err := newExercise(set, trainUpdate, trainBatch, 1, trainRate, seed)
	if err != nil {
		return err
	}
	c, err := e.executor(e.update, 1)
	if err != nil {
		return err
	}
	defer c.Close()
	e.set, set = nil, nil // the executor has its own
	runtime.GC()
	debug.FreeOSMemory()
	before, err := ownUsage()
	if err != nil {
		return err
	}
	// The peak so far, that of loading, is forgotten.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return err
	}
	for range trainMemorySteps {
		if _, err := c.Step(context.Background(), e.steps[0]); err != nil {
			return err
		}
	}
	after, err := ownUsage()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(footprint{before.Resident, after.Peak})
}
