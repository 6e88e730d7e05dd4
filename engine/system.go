package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memoryReading is what the system says about memory.
type memoryReading struct {
	used    float64       // part of the limit of the control group; 0 where there is none
	stalled time.Duration // time that some task waited for memory, ever
	stall10 float64       // part of the last ten seconds
}

// readMemory reads the control groups that this process is in, version 2, and the
// pressure of its own or of the machine. One of the two must be there.
func readMemory(root string) (memoryReading, error) {
	var r memoryReading
	top := filepath.Join(root, "sys/fs/cgroup")
	group := controlGroup(root, top)
	limited := false
	// The limits of all groups hold; what counts is the one that is nearest.
	for dir := group; dir != ""; dir = filepath.Dir(dir) {
		used, limit, err := readGroup(dir)
		if err != nil {
			return r, err
		}
		if limit > 0 {
			limited = true
			r.used = max(r.used, float64(used)/float64(limit))
		}
		if dir == top {
			break
		}
	}
	var pressure string
	err := fs.ErrNotExist
	if group != "" {
		pressure, err = readFile(filepath.Join(group, "memory.pressure"))
	}
	if err != nil {
		pressure, err = readFile(filepath.Join(root, "proc/pressure/memory"))
	}
	if err != nil {
		if limited {
			return r, nil // the kernel may be built without
		}
		return r, fmt.Errorf("neither a limited control group of version 2 nor pressure stall information: %w", err)
	}
	r.stall10, r.stalled, err = parsePressure(pressure)
	return r, err
}

// controlGroup is the folder of the process's control group of version 2; empty
// where there is none.
func controlGroup(root, top string) string {
	if !exists(filepath.Join(top, "cgroup.controllers")) {
		return "" // version 1, or a mixture in which version 2 controls nothing
	}
	text, err := readFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			// Within a container the path may be the host's, and the container's group is
			// what lies at the top. Join keeps a path with dots from leaving it.
			if dir := filepath.Join(top, filepath.Join("/", path)); exists(filepath.Join(dir, "memory.current")) {
				return dir
			}
			return top
		}
	}
	return ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// readGroup reads what a group uses, less what the kernel drops first when memory
// gets short, and the least of its limits, 0 where it has none.
func readGroup(dir string) (used, limit int64, err error) {
	text, err := readFile(filepath.Join(dir, "memory.current"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil // the group at the top has none
	}
	if err != nil {
		return 0, 0, err
	}
	if used, err = parseInt("memory.current", text); err != nil {
		return 0, 0, err
	}
	for _, name := range []string{"memory.high", "memory.max"} {
		text, err := readFile(filepath.Join(dir, name))
		if err != nil || strings.TrimSpace(text) == "max" {
			continue
		}
		v, err := parseInt(name, text)
		if err != nil {
			return 0, 0, err
		}
		if limit == 0 || v < limit {
			limit = max(v, 1)
		}
	}
	if text, err := readFile(filepath.Join(dir, "memory.stat")); err == nil {
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "inactive_file "); ok {
				v, err := parseInt("memory.stat: inactive_file", value)
				if err != nil {
					return 0, 0, err
				}
				used = max(0, used-v)
			}
		}
	}
	return used, limit, nil
}

// parsePressure reads the line of pressure stall information about some task.
func parsePressure(text string) (avg10 float64, total time.Duration, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		seen := 0
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "avg10":
				v, err := strconv.ParseFloat(value, 64)
				if err != nil || !(v >= 0 && v <= 100) {
					return 0, 0, fmt.Errorf("pressure avg10=%.20q; want a percentage", value)
				}
				avg10 = v / 100
				seen++
			case "total":
				v, err := parseInt("pressure total", value)
				if err != nil {
					return 0, 0, err
				}
				total = time.Duration(v) * time.Microsecond
				seen++
			}
		}
		if seen == 2 {
			return avg10, total, nil
		}
	}
	return 0, 0, fmt.Errorf("pressure stall information %.60q; want a line of some, avg10 and total", text)
}

// cpuTimes are ticks since the machine was started, and clocks as parts of the
// highest.
type cpuTimes struct {
	total, busy uint64 // of all processors
	own         uint64 // of this process
	processors  int
	clock       float64 // at the moment, on average
	clockLimit  float64 // that the system has set
}

func readCPU(root string) (cpuTimes, error) {
	text, err := readFile(filepath.Join(root, "proc/stat"))
	if err != nil {
		return cpuTimes{}, err
	}
	t, err := parseStat(text)
	if err != nil {
		return cpuTimes{}, err
	}
	if text, err = readFile(filepath.Join(root, "proc/self/stat")); err != nil {
		return cpuTimes{}, err
	}
	if t.own, err = parseOwn(text); err != nil {
		return cpuTimes{}, err
	}
	t.clock, t.clockLimit = readClocks(root)
	return t, nil
}

// parseStat reads /proc/stat: a line of times of all processors together, then one
// for each.
func parseStat(text string) (cpuTimes, error) {
	var t cpuTimes
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			t.processors++
			continue
		}
		// user nice system idle iowait irq softirq steal; guests are in user.
		if len(fields) < 5 {
			return t, fmt.Errorf("/proc/stat has %.60q; want times of processors", line)
		}
		for i, field := range fields[1:min(len(fields), 9)] {
			v, err := strconv.ParseUint(field, 10, 56)
			if err != nil {
				return t, fmt.Errorf("/proc/stat has %.60q; want times of processors", line)
			}
			t.total += v
			if i != 3 && i != 4 {
				t.busy += v
			}
		}
	}
	if t.total == 0 || t.processors == 0 {
		return t, fmt.Errorf("/proc/stat has no times of processors")
	}
	return t, nil
}

// parseOwn reads the times of a process from /proc/self/stat. The name in brackets
// may hold anything; utime and stime are the 14th and 15th fields, the 12th and
// 13th after it.
func parseOwn(text string) (uint64, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/self/stat is %.60q; want times of the process", text)
	}
	user, err := strconv.ParseUint(fields[11], 10, 56)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/stat is %.60q; want times of the process", text)
	}
	system, err := strconv.ParseUint(fields[12], 10, 56)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/stat is %.60q; want times of the process", text)
	}
	return user + system, nil
}

// readClocks averages over the processors that tell their clock; 1 where none does.
func readClocks(root string) (clock, limit float64) {
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq"))
	n := 0.0
	for _, dir := range dirs {
		var v [3]int64
		ok := true
		for i, name := range []string{"cpuinfo_max_freq", "scaling_cur_freq", "scaling_max_freq"} {
			text, err := readFile(filepath.Join(dir, name))
			if err == nil {
				v[i], err = parseInt(name, text)
			}
			ok = ok && err == nil && v[i] > 0
		}
		if ok {
			n++
			clock += min(1, float64(v[1])/float64(v[0]))
			limit += min(1, float64(v[2])/float64(v[0]))
		}
	}
	if n == 0 {
		return 1, 1
	}
	return clock / n, limit / n
}

func parseInt(what, text string) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%s is %.30q; want a number", what, strings.TrimSpace(text))
	}
	return v, nil
}

// readFile reads a small file of /proc or /sys.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(data), err
}
