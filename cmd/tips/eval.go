package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"tips/frontier"
	"tips/judge"
	"tips/supernet"
	"tips/train"
)

func newEval() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval [RUN]",
		Short: "Tell how accurate subnetworks are",
		Long: `Tell how accurate subnetworks of trained weights are, each with batch-norm
statistics of its own, re-estimated on training images.

RUN is the folder of a training run. For other weights, leave it out and give
--model, --weights and --data. Subnetworks are given one by one, in a file with one
a line, or as a frontier; without any it is those of the run's recipe. A subnetwork
is written as 'tips describe' and the frontier's table write it, or as full,
smallest, or one ratio for all widths such as 0.5.

Accuracies come with their binomial standard error. By default they are those of the
test's images; a search judges by images held out of training, so that the test's
stay unseen.

What was judged is kept in --cache and not judged again. Interrupted with Ctrl-C or
killed, the same command goes on. --out makes a frontier file of the subnetworks, with
accuracies and statistics, for 'tips run' and programs; those that others beat in both
cost and accuracy are left out of it.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.`,
		Example: `  tips eval runs/quick-tips-1
  tips eval runs/quick-tips-1 --subnet full --subnet 0.5 --on held-out
  tips eval runs/quick-tips-1 --frontier runs/quick-tips-1/net.frontier
  tips eval runs/quick-tips-1 --list mine.txt --out mine.frontier --json
  tips eval --model mobilenet_v2 --weights mobilenet_v2.safetensors --data folder:imagenet --calibration 4096`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly("RUN")(cmd, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.judging.run = args[0]
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.subnets, "subnet", nil, "a `subnetwork`; may be repeated")
	f.StringVar(&o.list, "list", "", "`file` of subnetworks, one a line; # begins a comment")
	f.StringVar(&o.frontier, "frontier", "", "frontier `file` whose subnetworks are judged")
	f.StringVar(&o.model, "model", "", "the network, where there is no RUN: a zoo name or a description file")
	f.StringVar(&o.on, "on", "test", "images to judge by: test, or held-out for those that RUN kept back from training")
	o.judging.add(cmd)
	f.BoolVar(&o.fresh, "fresh", false, "judge again what was judged before")
	f.StringVar(&o.out, "out", "", "frontier `file` to write, with accuracies and statistics")
	f.BoolVar(&o.asJSON, "json", false, "write the results as JSON")
	_ = cmd.MarkFlagFilename("frontier", "frontier")
	_ = cmd.MarkFlagFilename("out", "frontier")
	_ = cmd.RegisterFlagCompletionFunc("on", cobra.FixedCompletions([]string{"test", "held-out"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// evalOptions are the flags of tips eval.
type evalOptions struct {
	judging                        judgingFlags
	subnets                        []string
	list, frontier, model, on, out string
	fresh, asJSON                  bool
	from                           *frontier.Frontier // of --frontier; nil: none
	questions                      []question
	bar                            *progressbar.ProgressBar
}

// question is a subnetwork to judge.
type question struct {
	given  string // as the user wrote it
	subnet supernet.Subnet
	point  *frontier.Point // of the frontier it is of; nil: of none
}

func (o *evalOptions) run(cmd *cobra.Command) error {
	if err := o.judging.check(); err != nil {
		return err
	}
	if o.on != "test" && o.on != "held-out" {
		return fmt.Errorf("--on %q; want test or held-out", o.on)
	}
	options := judge.Options{Test: o.on == "test", Fresh: o.fresh}
	if o.judging.run == "" {
		if o.judging.weights == "" || o.judging.data == "" {
			return errors.New("eval: want RUN, the folder of a training run, or --model, --weights and --data")
		}
		if o.on != "test" {
			return errors.New("--on held-out without RUN; want the folder of a training run, which says what was held out")
		}
		if o.model != "" { // a file that we wrote tells its network itself
			var err error
			if options.Network, err = openModel(o.model); err != nil {
				return err
			}
		}
	} else if o.model != "" {
		return errors.New("--model and RUN; want one of them: a run has its network")
	}
	if err := checkOut(o.out); err != nil {
		return failed(err)
	}
	stderr := cmd.ErrOrStderr()
	var taken atomic.Int64
	options.Observe = func(images int) {
		if o.bar != nil {
			_ = o.bar.Set64(taken.Add(int64(images)))
		}
	}
	defer o.judging.done()
	j, err := o.judging.open(options, stderr)
	if err != nil {
		return err
	}
	defer j.Close()
	if j.On() != o.on {
		return failed(fmt.Errorf("eval: --on held-out: %s kept no images back from training; want --on test", o.judging.run))
	}
	if err := o.ask(j); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	verdicts, err := o.judge(ctx, j, stderr)
	if err != nil {
		return err
	}
	return o.finish(cmd.OutOrStdout(), j, verdicts)
}

// ask collects the subnetworks that flags name.
func (o *evalOptions) ask(j *judge.Judge) error {
	n := j.Network()
	add := func(text string) error {
		s, err := train.ParseSubnet(n, text)
		if err == nil {
			o.questions = append(o.questions, question{given: text, subnet: s})
		}
		return err
	}
	for _, text := range o.subnets {
		if err := add(text); err != nil {
			return fmt.Errorf("--subnet: %w", err)
		}
	}
	if o.list != "" {
		lines, err := readList(o.list)
		if err != nil {
			return failed(err)
		}
		for _, l := range lines {
			if err := add(l.text); err != nil {
				return failed(fmt.Errorf("list %s: line %d: %w", o.list, l.number, err))
			}
		}
	}
	if o.frontier != "" {
		f, err := frontier.Open(o.frontier, n)
		if err != nil {
			return failed(err)
		}
		if err := f.CheckWeights(j.Weights()); err != nil {
			return failed(fmt.Errorf("frontier %s: %w", o.frontier, err))
		}
		o.from = f
		for i := range f.Points {
			p := &f.Points[i]
			o.questions = append(o.questions, question{p.Subnet.String(), p.Subnet, p})
		}
	}
	if len(o.questions) > 0 {
		return nil
	}
	usual := []string{"full", "smallest"}
	if r := j.Recipe(); r != nil {
		usual = r.Evaluate.Subnets
	}
	for _, text := range usual {
		if err := add(text); err != nil {
			return failed(err)
		}
	}
	return nil
}

// maxListLines bounds the file of --list.
const maxListLines = 1 << 16

// listLine is a line of the file of --list that holds a subnetwork.
type listLine struct {
	text   string
	number int
}

func readList(name string) ([]listLine, error) {
	f, err := os.Open(name)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	defer f.Close()
	var lines []listLine
	scanner := bufio.NewScanner(f)
	for number := 1; scanner.Scan(); number++ {
		if number > maxListLines {
			return nil, fmt.Errorf("list %s: more than %d lines", name, maxListLines)
		}
		text, _, _ := strings.Cut(scanner.Text(), "#")
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, listLine{text, number})
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("list %s: no subnetwork in it; want one a line, such as full, smallest, 0.5 or w32.16.96x2d3", name)
	}
	return lines, nil
}

// judge finds the answers, and shows how far it is.
func (o *evalOptions) judge(ctx context.Context, j *judge.Judge, stderr io.Writer) ([]judge.Verdict, error) {
	subnets := make([]supernet.Subnet, len(o.questions))
	missing, known := map[supernet.Subnet]bool{}, 0
	for i, q := range o.questions {
		subnets[i] = q.subnet
		if j.Known(q.subnet) {
			known++
		} else {
			missing[q.subnet] = true
		}
	}
	fmt.Fprintf(stderr, "judging %s of %s by %d %s images, calibrated on %d", plural(len(subnets), "subnetwork"), j.Network().Name(), j.Images(), j.On(), j.Calibration())
	if known > 0 {
		fmt.Fprintf(stderr, "; %d known already", known)
	}
	fmt.Fprintln(stderr)
	o.bar = countBar(stderr, max(1, len(missing)*(j.Images()+j.Calibration())), "images")
	verdicts := make([]judge.Verdict, len(subnets))
	done, line := 0, time.Now()
	err := j.All(ctx, subnets, func(i int, v judge.Verdict) {
		verdicts[i] = v
		done++
		o.bar.Describe(fmt.Sprintf("%d of %d judged, images", done, len(subnets)))
		if !isTerminal(stderr) && time.Since(line) >= quiet {
			line = time.Now()
			fmt.Fprintf(stderr, "%d/%d judged\n", done, len(subnets))
		}
	})
	_ = o.bar.Clear()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil, stopped{fmt.Errorf("eval: interrupted after %d of %s; run the same command again to go on", done, plural(len(subnets), "subnetwork"))}
	}
	return verdicts, failed(err)
}

// evaluated is a line of the results.
type evaluated struct {
	Given    string          `json:"given"`
	Subnet   supernet.Subnet `json:"subnet"`
	Accuracy float64         `json:"accuracy"`
	Error    float64         `json:"error"`
	Correct  int             `json:"correct"`
	Images   int             `json:"images"`
	Loss     float64         `json:"loss"`
	frontier.Costs
	Frontier *float64 `json:"frontier_accuracy,omitempty"` // as the frontier has it
}

func (o *evalOptions) finish(w io.Writer, j *judge.Judge, verdicts []judge.Verdict) error {
	results := make([]evaluated, len(verdicts))
	points := make([]frontier.Point, len(verdicts))
	for i, v := range verdicts {
		p, err := j.Point(v)
		if err != nil {
			return failed(err)
		}
		q := o.questions[i]
		results[i] = evaluated{Given: q.given, Subnet: v.Subnet, Accuracy: p.Accuracy, Error: p.Error(), Correct: v.Correct, Images: v.Images, Loss: v.Loss}
		if q.point != nil {
			p.Costs = q.point.Costs
			results[i].Frontier = &q.point.Accuracy
		}
		results[i].Costs = p.Costs
		points[i] = p
	}
	kept, err := o.save(j, points)
	if err != nil {
		return failed(err)
	}
	if o.asJSON {
		return failed(writeJSON(w, struct {
			Network     string        `json:"network"`
			WeightsHash supernet.Hash `json:"weights_hash"`
			On          string        `json:"on"`
			Images      int           `json:"images"`
			Calibration int           `json:"calibration"`
			Results     []evaluated   `json:"results"`
		}{j.Network().Name(), j.Frontier().Weights, j.On(), j.Images(), j.Calibration(), results}))
	}
	return failed(o.print(w, results, kept))
}

// save writes the frontier file and says how many of the subnetworks are in it.
func (o *evalOptions) save(j *judge.Judge, points []frontier.Point) (int, error) {
	if o.out == "" {
		return 0, nil
	}
	f := j.Frontier()
	f.By = []frontier.Kind{frontier.MACs}
	if o.from != nil {
		f.By, f.OwnName, f.CPU, f.Threads = o.from.By, o.from.OwnName, o.from.CPU, o.from.Threads
	}
	f.Points = frontier.Front(points, f.By...)
	return len(f.Points), f.Save(o.out)
}

func (o *evalOptions) print(w io.Writer, results []evaluated, kept int) error {
	header := []string{"ACCURACY", "LOSS", "MACS", "PARAMS", "PEAK MEMORY"}
	if o.from != nil {
		header = append(header, "IN THE FRONTIER")
	}
	t := newTable(w, append(header, "SUBNETWORK")...)
	for _, r := range results {
		row := []string{
			fmt.Sprintf("%.2f ± %.2f %%", 100*r.Accuracy, 100*r.Error), fmt.Sprintf("%.4f", r.Loss), count(r.MACs), count(r.Params), bytesize(r.PeakBytes),
		}
		if o.from != nil {
			before := "-"
			if r.Frontier != nil {
				before = fmt.Sprintf("%.2f %%", 100**r.Frontier)
			}
			row = append(row, before)
		}
		t.row(append(row, r.Given)...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	rest := ""
	if left := len(results) - kept; left > 0 {
		rest = fmt.Sprintf("; %d are left out, which others equal or beat in cost and accuracy", left)
	}
	_, err := fmt.Fprintf(w, "\nwrote %s: %s with statistics of their own%s\n", o.out, plural(kept, "subnetwork"), rest)
	return err
}
