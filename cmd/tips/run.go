package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tips/engine"
	"tips/engine/input"
	"tips/frontier"
	"tips/supernet"
	"tips/train"
)

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [RUN] IMAGES…",
		Short: "Tell what pictures show, within a budget",
		Long: `Run a trained anytime network on pictures: of its frontier, the most accurate
subnetwork that the budget allows. Prints the most probable classes, which
subnetwork it was, how long it was expected to take and took.

RUN is the folder of a training run after 'tips search'; without it, the current
folder. IMAGES are PNG or JPEG files, folders of them, patterns as in 'new/*.png',
or - for one on standard input. A picture that cannot be read does not keep others
from being answered; the exit status is then 1.

What runs, as --budget takes it:
` + choiceHelp + `
Where nothing fits, what comes closest runs and says so; with --strict it is an
error.

Without a frontier, as with published weights, the whole network or a subnetwork
that you name can run; pictures are prepared as torchvision does for ImageNet. A
subnetwork that nobody calibrated uses the batch-norm statistics of the whole
network, and its answers may be worth little; a warning says so.`,
		Example: `  tips run runs/quick-tips-1 boot.png
  tips run runs/quick-tips-1 photos --budget 20ms
  tips run runs/quick-tips-1 boot.png shirt.png --budget 1M --top 3 --json
  tips run --weights mobilenet_v2.safetensors --network mobilenet_v2 --classes imagenet.txt cat.jpg`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("run: IMAGES are missing; want 'tips run [RUN] IMAGES…'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.budget, "budget", "", "what an inference may cost, or the subnetwork to run (default the most accurate)")
	f.BoolVar(&o.strict, "strict", false, "fail where nothing fits the budget")
	f.IntVar(&o.top, "top", 5, "classes to print")
	f.IntVar(&o.repeat, "repeat", 1, "runs of each picture, for the median of their times")
	f.IntVar(&o.threads, "threads", 0, "threads (default as the frontier's latencies were taken, or all processors)")
	f.BoolVar(&o.asJSON, "json", false, "write a line of JSON for each picture")
	o.anytimeOptions.register(cmd)
	return cmd
}

// runOptions are the flags of tips run.
type runOptions struct {
	anytimeOptions
	budget               string
	top, repeat, threads int
	strict, asJSON       bool
}

func (o *runOptions) run(cmd *cobra.Command, args []string) error {
	for _, f := range []struct {
		name               string
		value, least, most int
	}{{"top", o.top, 1, 1 << 16}, {"repeat", o.repeat, 1, 1e6}, {"threads", o.threads, 0, 128}} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("--%s %d; want %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	run, images, err := o.split(args)
	if err != nil {
		return err
	}
	a, err := o.open(run)
	if err != nil {
		return err
	}
	var budget engine.Budget
	if o.budget != "" || cmd.Flags().Changed("budget") {
		if budget, err = a.parse(o.budget); err != nil {
			return fmt.Errorf("--budget %w", err)
		}
	}
	if !a.judged {
		if run != "" {
			return failed(fmt.Errorf("run: %s is missing, which says how pictures are prepared; 'tips search %s' makes it", filepath.Join(run, frontierFile), run))
		}
		if err := a.prepareAsImageNet(); err != nil {
			return failed(fmt.Errorf("run: %w", err))
		}
	}
	pictures, err := input.New(a.Frontier)
	if err != nil {
		return failed(err)
	}
	e, err := engine.New(a.set, a.Frontier, engine.Options{Threads: o.threads, Strict: o.strict})
	if err != nil {
		return failed(err)
	}
	defer e.Close()
	// The first run of a subnetwork takes memory and finds caches cold; it is not
	// what people want to know the time of. Errors come again with the pictures.
	_, _ = e.Infer(context.Background(), make([]float32, e.InputLen()), budget)
	r := &runner{runOptions: o, a: a, e: e, pictures: pictures, budget: budget, stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	return failed(r.all(images))
}

// split finds the folder of a training run before the images: none if --weights are
// enough, the current one if the first argument is none.
func (o *runOptions) split(args []string) (run string, images []string, err error) {
	switch {
	case isRun(args[0]):
		run, args = args[0], args[1:]
	case o.weights != "":
	case isRun("."):
		run = "."
	default:
		return "", nil, failed(fmt.Errorf("run: which network? %s is no folder of a training run (no %s in it), nor is the current folder; want 'tips run RUN IMAGES…', or --weights FILE", args[0], train.WeightsFile))
	}
	if len(args) == 0 {
		return "", nil, fmt.Errorf("run: IMAGES are missing after %s", run)
	}
	return run, args, nil
}

// runner answers pictures.
type runner struct {
	*runOptions
	a              *anytime
	e              *engine.Engine
	pictures       *input.Reader
	budget         engine.Budget
	stdin          io.Reader
	stdout, stderr io.Writer
	warned         bool
}

// all answers all pictures. Those that fail are told of, and do not stop it; the
// error is that of the last.
func (r *runner) all(arguments []string) error {
	var last error
	fail := func(err error) {
		if last != nil {
			fmt.Fprintf(r.stderr, "tips: %s\n", oneLine(last))
		}
		last = err
	}
	for _, argument := range arguments {
		names, err := expand(argument)
		if err != nil {
			if err := r.refuse(argument, err); err != nil {
				return err
			}
			fail(err)
			continue
		}
		for _, name := range names {
			a, err := r.one(name)
			if err != nil {
				if err := r.refuse(name, err); err != nil {
					return err
				}
				fail(err)
				continue
			}
			if err := r.print(a); err != nil {
				return err
			}
		}
	}
	return last
}

// expand lists the pictures that an argument names.
func expand(argument string) ([]string, error) {
	if argument == "-" {
		return []string{argument}, nil
	}
	info, err := os.Stat(argument)
	if err != nil && strings.ContainsAny(argument, "*?[") { // where no shell expands patterns
		names, bad := filepath.Glob(argument)
		if bad == nil && len(names) > 0 {
			return names, nil
		}
	}
	if err != nil || !info.IsDir() {
		return []string{argument}, nil // reading it will tell
	}
	var names []string
	err = filepath.WalkDir(argument, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(name))) {
			names = append(names, name)
		}
		return err
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("image %s: a folder without images (.jpg, .jpeg, .png)", argument)
	}
	return names, err
}

// answer is what the network makes of a picture.
type answer struct {
	Image      string          `json:"image"`
	Top        []engine.Class  `json:"top"`
	Subnet     supernet.Subnet `json:"subnet"`
	Point      int             `json:"point,omitempty"` // of the frontier's table
	Accuracy   float64         `json:"accuracy,omitempty"`
	Calibrated bool            `json:"calibrated"`
	MACs       int64           `json:"macs"`
	Predicted  time.Duration   `json:"predicted_ns"`
	Took       time.Duration   `json:"took_ns"` // the median, of several runs
	Least      time.Duration   `json:"least_ns,omitempty"`
	Most       time.Duration   `json:"most_ns,omitempty"`
	Runs       int             `json:"runs"`
	Fits       bool            `json:"fits"`
	Late       bool            `json:"late"`

	point frontier.Point
}

// one answers a picture.
func (r *runner) one(name string) (answer, error) {
	var x []float32
	var err error
	if name == "-" {
		if x, err = r.pictures.Read(r.stdin); err != nil {
			err = fmt.Errorf("image on standard input: %w", err)
		}
	} else {
		x, err = r.pictures.File(name)
	}
	if err != nil {
		return answer{}, err
	}
	var result engine.Result
	times := make([]time.Duration, r.repeat)
	late := false
	for i := range times {
		if result, err = r.e.Infer(context.Background(), x, r.budget); err != nil {
			return answer{}, fmt.Errorf("image %s: %w", name, err)
		}
		times[i] = result.Took
		late = late || result.Late
	}
	p, index, err := r.a.choose(engine.Budget{Subnet: &result.Subnet})
	if err != nil {
		return answer{}, err
	}
	calibrated, err := r.a.Calibrated(p)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		Image: name, Top: r.e.Top(result.Output, r.top), Subnet: result.Subnet, Point: index + 1, Accuracy: p.Accuracy, Calibrated: calibrated, MACs: p.Costs.MACs,
		Predicted: result.Predicted, Runs: r.repeat, Fits: result.Fits, Late: late, point: p,
	}
	if !r.a.judged {
		a.Point = 0
	}
	slices.Sort(times)
	a.Took = times[len(times)/2]
	if r.repeat > 1 {
		a.Least, a.Most = times[0], times[len(times)-1]
	}
	return a, nil
}

// print writes an answer.
func (r *runner) print(a answer) error {
	if !a.Calibrated && !r.warned {
		r.warned = true
		fmt.Fprintf(r.stderr, "warning: nobody calibrated batch norm for %s; it uses the statistics of the whole network, and its answers may be worth little\n", a.Subnet)
	}
	if r.asJSON {
		return r.line(a)
	}
	w := r.stdout
	fmt.Fprintln(w, a.Image)
	for _, c := range a.Top {
		fmt.Fprintf(w, "  %6.2f %%  %s\n", 100*c.Probability, c)
	}
	fmt.Fprint(w, "  subnetwork ")
	if a.Point > 0 {
		fmt.Fprintf(w, "%d of %d, ", a.Point, len(r.a.Points))
	}
	fmt.Fprintf(w, "%s: %s MACs", a.Subnet, count(a.MACs))
	if text := accuracyText(a.point); text != "" {
		fmt.Fprintf(w, ", accuracy %s", text)
	}
	fmt.Fprintf(w, "\n  expected to take %s, took %s", milliseconds(a.Predicted), milliseconds(a.Took))
	if a.Runs > 1 {
		fmt.Fprintf(w, " (median of %d, %s to %s)", a.Runs, milliseconds(a.Least), milliseconds(a.Most))
	}
	switch {
	case !a.Fits:
		fmt.Fprint(w, "; nothing fits the budget, this comes closest")
	case a.Late:
		fmt.Fprint(w, "; late")
	}
	_, err := fmt.Fprintln(w)
	return err
}

// refuse tells programs of a picture without an answer; people read the error.
func (r *runner) refuse(name string, err error) error {
	if !r.asJSON {
		return nil
	}
	return r.line(struct {
		Image string `json:"image"`
		Error string `json:"error"`
	}{name, oneLine(err)})
}

// line writes a line of JSON.
func (r *runner) line(v any) error {
	enc := json.NewEncoder(r.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
