package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// torchPackage is the Debian package that the peer of training comes with, and
// torchVersion the version that limits are held against.
const (
	torchPackage = "python3-torch"
	torchVersion = "1.13"
)

//go:embed torch_step.py
var torchScript []byte

// errNoTorch is wrapped where PyTorch is missing.
var errNoTorch = errors.New("PyTorch is not at hand")

// findTorch gives the version of PyTorch. It is installed as a Debian package, which
// is large, so that nobody gets it unasked.
func findTorch() (string, error) {
	out, err := exec.Command(python, "-c", "import torch; print(torch.__version__)").Output()
	version := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: apt-get install %s brings it to %s", errNoTorch, torchPackage, python)
	case !strings.HasPrefix(version, torchVersion+"."):
		return "", fmt.Errorf("%w: %s has %s; the comparison is with %s", errNoTorch, python, version, torchVersion)
	}
	return version, nil
}

// torchWay is one of the ways to run a step in PyTorch.
type torchWay struct {
	layout  string   // of maps and weights
	slices  string   // how a subnetwork takes its part of a weight
	threads int      // 0 is one
	double  bool     // compute in float64
	env     []string // set for the process
}

// tunedMalloc has the C library keep what is freed for what is allocated next.
// PyTorch gives maps back after every step, and the system clears their pages again
// each time.
var tunedMalloc = []string{"MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592"}

func (w torchWay) String() string {
	return strings.ReplaceAll(w.layout, "_", " ") + ", " + w.slices
}

// command runs torch_step.py on the exercise in a folder.
func (w torchWay) command(mode, dir string, more ...string) (*exec.Cmd, error) {
	script := filepath.Join(dir, "torch_step.py")
	if err := os.WriteFile(script, torchScript, 0o644); err != nil {
		return nil, err
	}
	args := []string{script, mode, filepath.Join(dir, programFile), filepath.Join(dir, weightsFile), filepath.Join(dir, imagesFile)}
	args = append(args, more...)
	args = append(args, "--layout", w.layout, "--slices", w.slices, "--threads", strconv.Itoa(max(w.threads, 1)))
	if w.double {
		args = append(args, "--float64")
	}
	c := exec.Command(python, args...)
	c.Env = append(os.Environ(), w.env...)
	c.Stderr = os.Stderr
	return c, nil
}

// torchStep is what PyTorch found in one step, apart from gradients and weights.
type torchStep struct {
	Losses     []float64                        `json:"losses"` // by network
	Logits     [][]float64                      `json:"logits"`
	Statistics []map[string]torchNormStatistics `json:"statistics"` // by network and operation
}

type torchNormStatistics struct {
	Mean     []float64 `json:"mean"`
	Variance []float64 `json:"variance"`
}

// steps runs all steps of an exercise and leaves gradients and weights in a folder.
func (w torchWay) steps(dir, out string) ([]torchStep, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	c, err := w.command("steps", dir, out)
	if err != nil {
		return nil, err
	}
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("torch_step.py: %w", err)
	}
	var found []torchStep
	return found, json.Unmarshal(text, &found)
}

// footprint is what a process that only learns takes, in bytes.
type footprint struct {
	Before int64 `json:"before"` // resident, before the first step
	Peak   int64 `json:"peak"`   // the most during all steps
}

// memory measures a process that runs some steps.
func (w torchWay) memory(dir string, steps int) (footprint, error) {
	c, err := w.command("memory", dir, strconv.Itoa(steps))
	if err != nil {
		return footprint{}, err
	}
	text, err := c.Output()
	if err != nil {
		return footprint{}, fmt.Errorf("torch_step.py: %w", err)
	}
	var f footprint
	return f, json.Unmarshal(text, &f)
}

// torchServer is a process that runs steps when it is told to, so that sides can
// take turns.
type torchServer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	losses []float64 // of the last step
}

func (w torchWay) serve(dir string) (*torchServer, error) {
	c, err := w.command("time", dir)
	if err != nil {
		return nil, err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	s := &torchServer{cmd: c, in: in, out: bufio.NewReader(out)}
	line, err := s.out.ReadString('\n')
	if err == nil && line != "ready\n" {
		err = fmt.Errorf("it says %q; want ready", line)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("torch_step.py: %w", err)
	}
	return s, nil
}

// step runs one step.
func (s *torchServer) step() error {
	if _, err := io.WriteString(s.in, "step 1\n"); err != nil {
		return fmt.Errorf("torch_step.py: %w", err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("torch_step.py: %w", err)
	}
	var numbers []float64
	for word := range strings.FieldsSeq(line) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("torch_step.py says %q; want seconds and losses", line)
		}
		numbers = append(numbers, v)
	}
	if len(numbers) < 2 {
		return fmt.Errorf("torch_step.py says %q; want seconds and losses", line)
	}
	s.losses = numbers[1:]
	return nil
}

// side is the server as one of those compared.
func (s *torchServer) side() side {
	return side{run: s.step, process: strconv.Itoa(s.cmd.Process.Pid)}
}

// close ends the process.
func (s *torchServer) close() {
	s.in.Close()
	s.cmd.Wait()
}
