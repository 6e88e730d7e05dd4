package train

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"tips/dataset"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train/method"
)

// recipeVersion rises when recipes of the old form would be read wrongly. Those of
// version 1, which mean method.smallest: false where they say nothing, are still read.
const recipeVersion = 2

// maxRecipeBytes bounds what a recipe may hold; the longest of ours has a
// thirtieth of it.
const maxRecipeBytes = 64 << 10

// Recipe is all that a run of training depends on. The doc tags are the reference
// that users read.
type Recipe struct {
	Version int    `yaml:"version" need:"yes" doc:"of this form of file; 2"`
	Name    string `yaml:"name" need:"yes" doc:"what the run is called"`
	About   string `yaml:"about,omitempty" doc:"a line for lists"`

	Network string `yaml:"network" need:"yes" doc:"a network of the zoo, or the path of a description file"`
	Data    string `yaml:"data" need:"yes" doc:"FORMAT or FORMAT:DIR, as --data; see tips train --help"`
	Holdout int    `yaml:"holdout" doc:"training images kept back: what methods judge widths by, and what evaluate.set: holdout means"`
	Seed    uint64 `yaml:"seed" doc:"of everything that is left to chance"`
	Epochs  int    `yaml:"epochs" need:"yes" doc:"passes over the training images"`
	Batch   int    `yaml:"batch" doc:"images of a step; those that fill no batch at the end of an epoch are left out"`

	Method   MethodRecipe      `yaml:"method"`
	Augment  *dataset.Pipeline `yaml:"augment,omitempty"` // nil: what is usual for the data
	SGD      SGDRecipe         `yaml:"sgd"`
	Schedule ScheduleRecipe    `yaml:"schedule"`

	Smoothing float64 `yaml:"label_smoothing" doc:"part of the labels' probability spread over all classes"`
	Average   float64 `yaml:"average" doc:"decay, a step, of a moving average of the weights; 0 keeps one only for methods that need it, at their own decay, and they take no other"`

	Evaluate   EvaluateRecipe   `yaml:"evaluate"`
	Checkpoint CheckpointRecipe `yaml:"checkpoint"`
	Metrics    MetricsRecipe    `yaml:"metrics"`
	Threads    int              `yaml:"threads" doc:"of the processor to use; 0 for all of them"`
}

// MethodRecipe names the training method and its options.
type MethodRecipe struct {
	Name string `yaml:"name" doc:"tips, us-nets, …: the methods of docs/methods.md"`
	Loss string `yaml:"loss" doc:"paper: every method learns by the loss of TIPS, as the paper's tables compare them; own: by the loss it was published with"`

	Factor   float64        `yaml:"factor" doc:"tips: how much wider important groups are drawn; 0 means 1.5, 1 favours none"`
	Together bool           `yaml:"together" doc:"tips: one base ratio for a whole subnetwork instead of one for every width group"`
	Highest  float64        `yaml:"highest" doc:"tips: the most that a base ratio is; 0 means 1; up to 1/factor important groups are always wider by the factor"`
	Smallest bool           `yaml:"smallest" doc:"tips: train the smallest subnetwork in every step, in the place of one that is drawn; false is the method as published"`
	Plain    int            `yaml:"plain" doc:"tips: how many of the subnetworks drawn for a step favour no group, 0 to 3 or, beside smallest, 2"`
	Others   bool           `yaml:"others" doc:"tips: favour the groups that are not important instead of those that are, to see whether it matters which"`
	Analysis AnalysisRecipe `yaml:"analysis"`
	WorstUp  bool           `yaml:"worst_up" doc:"attentive-nas: train the worst of the candidates instead of the best"`
	Subnet   string         `yaml:"subnet" doc:"static: the subnetwork that is trained, written as in evaluate.subnets; empty for the full one"`
}

// AnalysisRecipe is how tips finds the important operations.
type AnalysisRecipe struct {
	Path      string  `yaml:"path" doc:"tips: which path is the important one: mean, the highest mean TAS, or total, the highest TPS; empty for mean, or by path_nodes"`
	PathNodes int     `yaml:"path_nodes" doc:"tips: compare paths of this many nodes; 0 for any"`
	Subnets   int     `yaml:"subnets" doc:"tips: subnetworks that the analysis draws; 0 means 8"`
	Lambda    float64 `yaml:"lambda" doc:"tips: coupling between them; 0 means 1"`
	Seed      uint64  `yaml:"seed" doc:"tips: of that draw"`
	Expected  bool    `yaml:"expected" doc:"tips: expected scores over all draws instead of one draw"`
}

// SGDRecipe is the optimiser.
type SGDRecipe struct {
	Rate        float64 `yaml:"rate" need:"yes" doc:"the highest learning rate"`
	Momentum    float64 `yaml:"momentum" doc:"part of the last step that is taken again"`
	Nesterov    bool    `yaml:"nesterov" doc:"whether momentum looks a step ahead"`
	WeightDecay float64 `yaml:"weight_decay" doc:"times the weights, added to the gradient"`
	DecayNorm   bool    `yaml:"decay_norm" doc:"whether scale and shift of batch norm decay too"`
	DecayBias   bool    `yaml:"decay_bias" doc:"whether biases decay too"`
	ClipNorm    float64 `yaml:"clip_norm" doc:"the largest norm that the gradient of all parameters may have; 0 for any"`
}

// ScheduleRecipe is how the learning rate changes.
type ScheduleRecipe struct {
	Decay  Decay   `yaml:"decay" doc:"cosine, step or constant"`
	Warmup float64 `yaml:"warmup" doc:"epochs in which the rate rises in a straight line from 0"`
	Final  float64 `yaml:"final" doc:"part of the rate that a cosine ends at"`
	Drops  []int   `yaml:"drops,flow" doc:"epochs after which a step schedule lowers the rate"`
	DropBy float64 `yaml:"drop_by" doc:"what a step schedule multiplies the rate by"`
}

// EvaluateRecipe is how the network is judged while it learns.
type EvaluateRecipe struct {
	Every       int      `yaml:"every" doc:"epochs from one evaluation to the next; 0 judges at the end only"`
	Subnets     []string `yaml:"subnets,flow" doc:"what is judged: full, smallest, a ratio for all widths such as 0.5, or a subnetwork as tips describe writes it"`
	Set         string   `yaml:"set" doc:"test, or holdout for the images kept back"`
	Weights     string   `yaml:"weights" doc:"trained, or average for their moving average: what is judged, and what is saved at the end"`
	Calibration int      `yaml:"calibration" doc:"training images that batch-norm statistics are re-estimated on"`
	Images      int      `yaml:"images" doc:"images to judge by, evenly chosen; 0 for all"`
	Batch       int      `yaml:"batch" doc:"images at a time"`
}

// CheckpointRecipe is when a run saves itself. Whichever comes first counts; one
// is saved at the end and on interruption in any case.
type CheckpointRecipe struct {
	Seconds int `yaml:"seconds" doc:"between checkpoints; 0 for any time"`
	Steps   int `yaml:"steps" doc:"between checkpoints; 0 for any number"`
	Epochs  int `yaml:"epochs" doc:"between checkpoints; 0 for any number"`
}

// MetricsRecipe is what is written down of a run.
type MetricsRecipe struct {
	Every int `yaml:"every" doc:"steps from one record to the next"`
}

// defaultRecipe is what a recipe says where it says nothing.
func defaultRecipe() Recipe {
	return Recipe{
		Seed: 1, Batch: 128,
		Method:     MethodRecipe{Name: "tips", Loss: string(method.Paper), Smallest: true}, // docs/cifar100.md has the reason
		SGD:        SGDRecipe{Momentum: 0.9, DecayNorm: true, DecayBias: true},
		Schedule:   ScheduleRecipe{Decay: CosineDecay, Drops: []int{}, DropBy: 0.1},
		Evaluate:   EvaluateRecipe{Every: 1, Subnets: []string{"full", "0.75", "0.5", "smallest"}, Set: "test", Weights: "trained", Calibration: 2048, Batch: 256},
		Checkpoint: CheckpointRecipe{Seconds: 300, Epochs: 1},
		Metrics:    MetricsRecipe{Every: 1},
	}
}

// OpenRecipe reads a recipe file.
func OpenRecipe(name string) (*Recipe, error) {
	f, err := os.Open(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("recipe %s: %w", name, err)
	}
	defer f.Close()
	r, err := ReadRecipe(f)
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", name, err)
	}
	return r, nil
}

// ReadRecipe reads a recipe, strictly: unknown and repeated keys are errors that
// tell where they stand. It checks what can be checked without the network and
// the data.
func ReadRecipe(from io.Reader) (*Recipe, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxRecipeBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecipeBytes {
		return nil, fmt.Errorf("more than %d bytes", maxRecipeBytes)
	}
	// The version alone first, so that a recipe of another version is named as
	// such and not by the first key that this version does not know.
	var header struct {
		Version *int `yaml:"version"`
	}
	if err := yaml.Unmarshal(text, &header); err != nil {
		return nil, explain(text, err)
	}
	if header.Version == nil {
		return nil, fmt.Errorf("version is missing; want version: %d", recipeVersion)
	}
	r := defaultRecipe()
	switch *header.Version {
	case recipeVersion:
	case 1:
		r.Method.Smallest = false
	default:
		return nil, fmt.Errorf("%w %d; this program reads versions 1 to %d", ErrVersion, *header.Version, recipeVersion)
	}
	if err := decode(text, &r); err != nil {
		return nil, err
	}
	r.Version = recipeVersion
	return &r, r.Validate()
}

func decode(text []byte, r *Recipe) error {
	if err := checkScalars(text); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := d.Decode(r); err != nil {
		return explain(text, err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return fmt.Errorf("the recipe goes on after its end")
	}
	return nil
}

// Set changes one key, written with dots as in sgd.rate, to a value, written as
// in a recipe file. The recipe is not checked as a whole: Validate does that, after
// all changes.
func (r *Recipe) Set(key, value string) error {
	var text strings.Builder
	parts := strings.Split(key, ".")
	for i, part := range parts {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return fmt.Errorf("key %q; want one like sgd.rate", key)
		}
		fmt.Fprintf(&text, "%s%s:", strings.Repeat("  ", i), part)
		if i < len(parts)-1 {
			text.WriteByte('\n')
		}
	}
	if strings.ContainsAny(value, "\n\r") {
		return fmt.Errorf("%s: a value of several lines", key)
	}
	text.WriteString(" " + value + "\n")
	changed := *r
	if r.Augment != nil {
		augment := *r.Augment
		changed.Augment = &augment
	}
	if err := decode([]byte(text.String()), &changed); err != nil {
		var wrong *keyError
		if errors.As(err, &wrong) { // where in the text that stands is nobody's concern
			return fmt.Errorf("%s=%s: %s", key, value, wrong.message)
		}
		return fmt.Errorf("%s=%s: %w", key, value, err)
	}
	*r = changed
	return nil
}

// Validate says what is wrong with a recipe, in one line.
func (r *Recipe) Validate() error {
	// Each row: whether it is fine, the key, its value, what is wanted.
	for _, c := range []struct {
		fine  bool
		key   string
		value any
		want  string
	}{
		{r.Version == recipeVersion, "version", r.Version, strconv.Itoa(recipeVersion)},
		{r.Name != "" && !strings.ContainsAny(r.Name, "/\\\n") && len(r.Name) <= 100, "name", r.Name, "a short name without slashes"},
		{r.Network != "", "network", r.Network, "a network of the zoo or a description file"},
		{r.Data != "", "data", r.Data, "FORMAT or FORMAT:DIR"},
		{r.Holdout >= 0, "holdout", r.Holdout, "0 or more images"},
		{r.Epochs >= 1 && r.Epochs <= 1e6, "epochs", r.Epochs, "1 to 1000000"},
		{r.Batch >= 2 && r.Batch <= 1<<20, "batch", r.Batch, "2 to 1048576 images"},
		{slices.Contains(method.Names(), r.Method.Name), "method.name", r.Method.Name, "one of " + strings.Join(method.Names(), ", ")},
		{r.Method.Loss == string(method.Paper) || r.Method.Loss == string(method.Own), "method.loss", r.Method.Loss, "paper or own"},
		{r.SGD.Rate > 0 && r.SGD.Rate <= 1e6, "sgd.rate", r.SGD.Rate, "a number above 0"},
		{r.SGD.Momentum >= 0 && r.SGD.Momentum < 1, "sgd.momentum", r.SGD.Momentum, "0 to 1, without 1"},
		{!r.SGD.Nesterov || r.SGD.Momentum > 0, "sgd.nesterov", r.SGD.Nesterov, "false where momentum is 0"},
		{r.SGD.WeightDecay >= 0 && r.SGD.WeightDecay < 1, "sgd.weight_decay", r.SGD.WeightDecay, "0 to 1, without 1"},
		{r.SGD.ClipNorm >= 0 && finite(r.SGD.ClipNorm), "sgd.clip_norm", r.SGD.ClipNorm, "0 or more"},
		{r.Schedule.Decay == CosineDecay || r.Schedule.Decay == StepDecay || r.Schedule.Decay == ConstantDecay, "schedule.decay", r.Schedule.Decay, "cosine, step or constant"},
		{r.Schedule.Warmup >= 0 && r.Schedule.Warmup <= float64(r.Epochs), "schedule.warmup", r.Schedule.Warmup, "0 to epochs"},
		{r.Schedule.Final >= 0 && r.Schedule.Final <= 1, "schedule.final", r.Schedule.Final, "0 to 1"},
		{slices.IsSorted(r.Schedule.Drops) && (len(r.Schedule.Drops) == 0 || r.Schedule.Drops[0] > 0), "schedule.drops", r.Schedule.Drops, "epochs above 0, in order"},
		{r.Schedule.DropBy > 0 && r.Schedule.DropBy <= 1, "schedule.drop_by", r.Schedule.DropBy, "above 0, to 1"},
		{r.Smoothing >= 0 && r.Smoothing < 1, "label_smoothing", r.Smoothing, "0 to 1, without 1"},
		{r.Average >= 0 && r.Average < 1, "average", r.Average, "0 to 1, without 1"},
		{r.Evaluate.Every >= 0, "evaluate.every", r.Evaluate.Every, "0 or more epochs"},
		{len(r.Evaluate.Subnets) > 0 && len(r.Evaluate.Subnets) <= 1000, "evaluate.subnets", r.Evaluate.Subnets, "1 to 1000 of them"},
		{r.Evaluate.Set == "test" || r.Evaluate.Set == "holdout" && r.Holdout > 0, "evaluate.set", r.Evaluate.Set, "test, or holdout where holdout is above 0"},
		{r.Evaluate.Weights == "trained" || r.Evaluate.Weights == "average", "evaluate.weights", r.Evaluate.Weights, "trained or average"},
		{r.Evaluate.Calibration >= 2, "evaluate.calibration", r.Evaluate.Calibration, "2 images or more"},
		{r.Evaluate.Images >= 0, "evaluate.images", r.Evaluate.Images, "0 or more"},
		{r.Evaluate.Batch >= 2 && r.Evaluate.Batch <= 1<<20, "evaluate.batch", r.Evaluate.Batch, "2 to 1048576 images"},
		{r.Checkpoint.Seconds >= 0, "checkpoint.seconds", r.Checkpoint.Seconds, "0 or more"},
		{r.Checkpoint.Steps >= 0, "checkpoint.steps", r.Checkpoint.Steps, "0 or more"},
		{r.Checkpoint.Epochs >= 0, "checkpoint.epochs", r.Checkpoint.Epochs, "0 or more"},
		{r.Metrics.Every >= 1, "metrics.every", r.Metrics.Every, "1 or more"},
		{r.Threads >= 0 && r.Threads <= 1024, "threads", r.Threads, "0 to 1024"},
	} {
		if !c.fine {
			return fmt.Errorf("%s: %v; want %s", c.key, c.value, c.want)
		}
	}
	if r.Augment != nil {
		if err := r.Augment.Validate(); err != nil {
			return fmt.Errorf("augment: %w", err)
		}
	}
	return nil
}

// Write writes the recipe, with every key, so that ReadRecipe gives it back.
func (r *Recipe) Write(w io.Writer) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("train: recipe: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// OpenNetwork builds or reads the network that the recipe names.
func (r *Recipe) OpenNetwork() (*supernet.Network, error) {
	if !strings.ContainsRune(r.Network, os.PathSeparator) && !strings.HasSuffix(r.Network, ".json") {
		return zoo.New(r.Network)
	}
	f, err := os.Open(r.Network)
	if err != nil {
		return nil, fmt.Errorf("network %w", err)
	}
	defer f.Close()
	return supernet.Read(f)
}

// subnets are those that evaluate.subnets names.
func (r *Recipe) subnets(n *supernet.Network) ([]supernet.Subnet, error) {
	var list []supernet.Subnet
	for _, name := range r.Evaluate.Subnets {
		s, err := ParseSubnet(n, name)
		if err != nil {
			return nil, fmt.Errorf("evaluate.subnets: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

// Own is a method's recipe without settings of other methods, which change nothing.
func (m MethodRecipe) Own() MethodRecipe {
	own := MethodRecipe{Name: m.Name, Loss: m.Loss}
	switch m.Name {
	case "tips":
		own = m
		own.WorstUp, own.Subnet = false, ""
	case "attentive-nas":
		own.WorstUp = m.WorstUp
	case "static":
		own.Subnet = m.Subnet
	}
	return own
}

// essence is the recipe without what changes no result: where the data lies, how
// often a run saves itself, how many threads it has, settings of other methods.
func (r *Recipe) essence() map[string]string {
	c := *r
	c.About, c.Name = "", ""
	c.Data, _, _ = strings.Cut(c.Data, ":")
	if c.Data == "synthetic" {
		c.Data = r.Data // there is no folder after the colon, but what to make
	}
	c.Checkpoint, c.Metrics, c.Threads = CheckpointRecipe{}, MetricsRecipe{}, 0
	c.Method = c.Method.Own()
	return flatten(&c)
}

// difference names the first key in which two recipes would train differently.
func (r *Recipe) difference(other *Recipe) string {
	key, here, there := r.Differs(other)
	if key == "" {
		return ""
	}
	return fmt.Sprintf("%s is %s there and %s here", key, there, here)
}

// Differs gives the first key, in the order of the alphabet, in which two recipes
// would train differently, and what each says; empty texts if there is none. Keys
// whose first word is one of but, as that of method.loss is method, may differ.
func (r *Recipe) Differs(other *Recipe, but ...string) (key, here, there string) {
	a, b := r.essence(), other.essence()
	var all []string
	for k := range a {
		all = append(all, k)
	}
	for k := range b {
		all = append(all, k)
	}
	slices.Sort(all)
	for _, k := range all {
		first, _, _ := strings.Cut(k, ".")
		if a[k] != b[k] && !slices.Contains(but, first) {
			return k, cmp.Or(a[k], "not set"), cmp.Or(b[k], "not set")
		}
	}
	return "", "", ""
}
