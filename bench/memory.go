package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tips/internal/atomicfile"
	"tips/nn"
	"tips/onnx"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

const (
	memoryNetwork = "mobilenet_v2"
	memoryLimit   = 1.1
)

// memory measures processes that hold one or twelve subnetworks.
func memory(s settings) (table, error) {
	t := table{
		notes: []string{fmt.Sprintf("Resident memory of a process of its own for each, the median of seven, in MiB, without huge pages, with batch-norm statistics of its own for every subnetwork, after one inference of every subnetwork on one thread: mobilenet_v2 at 224×224 alone, and "+
			"with %d random subnetworks beside it, twelve in all. Anonymous is the part that is no file, such as the program itself and ONNX Runtime's library.", manySubnets-1)},
		columns: []string{"holding", "ours", "theirs", "ours anonymous", "theirs anonymous", "limit", holdsColumn},
	}
	dir, err := os.MkdirTemp("", "tips-bench-*")
	if err != nil {
		return table{}, err
	}
	defer os.RemoveAll(dir)
	set, err := loadNetwork(memoryNetwork, s.seed)
	if err != nil {
		return table{}, err
	}
	if err := set.Save(filepath.Join(dir, "set.safetensors")); err != nil {
		return table{}, err
	}
	subs, err := memorySubnets(set.Network, s.seed)
	if err != nil {
		return table{}, err
	}
	for i, sub := range subs {
		err := atomicfile.Write(modelFile(dir, i), func(w io.Writer) error { return onnx.Export(w, set, onnx.Options{Subnet: sub, Batch: 1}) })
		if err != nil {
			return table{}, err
		}
	}
	used := map[string]usage{}
	for _, count := range []int{0, 1, manySubnets} {
		for _, side := range []string{"ours", "theirs"} {
			u, err := typicalChild(side, count, dir, s)
			if err != nil {
				return table{}, err
			}
			used[side+strconv.Itoa(count)] = u
		}
	}
	mib := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
	row := func(name string, count int) {
		a, b := used["ours"+strconv.Itoa(count)], used["theirs"+strconv.Itoa(count)]
		t.add(name, mib(a.Resident), mib(b.Resident), mib(a.Anonymous), mib(b.Anonymous), "", "")
	}
	row("nothing yet", 0)
	row("the supernet", 1)
	row("twelve subnetworks", manySubnets)
	growth := func(side string, of func(usage) int64) float64 {
		return float64(of(used[side+strconv.Itoa(manySubnets)])) / float64(of(used[side+"1"]))
	}
	resident := func(u usage) int64 { return u.Resident }
	anonymous := func(u usage) int64 { return u.Anonymous }
	ours := growth("ours", resident)
	t.add("twelve / the supernet", fmt.Sprintf("%.3f", ours), fmt.Sprintf("%.3f", growth("theirs", resident)),
		fmt.Sprintf("%.3f", growth("ours", anonymous)), fmt.Sprintf("%.3f", growth("theirs", anonymous)), fmt.Sprintf("≤ %.1f", memoryLimit), verdict(ours <= memoryLimit))
	return t, nil
}

// memorySubnets are the whole network and random subnetworks of it.
func memorySubnets(n *supernet.Network, seed uint64) ([]supernet.Subnet, error) {
	subs, err := randomSubnets(n, manySubnets-1, seed)
	return append([]supernet.Subnet{{}}, subs...), err
}

func modelFile(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%d.onnx", i)) }

// usage is what a process takes, in bytes.
type usage struct {
	Resident, Anonymous int64
	Peak                int64 // of Resident
}

// childVerb makes this program measure itself; nobody types it.
const childVerb = "memory-child"

// typicalChild is the median of several processes: what a
// collector gives back is a matter of luck.
func typicalChild(side string, count int, dir string, s settings) (usage, error) {
	const processes = 7
	var all []usage
	for range processes {
		u, err := measureChild(side, count, dir, s)
		if err != nil {
			return usage{}, err
		}
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b usage) int { return cmp.Compare(a.Resident, b.Resident) })
	return all[processes/2], nil
}

func measureChild(side string, count int, dir string, s settings) (usage, error) {
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	c := exec.Command(self, childVerb, side, strconv.Itoa(count), dir, s.cache, strconv.FormatUint(s.seed, 10))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return usage{}, fmt.Errorf("%s with %d: %w", side, count, err)
	}
	var u usage
	return u, json.Unmarshal(out, &u)
}

// child holds the first count subnetworks on one side, runs each once, and prints
// its memory.
func child(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("%s takes 5 arguments and got %d", childVerb, len(args))
	}
	// Pages of 4 KiB: in huge ones, megabytes come and go with where things happen
	// to lie.
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("huge pages: %w", err)
	}
	side, dir, cache := args[0], args[2], args[3]
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		return err
	}
	hold := holdOurs
	if side == "theirs" {
		hold = func(dir string, count int, seed uint64) (func(), error) { return holdTheirs(dir, cache, count, seed) }
	}
	release, err := hold(dir, count, seed)
	if err != nil {
		return err
	}
	runtime.GC()
	debug.FreeOSMemory()
	u, err := ownUsage()
	if err != nil {
		return err
	}
	release()
	return json.NewEncoder(os.Stdout).Encode(u)
}

func holdOurs(dir string, count int, seed uint64) (func(), error) {
	if count == 0 {
		return func() {}, nil
	}
	set, err := weights.Open(filepath.Join(dir, "set.safetensors"), nil)
	if err != nil {
		return nil, err
	}
	model := nn.NewModel(set)
	n := set.Network
	subs, err := memorySubnets(n, seed)
	if err != nil {
		return nil, err
	}
	session := nn.NewSession(1)
	x := randomImages(n.Input(), 1, seed)
	var programs []*nn.Program
	for _, sub := range subs[:count] {
		p, err := model.Program(sub, n.Input(), 1, set.Statistics())
		if err != nil {
			return nil, err
		}
		session.Run(p, make([]float32, p.OutputLen()), x)
		programs = append(programs, p)
	}
	return func() {
		runtime.KeepAlive(model)
		runtime.KeepAlive(programs)
		runtime.KeepAlive(x)
		session.Close()
	}, nil
}

func holdTheirs(dir, cache string, count int, seed uint64) (func(), error) {
	if err := startPeer(peerLibrary(cache)); err != nil {
		return nil, err
	}
	if count == 0 {
		return func() {}, nil
	}
	n, err := zoo.New(memoryNetwork)
	if err != nil {
		return nil, err
	}
	subs, err := memorySubnets(n, seed)
	if err != nil {
		return nil, err
	}
	x := randomImages(n.Input(), 1, seed)
	var sessions []*theirs
	for i, sub := range subs[:count] {
		view, err := n.View(sub, n.Input())
		if err != nil {
			return nil, err
		}
		t, err := openFile(modelFile(dir, i), view, 1, 1)
		if err != nil {
			return nil, err
		}
		channelsFirst(t.in.GetData(), x, view.Input)
		if err := t.run(); err != nil {
			return nil, err
		}
		sessions = append(sessions, t)
	}
	return func() {
		for _, t := range sessions {
			t.close()
		}
	}, nil
}

// ownUsage reads what the kernel says of this process.
func ownUsage() (usage, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return usage{}, err
	}
	defer f.Close()
	var u usage
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(words[1], 10, 64) // only where it is a number
		switch words[0] {
		case "VmRSS:":
			u.Resident = kib << 10
		case "VmHWM:":
			u.Peak = kib << 10
		case "RssAnon:":
			u.Anonymous = kib << 10
		}
	}
	if u.Resident == 0 {
		return usage{}, fmt.Errorf("/proc/self/status tells no resident memory")
	}
	return u, nil
}
