//go:build xla

// Command device holds a training step on an accelerator against the same step in
// PyTorch on that accelerator, taking turns: the whole network and three random
// subnetworks, cross-entropy and distillation, SGD with momentum.
//
//	cd bench && go run -tags xla ./device
//
// It prints JSON: milliseconds a step, median of as many as -steps says, for each
// network, precision and side. It needs a plugin of XLA, as tips --device xla does,
// and for PyTorch's side a python3 on the PATH that has torch.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tips/accel"
	"tips/bench/torchnet"
	"tips/dataset"
	"tips/sampling"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

//go:embed torch_masked.py
var script []byte

type settings struct {
	device, precisions, peer, networks, python string
	batch, steps, warm, rounds                 int
	environment                                []string // PyTorch's: devices change ours
}

// result is a row of the comparison.
type result struct {
	Network      string  `json:"network"`
	Side         string  `json:"side"` // tips or torch
	Precision    string  `json:"precision"`
	Milliseconds float64 `json:"ms"` // a step, median
	Fastest      float64 `json:"fastest_ms"`
	Slowest      float64 `json:"slowest_ms"`
	Steps        int     `json:"steps"`
	Start        float64 `json:"start_s"` // until the first step was done; sides start one after the other
	Failure      string  `json:"failure,omitempty"`
}

func main() {
	var s settings
	flag.StringVar(&s.device, "device", accel.XLAName, "as tips train takes it")
	flag.StringVar(&s.networks, "networks", "mobilenet_v2:width=1.4,data=cifar100 resnet34:data=cifar100", "networks of the zoo, separated by spaces")
	flag.StringVar(&s.precisions, "precisions", "bf16", "ours, separated by spaces; float32 goes with no other")
	flag.StringVar(&s.peer, "peer", "bf16 tf32", "PyTorch's, each beside each of ours")
	flag.StringVar(&s.python, "python", "python3", "that has torch; empty leaves its side out")
	flag.IntVar(&s.batch, "batch", 256, "images a step")
	flag.IntVar(&s.steps, "steps", 50, "that are timed")
	flag.IntVar(&s.warm, "warm", 10, "that are not, before them")
	flag.IntVar(&s.rounds, "rounds", 5, "turns that the steps are divided among")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "device:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	precisions := strings.Fields(s.precisions)
	for _, p := range precisions {
		if (p == string(accel.Float32)) != (precisions[0] == string(accel.Float32)) { // refused now, not after the first of them was timed
			return fmt.Errorf("precisions %q; want %s apart from others, each in a run of its own", s.precisions, accel.Float32)
		}
	}
	if err := accel.Prepare(s.device); err != nil {
		return err
	}
	s.environment = os.Environ()
	folder, err := os.MkdirTemp("", "tips-device")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.WriteFile(filepath.Join(folder, "torch_masked.py"), script, 0o644); err != nil {
		return err
	}
	report := struct {
		Device  string   `json:"device"`
		Torch   string   `json:"torch"`
		Batch   int      `json:"batch"`
		Results []result `json:"results"`
	}{Batch: s.batch}
	if s.python != "" {
		out, err := exec.Command(s.python, filepath.Join(folder, "torch_masked.py"), "version").Output()
		report.Torch = strings.TrimSpace(string(out))
		if err != nil {
			report.Torch, s.python = "not at hand: "+err.Error(), ""
		}
	}
	for _, reference := range strings.Fields(s.networks) {
		n, err := zoo.New(reference)
		if err != nil {
			return err
		}
		for _, precision := range precisions {
			device, err := accel.Open(s.device, accel.Options{Precision: accel.Precision(precision)})
			if err != nil {
				return err
			}
			report.Device = device.Description()
			rows, err := compare(s, device, n, precision, folder)
			device.Close()
			if err != nil {
				return err
			}
			report.Results = append(report.Results, rows...)
			for _, r := range rows {
				fmt.Fprintf(os.Stderr, "%s %s %s: %.2f ms %s\n", r.Network, r.Side, r.Precision, r.Milliseconds, r.Failure)
			}
		}
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// side takes steps, and gives the seconds of each.
type side interface {
	step(count int) ([]float64, error)
	close() error
}

func compare(s settings, d *accel.Device, n *supernet.Network, precision, folder string) ([]result, error) {
	steps := draw(n, 20)
	begun := time.Now()
	// Python takes its time to start: it does so while our program is compiled.
	rows, sides := []result{{Side: "tips", Precision: precision}}, []side{nil}
	if s.python != "" {
		for _, p := range strings.Fields(s.peer) {
			t, err := newTorch(s, n, steps, p, folder)
			if err != nil {
				return nil, err
			}
			defer t.close()
			rows, sides = append(rows, result{Side: "torch", Precision: p}), append(sides, t)
		}
	}
	o, err := newOurs(d, n, steps, s.batch)
	if err != nil {
		return nil, err
	}
	defer o.close()
	sides[0] = o
	for i, one := range sides {
		rows[i].Network = n.Name()
		if _, err := one.step(1); err != nil {
			rows[i].Failure, sides[i] = err.Error(), nil
			continue
		}
		rows[i].Start = time.Since(begun).Seconds()
		if _, err := one.step(s.warm); err != nil {
			return nil, err
		}
	}
	times, err := takeTurns(sides, s.steps, s.rounds)
	if err != nil {
		return nil, err
	}
	for i, t := range times {
		if len(t) > 0 {
			slices.Sort(t)
			rows[i].Steps = len(t)
			rows[i].Milliseconds, rows[i].Fastest, rows[i].Slowest = 1e3*t[len(t)/2], 1e3*t[0], 1e3*t[len(t)-1]
		}
	}
	return rows, nil
}

// takeTurns times steps of all sides, in rounds. A side that is nil takes none.
func takeTurns(sides []side, steps, rounds int) ([][]float64, error) {
	times := make([][]float64, len(sides))
	for r := range rounds {
		for i, one := range sides {
			if one == nil {
				continue
			}
			more, err := one.step(steps*(r+1)/rounds - steps*r/rounds)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], more...)
		}
	}
	return times, nil
}

// draw draws the subnetworks of steps, three for each.
func draw(n *supernet.Network, steps int) [][]supernet.Subnet {
	rng := rand.New(rand.NewPCG(1, 1))
	sampler := sampling.PerGroup(n)
	list := make([][]supernet.Subnet, steps)
	for i := range list {
		list[i] = append(list[i], supernet.Subnet{})
		for range 3 {
			list[i] = append(list[i], sampler.Draw(rng))
		}
	}
	return list
}

// ours is a training step of tips.
type ours struct {
	executor train.Executor
	batches  []*dataset.Batch
	subnets  [][]supernet.Subnet
	at       int
}

func newOurs(d *accel.Device, n *supernet.Network, subnets [][]supernet.Subnet, batch int) (*ours, error) {
	x, err := d.NewExecutor(train.Settings{Network: n, Update: train.Update{Momentum: 0.9, WeightDecay: 5e-5}})
	if err != nil {
		return nil, err
	}
	o := &ours{executor: x, subnets: subnets}
	rng := rand.New(rand.NewPCG(2, 2))
	classes := n.Full().Ops[len(n.Ops())-1].Out.Channels
	for range 4 {
		b := &dataset.Batch{N: batch, Images: make([]float32, batch*int(n.Input().Elements())), Labels: make([]int32, batch)}
		for i := range b.Images {
			b.Images[i] = float32(rng.NormFloat64())
		}
		for i := range b.Labels {
			b.Labels[i] = int32(rng.IntN(classes))
		}
		o.batches = append(o.batches, b)
	}
	return o, x.Restore(train.NewState(weights.Random(n, 1), false))
}

func (o *ours) step(count int) ([]float64, error) {
	var seconds []float64
	for range count {
		next := o.batches[(o.at+1)%len(o.batches)]
		s := train.Step{Batch: o.batches[o.at%len(o.batches)], Rate: 0.01, Next: func() *dataset.Batch { return next }}
		for i, sub := range o.subnets[o.at%len(o.subnets)] {
			l := method.Lesson{Subnet: sub, Label: 1}
			if i > 0 {
				l.Soft, l.Teachers = 1, []method.Teacher{{Source: method.Live}}
			}
			s.Lessons = append(s.Lessons, l)
		}
		o.at++
		start := time.Now()
		if _, err := o.executor.Step(context.Background(), s); err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return seconds, nil
}

func (o *ours) close() error { return o.executor.Close() }

// torch is the step in a process of Python.
type torch struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	ready   bool
}

func newTorch(s settings, n *supernet.Network, subnets [][]supernet.Subnet, precision, folder string) (*torch, error) {
	full, in := n.Full(), n.Input()
	program := struct {
		Batch    int           `json:"batch"`
		Channels int           `json:"channels"`
		Height   int           `json:"height"`
		Width    int           `json:"width"`
		Classes  int           `json:"classes"`
		Ops      []torchnet.Op `json:"ops"`
		Steps    [][][]int     `json:"steps"` // channels by step, network and operation
	}{Batch: s.batch, Channels: in.Channels, Height: in.Height, Width: in.Width, Classes: full.Ops[len(full.Ops)-1].Out.Channels}
	var err error
	if program.Ops, _, err = torchnet.Ops(n, supernet.Subnet{}); err != nil {
		return nil, err
	}
	for _, step := range subnets {
		var networks [][]int
		for _, sub := range step {
			view, err := n.View(sub, in)
			if err != nil {
				return nil, err
			}
			widths := make([]int, len(view.Ops))
			for i, o := range view.Ops {
				widths[i] = o.Out.Channels
			}
			networks = append(networks, widths)
		}
		program.Steps = append(program.Steps, networks)
	}
	text, err := json.Marshal(program)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "program-"+precision+".json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	t := &torch{command: exec.Command(s.python, filepath.Join(folder, "torch_masked.py"), "time", file, precision)}
	t.command.Stderr, t.command.Env = os.Stderr, s.environment
	if t.in, err = t.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	if err := t.command.Start(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *torch) step(count int) ([]float64, error) {
	if !t.ready {
		if line, err := t.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
			return nil, errors.Join(fmt.Errorf("torch_masked.py said %q instead of ready", line), err)
		}
		t.ready = true
	}
	if _, err := fmt.Fprintf(t.in, "step %d\n", count); err != nil {
		return nil, err
	}
	line, err := t.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var seconds []float64
	for word := range strings.FieldsSeq(line) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, fmt.Errorf("torch_masked.py said %q", line)
		}
		seconds = append(seconds, v)
	}
	return seconds, nil
}

func (t *torch) close() error {
	err := t.in.Close()
	return errors.Join(err, t.command.Wait())
}
