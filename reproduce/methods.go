package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"tips/dataset"
	"tips/plot"
	"tips/sampling"
	"tips/supernet"
	"tips/train"
)

// MethodsOptions say which runs of training are compared, and how thoroughly.
type MethodsOptions struct {
	Runs    []string // folders of finished runs of one recipe, by method and seed
	Data    string   // where the data is; "" for what the runs' recipes say
	Formats []dataset.Format

	// Candidates is how many subnetworks, the same ones of every run, a frontier is
	// chosen from, and Images by how many training images it is chosen.
	Candidates, Images int
	Seed               uint64 // of the candidates
	Threads            int
	Progress           func(done, total int) // in candidates; may be nil
}

const (
	budgets     = 8  // places along the cost at which frontiers are read
	multipliers = 27 // ratios for all groups that are candidates, unless they are the same subnetworks
)

// Methods compares training methods: how their networks learnt, and what accuracy
// each reaches within a budget of MACs, mean and deviation over the seeds.
func Methods(ctx context.Context, o MethodsOptions) (curves, frontiers Figure, err error) {
	for _, c := range []struct {
		name       string
		value, low int
	}{{"--candidates", o.Candidates, 2}, {"--images", o.Images, 1}, {"--threads", o.Threads, 1}} {
		if err := within(c.name, c.value, c.low, 1_000_000); err != nil {
			return Figure{}, Figure{}, err
		}
	}
	opened, err := openRuns(o.Runs, (*run).readWeights, (*run).readMetrics)
	if err != nil {
		return Figure{}, Figure{}, err
	}
	var runs []*methodRun
	for _, r := range opened {
		runs = append(runs, &methodRun{run: r})
	}
	if curves, err = learningCurves(opened); err != nil {
		return Figure{}, Figure{}, err
	}
	candidates, err := drawCandidates(opened[0].network, o)
	if err != nil {
		return Figure{}, Figure{}, err
	}
	levels := candidates.levels()
	for i, r := range runs {
		progress := func(done int) {
			if o.Progress != nil {
				o.Progress(i*len(candidates)+done, len(runs)*len(candidates))
			}
		}
		if r.chosen, err = r.judge(ctx, o, candidates, levels, progress); err != nil {
			return Figure{}, Figure{}, fmt.Errorf("%s: %w", r.dir, err)
		}
	}
	return curves, frontierFigure(runs, levels, len(candidates), o), nil
}

// methodRun is a finished run, and what was chosen among its subnetworks.
type methodRun struct {
	*run
	chosen []choice // by level
}

// choice is the candidate taken within a budget.
type choice struct {
	subnet   supernet.Subnet
	macs     int64
	accuracy float64 // on test images
}

// learningCurves shows the test error of the full and the smallest subnetwork after every
// epoch.
func learningCurves(runs []*run) (Figure, error) {
	f := Figure{
		Name: "methods-curves", Caption: fmt.Sprintf("learning of %s, by method", runs[0].network.Name()),
		Header: []string{"method", "seed", "epoch", "subnetwork", "macs", "loss", "accuracy"},
		Chart:  plot.Chart{Title: model(runs[0].network.Name()) + ": test accuracy by epoch", XLabel: "epoch", YLabel: "% of the test images"},
	}
	methods, of := byMethod(runs)
	for _, m := range methods {
		values := map[string]map[int][]float64{}
		for _, r := range of[m] {
			for _, record := range r.records {
				if record.Evaluation == nil {
					continue
				}
				for _, e := range record.Evaluation.Results {
					f.Rows = append(f.Rows, []string{m, fmt.Sprint(r.recipe.Seed), fmt.Sprint(record.Evaluation.Epoch), e.Name, fmt.Sprint(e.MACs), number(e.Loss), number(e.Accuracy)})
					if values[e.Name] == nil {
						values[e.Name] = map[int][]float64{}
					}
					values[e.Name][record.Evaluation.Epoch] = append(values[e.Name][record.Evaluation.Epoch], 100*e.Accuracy)
				}
			}
		}
		for _, name := range []string{"full", "smallest"} {
			s := plot.Series{Name: m + ": " + name} // not a comma: methods have them
			var epochs []int
			for e := range values[name] {
				epochs = append(epochs, e)
			}
			slices.Sort(epochs)
			for _, e := range epochs {
				mean, deviation := spread(values[name][e])
				s.X, s.Y, s.Deviation = append(s.X, float64(e)), append(s.Y, mean), append(s.Deviation, deviation)
			}
			if len(epochs) > 0 {
				f.Chart.Series = append(f.Chart.Series, s)
			}
		}
	}
	if len(f.Chart.Series) == 0 {
		return Figure{}, errors.New("no run was evaluated; see the key evaluate of its recipe")
	}
	return f, nil
}

// candidate is a subnetwork that may stand on a frontier.
type candidate struct {
	subnet supernet.Subnet
	macs   int64
}

type candidates []candidate

// drawCandidates draws subnetworks, each width group by itself, beside those with
// one ratio for all, in rising order of cost.
func drawCandidates(n *supernet.Network, o MethodsOptions) (candidates, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x63616e64))
	sampler := sampling.PerGroup(n)
	seen := map[supernet.Subnet]bool{}
	var list candidates
	add := func(s supernet.Subnet) error {
		if seen[s] {
			return nil
		}
		seen[s] = true
		v, err := n.View(s, n.Input())
		if err != nil {
			return err
		}
		list = append(list, candidate{s, v.Costs().MACs})
		return nil
	}
	if err := errors.Join(add(n.Smallest()), add(supernet.Subnet{})); err != nil {
		return nil, err
	}
	// What methods that draw one multiplier for all groups have trained.
	for _, ratio := range sampling.Spaced(n, multipliers) {
		s, err := n.Uniform(ratio)
		if err == nil {
			err = add(s)
		}
		if err != nil {
			return nil, err
		}
	}
	for range 100 * o.Candidates { // a small network may not have so many
		if len(list) >= o.Candidates {
			break
		}
		if err := add(sampler.Draw(rng)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return int(a.macs - b.macs) })
	return list, nil
}

// levels are budgets from the smallest to the full cost, evenly spaced.
func (c candidates) levels() []int64 {
	low, high := c[0].macs, c[len(c)-1].macs
	levels := make([]int64, budgets)
	for i := range levels {
		levels[i] = low + (high-low)*int64(i)/(budgets-1)
	}
	return levels
}

// judge takes, for every level, the candidate within it that is most accurate on
// training images, and measures its accuracy on test images: what is chosen by the
// test images themselves would look better than it is.
func (r *methodRun) judge(ctx context.Context, o MethodsOptions, all candidates, levels []int64, progress func(done int)) ([]choice, error) {
	if o.Data != "" {
		if err := r.recipe.Set("data", o.Data); err != nil {
			return nil, err
		}
	}
	data, err := dataset.Open(r.recipe.Data, o.Formats...)
	if err != nil {
		return nil, err
	}
	executor := train.NewCPU(train.Settings{Network: r.network}, o.Threads)
	defer executor.Close()
	if err := executor.Restore(train.NewState(r.weights, false)); err != nil {
		return nil, err
	}
	load := func(s dataset.Source, images int, seed uint64) (*dataset.Loader, error) {
		in := r.network.Input()
		if in.Height == 1 && in.Width == 1 { // a perceptron takes pixels for channels
			in = supernet.Shape{Channels: data.Channels, Height: data.Size, Width: data.Size}
		}
		kept, _ := dataset.Holdout(s, s.Len()-min(images, s.Len()), seed)
		return dataset.NewLoader(kept, dataset.LoaderOptions{
			Batch: min(256, kept.Len()), Height: in.Height, Width: in.Width, Channels: in.Channels,
			Pipeline: r.recipe.Augment.Normalised(data).Evaluation(), Seed: seed, Workers: o.Threads, Shuffle: true,
		})
	}
	calibration, err := load(data.Train, r.recipe.Evaluate.Calibration, o.Seed)
	if err != nil {
		return nil, err
	}
	score := func(on *dataset.Loader, subs []supernet.Subnet) ([]train.Score, error) {
		return executor.Evaluate(ctx, train.Examination{Subnets: subs, Calibration: calibration.Epoch(ctx, 0, 0), Test: on.Epoch(ctx, 0, 0)})
	}
	training, err := load(data.Train, o.Images, o.Seed+1)
	if err != nil {
		return nil, err
	}
	const atOnce = 8 // batches are loaded once for all of these
	var correct []int
	for some := range slices.Chunk(all, atOnce) {
		subs := make([]supernet.Subnet, len(some))
		for i, c := range some {
			subs[i] = c.subnet
		}
		scores, err := score(training, subs)
		if err != nil {
			return nil, err
		}
		for _, s := range scores {
			correct = append(correct, s.Correct)
		}
		progress(len(correct))
	}

	var chosen []int // by level; the cheapest of equals
	for _, level := range levels {
		best := 0
		for i, c := range all {
			if c.macs <= level && correct[i] > correct[best] {
				best = i
			}
		}
		chosen = append(chosen, best)
	}
	subs := make([]supernet.Subnet, len(chosen))
	for i, c := range chosen {
		subs[i] = all[c].subnet
	}
	test, err := load(data.Test, math.MaxInt, o.Seed)
	if err != nil {
		return nil, err
	}
	scores, err := score(test, subs)
	if err != nil {
		return nil, err
	}
	var frontier []choice
	for i, c := range chosen {
		frontier = append(frontier, choice{all[c].subnet, all[c].macs, scores[i].Accuracy()})
	}
	return frontier, nil
}

// frontierFigure shows what every method reaches within each budget.
func frontierFigure(runs []*methodRun, levels []int64, candidates int, o MethodsOptions) Figure {
	f := Figure{
		Name: "methods-frontier", Caption: fmt.Sprintf("accuracy of %s within a budget of MACs, by method", runs[0].network.Name()),
		Header: []string{"method", "seed", "budget", "macs", "subnetwork", "accuracy"},
		Chart:  plot.Chart{Title: model(runs[0].network.Name()) + ": accuracy within a budget", XLabel: "million MACs (FLOPs in papers)", YLabel: "% of the test images"},
		Remarks: []string{
			fmt.Sprintf("Subnetworks are chosen among %d, by their accuracy on at most %d training images; the accuracy shown is that on the test images.", candidates, o.Images),
		},
	}
	methods, of := byMethod(runs)
	means := map[string][]float64{}
	for _, m := range methods {
		s := plot.Series{Name: m}
		for i, level := range levels {
			var values []float64
			for _, r := range of[m] {
				c := r.chosen[i]
				values = append(values, 100*c.accuracy)
				f.Rows = append(f.Rows, []string{m, fmt.Sprint(r.recipe.Seed), fmt.Sprint(level), fmt.Sprint(c.macs), c.subnet.String(), number(c.accuracy)})
			}
			mean, deviation := spread(values)
			s.X, s.Y, s.Deviation = append(s.X, float64(level)/1e6), append(s.Y, mean), append(s.Deviation, deviation)
			means[m] = append(means[m], mean)
		}
		f.Chart.Series = append(f.Chart.Series, s)
	}
	ours := tipsAmong(methods)
	if tips := means[ours]; tips != nil {
		for _, m := range methods {
			if m == published || strings.HasPrefix(m, published+", ") {
				continue // what the paper claims is about other methods
			}
			ahead := 0
			for i := range levels {
				if tips[i] > means[m][i] {
					ahead++
				}
			}
			f.Findings = append(f.Findings, Finding{
				Claim:    fmt.Sprintf("TIPS is ahead of %s at every budget", m),
				Measured: aboutTIPS(ours) + fmt.Sprintf("ahead at %d of %d budgets; smallest %.2f %% against %.2f %%, full %.2f %% against %.2f %%", ahead, len(levels), tips[0], means[m][0], tips[len(tips)-1], means[m][len(tips)-1]),
				Holds:    ahead == len(levels),
			})
		}
	}
	return f
}
