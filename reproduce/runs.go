package reproduce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"tips/frontier"
	"tips/search"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// Judge counts the images that subnetworks of a run classify right.
type Judge interface {
	Accuracy(ctx context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error)
	On() string // "test", "held-out"
	Close() error
}

// run is a training run: its recipe, and of the rest what was asked for.
type run struct {
	dir      string
	recipe   *train.Recipe
	network  *supernet.Network
	weights  *weights.Set
	frontier *frontier.Frontier
	searched []search.Answer // what the frontier was chosen of, where that is known
	records  []train.Record
	tested   tested // what was kept instead of weights; nil: the weights are there
}

// openRun reads the recipe of a run.
func openRun(dir string) (*run, error) {
	r := &run{dir: dir}
	var err error
	if r.recipe, err = train.OpenRecipe(r.file(train.RecipeFile)); err != nil {
		return nil, fmt.Errorf("%w; want the folder of a training run", err)
	}
	if r.recipe.Augment == nil {
		return nil, fmt.Errorf("%s: no augment; want the recipe as the run wrote it", r.file(train.RecipeFile))
	}
	return r, nil
}

// openRuns reads the recipes of runs that are to stand beside each other, and of each
// whatever read does. What is not worth reading is found out before anything long is
// read.
func openRuns(dirs []string, read ...func(*run) error) ([]*run, error) {
	if len(dirs) == 0 {
		return nil, usage{errors.New("no runs to compare; name the folders that 'tips train' wrote")}
	}
	var runs []*run
	for _, dir := range dirs {
		r, err := openRun(dir)
		if err != nil {
			return nil, err
		}
		for _, other := range runs {
			if err := alike(other, r); err != nil {
				return nil, err
			}
		}
		runs = append(runs, r)
	}
	for _, r := range runs {
		for _, f := range read {
			if err := f(r); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}

// otherRuns reads runs in a folder that are not among those compared, were searched,
// differ from them in nothing but method, seed and epochs, and have a second seed, here or
// there. A folder of "" has none.
func otherRuns(folder string, compared []*run, frontierFile string, read ...func(*run) error) ([]*run, error) {
	if folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("--noise: %w; want a folder with folders of training runs", err)
	}
	all := slices.Clone(compared)
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		if !exists(filepath.Join(dir, train.RecipeFile)) || !exists(filepath.Join(dir, frontierFile)) {
			continue
		}
		r, err := openRun(dir)
		if err != nil {
			return nil, err
		}
		if key, _, _ := differ(compared[0], r, "epochs"); key != "" {
			continue
		}
		if !slices.ContainsFunc(all, func(known *run) bool { return known.alikeButSeed(r) && known.recipe.Seed == r.recipe.Seed }) {
			all = append(all, r)
		}
	}
	var runs []*run
	for _, r := range all[len(compared):] {
		if !slices.ContainsFunc(all, func(other *run) bool { return other != r && other.alikeButSeed(r) }) {
			continue // it has nothing to say
		}
		for _, f := range read {
			if err := f(r); err != nil {
				return nil, err
			}
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s has no run that is not in the table, was searched, differs from %s in method, seed and epochs alone, and is one of two that differ in their seed", folder, compared[0].dir)
	}
	return runs, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// alikeButSeed tells whether runs that differ in no more than method, seed and epochs
// differ in nothing but their seed.
func (r *run) alikeButSeed(other *run) bool {
	return r.method() == other.method() && r.recipe.Epochs == other.recipe.Epochs
}

// file names a file of the run.
func (r *run) file(name string) string { return filepath.Join(r.dir, name) }

// readNetwork reads the network's description.
func (r *run) readNetwork() error {
	description, err := os.Open(r.file(train.NetworkFile))
	if err != nil {
		return err
	}
	defer description.Close()
	if r.network, err = supernet.Read(description); err != nil {
		return fmt.Errorf("%s: %w", description.Name(), err)
	}
	return nil
}

// readWeights reads the network and its weights, which a run has when it is over.
func (r *run) readWeights() error {
	if err := r.readNetwork(); err != nil {
		return err
	}
	name := r.file(train.WeightsFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		if exists(r.file(testedFile)) {
			return fmt.Errorf("reproduce: %s is missing: the run was kept without weights; want it whole", name)
		}
		return fmt.Errorf("reproduce: %s is missing; a run has weights when it is over: go on with it by 'tips train'", name)
	}
	var err error
	r.weights, err = weights.Open(name, r.network)
	return err
}

// readMetrics reads what the run took down.
func (r *run) readMetrics() error {
	metrics, err := os.Open(r.file(train.MetricsFile))
	if err != nil {
		return err
	}
	defer metrics.Close()
	if r.records, err = train.ReadMetrics(metrics); err != nil {
		return fmt.Errorf("%s: %w", metrics.Name(), err)
	}
	return nil
}

// readFrontier reads the frontier in a file of the run's folder, which is to be that
// of its weights, where it has any.
func (r *run) readFrontier(name string) error {
	name = r.file(name)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reproduce: %s is missing; 'tips search %s' finds it", name, r.dir)
	}
	var err error
	if r.tested != nil {
		r.frontier, err = frontier.Open(name, r.network)
	} else {
		r.frontier, err = openFrontier(name, r.weights)
	}
	return err
}

// readSearch reads what a search judged, if that is there: of how much a frontier was
// chosen says how hard was looked.
func (r *run) readSearch(name string) error {
	var err error
	if r.searched, err = search.Answers(r.file(name), r.network); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// openFrontier reads a frontier that is to be that of some weights.
func openFrontier(name string, set *weights.Set) (*frontier.Frontier, error) {
	f, err := frontier.Open(name, set.Network)
	if err != nil {
		return nil, err
	}
	if err := f.CheckWeights(set); err != nil {
		return nil, fmt.Errorf("frontier %s: %w", name, err)
	}
	return f, nil
}

// alike tells why two runs cannot stand beside each other: nothing but
// method and seed may differ, where the data lies, and how a run is watched and
// saved.
func alike(a, b *run) error {
	if key, here, there := differ(a, b); key != "" {
		return fmt.Errorf("%s and %s differ in more than method and seed: %s is %s and %s; not to be compared", a.dir, b.dir, key, here, there)
	}
	if a.method() == b.method() && a.recipe.Seed == b.recipe.Seed {
		return fmt.Errorf("%s and %s are both of %s with seed %d", a.dir, b.dir, a.method(), a.recipe.Seed)
	}
	return nil
}

// differ is the first key in which two runs differ, but for method, seed and what else
// may, and how a run is watched; empty if there is none.
func differ(a, b *run, but ...string) (key, here, there string) {
	if key, here, there = a.recipe.Differs(b.recipe, append(but, "method", "seed", "evaluate")...); key != "" {
		return key, here, there
	}
	// Searches and verdicts re-estimate statistics by it, too.
	if here, there := a.recipe.Evaluate.Calibration, b.recipe.Evaluate.Calibration; here != there {
		return "evaluate.calibration", fmt.Sprint(here), fmt.Sprint(there)
	}
	return "", "", ""
}

// method is how a run is labelled.
func (r *run) method() string { return methodLabel(r.recipe.Method) }

// Labels of TIPS: as published, and as recipes have it that say nothing else.
const (
	published = "tips"
	byDefault = published + ", smallest"
)

// tipsAmong is the label, among those of methods, that the paper's claims are held
// against: TIPS as published, or else by default. It is empty where neither is there.
func tipsAmong(labels []string) string {
	for _, label := range []string{published, byDefault} {
		if slices.Contains(labels, label) {
			return label
		}
	}
	return ""
}

// aboutTIPS begins what was measured of TIPS, if it is not as published.
func aboutTIPS(label string) string {
	if label == published {
		return ""
	}
	return label + ": "
}

// methodLabel names a method, and what is not as published with it.
func methodLabel(m train.MethodRecipe) string {
	m = m.Own()
	label := m.Name
	for _, part := range []struct {
		unusual bool
		text    string
	}{
		{m.Loss == "own", "own loss"},
		{m.Factor != 0, fmt.Sprintf("factor %v", m.Factor)},
		{m.Together, "together"},
		{m.Highest != 0, fmt.Sprintf("up to %.3g", m.Highest)},
		{m.Smallest, "smallest"},
		{m.Plain != 0, fmt.Sprintf("%d plain", m.Plain)},
		{m.Others, "others favoured"},
		{m.Analysis.Path != "", "path " + m.Analysis.Path},
		{m.Analysis.PathNodes != 0, fmt.Sprintf("path of %d nodes", m.Analysis.PathNodes)},
		{m.Analysis.Subnets != 0, fmt.Sprintf("analysis of %d", m.Analysis.Subnets)},
		{m.Analysis.Lambda != 0, fmt.Sprintf("λ %v", m.Analysis.Lambda)},
		{m.Analysis.Seed != 0, fmt.Sprintf("analysis seed %d", m.Analysis.Seed)},
		{m.Analysis.Expected, "expected scores"},
		{m.WorstUp, "worst up"},
		{m.Subnet != "", m.Subnet},
	} {
		if part.unusual {
			label += ", " + part.text
		}
	}
	return label
}

// byMethod groups runs, methods in the order in which they first occur.
func byMethod[R interface{ method() string }](runs []R) (methods []string, of map[string][]R) {
	of = map[string][]R{}
	for _, r := range runs {
		m := r.method()
		if of[m] == nil {
			methods = append(methods, m)
		}
		of[m] = append(of[m], r)
	}
	return methods, of
}

// model is a network's name without its settings.
func model(network string) string {
	name, _, _ := strings.Cut(network, ":")
	return name
}

// dataName is what a recipe's data is called in titles.
func dataName(data string) string {
	format, _, _ := strings.Cut(data, ":")
	names := map[string]string{"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "fashion-mnist": "Fashion-MNIST", "mnist": "MNIST"}
	if name, known := names[format]; known {
		return name
	}
	return format
}

// spread is the mean and the deviation of a sample; that of one value is zero.
func spread(x []float64) (mean, deviation float64) {
	mean = stat.Mean(x, nil)
	if len(x) > 1 {
		deviation = stat.StdDev(x, nil)
	}
	return mean, deviation
}
