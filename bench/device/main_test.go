//go:build xla

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tips/supernet"
	"tips/supernet/zoo"
)

// counted is a side that counts.
type counted struct{ turns []int }

func (c *counted) step(count int) ([]float64, error) {
	c.turns = append(c.turns, count)
	return make([]float64, count), nil
}

func (c *counted) close() error { return nil }

// TestTakeTurns: as many steps as asked for, whatever the rounds.
func TestTakeTurns(t *testing.T) {
	for _, c := range []struct {
		steps, rounds int
		want          []int
	}{{50, 5, []int{10, 10, 10, 10, 10}}, {10, 4, []int{2, 3, 2, 3}}, {7, 1, []int{7}}, {2, 3, []int{0, 1, 1}}} {
		var a, b counted
		times, err := takeTurns([]side{&a, nil, &b}, c.steps, c.rounds)
		if err != nil {
			t.Fatal(err)
		}
		if len(times[0]) != c.steps || len(times[1]) != 0 || len(times[2]) != c.steps {
			t.Errorf("%d steps in %d rounds: %d, %d and %d", c.steps, c.rounds, len(times[0]), len(times[1]), len(times[2]))
		}
		if !slices.Equal(a.turns, c.want) || !slices.Equal(b.turns, c.want) {
			t.Errorf("%d steps in %d rounds: turns of %d and %d; want %d", c.steps, c.rounds, a.turns, b.turns, c.want)
		}
	}
}

// TestTorchEnvironment: what a device does to our environment does not reach PyTorch.
func TestTorchEnvironment(t *testing.T) {
	folder := t.TempDir()
	s := settings{python: filepath.Join(folder, "python"), batch: 2, environment: []string{"LANG=C"}}
	const script = "#!/bin/sh\necho ready\nread line\necho ${NVIDIA_TF32_OVERRIDE-1.5}\n"
	if err := os.WriteFile(s.python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NVIDIA_TF32_OVERRIDE", "0")
	n, err := zoo.New("mlp:depth=2,width=8,inputs=4,classes=2")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newTorch(s, n, [][]supernet.Subnet{{{}}}, "tf32", folder)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if got, err := p.step(1); err != nil || !slices.Equal(got, []float64{1.5}) {
		t.Errorf("%v, %v; want PyTorch without the variable", got, err)
	}
}

// TestPrecisions: what cannot be in one process is refused before anything is timed.
func TestPrecisions(t *testing.T) {
	for _, list := range []string{"bf16 float32", "float32 tf32"} {
		if err := run(settings{device: "go", precisions: list}); err == nil {
			t.Errorf("%s is no error", list)
		}
	}
	if err := run(settings{device: "go", precisions: "float32"}); err != nil {
		t.Error(err)
	}
}
