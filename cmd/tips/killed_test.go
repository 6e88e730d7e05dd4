package main

import (
	"bytes"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tips/weights"
)

// victim is a command that is killed, and what must hold of what it leaves.
type victim struct {
	name string
	args []string // in the folder of fixture; new is what it writes
	// again runs it in the same folder after each kill, as a command that goes on
	// does; otherwise what it left is removed.
	again bool
	// read is a later command that reads what it left; empty for none.
	read []string
	// check holds what is there to what an undisturbed command writes.
	check func(t *testing.T, want, got string)
}

func victims() []victim {
	quick := []string{"--threads", "1"}
	return []victim{
		{
			name: "train", args: append([]string{"train", "long.yaml", "--out", "new"}, quick...), again: true,
			read: []string{"search", "new", "--threads", "1", "--evaluations", "2", "--strategy", "random", "--fresh", "--out", "scratch"},
			check: func(t *testing.T, want, got string) {
				sameIfThere(t, filepath.Join(want, "weights.safetensors"), filepath.Join(got, "weights.safetensors"))
				sameIfThere(t, filepath.Join(want, "network.json"), filepath.Join(got, "network.json"))
			},
		},
		{
			name: "search", args: append([]string{"search", "run", "--evaluations", "40", "--out", "new"}, quick...), again: true,
			read: []string{"run", "boot.png", "--weights", "run/weights.safetensors", "--frontier", "new/net.frontier"},
		},
		{
			name: "eval", args: append([]string{"eval", "run", "--frontier", "run/net.frontier", "--calibration", "192", "--cache", "new", "--json"}, quick...), again: true,
			read: append([]string{"eval", "run", "--subnet", "full", "--cache", "new"}, quick...),
		},
		{
			name: "profile", args: []string{"profile", "run/network.json", "--subnets", "6", "--runs", "4", "--check", "4", "--time", "100ms", "--out", "new"},
			read: []string{"search", "run", "--latency", "new", "--by", "latency", "--threads", "1", "--evaluations", "2", "--fresh", "--out", "scratch"},
		},
		{
			name: "export --onnx", args: []string{"export", "--weights", "colour.safetensors", "--onnx", "new"}, check: sameIfThere,
		},
		{
			name: "export --safetensors", args: []string{"export", "--weights", "colour.safetensors", "--safetensors", "new"},
			read: []string{"export", "--weights", "new", "--onnx", "scratch.onnx"},
			check: func(t *testing.T, want, got string) {
				sameIfThere(t, want, got)
				if _, err := os.Stat(got); err != nil {
					return
				}
				if _, err := weights.Open(got, nil); err != nil {
					t.Error(err)
				}
			},
		},
		{name: "export --go", args: []string{"export", "run", "--go", "new"}, check: sameTree},
		{
			name: "reproduce", args: []string{"reproduce", "fig6", "--model", "mlp", "--paths", "3", "--out", "new"},
			check: func(t *testing.T, want, got string) {
				sameIfThere(t, filepath.Join(want, "fig6.csv"), filepath.Join(got, "fig6.csv"))
				sameIfThere(t, filepath.Join(want, "fig6.svg"), filepath.Join(got, "fig6.svg"))
				if data, err := os.ReadFile(filepath.Join(got, "fig6.png")); err == nil {
					if _, err := png.Decode(bytes.NewReader(data)); err != nil {
						t.Error(err)
					}
				}
			},
		},
	}
}

// TestKilledAnywhere kills commands with SIGKILL at random moments: whoever reads what
// they left finds it whole, or finds that it is missing, and says so. TIPS_SOAK=1m, say,
// goes on for as long.
func TestKilledAnywhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs SIGKILL")
	}
	if testing.Short() {
		t.Skip("kills commands, many times")
	}
	tips := ownProgram(t)
	long := time.Duration(0)
	if soak := os.Getenv("TIPS_SOAK"); soak != "" {
		var err error
		if long, err = time.ParseDuration(soak); err != nil {
			t.Fatalf("TIPS_SOAK: %v", err)
		}
	}
	const attempts = 5
	const patience = 4 * time.Second // with a slow machine, for each victim
	dir := fixture(t, tips)
	recipe, err := os.ReadFile(filepath.Join(dir, "run.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	recipe = append(bytes.Replace(recipe, []byte("epochs: 1\n"), []byte("epochs: 8\n"), 1), "checkpoint: {steps: 2}\n"...)
	if err := os.WriteFile(filepath.Join(dir, "long.yaml"), recipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			got, want := filepath.Join(dir, "new"), filepath.Join(dir, "whole")
			remove(t, got, want)

			// How long it takes, and what it writes, if nobody kills it.
			began := time.Now()
			if o := tipsIn(t, tips, dir, v.args...); o.status != 0 {
				t.Fatalf("status %d: %s", o.status, o.stderr)
			}
			length := time.Since(began)
			if err := os.Rename(got, want); err != nil {
				t.Fatal(err)
			}
			kills := 0
			share := long / time.Duration(len(victims()))
			for i := 0; i < attempts && (i == 0 || time.Since(began) < patience) || time.Since(began) < share; i++ {
				if !v.again {
					remove(t, got)
				}
				// Anywhere, or near the end, where most commands write.
				moment := 1.05 * rng.Float64()
				if !v.again && i%2 == 1 {
					moment = 0.7 + 0.3*rng.Float64()
				}
				if killed(t, tips, dir, v.args, time.Duration(moment*float64(length))) {
					kills++
				} else {
					remove(t, got) // it was over, and there is nothing to go on with
				}
				if v.check != nil {
					v.check(t, want, got)
				}
				v.reader(t, tips, dir)
			}
			t.Logf("killed %d times within %v", kills, length)
			// It can still do what it was to do.
			if !v.again {
				remove(t, got)
			}
			if o := tipsIn(t, tips, dir, v.args...); o.status != 0 {
				t.Fatalf("after %d kills: status %d: %s", kills, o.status, o.stderr)
			}
			if v.check != nil {
				v.check(t, want, got)
			}
		})
	}
}

// reader runs the command that reads: it succeeds, or says in one line that there is
// nothing. No other complaint will do.
func (v victim) reader(t *testing.T, tips, dir string) {
	t.Helper()
	if len(v.read) == 0 {
		return
	}
	o := tipsIn(t, tips, dir, v.read...)
	if o.status == 0 {
		return
	}
	wantOneLine(t, missing, o)
	if !strings.Contains(o.stderr, "no such file") && !strings.Contains(o.stderr, "is missing") && !strings.Contains(o.stderr, "is not there") {
		t.Errorf("tips %q complains about what a killed command left: %s", v.read, o.stderr)
	}
}

// killed starts a command and kills it after a while; it tells whether the command
// was killed, and not over before.
func killed(t *testing.T, tips, dir string, args []string, after time.Duration) bool {
	t.Helper()
	cmd := exec.Command(tips, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if err != nil && cmd.ProcessState.ExitCode() != -1 { // not by a signal
		t.Errorf("tips %q: %v: %s", args, err, &stderr)
	}
	return err != nil
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

// sameIfThere wants a file to be as another, or not to be.
func sameIfThere(t *testing.T, want, got string) {
	t.Helper()
	a, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(got)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s has %d bytes and is not what an undisturbed command writes, %d bytes", got, len(b), len(a))
	}
}

// sameTree wants a folder to hold the files that another does, or not to be. Names
// of the folder itself may stand in the files.
func sameTree(t *testing.T, want, got string) {
	t.Helper()
	if _, err := os.Stat(got); os.IsNotExist(err) {
		return
	}
	a, b := files(t, want), files(t, got)
	for name := range a {
		if len(a[name]) != len(b[name]) {
			t.Errorf("%s has %d bytes in %s; want %d", name, len(b[name]), got, len(a[name]))
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s has %d files; want %d", got, len(b), len(a))
	}
}
