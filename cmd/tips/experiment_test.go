package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tips/recipes"
)

// scripts are those of the experiment, which run where there is no Go.
var scripts = filepath.Join("..", "..", "experiments", "cifar100")

// sh runs a script with variables, in a folder.
func sh(t *testing.T, dir string, variables []string, script string, args ...string) (status int, output string) {
	t.Helper()
	for _, tool := range []string{"sh", "timeout", "tar", "gzip", "split"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the scripts need ", err)
		}
	}
	name, err := filepath.Abs(filepath.Join(scripts, script))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{name}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestExperiment(t *testing.T) {
	dir := t.TempDir()
	recipe := fmt.Sprintf(fixtureRecipe, "resnet_small:width=8,data=fashion-mnist,size=8,divisor=4", 1)
	for name, text := range map[string]string{
		"small.yaml": recipe,
		"short.jobs": "# a comment\nsmall.yaml tips 1 1\n\nsmall.yaml us-nets 2 1 sgd.rate=0.1 # another\nsmall.yaml tips 3 1 sgd.rate=none\nsmall.yaml tips 4 1 method.factor=2\n",
		"long.jobs":  "small.yaml tips 5 100000\nsmall.yaml tips 6 1\n",
		"bad.jobs":   "small.yaml tips one 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	variables := []string{"TIPS=" + ownProgram(t), "EVALUATIONS=5", "AT_ONCE=2", "DATA=synthetic:train=224,test=32,size=8"}
	there := func(want bool, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, "runs", name)); (err == nil) != want {
				t.Errorf("%s: %v; want it there: %v", name, err, want)
			}
		}
	}
	status, output := sh(t, dir, variables, "run.sh", "short.jobs")
	if status != 1 || !strings.Contains(output, "small-tips-3-1-rate-none: failed with status 2") || !strings.Contains(output, "sgd.rate") {
		t.Fatalf("a list with one bad run: status %d\n%s", status, output)
	}
	there(true, "small-tips-1-1/searched", "small-us-nets-2-1-rate-0.1/net.frontier", "small-us-nets-2-1-rate-0.1/searched", "small-tips-4-1-factor-2/searched", "small-tips-1-1.log")
	there(false, "small-tips-3-1-rate-none/weights.safetensors")
	before := files(t, filepath.Join(dir, "runs", "small-tips-1-1"))
	if status, output = sh(t, dir, variables, "run.sh", "short.jobs"); status != 1 || strings.Contains(output, "small-tips-1-1") {
		t.Errorf("the same again: status %d\n%s", status, output)
	}
	for name, text := range files(t, filepath.Join(dir, "runs", "small-tips-1-1")) {
		if before[name] != text {
			t.Errorf("%s of a run that was done has changed", name)
		}
	}

	// Time is up in the first run, which is saved, and the second has not begun.
	status, output = sh(t, dir, append(variables, "AT_ONCE=1", "LIMIT=12", "GRACE=10"), "run.sh", "long.jobs")
	if status != 75 || !strings.Contains(output, "small-tips-5-100000: time is up") {
		t.Errorf("a long run in a short time: status %d\n%s", status, output)
	}
	there(true, "small-tips-5-100000/checkpoint.tips")
	there(false, "small-tips-5-100000/weights.safetensors", "small-tips-6-1")
	log, err := os.ReadFile(filepath.Join(dir, "runs", "small-tips-5-100000.log"))
	if err != nil || !strings.Contains(string(log), "all of it is saved in") {
		t.Errorf("the log of a run that was stopped: %v\n%s", err, log)
	}

	// What is killed while there is time has failed: it would be killed again.
	killed := filepath.Join(dir, "killed")
	if err := os.WriteFile(killed, []byte("#!/bin/sh\nkill -9 $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"LIMIT=0", "LIMIT=1000"} {
		if status, output := sh(t, dir, []string{"TIPS=" + killed, "RUNS=killed-runs", limit}, "run.sh", "short.jobs"); status != 1 || !strings.Contains(output, "failed with status 137") {
			t.Errorf("%s, killed: status %d\n%s", limit, status, output)
		}
	}
	if status, output := sh(t, dir, append(variables, "SEARCH_ONLY=1", "RUNS=none"), "run.sh", "long.jobs"); status != 75 {
		t.Errorf("nothing is trained, and it says that all is searched: status %d\n%s", status, output)
	}

	for _, args := range [][]string{{}, {"nothing.jobs"}, {"bad.jobs"}, {"short.jobs", "long.jobs"}} {
		if status, output := sh(t, dir, variables, "run.sh", args...); status != 2 || strings.Count(output, "\n") != 1 {
			t.Errorf("run.sh %q: status %d\n%s", args, status, output)
		}
	}

	// There and back in pieces: all but the checkpoints of runs that are over.
	if status, output = sh(t, dir, nil, "pack.sh", "runs", "pieces", "20000"); status != 0 || !strings.Contains(output, "runs.tar.gz.01") {
		t.Fatalf("pack.sh: status %d\n%s", status, output)
	}
	away := filepath.Join(dir, "away")
	if out, err := exec.Command("sh", "-c", "mkdir "+away+" && cat "+dir+"/pieces/runs.tar.gz.* | tar xzC "+away).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packed := files(t, away)
	for name, text := range files(t, filepath.Join(dir, "runs")) {
		left := strings.HasSuffix(name, "checkpoint.tips") && !strings.Contains(name, "small-tips-5")
		if have, there := packed[filepath.Join("runs", name)]; there == left || there && have != text {
			t.Errorf("%s was packed: %v", name, there)
		}
	}
}

// TestExperimentJobs: every run of the experiment's lists is a recipe of the program
// that could be carried out.
func TestExperimentJobs(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(scripts, "*.jobs"))
	if err != nil || len(lists) == 0 {
		t.Fatal("no lists: ", err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] == "#" {
				continue
			}
			if len(words) < 4 || seen[strings.Join(words, " ")] {
				t.Fatalf("%s: %q", list, line)
			}
			seen[strings.Join(words, " ")] = true
			r, err := recipes.Open(words[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range append([]string{"method.name=" + words[1], "seed=" + words[2], "epochs=" + words[3]}, words[4:]...) {
				key, value, _ := strings.Cut(change, "=")
				if err := r.Set(key, value); err != nil {
					t.Errorf("%s: %q: %v", list, line, err)
				}
			}
			if err := r.Validate(); err != nil {
				t.Errorf("%s: %q: %v", list, line, err)
			}
		}
	}
}
