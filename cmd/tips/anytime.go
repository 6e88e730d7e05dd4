package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tips/dataset"
	"tips/engine"
	"tips/frontier"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// anytimeOptions say where an anytime network is.
type anytimeOptions struct{ weights, frontier, network, classes string }

func (o *anytimeOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.weights, "weights", "", "safetensors `file` of the weights (default that of RUN)")
	f.StringVar(&o.frontier, "frontier", "", "frontier `file` (default that of RUN)")
	f.StringVar(&o.network, "network", "", "the `MODEL` of --weights that do not tell it themselves, as torchvision's do not")
	f.StringVar(&o.classes, "classes", "", "text `file` with the names of the classes, one a line (default those of the frontier)")
	_ = cmd.MarkFlagFilename("weights", "safetensors")
	_ = cmd.MarkFlagFilename("frontier", "frontier")
	_ = cmd.RegisterFlagCompletionFunc("network", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeModel(cmd, nil, typed)
	})
}

// anytime is weights and their frontier.
type anytime struct {
	set *weights.Set
	*frontier.Frontier
	// judged tells whether the frontier comes from a file. If not, it holds the whole
	// network alone, and how pictures are prepared is a guess, see prepareAsImageNet.
	judged bool
	run    string // the folder of the training run, if there is one
}

// isRun tells whether a folder holds what a training run leaves.
func isRun(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, train.WeightsFile))
	return err == nil && info.Mode().IsRegular()
}

// open reads weights and frontier of a run, or of files that flags name. run may be
// empty.
func (o *anytimeOptions) open(run string) (*anytime, error) {
	var network *supernet.Network
	var err error
	if o.network != "" {
		if o.weights == "" {
			return nil, errors.New("--network without --weights; a training run knows its network")
		}
		if network, err = openModel(o.network); err != nil {
			return nil, err
		}
	}
	weightsFile, front := o.weights, o.frontier
	if weightsFile == "" {
		weightsFile = filepath.Join(run, train.WeightsFile)
	}
	if front == "" && run != "" {
		front = filepath.Join(run, frontierFile)
		if _, err := os.Stat(front); errors.Is(err, os.ErrNotExist) {
			front = ""
		}
	}
	a := &anytime{run: run, judged: front != ""}
	if a.set, err = weights.Open(weightsFile, network); err != nil {
		if errors.Is(err, weights.ErrNoNetwork) {
			err = fmt.Errorf("%w by --network", err)
		}
		return nil, failed(err)
	}
	if a.judged {
		if a.Frontier, err = frontier.Open(front, a.set.Network); err != nil {
			return nil, failed(err)
		}
		if err := a.CheckWeights(a.set); err != nil {
			return nil, failed(fmt.Errorf("frontier %s: %w", front, err))
		}
	} else {
		n := a.set.Network
		a.Frontier = &frontier.Frontier{
			Network: n, Weights: a.set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs},
			Points: []frontier.Point{{Costs: frontier.CostsOf(n.Full().Costs())}},
		}
	}
	if o.classes != "" {
		if a.ClassNames, err = readClasses(o.classes); err != nil {
			return nil, failed(err)
		}
		if err := a.Validate(); err != nil {
			return nil, failed(fmt.Errorf("--classes %s: %w", o.classes, err))
		}
	}
	return a, nil
}

// readClasses reads names, one a line.
func readClasses(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, fmt.Errorf("--classes %s: %w", file, err)
			}
			if len(names) == 0 {
				return nil, fmt.Errorf("--classes %s: an empty file; want the names of the classes, one a line", file)
			}
			return names, nil
		}
		names = append(names, strings.TrimSpace(lines.Text()))
	}
}

// prepareAsImageNet says how pictures become inputs of a network that comes without
// a frontier: as the weights that people share for ImageNet want them.
func (a *anytime) prepareAsImageNet() error {
	in := a.Input
	if in.Channels != 3 || in.Height != in.Width {
		return fmt.Errorf("%s takes in %s, and without a frontier nothing tells how pictures are prepared for it; 'tips search' makes one", a.Network.Name(), in)
	}
	usual := dataset.ImageNet(in.Height)
	a.Preprocess = frontier.Preprocess{Resize: usual.Resize, Mean: usual.Mean[:], Std: usual.Std[:]}
	return nil
}

// choiceHelp tells what parse takes.
const choiceHelp = `  3                 a subnetwork by its number in the frontier's table
  smallest, full    … by name, or as the table writes it (w16x10)
  30M, 20ms, 4MiB   the most accurate of the frontier within so many
                    multiply-accumulates, so much time, so much memory of feature
                    maps, or several of them (20ms,4MiB)`

// parse reads what people type to choose a subnetwork. Nobody has a budget of a few
// multiply-accumulates: small whole numbers are points of the frontier.
func (a *anytime) parse(text string) (engine.Budget, error) {
	const mostPoints = 4096
	if i, err := strconv.Atoi(text); err == nil && i <= mostPoints {
		if !a.judged {
			return engine.Budget{}, fmt.Errorf("%q is a number of a frontier's table, and there is no frontier; want a subnetwork, as full or smallest", text)
		}
		if i < 1 || i > len(a.Points) {
			return engine.Budget{}, fmt.Errorf("%q; the frontier has subnetworks 1 to %d; a budget has a unit, as in 30M, 20ms or 4MiB", text, len(a.Points))
		}
		return engine.Budget{Subnet: &a.Points[i-1].Subnet}, nil
	}
	b, err := engine.ParseBudget(text, a.Network)
	if err != nil {
		text := err.Error() // which says itself what it is about
		for _, prefix := range []string{"engine: ", "budget: ", "budget ", "supernet: "} {
			text = strings.TrimPrefix(text, prefix)
		}
		return engine.Budget{}, errors.New(text)
	}
	if b.Subnet == nil && !a.judged {
		return engine.Budget{}, fmt.Errorf("%q chooses from a frontier, and there is none; 'tips search' makes one; want a subnetwork, as full or smallest", text)
	}
	return b, nil
}

// choose finds the most accurate point within a budget by the costs that the
// frontier holds. A subnetwork that is no point of it becomes one.
func (a *anytime) choose(b engine.Budget) (p frontier.Point, index int, err error) {
	if b.Subnet != nil {
		if i := a.Index(*b.Subnet); i >= 0 {
			return a.Points[i], i, nil
		}
		v, err := a.Network.View(*b.Subnet, a.Input)
		if err != nil {
			return frontier.Point{}, -1, err
		}
		return frontier.Point{Subnet: *b.Subnet, Costs: frontier.CostsOf(v.Costs())}, -1, nil
	}
	best, cheapest := -1, 0
	for i, p := range a.Points {
		c := p.Costs
		if b.Time > 0 && c.Latency == 0 {
			return frontier.Point{}, -1, errors.New("the frontier holds no latencies to choose by; 'tips profile' measures them and 'tips search --latency' takes them in")
		}
		if c.MACs < a.Points[cheapest].Costs.MACs {
			cheapest = i
		}
		fits := (b.MACs == 0 || c.MACs <= b.MACs) && (b.Memory == 0 || c.PeakBytes <= b.Memory) && (b.Time == 0 || c.Latency <= b.Time)
		if fits && (best < 0 || p.Accuracy > a.Points[best].Accuracy) {
			best = i
		}
	}
	if best < 0 {
		c := a.Points[cheapest]
		return frontier.Point{}, -1, fmt.Errorf("no subnetwork of the frontier fits; the cheapest, %d (%s), takes %s", cheapest+1, c.Subnet, costText(c.Costs))
	}
	return a.Points[best], best, nil
}

// costText is what a subnetwork costs, for people.
func costText(c frontier.Costs) string {
	text := fmt.Sprintf("%s MACs, %s of feature maps", count(c.MACs), bytesize(c.PeakBytes))
	if c.Latency > 0 {
		text += ", " + milliseconds(c.Latency)
	}
	return text
}

// accuracyText is how accurate a point is, for people; empty if nobody judged it.
func accuracyText(p frontier.Point) string {
	switch {
	case p.Images > 0:
		return fmt.Sprintf("%.2f ± %.2f %%", 100*p.Accuracy, 100*p.Error())
	case p.Accuracy > 0:
		return fmt.Sprintf("%.2f %%", 100*p.Accuracy)
	}
	return ""
}

// milliseconds writes a time with three digits.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms <= 0 {
		return "0 ms"
	}
	return fmt.Sprintf("%.*f ms", max(0, 2-int(math.Floor(math.Log10(ms)))), ms)
}
