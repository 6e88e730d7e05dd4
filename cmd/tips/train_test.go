package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupt: Ctrl-C saves, says how to go on, and leaves with 130; nothing
// that was learnt is lost.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	dir := t.TempDir()
	// The test's own program is tips if it is called so.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tips := filepath.Join(dir, "tips")
	if err := os.Symlink(self, tips); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run")
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(tips, "train", "synthetic", "--epochs", "1000", "--threads", "1", "--out", out)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &stderr
	}
	var lengths []int64
	for range 2 {
		cmd, stderr := start()
		// Once it takes steps: a new line of metrics stands there.
		began := time.Now()
		for {
			info, err := os.Stat(filepath.Join(out, "metrics.jsonl"))
			if err == nil && info.Size() > 0 && (len(lengths) == 0 || info.Size() > lengths[0]) {
				break
			}
			if time.Since(began) > 30*time.Second {
				cmd.Process.Kill()
				t.Fatalf("no steps in half a minute; stderr: %s", stderr)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGINT) // as timeout(1) does; it may be gone already
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit status %d; want 130\n%s", code, stderr)
		}
		if !strings.Contains(stderr.String(), "interrupted after step ") || !strings.HasSuffix(stderr.String(), "; run the same command again to go on\n") {
			t.Errorf("stderr: %s", stderr)
		}
		metrics, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, int64(len(metrics)))
		i := 0
		for line := range bytes.Lines(metrics) {
			if bytes.HasPrefix(line, []byte(`{"start":`)) {
				continue
			}
			if want := []byte(`{"step":{"number":` + strconv.Itoa(i) + `,`); len(line) > 0 && i < 14 && !bytes.HasPrefix(line, want) {
				t.Errorf("line %d is %.40s; want %s", i, line, want)
			}
			i++
		}
	}
}
