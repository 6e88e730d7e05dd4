package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tips/accel"
	"tips/frontier"
	"tips/internal/folder"
	"tips/supernet"
)

const searchRecipe = `version: 2
name: small
network: mlp:depth=8,width=32,inputs=64,min=0.25,divisor=4
data: synthetic:train=224,test=32,size=8
holdout: 32
epochs: 1
batch: 32
sgd: {rate: 0.05}
evaluate: {subnets: [full], calibration: 64}
`

// TestTogether: threads say how many subnetworks are judged at once on the processor,
// and nothing of a device.
func TestTogether(t *testing.T) {
	for _, c := range []struct {
		threads int
		device  *accel.Device
		want    int
	}{{1, nil, 1}, {2, nil, 2}, {64, nil, 8}, {2, &accel.Device{}, 8}, {64, &accel.Device{}, 8}} {
		if o := (judgingFlags{threads: c.threads, device: c.device}); o.together() != c.want {
			t.Errorf("%d threads, a device %v: %d; want %d", c.threads, c.device != nil, o.together(), c.want)
		}
	}
}

// trainedRun makes the program and a small training run in a folder, for tests that
// send signals.
func trainedRun(t *testing.T) (dir, tips, run string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tips = filepath.Join(dir, "tips") // the test's own program is tips if it is called so
	if err := os.Symlink(self, tips); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "small.yaml"), []byte(searchRecipe), 0o644); err != nil {
		t.Fatal(err)
	}
	run = filepath.Join(dir, "run")
	if out, err := exec.Command(tips, "train", filepath.Join(dir, "small.yaml"), "--threads", "1", "--out", run).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir, tips, run
}

// TestSearchInterrupted: killed or interrupted at any moment, a search leaves a
// frontier that can be read, and goes on to what it would have found.
func TestSearchInterrupted(t *testing.T) {
	dir, tips, run := trainedRun(t)
	command := func(out string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		cmd := exec.Command(tips, "search", run, "--threads", "1", "--evaluations", "90", "--out", filepath.Join(dir, out), "--cache", filepath.Join(dir, out+".cache"), "--json")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		return cmd, &stdout, &stderr
	}
	whole, want, stderr := command("whole")
	if err := whole.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}

	// A folder that another search saves to is left alone.
	lock, err := folder.Lock(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	second, _, stderr := command("whole")
	if err := second.Run(); second.ProcessState.ExitCode() != exitFailure || !strings.Contains(stderr.String(), "another run or search is under way in "+filepath.Join(dir, "whole")) {
		t.Errorf("a second search in a folder: %v: %s", err, stderr)
	}
	lock.Close()

	part := filepath.Join(dir, "part")
	judged := func() int {
		text, _ := os.ReadFile(filepath.Join(part, searchState))
		return strings.Count(string(text), "\n") - 1
	}
	for _, stop := range []struct {
		after  int
		signal os.Signal
	}{{3, os.Kill}, {20, syscall.SIGINT}, {50, os.Kill}} {
		cmd, _, stderr := command("part")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); judged() < stop.after; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				cmd.Process.Kill()
				t.Fatalf("%d evaluations in a minute; stderr: %s", judged(), stderr)
			}
		}
		if err := cmd.Process.Signal(stop.signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if err == nil {
			t.Log("the search was over before the signal came")
			continue
		}
		if stop.signal == syscall.SIGINT && (cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(stderr.String(), "run the same command again")) {
			t.Errorf("exit status %d; want %d; stderr: %s", cmd.ProcessState.ExitCode(), exitInterrupted, stderr)
		}
		f, err := os.Open(filepath.Join(run, "network.json"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := supernet.Read(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		so, err := frontier.Open(filepath.Join(part, frontierFile), n)
		if err != nil {
			t.Fatalf("after %v: %v", stop.signal, err)
		}
		for _, p := range so.Points {
			if p.Statistics == nil {
				t.Errorf("after %v: %s has no statistics", stop.signal, p.Subnet)
			}
		}
	}
	last, got, stderr := command("part")
	if err := last.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-uninterrupted +resumed):\n%s", diff)
	}
	a, err := os.ReadFile(filepath.Join(dir, "whole", frontierFile))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(part, frontierFile))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("the frontier files differ: %d and %d bytes (%v)", len(a), len(b), err)
	}
}
