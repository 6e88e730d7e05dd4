package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// tree is a made-up /proc and /sys.
type tree struct {
	t    testing.TB
	root string
}

func newTree(t testing.TB) tree { return tree{t, t.TempDir()} }

func (w tree) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w tree) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.root, name)); err != nil {
		w.t.Fatal(err)
	}
}

func pressure(total time.Duration) string {
	return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", total.Microseconds())
}

// allowed is the point that runs when nothing is asked.
func allowed(t testing.TB, e *Engine) int {
	t.Helper()
	r, err := e.Infer(t.Context(), newInput(e, 1), Budget{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Point
}

// TestMemoryController goes through what a control group can go through.
func TestMemoryController(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	w := newTree(t)
	const group = "sys/fs/cgroup/service/inner/"
	w.write("proc/self/cgroup", "12:cpu:/elsewhere\n0::/service/inner\n")
	w.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
	w.write("sys/fs/cgroup/service/memory.current", "1000\n")
	w.write("sys/fs/cgroup/service/memory.max", "max\n")
	w.write(group+"memory.current", "500\n")
	w.write(group+"memory.high", "max\n")
	w.write(group+"memory.max", "1000\n")
	w.write(group+"memory.stat", "anon 400\ninactive_file 100\n")
	w.write(group+"memory.pressure", pressure(0))
	c, err := NewMemoryController(e, MemoryOptions{Root: w.root, Patience: 2})
	if err != nil {
		t.Fatal(err)
	}
	levels := len(c.g.costs)
	if levels < 3 {
		t.Fatalf("%d levels; the test wants more", levels)
	}
	now := time.Now()
	step := func(what string, want int) {
		t.Helper()
		now = now.Add(time.Second)
		before := c.g.level
		m, err := c.step(now)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if m.Level != want || m.Levels != levels || m.Changed != (before != want) || m.Why == "" {
			t.Errorf("%s: %+v; want level %d", what, m, want)
		}
		// What runs is the best within the level.
		if p := allowed(t, e); e.front.Points[p].Costs.PeakBytes > c.g.costs[want] {
			t.Errorf("%s: point %d runs, which takes %d bytes", what, p, e.front.Points[p].Costs.PeakBytes)
		}
	}
	top := levels - 1
	step("all is well", top)
	w.write(group+"memory.current", "950\n")
	step("950 of 1000, but 100 can be dropped", top)
	w.write(group+"memory.current", "1010\n")
	step("910 of 1000", top/2)
	if len(e.sessions.idle) > 1 {
		t.Errorf("%d sessions are kept though memory is short", len(e.sessions.idle))
	}
	step("still", top/2/2)
	w.write(group+"memory.current", "920\n")
	step("820 of 1000: neither", top/2/2)
	w.write(group+"memory.current", "600\n")
	step("well for a step", top/2/2)
	step("well for two", top/2/2+1)
	w.write(group+"memory.pressure", pressure(300*time.Millisecond))
	step("tasks stall for 300 ms of a second", (top/2/2+1)/2)
	w.write(group+"memory.pressure", pressure(350*time.Millisecond))
	step("tasks stall for 50 ms: neither", c.g.level)
	w.write(group+"memory.high", "400\n")
	for range levels + 1 {
		step("500 of 400: down to the bottom", max(0, min(c.g.level/2, c.g.level-1)))
	}
	if c.g.level != 0 {
		t.Errorf("at the bottom: level %d", c.g.level)
	}
	w.write(group+"memory.high", "max\n")
	for range 2 * levels {
		step("all is well again", min(top, c.g.level+c.g.well))
	}
	if allowed(t, e) != 4 {
		t.Errorf("at the top point %d runs", allowed(t, e))
	}
	w.write("sys/fs/cgroup/service/memory.max", "1050\n")
	step("the group above is short", top/2)

	// Damage is an error, not a guess.
	w.write(group+"memory.current", "much\n")
	if _, err := c.Step(); err == nil || !strings.Contains(err.Error(), "memory.current") {
		t.Errorf("a group that uses %q: %v", "much", err)
	}
}

// TestMemorySources: what is read where not all of it is there.
func TestMemorySources(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	look := func(w tree) (Move, error) {
		t.Helper()
		c, err := NewMemoryController(e, MemoryOptions{Root: w.root})
		if err != nil {
			t.Fatal(err)
		}
		defer c.g.limit.Release()
		return c.Step()
	}
	w := newTree(t)
	if _, err := look(w); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing at all: %v", err)
	}
	w.write("proc/pressure/memory", "some avg10=55.00 avg60=0.00 avg300=0.00 total=5\n")
	if m, err := look(w); err != nil || !m.Changed {
		t.Errorf("the machine's pressure, at first by its average: %+v (%v)", m, err)
	}
	w.write("proc/self/cgroup", "0::/../../host/path\n")
	w.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
	w.write("sys/fs/cgroup/memory.current", "99\n")
	w.write("sys/fs/cgroup/memory.max", "100\n")
	w.write("proc/pressure/memory", pressure(0))
	if m, err := look(w); err != nil || !m.Changed {
		t.Errorf("a container's group, at the top: %+v (%v)", m, err)
	}
	w.remove("proc/pressure/memory")
	if m, err := look(w); err != nil || !m.Changed {
		t.Errorf("without pressure: %+v (%v)", m, err)
	}
	w.write("sys/fs/cgroup/memory.max", "max\n")
	if _, err := look(w); err == nil {
		t.Error("neither a limit nor pressure, and no error")
	}
	w.write("proc/pressure/memory", "some nonsense\n")
	if _, err := look(w); err == nil || !strings.Contains(err.Error(), "avg10 and total") {
		t.Errorf("pressure that is none: %v", err)
	}
}

// TestCPUController goes through load and clocks.
func TestCPUController(t *testing.T) {
	e := newEngine(t, Options{Measure: -1, Threads: 1, MaxConcurrent: 2})
	w := newTree(t)
	var user, idle, own int
	set := func(others, mine int) { // percent of a further second of both processors
		user += 2 * (others + mine)
		own += 2 * mine
		idle += 2 * (100 - others - mine)
		w.write("proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\nintr 5\n", user, idle))
		w.write("proc/self/stat", fmt.Sprintf("1 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0\n", own/2, own-own/2))
	}
	clock := func(now, limit int) {
		for _, cpu := range []string{"cpu0", "cpu1"} {
			dir := "sys/devices/system/cpu/" + cpu + "/cpufreq/"
			w.write(dir+"cpuinfo_max_freq", "3000000\n")
			w.write(dir+"scaling_cur_freq", fmt.Sprintln(now*30000))
			w.write(dir+"scaling_max_freq", fmt.Sprintln(limit*30000))
		}
	}
	set(0, 50)
	c, err := NewCPUController(e, CPUOptions{Root: w.root, Patience: 2})
	if err != nil {
		t.Fatal(err)
	}
	top := len(c.g.costs) - 1
	settle := func(what string, others, mine int, capacity float64) {
		t.Helper()
		for range 40 {
			set(others, mine)
			if _, err := c.Step(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if c.capacity < capacity-0.01 || c.capacity > capacity+0.01 {
			t.Errorf("%s: capacity %v; want %v", what, c.capacity, capacity)
		}
		full := float64(c.g.costs[top])
		low, high := c.g.rung(full*(capacity-0.06)), c.g.rung(full*(capacity+0.06))
		if c.g.level < low || c.g.level > high || capacity == 1 && c.g.level != top {
			t.Errorf("%s: level %d; want %d to %d", what, c.g.level, low, high)
		}
		if p := allowed(t, e); e.front.Points[p].Costs.MACs > c.g.costs[c.g.level] {
			t.Errorf("%s: point %d runs", what, p)
		}
	}
	settle("nobody else", 0, 90, 1)
	settle("another process", 60, 40, 0.4)
	settle("nobody else again", 0, 5, 1)
	settle("two others", 95, 5, 0.05)
	settle("idle", 0, 0, 1)
	clock(40, 100)
	settle("a slow clock, but idle", 0, 10, 1)
	settle("a slow clock, and busy", 0, 90, 0.4)
	clock(50, 50)
	settle("a limit on the clock", 0, 10, 0.5)
	clock(50, 50)
	settle("a limit on the clock, and others", 50, 50, 0.25)
	clock(100, 100)
	settle("all is well", 2, 90, 0.98)

	// Down at once, up with patience, no move within the band.
	set(90, 10)
	if m, err := c.Step(); err != nil || !m.Changed || m.Level >= top {
		t.Errorf("load comes: %+v (%v)", m, err)
	}
	down := c.g.level
	set(0, 10)
	if m, err := c.Step(); err != nil || m.Level != down {
		t.Errorf("load goes: %+v (%v); want level %d to stay for a step", m, err, down)
	}
	w.write("proc/stat", "nonsense")
	if _, err := c.Step(); err == nil {
		t.Error("/proc/stat without processors, and no error")
	}
}

// TestNeedOfProcessors: others may use what the engine has no use for.
func TestNeedOfProcessors(t *testing.T) {
	e := newEngine(t, Options{Measure: -1, Threads: 1, MaxConcurrent: 1})
	w := newTree(t)
	c, err := NewCPUController(e, CPUOptions{Root: w.root})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		w.write("proc/stat", fmt.Sprintf("cpu %d 0 0 %d\ncpu0\ncpu1\ncpu2\ncpu3\n", 300*(i+1), 100*(i+1)))
		w.write("proc/self/stat", "1 (x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0\n")
		if m, err := c.Step(); err != nil || m.Changed {
			t.Errorf("three of four processors are used by others: %+v (%v)", m, err)
		}
	}
}

// TestLatencyController on a machine whose every call takes a given time a MAC.
func TestLatencyController(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	const target = 10 * time.Millisecond
	c, err := NewLatencyController(e, LatencyOptions{Target: target, Samples: 4})
	if err != nil {
		t.Fatal(err)
	}
	top := len(c.g.costs) - 1
	full := float64(c.g.costs[top])
	latency := func(slow float64, level int) time.Duration {
		return time.Duration(slow * float64(target) * float64(c.g.costs[level]) / full)
	}
	moves := 0
	serve := func(slow float64, steps int) {
		t.Helper()
		for range steps {
			for range 5 {
				e.history.add(past{latency(slow, c.g.level), c.g.costs[c.g.level]}, false)
			}
			m, err := c.Step()
			if err != nil {
				t.Fatal(err)
			}
			if m.Changed {
				moves++
			}
		}
	}
	serve(0.8, 20)
	if c.g.level != top || moves > 0 {
		t.Errorf("all is well: level %d after %d moves", c.g.level, moves)
	}
	for _, slow := range []float64{1.3, 2, 4, 1.5, 0.5, 3} {
		serve(slow, 60)
		if is := latency(slow, c.g.level); is > target && c.g.level > 0 {
			t.Errorf("%v times as slow: level %d, where calls take %v", slow, c.g.level, is)
		}
		if c.g.level < top && latency(slow, c.g.level+1) < target*8/10 {
			t.Errorf("%v times as slow: level %d, though calls would take %v one level up", slow, c.g.level, latency(slow, c.g.level+1))
		}
		moves = 0
		serve(slow, 60)
		if moves > 0 {
			t.Errorf("%v times as slow: %d moves though nothing changes", slow, moves)
		}
	}
	// Calls that come more slowly than the controller looks count as well.
	serve(4, 10)
	low := c.g.level
	for range 200 {
		e.history.add(past{latency(0.5, c.g.level), c.g.costs[c.g.level]}, false)
		if _, err := c.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if low == top || c.g.level != top {
		t.Errorf("level %d when slow, %d after 200 fast calls, one a look; want %d", low, c.g.level, top)
	}
	// Calls that are too few tell nothing.
	before := c.g.level
	e.history.add(past{time.Hour, 1}, true)
	if m, err := c.Step(); err != nil || m.Level != before {
		t.Errorf("one slow call: %+v (%v)", m, err)
	}
}

// TestLatencyForReal: a target of half of what the dearest takes on this machine.
func TestLatencyForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	e := newEngine(t, Options{Threads: 1, MaxConcurrent: 1})
	x, y := newInput(e, 1), make([]float32, e.Classes())
	point := 0 // that ran last
	median := func(n int) time.Duration {
		t.Helper()
		var list []past
		for range n {
			r, err := e.InferTo(t.Context(), y, x, Budget{})
			if err != nil {
				t.Fatal(err)
			}
			point = r.Point
			list = append(list, past{total: r.Took})
		}
		sortRuns(list)
		return quantile(list, 0.5)
	}
	median(20)
	dearest := median(50)
	c, err := NewLatencyController(e, LatencyOptions{Target: dearest / 2, Every: 5 * time.Millisecond, Quantile: 0.5, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	reached := false
	for range 60 {
		if now := median(30); now < dearest*3/4 && point < 4 {
			reached = true
			break
		}
	}
	stop()
	running.Wait()
	if !reached {
		t.Errorf("calls take %v; the target is %v, they took %v before", median(30), dearest/2, dearest)
	}
	if allowed(t, e) != 4 {
		t.Error("the limit stands after the controller has ended")
	}
}

// TestCPUForReal burns processor time in other processes.
func TestCPUForReal(t *testing.T) {
	if os.Getenv("TIPS_TEST_BURN") != "" { // one of them
		for start := time.Now(); time.Since(start) < 20*time.Second; {
		}
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := readCPU("/"); err != nil {
		t.Skipf("this system does not tell its load: %v", err)
	}
	e := newEngine(t, Options{})
	c, err := NewCPUController(e, CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Step(); err != nil {
		t.Fatal(err)
	}
	for range 2 * runtime.NumCPU() {
		burn := exec.Command(os.Args[0], "-test.run", "^TestCPUForReal$")
		burn.Env = append(os.Environ(), "TIPS_TEST_BURN=1")
		if err := burn.Start(); err != nil {
			t.Skipf("no other process can be started: %v", err)
		}
		defer func() { _ = burn.Process.Kill(); _ = burn.Wait() }()
	}
	top := c.g.level
	var m Move
	for range 20 {
		time.Sleep(200 * time.Millisecond)
		if m, err = c.Step(); err != nil {
			t.Fatal(err)
		}
		if m.Level < top {
			break
		}
	}
	if m.Level == top {
		t.Errorf("all processors are busy with others, and the budget stays: %s", m.Why)
	}
	t.Log(m.Why)
}

// TestMemoryForReal reads what this system tells. To provoke pressure takes a
// control group that can be limited, and everything else in the group feels it, also
// after a test that was killed: it is done only where TIPS_PROVOKE=1 says so.
func TestMemoryForReal(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	c, err := NewMemoryController(e, MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Step()
	if err != nil {
		t.Skipf("this system does not tell its memory pressure: %v", err)
	}
	t.Log(m.Why)

	group := controlGroup("/", "/sys/fs/cgroup")
	if group == "" {
		t.Skip("pressure is not provoked: no control group of version 2 here")
	}
	if os.Getenv("TIPS_PROVOKE") == "" {
		t.Skipf("pressure is not provoked: it would limit all of %s; TIPS_PROVOKE=1 does", group)
	}
	high := filepath.Join(group, "memory.high")
	before, err := os.ReadFile(high)
	if err != nil {
		t.Skipf("pressure is not provoked: %v", err)
	}
	used, _, err := readGroup(group)
	if err != nil || used == 0 {
		t.Skipf("pressure is not provoked: the group tells no use (%v)", err)
	}
	if err := os.WriteFile(high, fmt.Append(nil, used+used/20), 0o644); err != nil {
		t.Skipf("pressure is not provoked: %v", err)
	}
	defer func() { _ = os.WriteFile(high, before, 0o644) }()
	if m, err = c.Step(); err != nil || !m.Changed {
		t.Errorf("with 95 %% of memory used: %+v (%v)", m, err)
	}
}

// TestRunEnds: a controller ends with its context, and with the first error.
func TestRunEnds(t *testing.T) {
	e := newEngine(t, Options{Measure: -1})
	w := newTree(t)
	c, err := NewMemoryController(e, MemoryOptions{Root: w.root, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without anything to read it ends with %v", err)
	}
	if len(e.limits.set) != 0 {
		t.Error("its limit is still there")
	}
	w.write("proc/pressure/memory", pressure(0))
	if c, err = NewMemoryController(e, MemoryOptions{Root: w.root, Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	time.Sleep(10 * time.Millisecond)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// FuzzSystem: files of /proc that are anything.
func FuzzSystem(f *testing.F) {
	f.Add(pressure(time.Second))
	f.Add("cpu 1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4\n")
	f.Add("1 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if avg10, total, err := parsePressure(text); err == nil && (!(avg10 >= 0 && avg10 <= 1) || total < 0) {
			t.Errorf("pressure %v, %v", avg10, total)
		}
		if c, err := parseStat(text); err == nil && (c.busy > c.total || c.processors < 1) {
			t.Errorf("times %+v", c)
		}
		_, _ = parseOwn(text)
	})
}
