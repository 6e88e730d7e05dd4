package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"tips/internal/reference"
	"tips/nn"
	"tips/onnx"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/weights"
)

// The bounds of what must hold, on the largest difference of two outputs as a
// share of the largest output: of two sides, and of two images on one side,
// without which the former would mean nothing.
const (
	maxDifference = 1e-4
	minEffect     = 1e-2
	randomOfEach  = 5

	// The reference is slow: its input is the largest of a multiple of this side
	// that takes no more than so many MACs.
	referenceSide = 32
	referenceMACs = 60e6
)

// conformance runs every network of the zoo and random subnetworks of it on both
// sides, and against the plain reference.
func conformance(s settings) (table, error) {
	t := table{
		notes: []string{
			fmt.Sprintf("The whole network and %d random subnetworks of each, at the network's own input size and smaller ones, one and two images at once, "+
				"batch norm folded and not, with statistics of the subnetwork's own. A difference is the largest of any logit, divided by the largest logit, and the worst of all "+
				"subnetworks. Reference: float64 by direct loops, at an input of %d×%d or more. Another image: how much that changes logits, the least of all. Equal, of a subnetwork in the shared "+
				"weights and the same one extracted, and of one and two threads, means bit for bit.", randomOfEach, referenceSide, referenceSide),
		},
		columns: []string{"network", "subnetworks", "ours − theirs", "ours − reference", "theirs − reference", "limit", "another image", "in place = extracted", "one = two threads", "checker", holdsColumn},
	}
	version, err := fetchChecker()
	if err != nil {
		t.skip("checker of the onnx project", err)
	} else {
		t.notes = append(t.notes, "Checker: the full check of onnx "+version+" on the random subnetworks.")
	}
	for _, m := range zoo.Models() {
		progress("conformance of %s", m.Name)
		c, err := conform(m.Name, s.seed, version != "")
		if err != nil {
			return table{}, fmt.Errorf("%s: %w", m.Name, err)
		}
		holds := max(c.theirs, c.reference, c.theirsReference) <= maxDifference && c.effect >= minEffect && c.extracted && c.threads && c.checker != refused
		t.add(m.Name, fmt.Sprint(c.count), fmt.Sprintf("%.1e", c.theirs), fmt.Sprintf("%.1e", c.reference), fmt.Sprintf("%.1e", c.theirsReference), fmt.Sprintf("%.0e", maxDifference),
			fmt.Sprintf("%.2f", c.effect), verdict(c.extracted), verdict(c.threads), c.checker, verdict(holds))
		runtime.GC() // hundreds of megabytes
	}
	return t, nil
}

// What the checker says of models.
const (
	accepted = "accepted"
	refused  = "refused"
)

// conformity is what was found about one network, the worst of its subnetworks.
type conformity struct {
	count                              int
	theirs, reference, theirsReference float64 // largest differences
	effect                             float64 // smallest difference between two images
	extracted, threads                 bool    // equal to the extracted network, to two threads
	checker                            string
}

func conform(name string, seed uint64, check bool) (conformity, error) {
	c := conformity{effect: math.Inf(1), extracted: true, threads: true, checker: skipped}
	set, err := loadNetwork(name, seed)
	if err != nil {
		return c, err
	}
	subs, err := randomSubnets(set.Network, randomOfEach, seed)
	if err != nil {
		return c, err
	}
	model := nn.NewModel(set)
	one, two := nn.NewSession(1), nn.NewSession(2)
	defer one.Close()
	defer two.Close()

	dir, err := os.MkdirTemp("", "tips-bench-*")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	var files []string
	for k, sub := range append([]supernet.Subnet{{}}, subs...) {
		c.count++
		statistics, err := c.besideReference(set, model, one, sub, seed, referenceMACs)
		if err != nil {
			return c, err
		}
		input, batch := set.Network.Input(), 1+k%2
		if k >= 4 && input.Height > 64 { // away from the size that all is made for
			input.Height, input.Width = input.Height-16*k, input.Width-7*k
		}
		o := onnx.Options{Subnet: sub, Statistics: statistics, Input: input, KeepNorm: k%2 == 1}
		if k%3 == 1 {
			o.Batch = batch
		}
		p, err := prepare(set, model, o, batch)
		if err != nil {
			return c, err
		}
		if k > 0 { // the checker is slow where models are large
			name := filepath.Join(dir, fmt.Sprintf("%d.onnx", k))
			if err := os.WriteFile(name, p.model, 0o644); err != nil {
				return c, err
			}
			files = append(files, name)
		}
		x := randomImages(input, batch, seed+uint64(k))
		ours, other, err := p.both(one, x, 1)
		if err != nil {
			return c, err
		}
		c.theirs = max(c.theirs, difference(ours, other))

		again := make([]float32, len(ours))
		two.Run(p.program, again, x)
		c.threads = c.threads && equalBits(ours, again)
		alone, err := set.ExtractWith(sub, statistics)
		if err != nil {
			return c, err
		}
		program, err := nn.NewModel(alone).Program(supernet.Subnet{}, input, batch, nil)
		if err != nil {
			return c, err
		}
		one.Run(program, again, x)
		c.extracted = c.extracted && equalBits(ours, again)
		one.Run(program, again, randomImages(input, batch, seed+100))
		c.effect = min(c.effect, difference(ours, again))
	}
	if check {
		c.checker = accepted
		if err := checkModels(files); err != nil {
			progress("checker: %v", err)
			c.checker = refused
		}
	}
	return c, nil
}

// besideReference compares both sides with the plain reference on a small input,
// and gives the statistics that it made for the subnetwork.
func (c *conformity) besideReference(set *weights.Set, model *nn.Model, session *nn.Session, sub supernet.Subnet, seed uint64, macs int64) (*weights.Statistics, error) {
	view, err := referenceView(set.Network, sub, macs)
	if err != nil {
		return nil, err
	}
	input := view.Input
	x := randomImages(input, 1, seed)
	plain := make([]float64, len(x))
	channelsFirst(plain, x, input)
	statistics := reference.Calibrate(set, view, plain)
	want := reference.Run(set, view, statistics, plain)

	p, err := prepare(set, model, onnx.Options{Subnet: sub, Statistics: statistics, Input: input}, 1)
	if err != nil {
		return nil, err
	}
	ours, other, err := p.both(session, x, 1)
	if err != nil {
		return nil, err
	}
	c.reference = max(c.reference, difference(ours, want))
	c.theirsReference = max(c.theirsReference, difference(other, want))
	return statistics, nil
}

// referenceView is a subnetwork at the largest input that takes so many MACs, if
// there is one.
func referenceView(n *supernet.Network, sub supernet.Subnet, macs int64) (best *supernet.View, err error) {
	for side := referenceSide; ; side += referenceSide {
		input := n.Input()
		input.Height, input.Width = min(input.Height, side), min(input.Width, side)
		v, err := n.View(sub, input)
		if err != nil {
			return nil, err
		}
		if best != nil && v.Costs().MACs > macs {
			return best, nil
		}
		best = v
		if input == n.Input() {
			return best, nil
		}
	}
}

// pair is one subnetwork on both sides.
type pair struct {
	program *nn.Program
	model   []byte
	batch   int
}

func prepare(set *weights.Set, model *nn.Model, o onnx.Options, batch int) (pair, error) {
	program, err := model.Program(o.Subnet, o.Input, batch, o.Statistics)
	if err != nil {
		return pair{}, err
	}
	b, err := exported(set, o)
	return pair{program, b, batch}, err
}

// both runs both sides once on images with channels last.
func (p pair) both(session *nn.Session, x []float32, threads int) (ours, other []float32, err error) {
	t, err := openModel(p.model, p.program.View(), p.batch, threads)
	if err != nil {
		return nil, nil, err
	}
	defer t.close()
	channelsFirst(t.in.GetData(), x, p.program.View().Input)
	if err := t.run(); err != nil {
		return nil, nil, err
	}
	ours = make([]float32, p.program.OutputLen())
	session.Run(p.program, ours, x)
	return ours, append([]float32(nil), t.out.GetData()...), nil
}

// difference is the largest difference as a share of the largest value wanted.
// Anything that is no number is infinitely different.
func difference[T float32 | float64](have []float32, want []T) float64 {
	if len(have) != len(want) {
		return math.Inf(1)
	}
	most, largest := 0.0, 0.0
	for i, w := range want {
		d := math.Abs(float64(have[i]) - float64(w))
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return math.Inf(1)
		}
		most, largest = max(most, d), max(largest, math.Abs(float64(w)))
	}
	if largest == 0 {
		return most
	}
	return most / largest
}

func equalBits(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}
