// Command bench holds the CPU engine against others: inference against ONNX Runtime,
// training against PyTorch, with the same subnetworks and the same weights, taking
// turns.
//
//	cd bench && go run . all
//
// runs every comparison and writes docs/bench.md and docs/bench.csv. It is a module
// of its own so that what it compares with never becomes a dependency of tips. It
// needs Linux on amd64, a C compiler, npm to fetch ONNX Runtime in the first run, and
// PyTorch 1.13 as Debian's python3-torch. Comparisons with what is missing are
// skipped, and reported as skipped.
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
	verb, title, help string
	needsPeer         bool // ONNX Runtime, in this process
	run               func(settings) (table, error)
}

var sections = []section{
	{"conformance", "1. Same numbers", "logits of every network of the zoo beside ONNX Runtime's", true, conformance},
	{"accuracy", "2. Real weights", "mobilenet_v2 with real weights on real images", true, accuracy},
	{"speed", "3. Speed", "time of an inference, side by side", true, speed},
	{"switch", "4. Switching", "what it costs to take another subnetwork", true, switching},
	{"memory", "5. Memory", "what a process with twelve subnetworks takes", true, memory},
	{"train-gradients", "6. Same gradients", "losses, gradients and weights of training beside PyTorch's", false, trainGradients},
	{"train-speed", "7. Speed of training", "images a second of training, side by side", false, trainSpeed},
	{"train-memory", "8. Memory of training", "what a process that only learns takes", false, trainMemory},
}

// groups are verbs for several sections: those whose verbs begin with a prefix.
var groups = []struct{ verb, prefix, help string }{
	{"all", "", "everything"},
	{"train", "train-", "all about training"},
}

// runWith makes the table of a section, or says why there is none.
func (c section) runWith(s settings, peer error) (table, error) {
	var t table
	switch {
	case c.needsPeer && errors.Is(peer, errNoPeer):
		t.columns = []string{"case", holdsColumn}
		t.skip("all", peer)
	case c.needsPeer && peer != nil:
		return table{}, peer
	default:
		var err error
		if t, err = c.run(s); err != nil {
			return table{}, fmt.Errorf("%s: %w", c.verb, err)
		}
	}
	t.name, t.title = c.verb, c.title
	return t, nil
}

// children are verbs that nobody types: with them, this program measures itself.
var children = map[string]func([]string) error{childVerb: child, learnVerb: learn}

// errUsage is wrapped by errors about the command line.
var errUsage = errors.New("usage")

func main() {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](os.Args[2:]); err != nil {
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
	flags.StringVar(&s.out, "out", "", "folder to write bench.md and bench.csv to (default of all: ../docs; otherwise none); tables there of verbs that do not run are kept")
	flags.DurationVar(&s.box, "time", 4*time.Second, "time for each comparison of inferences; of training, eight times that")
	flags.Uint64Var(&s.seed, "seed", 1, "of weights and random subnetworks")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run . [flags] VERB…\n\nverbs:")
		for _, g := range groups {
			fmt.Fprintf(flags.Output(), "  %-15s  %s\n", g.verb, g.help)
		}
		for _, c := range sections {
			fmt.Fprintf(flags.Output(), "  %-15s  %s\n", c.verb, c.help)
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
	chosen, err := choose(verbs)
	if err != nil {
		return err
	}
	if slices.Contains(verbs, "all") && s.out == "" {
		s.out = filepath.Join("..", "docs")
	}
	if s.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		s.cache = filepath.Join(dir, "tips-bench")
	}

	var missing error // why there is no ONNX Runtime
	if slices.ContainsFunc(chosen, func(c section) bool { return c.needsPeer }) {
		var library string
		if library, missing = fetchPeer(s.cache); missing == nil {
			if err := startPeer(library); err != nil {
				return err
			}
			defer stopPeer()
		}
	}
	var tables []table
	for _, c := range chosen {
		progress("%s", c.verb)
		t, err := c.runWith(s, missing)
		if err != nil {
			return err
		}
		tables = append(tables, t)
		fmt.Fprintln(stdout, t.markdown())
	}
	if s.out != "" {
		if err := writeReport(s.out, environment(s), tables); err != nil {
			return err
		}
	}
	if left := withVerdict(tables, skipped); len(left) > 0 {
		progress("%d skipped, see the tables for why:\n  %s", len(left), strings.Join(left, "\n  "))
	}
	if failed := withVerdict(tables, no); len(failed) > 0 {
		return fmt.Errorf("%d do not hold:\n  %s", len(failed), strings.Join(failed, "\n  "))
	}
	return nil
}

// choose lists the sections that verbs ask for, each once.
func choose(verbs []string) (chosen []section, err error) {
	wanted := map[string]bool{}
	for _, verb := range verbs {
		known := false
		for _, c := range sections {
			for _, g := range groups {
				if verb == c.verb || verb == g.verb && strings.HasPrefix(c.verb, g.prefix) {
					known, wanted[c.verb] = true, true
				}
			}
		}
		if !known {
			return nil, fmt.Errorf("verb %q; want %s", verb, verbList())
		}
	}
	for _, c := range sections {
		if wanted[c.verb] {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

func verbList() string {
	var names []string
	for _, g := range groups {
		names = append(names, g.verb)
	}
	for _, c := range sections {
		names = append(names, c.verb)
	}
	return strings.Join(names, ", ")
}

// progress tells what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
