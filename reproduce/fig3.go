package reproduce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat"

	"tips/dataset"
	"tips/internal/atomicfile"
	"tips/nn"
	"tips/plot"
	"tips/supernet"
	"tips/topology"
	"tips/weights"
)

// Fig3Options are what Figure 3 is computed from.
type Fig3Options struct {
	Weights *weights.Set
	Images  []dataset.LabelledImage
	Ratios  []float64 // of channels pruned, rising; nil means 0.1, 0.3, 0.5, 0.7, 0.9, 0.99
	Threads int       // 0 means 1
	// State is a file that keeps what is done so far, so that an interrupted run
	// goes on where it stopped; "" for none.
	State string
	// Progress, if not nil, is told how many images are done.
	Progress func(done, total int)
}

// fig3Chunk is how many images are done between two writings of the state.
const fig3Chunk = 16

// Fig3 prunes the last channels of each operation's output, one operation at a
// time, touching no other, and compares what that does to the accuracy for
// important and for unimportant operations. The classifier is left out: pruning
// its output deletes classes.
//
// For each image the whole network is computed once, keeping all feature maps; for
// each pruned operation only what comes after it is computed again.
func Fig3(ctx context.Context, o Fig3Options) (Figure, error) {
	if o.Ratios == nil {
		o.Ratios = []float64{0.1, 0.3, 0.5, 0.7, 0.9, 0.99}
	}
	n := o.Weights.Network
	if in := n.Input(); in.Channels != 3 || in.Height != in.Width {
		return Figure{}, usage{fmt.Errorf("%s reads %s; the figure needs a network for square colour images", n.Name(), in)}
	}
	if len(o.Images) == 0 {
		return Figure{}, usage{fmt.Errorf("no images")}
	}
	full := n.Full()
	for _, image := range o.Images {
		if classes := full.Shape(full.Output()).Channels; image.Class >= classes {
			return Figure{}, fmt.Errorf("reproduce: %s is of class %d; %s knows %d", image.Path, image.Class, n.Name(), classes)
		}
	}
	a, err := topology.Analyze(n, topology.Options{})
	if err != nil {
		return Figure{}, err
	}
	run := &fig3Run{options: o, model: nn.NewModel(o.Weights)}
	important := map[int]bool{}
	for e, edge := range a.Graph.Edges() {
		i, _ := n.Index(edge.Name)
		if i == len(n.Ops())-1 || slices.Contains(run.ops, i) {
			continue
		}
		run.ops = append(run.ops, i)
		important[i] = a.Important()[e]
	}
	slices.Sort(run.ops)
	if either := slices.ContainsFunc(run.ops, func(i int) bool { return important[i] }); !either || !slices.ContainsFunc(run.ops, func(i int) bool { return !important[i] }) {
		return Figure{}, usage{fmt.Errorf("all or no operations of %s are important: there is nothing to compare", n.Name())}
	}
	if run.state, err = loadFig3State(o, len(run.ops)); err != nil {
		return Figure{}, err
	}
	if err := run.all(ctx); err != nil {
		return Figure{}, err
	}
	return run.figure(important), nil
}

// fig3Run is a computation of Figure 3.
type fig3Run struct {
	options Fig3Options
	model   *nn.Model
	ops     []int // pruned, in order
	state   *fig3State

	mu   sync.Mutex
	idle []*nn.Trace // of earlier chunks
}

// takeTrace gives a trace that nobody uses, or nil.
func (r *fig3Run) takeTrace() *nn.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.idle) == 0 {
		return nil
	}
	last := len(r.idle) - 1
	t := r.idle[last]
	r.idle = r.idle[:last]
	return t
}

func (r *fig3Run) giveTrace(t *nn.Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, t)
}

// fig3State is what is done so far. It is what the state file holds.
type fig3State struct {
	Format  string  `json:"format"`
	Version int     `json:"version"`
	Key     string  `json:"key"`    // of weights, images and ratios
	Done    int     `json:"done"`   // images
	Right   int     `json:"right"`  // of these, unpruned
	Pruned  [][]int `json:"pruned"` // by operation and ratio
}

const fig3Format = "tips-fig3"

// loadFig3State reads the state file, or starts anew.
func loadFig3State(o Fig3Options, ops int) (*fig3State, error) {
	key, err := fig3Key(o)
	if err != nil {
		return nil, err
	}
	s := &fig3State{Format: fig3Format, Version: 1, Key: key, Pruned: make([][]int, ops)}
	for i := range s.Pruned {
		s.Pruned[i] = make([]int, len(o.Ratios))
	}
	if o.State == "" {
		return s, nil
	}
	data, err := os.ReadFile(o.State)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var old fig3State
	if err := json.Unmarshal(data, &old); err != nil || old.Format != fig3Format || old.Version != 1 {
		return nil, fmt.Errorf("reproduce: %s is no state of this figure; remove it to start anew", o.State)
	}
	if old.Key != key {
		return s, nil // of other weights, images or ratios
	}
	if !old.fits(s, len(o.Images)) {
		return nil, fmt.Errorf("reproduce: %s is damaged; remove it to start anew", o.State)
	}
	return &old, nil
}

// fits tells whether a state that was read can be one of a run that starts as
// fresh.
func (s *fig3State) fits(fresh *fig3State, images int) bool {
	counts := func(n int) bool { return n >= 0 && n <= s.Done }
	ok := s.Done >= 0 && s.Done <= images && counts(s.Right) && len(s.Pruned) == len(fresh.Pruned)
	for i := 0; ok && i < len(s.Pruned); i++ {
		ok = len(s.Pruned[i]) == len(fresh.Pruned[i])
		for _, n := range s.Pruned[i] {
			ok = ok && counts(n)
		}
	}
	return ok
}

// fig3Key names what a state is good for.
func fig3Key(o Fig3Options) (string, error) {
	h := sha256.New()
	if err := o.Weights.Write(h); err != nil {
		return "", err
	}
	fmt.Fprintln(h, o.Ratios)
	for _, image := range o.Images {
		fmt.Fprintln(h, image.Path, image.Class)
		if info, err := os.Stat(image.Path); err == nil { // one that is missing is reported when its turn comes
			fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// all goes through the images that are left, a chunk at a time.
func (r *fig3Run) all(ctx context.Context) error {
	total := len(r.options.Images)
	for r.state.Done < total {
		if r.options.Progress != nil {
			r.options.Progress(r.state.Done, total)
		}
		if err := r.chunk(ctx, min(r.state.Done+fig3Chunk, total)); err != nil {
			return err
		}
		if r.options.State == "" {
			continue
		}
		if err := atomicfile.Write(r.options.State, func(w io.Writer) error { return json.NewEncoder(w).Encode(r.state) }); err != nil {
			return err
		}
	}
	if r.options.Progress != nil {
		r.options.Progress(total, total)
	}
	return nil
}

// chunk does the images up to end, each on one thread.
func (r *fig3Run) chunk(ctx context.Context, end int) error {
	var next atomic.Int64
	next.Store(int64(r.state.Done))
	var group sync.WaitGroup
	var mu sync.Mutex
	var failure error
	pruned := make([][]int, len(r.ops))
	for i := range pruned {
		pruned[i] = make([]int, len(r.options.Ratios))
	}
	right := 0
	for range max(r.options.Threads, 1) {
		group.Go(func() {
			err := r.worker(ctx, &next, end, func(plain bool, byOp [][]bool) {
				mu.Lock()
				defer mu.Unlock()
				right += btoi(plain)
				for i, ratios := range byOp {
					for j, ok := range ratios {
						pruned[i][j] += btoi(ok)
					}
				}
			})
			if err != nil {
				mu.Lock()
				failure = err
				mu.Unlock()
				next.Store(int64(end))
			}
		})
	}
	group.Wait()
	if failure != nil {
		return failure // the chunk counts for nothing
	}
	r.state.Done = end
	r.state.Right += right
	for i := range pruned {
		for j := range pruned[i] {
			r.state.Pruned[i][j] += pruned[i][j]
		}
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// worker takes images until none is left and reports each.
func (r *fig3Run) worker(ctx context.Context, next *atomic.Int64, end int, report func(plain bool, byOp [][]bool)) error {
	input := r.options.Weights.Network.Input()
	trace := r.takeTrace()
	if trace == nil {
		var err error
		if trace, err = r.model.NewTrace(supernet.Subnet{}, input); err != nil {
			return err
		}
	}
	defer r.giveTrace(trace)
	session := nn.NewSession(1)
	defer session.Close()
	out := trace.View().Shape(trace.View().Output())
	x, y := make([]float32, input.Elements()), make([]float32, out.Elements())
	byOp := make([][]bool, len(r.ops))
	for i := range byOp {
		byOp[i] = make([]bool, len(r.options.Ratios))
	}
	for {
		i := int(next.Add(1)) - 1
		if i >= end {
			return nil
		}
		image := r.options.Images[i]
		if err := dataset.ImageNet(input.Height).Load(image.Path, x); err != nil {
			return err
		}
		trace.Run(session, y, x)
		plain := argmax(y) == image.Class
		for k := range r.ops {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.prune(trace, session, r.ops[k], y, func(ratio int) { byOp[k][ratio] = argmax(y) == image.Class })
		}
		report(plain, byOp)
	}
}

// prune zeroes more and more of an operation's last channels, computes the rest
// of the network for each ratio, and leaves the map as it was.
func (r *fig3Run) prune(trace *nn.Trace, session *nn.Session, op int, y []float32, judge func(ratio int)) {
	values, stride := trace.Map(op)
	saved := slices.Clone(values)
	channels := trace.View().Ops[op].Out.Channels
	for j, ratio := range r.options.Ratios {
		keep := channels - int(math.Floor(ratio*float64(channels)+1e-9))
		for at := 0; at < len(values); at += stride {
			clear(values[at+keep : at+channels])
		}
		trace.Resume(session, op, y)
		judge(j)
	}
	copy(values, saved)
}

func argmax(y []float32) int {
	best := 0
	for c := range y {
		if y[c] > y[best] {
			best = c
		}
	}
	return best
}

// figure sums up.
func (r *fig3Run) figure(important map[int]bool) Figure {
	n := r.options.Weights.Network
	images := float64(r.state.Done)
	f := Figure{
		Name:    "fig3",
		Caption: fmt.Sprintf("Top-1 of %s on %d images with the last channels of one operation's output set to zero: mean and deviation over operations", n.Name(), r.state.Done),
		Header:  []string{"operation", "kind", "important", "pruned", "top1"},
		Chart:   plot.Chart{Title: "Figure 3: " + n.Name(), XLabel: "channels pruned, %", YLabel: "top-1, %"},
		Remarks: []string{fmt.Sprintf("Unpruned, top-1 is %.1f %%; an accuracy of one operation has an error of about %.1f.", 100*float64(r.state.Right)/images, 50/math.Sqrt(images))},
	}
	series := map[bool]*plot.Series{true: {Name: "important"}, false: {Name: "unimportant"}}
	worse := 0
	var gaps []string
	for j, ratio := range r.options.Ratios {
		accuracies := map[bool][]float64{}
		for k, i := range r.ops {
			top1 := 100 * float64(r.state.Pruned[k][j]) / images
			accuracies[important[i]] = append(accuracies[important[i]], top1)
			f.Rows = append(f.Rows, []string{n.Ops()[i].Name, string(n.Ops()[i].Kind), strconv.FormatBool(important[i]), number(ratio), number(top1)})
		}
		means := map[bool]float64{}
		for _, kind := range []bool{true, false} {
			mean, deviation := stat.PopMeanStdDev(accuracies[kind], nil)
			s := series[kind]
			s.X, s.Y, s.Deviation = append(s.X, 100*ratio), append(s.Y, mean), append(s.Deviation, deviation)
			means[kind] = mean
		}
		worse += btoi(means[true] < means[false])
		gaps = append(gaps, fmt.Sprintf("%g %%: %.1f and %.1f", 100*ratio, means[true], means[false]))
	}
	f.Chart.Series = []plot.Series{*series[true], *series[false]}
	measured := fmt.Sprintf("lower mean top-1 at %d of %d ratios (important and unimportant at ", worse, len(r.options.Ratios))
	for i, g := range gaps {
		if i > 0 {
			measured += "; "
		}
		measured += g
	}
	f.Findings = []Finding{{
		Claim:    "at every pruning ratio, pruning an important operation costs more accuracy than pruning an unimportant one",
		Measured: measured + ")",
		Holds:    worse == len(r.options.Ratios),
	}}
	return f
}
