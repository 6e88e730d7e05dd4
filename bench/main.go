// Command bench holds the CPU engine against ONNX Runtime: the same subnetworks,
// the same weights, in one process.
//
//	cd bench && go run . all
//
// fetches what is missing, runs every comparison, and writes docs/bench.md and
// docs/bench.csv. It is a module of its own so that what it compares with never
// becomes a dependency of tips. It needs Linux on amd64, a C compiler, and npm for
// the first run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	cache string        // where the peer is kept
	data  string        // weights and images
	out   string        // folder of the tables
	box   time.Duration // for each speed comparison
	seed  uint64
}

// section is one comparison: a verb and what it makes a table of.
type section struct {
	verb, help string
	run        func(settings) (table, error)
}

var sections = []section{
	{"conformance", "logits of every network of the zoo beside ONNX Runtime's (1)", conformance},
	{"accuracy", "mobilenet_v2 with real weights on real images (2)", accuracy},
	{"speed", "time of an inference, side by side (3)", speed},
	{"switch", "what it costs to take another subnetwork (4)", switching},
	{"memory", "what a process with twelve subnetworks takes (5)", memory},
}

// errUsage is wrapped by errors about the command line.
var errUsage = errors.New("usage")

func main() {
	if len(os.Args) > 1 && os.Args[1] == childVerb {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	switch err := bench(os.Args[1:], os.Stdout); {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(args []string, stdout io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.cache, "cache", "", "folder that the peer is kept in (default: tips-bench in the user's cache)")
	flags.StringVar(&s.data, "data", filepath.Join("..", "..", "shared", "data"), "folder with mobilenet_v2/ and imagenet-val/")
	flags.StringVar(&s.out, "out", "", "folder to write bench.md and bench.csv to (default of all: ../docs; otherwise none)")
	flags.DurationVar(&s.box, "time", 4*time.Second, "time for each speed comparison")
	flags.Uint64Var(&s.seed, "seed", 1, "of weights and random subnetworks")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run . [flags] all | VERB…\n\nverbs:")
		for _, c := range sections {
			fmt.Fprintf(flags.Output(), "  %-12s %s\n", c.verb, c.help)
		}
		fmt.Fprintln(flags.Output(), "\nflags:")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	verbs := flags.Args()
	if len(verbs) == 0 {
		flags.Usage()
		return errUsage
	}
	if slices.Contains(verbs, "all") {
		verbs = nil
		for _, c := range sections {
			verbs = append(verbs, c.verb)
		}
		if s.out == "" {
			s.out = filepath.Join("..", "docs")
		}
	}
	if s.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		s.cache = filepath.Join(dir, "tips-bench")
	}

	library, err := fetchPeer(s.cache)
	if err != nil {
		return err
	}
	if err := startPeer(library); err != nil {
		return err
	}
	defer stopPeer()
	var tables []table
	for _, verb := range verbs {
		i := slices.IndexFunc(sections, func(c section) bool { return c.verb == verb })
		if i < 0 {
			return fmt.Errorf("verb %q; want all or %s", verb, verbList())
		}
		progress("%s", verb)
		t, err := sections[i].run(s)
		if err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		tables = append(tables, t)
		fmt.Fprintln(stdout, t.markdown())
	}
	if s.out != "" {
		if err := writeReport(s.out, append([]table{environment(s)}, tables...)); err != nil {
			return err
		}
	}
	if failed := notHolding(tables); len(failed) > 0 {
		return fmt.Errorf("%d do not hold:\n  %s", len(failed), strings.Join(failed, "\n  "))
	}
	return nil
}

func verbList() string {
	var names []string
	for _, c := range sections {
		names = append(names, c.verb)
	}
	return strings.Join(names, ", ")
}

// progress tells what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
