package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tips/engine"
	"tips/frontier"
	"tips/internal/atomicfile"
	"tips/nn"
	"tips/onnx"
	"tips/sampling"
	"tips/supernet"
	"tips/weights"
)

// OverheadOptions say what the overhead of switching is measured with.
type OverheadOptions struct {
	Weights *weights.Set
	Origin  string // of the weights, for people: "random weights", a file's name
	// Frontier holds the subnetworks, of which some are taken, evenly by their MACs;
	// nil takes random ones under evenly spaced budgets of MACs.
	Frontier *frontier.Frontier
	Subnets  int // that are switched between; the paper has 12
	// Repetitions is how often each subnetwork is switched to and reloaded.
	Repetitions int
	Threads     int
	Seed        uint64
	// Python and Node are programs that have ONNX Runtime; where both are empty,
	// python3 and node are tried.
	Python, Node string
	Machine      string                // this machine, for people
	Progress     func(done, total int) // in repetitions; may be nil
}

// What the paper reports: appendix "Overhead of Network Switch at Runtime".
const (
	paperChoices  = 1.9e3   // bytes of twelve configurations
	paperNetworks = 117.8e6 // bytes of twelve networks
	paperSwitch   = 0.037   // ms
	paperReload   = 287     // ms
)

// switchesAtOnce is how many switches are timed together: one takes less than
// reading the clock does.
const switchesAtOnce = 1000

// Overhead compares what a program pays for twelve subnetworks of one set of
// weights, in storage and to change from one to another, with what it pays for twelve
// networks.
func Overhead(ctx context.Context, o OverheadOptions) (Figure, error) {
	for _, c := range []struct {
		name             string
		value, low, high int
	}{{"--subnets", o.Subnets, 2, 1000}, {"--repetitions", o.Repetitions, 1, 1_000_000}, {"--threads", o.Threads, 1, 128}} {
		if err := within(c.name, c.value, c.low, c.high); err != nil {
			return Figure{}, err
		}
	}
	f, err := o.frontier()
	if err != nil {
		return Figure{}, err
	}
	r := &overheadRun{OverheadOptions: o, frontier: f, rng: rand.New(rand.NewPCG(o.Seed, 0x6f766572))}
	if r.engine, err = engine.New(o.Weights, f, engine.Options{Threads: o.Threads, MaxConcurrent: 1, Measure: -1}); err != nil {
		return Figure{}, err
	}
	defer r.engine.Close()
	if r.dir, err = os.MkdirTemp("", "tips-overhead-"); err != nil {
		return Figure{}, err
	}
	defer os.RemoveAll(r.dir)
	if err := r.store(ctx); err != nil {
		return Figure{}, err
	}
	input := f.Input
	if r.peer, err = startPeer(ctx, o.Python, o.Node, o.Threads, input); err != nil {
		if o.Python != "" || o.Node != "" {
			return Figure{}, fmt.Errorf("reproduce: no ONNX Runtime with %w", err)
		}
		r.noPeer = err.Error()
	} else {
		defer r.peer.close()
	}
	if err := r.measure(ctx); err != nil {
		if ctx.Err() != nil { // which ends the other process first, and that is no news
			err = ctx.Err()
		}
		return Figure{}, err
	}
	return r.figure()
}

// frontier is the subnetworks to switch between.
func (o *OverheadOptions) frontier() (*frontier.Frontier, error) {
	if o.Frontier == nil {
		return o.drawFrontier()
	}
	if err := o.Frontier.CheckWeights(o.Weights); err != nil {
		return nil, err
	}
	f := *o.Frontier
	if len(f.Points) < o.Subnets {
		return nil, usage{fmt.Errorf("--subnets %d; the frontier has %d", o.Subnets, len(f.Points))}
	}
	// Those closest to evenly spaced costs, each once, in their order.
	sorted := slices.Clone(f.Points)
	slices.SortStableFunc(sorted, func(a, b frontier.Point) int { return cmp.Compare(a.Costs.MACs, b.Costs.MACs) })
	low, high := sorted[0].Costs.MACs, sorted[len(sorted)-1].Costs.MACs
	kept := map[supernet.Subnet]bool{}
	next := 0
	for i := range o.Subnets {
		want := low + (high-low)*int64(i)/int64(o.Subnets-1)
		last := len(sorted) - (o.Subnets - i) // the ones after it are needed too
		for next < last && absolute(sorted[next+1].Costs.MACs-want) <= absolute(sorted[next].Costs.MACs-want) {
			next++
		}
		kept[sorted[next].Subnet] = true
		next++
	}
	f.Points = slices.DeleteFunc(slices.Clone(f.Points), func(p frontier.Point) bool { return !kept[p.Subnet] })
	return &f, nil
}

func absolute(n int64) int64 { return max(n, -n) }

// drawFrontier draws subnetworks whose groups differ in width, each as large as its
// budget of MACs allows; budgets are evenly spaced from the smallest subnetwork to the
// whole network. Nobody has judged them: their accuracies stand for nothing.
func (o *OverheadOptions) drawFrontier() (*frontier.Frontier, error) {
	n := o.Weights.Network
	input := n.Input()
	smallest, err := n.View(n.Smallest(), input)
	if err != nil {
		return nil, err
	}
	low, high := smallest.Costs().MACs, n.Full().Costs().MACs
	f := &frontier.Frontier{Network: n, Weights: o.Weights.Hash(), Input: input, By: []frontier.Kind{frontier.MACs}}
	rng := rand.New(rand.NewPCG(o.Seed, 0x74776c76))
	for i := range o.Subnets {
		budget := low + (high-low)*int64(i)/int64(o.Subnets-1)
		var view *supernet.View
		for range 100 { // a network of few widths may miss a step
			if view, err = drawWithin(n, input, budget, rng); err != nil {
				return nil, err
			}
			if i == 0 || view.Costs().MACs > f.Points[i-1].Costs.MACs {
				break
			}
		}
		f.Points = append(f.Points, frontier.Point{
			Subnet: view.Subnet, Accuracy: float64(i+1) / float64(o.Subnets+1), Costs: frontier.CostsOf(view.Costs()),
			Statistics: ownStatistics(o.Weights, view),
		})
	}
	if err := f.Validate(); err != nil {
		return nil, usage{fmt.Errorf("%s has no %d subnetworks of different cost: %w", n.Name(), o.Subnets, err)}
	}
	return f, nil
}

// drawWithin draws a subnetwork that costs at most budget and little less.
func drawWithin(n *supernet.Network, input supernet.Shape, budget int64, rng *rand.Rand) (*supernet.View, error) {
	const reach = 0.2 // of a group's ratio around the mean
	offsets := make([]float64, len(n.Groups()))
	for g := range offsets {
		offsets[g] = reach * (2*rng.Float64() - 1)
	}
	floor := n.Elastic().MinRatio
	at := func(mean float64) (*supernet.View, error) {
		ratios := make([]float64, len(offsets))
		for g, d := range offsets {
			ratios[g] = min(1, max(floor, mean+d))
		}
		return n.View(sampling.Ratios(n, ratios), input)
	}
	low, high := floor-reach, 1+reach // the smallest subnetwork, and the whole network
	best, err := at(high)
	if err != nil || best.Costs().MACs <= budget {
		return best, err
	}
	if best, err = at(low); err != nil {
		return nil, err
	}
	for high-low > 1e-3 {
		mean := (low + high) / 2
		v, err := at(mean)
		if err != nil {
			return nil, err
		}
		if v.Costs().MACs <= budget {
			low, best = mean, v
		} else {
			high = mean
		}
	}
	return best, nil
}

// ownStatistics are those of the whole network, cut to the widths of a subnetwork.
func ownStatistics(set *weights.Set, v *supernet.View) *weights.Statistics {
	all := set.Statistics()
	s := &weights.Statistics{Mean: make([][]float32, len(all.Mean)), Variance: make([][]float32, len(all.Variance))}
	for i, op := range set.Network.Ops() {
		if op.Norm && v.Ops[i].Runs {
			c := v.Ops[i].Out.Channels
			s.Mean[i], s.Variance[i] = all.Mean[i][:c], all.Variance[i][:c]
		}
	}
	return s
}

// overheadRun is a measurement under way.
type overheadRun struct {
	OverheadOptions
	frontier *frontier.Frontier
	engine   *engine.Engine
	dir      string
	rng      *rand.Rand
	peer     *peer
	noPeer   string // why there is none

	supernetBytes               int64   // of the weights that all subnetworks share
	networkBytes, exportedBytes []int64 // of files, by point

	switched                         sample   // seconds, over all points
	planned                          sample   // a subnetwork that was never run
	first, steady                    []sample // inference right after the switch, and again; by point
	reload, read, pack, plan, loaded []sample // reload = read + pack + plan; loaded: the inference after it
	create, created, again           []sample // ONNX Runtime's session, the inference after it, and again
}

func (r *overheadRun) networkFile(i int) string {
	return filepath.Join(r.dir, fmt.Sprintf("%d.safetensors", i))
}
func (r *overheadRun) modelFile(i int) string {
	return filepath.Join(r.dir, fmt.Sprintf("%d.onnx", i))
}

// store writes the weights, and each subnetwork as a network of its own.
func (r *overheadRun) store(ctx context.Context) error {
	whole := filepath.Join(r.dir, "supernet.safetensors")
	if err := r.Weights.Save(whole); err != nil {
		return err
	}
	var err error
	if r.supernetBytes, err = fileBytes(whole); err != nil {
		return err
	}
	for i, p := range r.frontier.Points {
		if err := ctx.Err(); err != nil {
			return err
		}
		set, err := r.Weights.ExtractWith(p.Subnet, p.Statistics)
		if err != nil {
			return err
		}
		if err := set.Save(r.networkFile(i)); err != nil {
			return err
		}
		err = atomicfile.Write(r.modelFile(i), func(w io.Writer) error {
			return onnx.Export(w, r.Weights, onnx.Options{Subnet: p.Subnet, Statistics: p.Statistics, Input: r.frontier.Input, Batch: 1})
		})
		if err != nil {
			return err
		}
		network, err := fileBytes(r.networkFile(i))
		if err != nil {
			return err
		}
		model, err := fileBytes(r.modelFile(i))
		if err != nil {
			return err
		}
		r.networkBytes, r.exportedBytes = append(r.networkBytes, network), append(r.exportedBytes, model)
	}
	return nil
}

func fileBytes(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// measure switches and reloads, all ways in turn, so that a machine that changes
// its speed does so for all alike.
func (r *overheadRun) measure(ctx context.Context) error {
	points := len(r.frontier.Points)
	for _, list := range []*[]sample{&r.first, &r.steady, &r.reload, &r.read, &r.pack, &r.plan, &r.loaded, &r.create, &r.created, &r.again} {
		*list = make([]sample, points)
	}
	session := nn.NewSession(r.Threads)
	defer session.Close()
	input, output, reloaded := make([]float32, r.engine.InputLen()), make([]float32, r.engine.Classes()), make([]float32, r.engine.Classes())
	for i := range input {
		input[i] = float32(r.rng.NormFloat64())
	}
	infer := func() error {
		_, err := r.engine.InferTo(ctx, output, input, engine.Budget{})
		return err
	}
	before := 0 // the subnetwork that ran last
	for repetition := -1; repetition < r.Repetitions; repetition++ {
		warm := repetition < 0 // a round that does not count: pages, caches, memory
		order := r.rng.Perm(points)
		if order[0] == before { // never to itself
			order[0], order[1] = order[1], order[0]
		}
		for _, i := range order {
			if err := ctx.Err(); err != nil {
				return err
			}
			visit := overheadVisit{overheadRun: r, point: i, warm: warm}
			if err := visit.switches(before, infer); err != nil {
				return err
			}
			if err := visit.reloads(session, reloaded, input); err != nil {
				return err
			}
			if !slices.Equal(output, reloaded) {
				return fmt.Errorf("reproduce: %s gives other answers as a network of its own", r.frontier.Points[i].Subnet)
			}
			if err := visit.sessions(); err != nil {
				return err
			}
			before = i
		}
		if r.Progress != nil {
			r.Progress(repetition+1, r.Repetitions)
		}
	}
	return nil
}

// overheadVisit is one change to a point, in all ways.
type overheadVisit struct {
	*overheadRun
	point int
	warm  bool
}

func (v overheadVisit) add(s *sample, took time.Duration) {
	if !v.warm {
		*s = append(*s, took.Seconds())
	}
}

// switches measures a change of the subnetwork that an engine runs.
func (v overheadVisit) switches(before int, infer func() error) error {
	points := len(v.frontier.Points)
	order := make([]int, switchesAtOnce)
	for k := range order {
		order[k] = v.rng.IntN(points)
	}
	began := time.Now()
	for _, k := range order {
		if err := v.engine.Switch(k); err != nil {
			return err
		}
	}
	v.add(&v.switched, time.Since(began)/switchesAtOnce)

	// A subnetwork that nobody has run: it must be planned.
	strange := sampling.PerGroup(v.frontier.Network).Draw(v.rng)
	began = time.Now()
	if err := v.engine.SwitchTo(strange); err != nil {
		return err
	}
	v.add(&v.planned, time.Since(began))

	// Another one runs, and has filled the caches; then this one.
	if err := v.engine.Switch(before); err != nil {
		return err
	}
	if err := infer(); err != nil {
		return err
	}
	began = time.Now()
	if err := v.engine.Switch(v.point); err != nil {
		return err
	}
	if err := infer(); err != nil {
		return err
	}
	v.add(&v.first[v.point], time.Since(began))
	began = time.Now()
	err := infer()
	v.add(&v.steady[v.point], time.Since(began))
	return err
}

// reloads measures what a program that keeps each network in a file of its own
// does instead: it reads another, packs its weights and plans it.
func (v overheadVisit) reloads(session *nn.Session, output, input []float32) error {
	times := []time.Time{time.Now()}
	mark := func() { times = append(times, time.Now()) }
	set, err := weights.Open(v.networkFile(v.point), nil)
	if err != nil {
		return err
	}
	mark()
	model := nn.NewModel(set)
	mark()
	program, err := model.Program(supernet.Subnet{}, v.frontier.Input, 1, nil)
	if err != nil {
		return err
	}
	mark()
	session.Run(program, output, input)
	mark()
	v.add(&v.read[v.point], times[1].Sub(times[0]))
	v.add(&v.pack[v.point], times[2].Sub(times[1]))
	v.add(&v.plan[v.point], times[3].Sub(times[2]))
	v.add(&v.reload[v.point], times[3].Sub(times[0]))
	v.add(&v.loaded[v.point], times[4].Sub(times[3]))
	return nil
}

// sessions measures what a program with ONNX Runtime does.
func (v overheadVisit) sessions() error {
	if v.peer == nil {
		return nil
	}
	t, err := v.peer.measure(v.modelFile(v.point))
	if err != nil || v.warm {
		return err
	}
	v.create[v.point] = append(v.create[v.point], t.Create)
	v.created[v.point] = append(v.created[v.point], t.First)
	v.again[v.point] = append(v.again[v.point], t.Again)
	return nil
}
