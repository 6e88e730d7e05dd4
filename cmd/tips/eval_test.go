package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUnwritable: runs of others, and those on a medium that is read-only, can be judged.
func TestUnwritable(t *testing.T) {
	for err, want := range map[error]bool{
		&os.PathError{Op: "open", Path: "judged.cache", Err: syscall.EACCES}: true,
		fmt.Errorf("cache judged.cache: %w", syscall.EROFS):                  true,
		fmt.Errorf("cache judged.cache: %w", syscall.ENOSPC):                 false,
		nil: false,
	} {
		if got := unwritable(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestEvalInterrupted: killed or interrupted at any moment, what was judged is there
// and not judged again, and the results are those of a run that nobody stopped.
func TestEvalInterrupted(t *testing.T) {
	dir, tips, run := trainedRun(t)
	var list strings.Builder
	rng := rand.New(rand.NewPCG(1, 1))
	for range 120 {
		fmt.Fprintf(&list, "w%d.%d.%d.%d\n", 8+4*rng.IntN(7), 8+4*rng.IntN(7), 8+4*rng.IntN(7), 8+4*rng.IntN(7))
	}
	file := filepath.Join(dir, "list.txt")
	if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "part.cache")
	command := func(cache string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		cmd := exec.Command(tips, "eval", run, "--list", file, "--threads", "2", "--cache", cache, "--json")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		return cmd, &stdout, &stderr
	}
	whole, want, stderr := command("none")
	if err := whole.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	known := func(stderr string) int {
		found := regexp.MustCompile(`; (\d+) known already`).FindStringSubmatch(stderr)
		if found == nil {
			return 0
		}
		n, _ := strconv.Atoi(found[1])
		return n
	}
	before := 0
	for k, signal := range []os.Signal{os.Kill, syscall.SIGINT, os.Kill, os.Kill} {
		cmd, _, stderr := command(cache)
		size := int64(0)
		if info, err := os.Stat(cache); err == nil {
			size = info.Size()
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond) {
			if info, err := os.Stat(cache); err == nil && info.Size() > size+int64(200+300*k) {
				break
			}
			if time.Since(began) > time.Minute {
				cmd.Process.Kill()
				t.Fatalf("nothing is judged in a minute: %s", stderr)
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Log("it was over before the signal came")
			continue
		}
		if signal == syscall.SIGINT && (cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(stderr.String(), "run the same command again")) {
			t.Errorf("exit status %d; want %d; stderr: %s", cmd.ProcessState.ExitCode(), exitInterrupted, stderr)
		}
		now := known(stderr.String())
		if k > 0 && now <= before {
			t.Errorf("after %d interruptions %d are known, and %d before; want more each time", k, now, before)
		}
		before = now
	}
	last, got, stderr := command(cache)
	if err := last.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if known(stderr.String()) <= before {
		t.Errorf("%d are known at last, and %d before: %s", known(stderr.String()), before, stderr)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-uninterrupted +resumed):\n%s", diff)
	}
}
