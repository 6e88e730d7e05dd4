package frontier

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tips/internal/atomicfile"
	"tips/supernet"
	"tips/weights"
)

// Errors that others can be told apart by.
var (
	ErrCorrupt  = errors.New("corrupt frontier file")
	ErrVersion  = errors.New("unknown version of frontier file")
	ErrMismatch = errors.New("frontier does not belong here") // of another network, or of other weights
)

// What a frontier may hold: far more than anyone has use for, and little enough
// that a damaged file cannot ask for much memory.
const (
	maxFileBytes = 256 << 20
	maxPoints    = 4096
	maxCount     = 1 << 60
	maxImages    = 1 << 30
	maxText      = 256     // bytes of a name
	maxClasses   = 1 << 16 // names of classes
	maxThreads   = 1 << 16
	maxResize    = 1 << 16
)

// Frontier is the subnetworks of one set of weights that are worth running.
type Frontier struct {
	Network *supernet.Network
	Weights supernet.Hash  // of the weights, see weights.Set.Hash
	Input   supernet.Shape // that costs and accuracies are for

	// By is the costs that the frontier is over, one or more. Its points are sorted
	// by them, and none dominates another.
	By      []Kind
	OwnName string // what Costs.Own is, and its unit; empty if there is none

	// CPU and Threads are what latencies and energies were taken on; empty and 0 if
	// there are none.
	CPU     string
	Threads int

	Preprocess Preprocess
	ClassNames []string // one a class, or none
	Points     []Point
}

// Preprocess is how an image becomes an input: its shorter side is scaled to
// Resize, the input's size is cut out of its centre, values between 0 and 1 are
// normalised. The zero value only scales and cuts.
type Preprocess struct {
	Resize int       `json:"resize,omitempty"` // 0: just so that the image covers the input
	Mean   []float32 `json:"mean,omitempty"`   // one, or one a channel; none: 0
	Std    []float32 `json:"std,omitempty"`    // likewise; none: 1
}

// Validate says what is wrong with a frontier, in one line. Save and Encode call it.
func (f *Frontier) Validate() error {
	if err := f.validate(); err != nil {
		return fmt.Errorf("frontier: %w", err)
	}
	return nil
}

func (f *Frontier) validate() error {
	if f == nil || f.Network == nil {
		return fmt.Errorf("no network")
	}
	// Shapes are checked with the first view, below.
	full, err := f.Network.View(supernet.Subnet{}, f.Input)
	if err != nil {
		return err
	}
	if len(f.By) == 0 || len(f.By) > int(kinds) {
		return fmt.Errorf("over %d costs; want 1 to %d", len(f.By), kinds)
	}
	for i, k := range f.By {
		if k >= kinds || slices.Contains(f.By[:i], k) {
			return fmt.Errorf("cost %d is %s; want different ones of %v", i+1, k, kindNames)
		}
	}
	if f.Threads < 0 || f.Threads > maxThreads {
		return fmt.Errorf("%d threads; want 0 to %d", f.Threads, maxThreads)
	}
	if err := f.Preprocess.check(f.Input.Channels); err != nil {
		return err
	}
	if classes := full.Shape(full.Output()).Channels; len(f.ClassNames) != 0 && len(f.ClassNames) != classes {
		return fmt.Errorf("%d names of classes; %s has %d classes", len(f.ClassNames), f.Network.Name(), classes)
	}
	for _, text := range slices.Concat([]string{f.CPU, f.OwnName}, f.ClassNames) {
		if err := checkText(text); err != nil {
			return err
		}
	}
	if len(f.Points) == 0 || len(f.Points) > maxPoints {
		return fmt.Errorf("%d subnetworks; want 1 to %d", len(f.Points), maxPoints)
	}
	for i, p := range f.Points {
		if err := f.checkPoint(p); err != nil {
			return fmt.Errorf("subnetwork %d: %w", i+1, err)
		}
	}
	return f.checkOrder()
}

func (f *Frontier) checkPoint(p Point) error {
	if err := f.Network.Check(p.Subnet); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	for _, k := range f.By {
		if !p.Costs.Known(k) {
			return fmt.Errorf("%s is unknown, and the frontier is over it", k)
		}
	}
	if p.Statistics == nil {
		return nil
	}
	if n := len(f.Network.Ops()); len(p.Statistics.Mean) != n || len(p.Statistics.Variance) != n {
		return fmt.Errorf("statistics of %d and %d operations; %s has %d", len(p.Statistics.Mean), len(p.Statistics.Variance), f.Network.Name(), n)
	}
	norms, err := f.norms(p.Subnet)
	if err != nil {
		return err
	}
	for _, n := range norms {
		mean, variance := p.Statistics.Mean[n.op], p.Statistics.Variance[n.op]
		if len(mean) != n.channels || len(variance) != n.channels {
			return fmt.Errorf("operation %q: statistics of %d and %d channels; it has %d", f.Network.Ops()[n.op].Name, len(mean), len(variance), n.channels)
		}
		for c := range mean {
			if !finite(mean[c]) || !finite(variance[c]) || variance[c] < 0 {
				return fmt.Errorf("operation %q: mean %v and variance %v of channel %d", f.Network.Ops()[n.op].Name, mean[c], variance[c], c)
			}
		}
	}
	return nil
}

// checkOrder holds points to the order of a frontier, and to not dominating each
// other.
func (f *Frontier) checkOrder() error {
	for i := 1; i < len(f.Points); i++ {
		if order(f.Points[i-1], f.Points[i], f.By) >= 0 {
			return fmt.Errorf("subnetworks %d and %d are not in the order of their costs", i, i+1)
		}
		// One cost makes a staircase, where neighbours are all there is to compare.
		from := 0
		if len(f.By) == 1 {
			from = i - 1
		}
		for j := from; j < i; j++ {
			// Who comes later costs more, or the same and is more accurate.
			if Dominates(f.Points[j], f.Points[i], f.By...) {
				return fmt.Errorf("subnetwork %d costs no more than %d and is as accurate", j+1, i+1)
			}
		}
		if Dominates(f.Points[i], f.Points[i-1], f.By...) {
			return fmt.Errorf("subnetwork %d costs no more than %d and is as accurate", i+1, i)
		}
	}
	return nil
}

func (p Preprocess) check(channels int) error {
	if p.Resize < 0 || p.Resize > maxResize {
		return fmt.Errorf("resize %d; want 0 to %d", p.Resize, maxResize)
	}
	for _, list := range [][]float32{p.Mean, p.Std} {
		if n := len(list); n > 1 && n != channels {
			return fmt.Errorf("mean or standard deviation of %d channels; the input has %d", n, channels)
		}
		if slices.ContainsFunc(list, func(v float32) bool { return !finite(v) }) {
			return fmt.Errorf("mean or standard deviation %v", list)
		}
	}
	if slices.ContainsFunc(p.Std, func(v float32) bool { return v <= 0 }) {
		return fmt.Errorf("standard deviation %v; want more than 0", p.Std)
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

func checkText(s string) error {
	if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("name %.60q; want at most %d bytes of printable text", s, maxText)
	}
	return nil
}

// norm is an operation whose batch norm runs in a subnetwork, and its width there.
type norm struct{ op, channels int }

// norms lists them, in order.
func (f *Frontier) norms(s supernet.Subnet) ([]norm, error) {
	v, err := f.Network.View(s, f.Input)
	if err != nil {
		return nil, err
	}
	var list []norm
	for i, op := range f.Network.Ops() {
		if op.Norm && v.Ops[i].Runs {
			list = append(list, norm{i, v.Ops[i].Out.Channels})
		}
	}
	return list, nil
}

// CheckWeights tells whether the frontier was made for these weights.
func (f *Frontier) CheckWeights(s *weights.Set) error {
	if s == nil {
		return fmt.Errorf("%w: there are no weights", ErrMismatch)
	}
	if s.Network != f.Network && s.Network.Hash() != f.Network.Hash() {
		return fmt.Errorf("%w: it is of network %s, the weights are of another, %s", ErrMismatch, f.Network.Name(), s.Network.Name())
	}
	if have := s.Hash(); have != f.Weights {
		return fmt.Errorf("%w: it was made for weights %s, these are %s; search with these first", ErrMismatch, f.Weights.Short(), have.Short())
	}
	return nil
}

// Index finds a subnetwork among the points, -1 if it is none of them.
func (f *Frontier) Index(s supernet.Subnet) int {
	return slices.IndexFunc(f.Points, func(p Point) bool { return p.Subnet == s })
}

// Open reads a frontier file of a network.
func Open(name string, n *supernet.Network) (*Frontier, error) {
	f, err := open(name, n)
	if err != nil {
		return nil, fmt.Errorf("frontier %s: %w", name, err)
	}
	return f, nil
}

func open(name string, n *supernet.Network) (*Frontier, error) {
	file, err := os.Open(name)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, path.Err // Open names the file
		}
		return nil, err
	}
	defer file.Close()
	return Read(file, n)
}

// Read is Open for what is no file on disk.
func Read(r io.Reader, n *supernet.Network) (*Frontier, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return Decode(data, n)
}

// Save writes the frontier to a file, whole or not at all.
func (f *Frontier) Save(name string) error {
	data, err := f.Encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
