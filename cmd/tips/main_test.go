package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tips": main})
}

// TestScripts runs the command lines of testdata/script as a user would. Run
// with TIPS_UPDATE=1 to rewrite the outputs that they compare with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("TIPS_UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  wantStatus,
			"picture": drawPicture,
			"cut":     cutFile,
			"huge":    hugePicture,
			"oneline": func(ts *testscript.TestScript, _ bool, _ []string) {
				text := ts.ReadFile("stderr")
				if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "tips: ") {
					ts.Fatalf("want one line that starts with 'tips: ', got:\n%s", text)
				}
			},
			"truncate": truncate,
			"json": func(ts *testscript.TestScript, _ bool, args []string) {
				if !json.Valid([]byte(ts.ReadFile(args[0]))) {
					ts.Fatalf("%s is not JSON", args[0])
				}
			},
		},
	})
}

// truncate cuts a file off, to a number of bytes or, if that is negative, by it.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	name := ts.MkAbs(args[0])
	info, err := os.Stat(name)
	ts.Check(err)
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	if n < 0 {
		n += info.Size()
	}
	ts.Check(os.Truncate(name, n))
}

// wantStatus runs tips and wants an exit status: status 2 tips models --bad.
func wantStatus(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status N command…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s; want %s", got, args[0])
	}
}

// TestEveryVerbHasHelp: a summary, a description where it has flags, an example.
func TestEveryVerbHasHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Short == "" || sub.Example == "" {
				t.Errorf("%s lacks a summary or an example", sub.CommandPath())
			}
			if sub.HasLocalFlags() && sub.Long == "" {
				t.Errorf("%s lacks a description", sub.CommandPath())
			}
			visit(sub)
		}
	}
	visit(newRoot())
}

// TestExamplesParse: every example of the help names a verb and flags there are.
func TestExamplesParse(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			if words[0] != "tips" {
				t.Errorf("example %q of %s is no command line of tips", line, cmd.CommandPath())
				continue
			}
			found, rest, err := newRoot().Find(words[1:])
			if err != nil {
				t.Errorf("example %q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("example %q: %v", line, err)
				continue
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("example %q: %v", line, err)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestCounts(t *testing.T) {
	var got []string
	for _, n := range []int64{0, 999, 1000, 12345, 300774272, 4089184256, 11398021120} {
		got = append(got, count(n))
	}
	want := []string{"0", "999", "1.000 k", "12.35 k", "300.8 M", "4.089 G", "11.40 G"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrap(t *testing.T) {
	got := wrap([]string{"aaa", "bbb", "ccc", "dddd"}, ", ", 10, "  ")
	if want := "aaa, bbb,\n  ccc, dddd"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}
