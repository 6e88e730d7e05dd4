// Package report makes one page of a training run and what came of it: the network
// and its important path, the curves, the frontier, what the budgets of a demo did,
// what all of it takes to store. The page is a single file that needs nothing else,
// no script and no network.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tips/demo"
	"tips/frontier"
	"tips/search"
	"tips/supernet"
	"tips/topology"
	"tips/train"
	"tips/weights"
)

// The files of a run's folder beyond those of package train.
const (
	FrontierFile = "net.frontier" // what search found
	StateFile    = "search.state" // all that search judged
	TraceFile    = "demo.json"    // how a demo went
	File         = "report.html"  // the page
)

// Report is what a page tells. Only Network and Analysis are needed.
type Report struct {
	Run      string // the folder, as commands name it
	Network  *supernet.Network
	Analysis *topology.Analysis
	Recipe   *train.Recipe // nil: unknown
	Records  []train.Record

	WeightsBytes int64 // of the weights' file; 0: there is none
	Frontier     *frontier.Frontier
	Judged       []search.Answer // all that the frontier was chosen from
	JudgedOn     string          // which images the frontier was judged by; empty: unknown
	Trace        *demo.Trace     // of a demo; nil: there was none
	LeftOut      []string        // files that are there and of other weights, with the reason

	Next []Command
}

// Command is something to do next.
type Command struct{ Line, What string }

// Open reads what is in the folder of a run: a run under way or without a frontier has
// a shorter page. A file that is there and cannot be read is an error, but for a
// frontier, its state or a trace of other weights, which are left out; see LeftOut.
func Open(run string) (*Report, error) {
	r := &Report{Run: run}
	var err error
	if r.Recipe, err = train.OpenRecipe(filepath.Join(run, train.RecipeFile)); err != nil {
		return nil, fmt.Errorf("%w; want the folder of a training run", err)
	}
	if r.Network, err = openNetwork(filepath.Join(run, train.NetworkFile)); err != nil {
		return nil, err
	}
	if r.Analysis, err = topology.Analyze(r.Network, topology.Options{}); err != nil {
		return nil, err
	}
	if r.Records, err = openMetrics(filepath.Join(run, train.MetricsFile)); err != nil {
		return nil, err
	}
	file := filepath.Join(run, train.WeightsFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil // training is under way
	}
	if err != nil {
		return nil, err
	}
	r.WeightsBytes = info.Size()
	set, err := weights.Open(file, r.Network)
	if err != nil {
		return nil, err
	}
	return r, r.openResults(run, set)
}

func openNetwork(name string) (*supernet.Network, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := supernet.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func openMetrics(name string) ([]train.Record, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := train.ReadMetrics(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return records, nil
}

// openResults reads what was made of the weights.
func (r *Report) openResults(run string, set *weights.Set) error {
	name := filepath.Join(run, FrontierFile)
	f, err := frontier.Open(name, r.Network)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, frontier.ErrMismatch): // of a run before this one
		r.LeftOut = append(r.LeftOut, err.Error())
		return nil
	case err != nil:
		return err
	}
	if err := f.CheckWeights(set); err != nil {
		r.LeftOut = append(r.LeftOut, fmt.Sprintf("frontier %s: %v", name, err))
		return nil
	}
	r.Frontier = f
	r.JudgedOn = "test"
	if r.Recipe.Holdout > 0 {
		r.JudgedOn = "held-out"
	}
	if answers, err := search.Answers(filepath.Join(run, StateFile), r.Network); err == nil && agree(f, answers) {
		r.Judged = answers
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := demo.Open(filepath.Join(run, TraceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Weights == f.Weights.String() {
		r.Trace = t
	}
	return nil
}

// agree tells whether the answers are those that a frontier was made of.
func agree(f *frontier.Frontier, answers []search.Answer) bool {
	for _, p := range f.Points {
		if !slices.ContainsFunc(answers, func(a search.Answer) bool {
			return a.Subnet == p.Subnet && a.Correct == p.Correct && a.Images == p.Images
		}) {
			return false
		}
	}
	return true
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if path != "" && !strings.ContainsFunc(path, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:,@%", r))
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
