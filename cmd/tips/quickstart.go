package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tips/dataset"
	"tips/demo"
	"tips/engine"
	"tips/frontier"
	"tips/internal/folder"
	"tips/judge"
	"tips/recipes"
	"tips/report"
	"tips/search"
	"tips/search/cost"
	"tips/supernet"
	"tips/topology"
	"tips/train"
)

func newQuickstart() *cobra.Command {
	o := quickOptions{images: "images of Fashion-MNIST that the program carries", evaluations: 96, falls: 4, each: time.Second}
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "From nothing to an anytime network that runs, in two minutes",
		Long: `Make an anytime network and run it, on images of Fashion-MNIST that the program
carries within itself: analyse a small residual network (step 1 of the paper), train
it by TIPS (step 2, the recipe quick), search for the subnetworks worth running
(step 3), then infer while the budget changes every second, and watch time and
accuracy follow.

Takes about two minutes on two cores, needs no network, and leaves everything in one
folder, with a report to open in a browser and pictures to try 'tips run' on.
Interrupted with Ctrl-C or killed, it goes on when it is run again; what is finished
is not done again, so that a second run comes to inference at once.

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted and saved.`,
		Example: `  tips quickstart
  tips quickstart --out somewhere
  tips quickstart --fresh`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.out == "" {
				return errors.New("--out \"\"; want the name of a folder")
			}
			r, err := recipes.Open("quick")
			if err != nil {
				return failed(err)
			}
			o.recipe, o.stdout, o.stderr = r, cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, stop := interruptible()
			defer stop()
			return o.run(ctx)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "tips-quickstart", "`folder` for what it makes")
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "start again where the folder holds a quickstart already")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

// picturesFolder holds a picture of each class, to try tips run on.
const picturesFolder = "pictures"

// quickOptions are what a quickstart does, and where.
type quickOptions struct {
	out   string
	fresh bool

	recipe      *train.Recipe
	images      string        // what they are
	evaluations int           // of the search
	falls       int           // steps that the budget falls in
	each        time.Duration // how long one stands

	stdout, stderr io.Writer
	show           screen
}

func (o *quickOptions) run(ctx context.Context) error {
	o.show = newScreen(o.stdout)
	start := time.Now()
	err := o.steps(ctx)
	if err == nil {
		fmt.Fprintln(o.stdout)
		o.say("Done in %s.", duration(time.Since(start).Seconds()))
		return failed(o.next())
	}
	var interrupted *train.InterruptedError
	if errors.As(err, &interrupted) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return stopped{fmt.Errorf("quickstart: interrupted; what is done so far is in %s; run the same command again to go on", o.out)}
	}
	return failed(err)
}

func (o *quickOptions) steps(ctx context.Context) error {
	o.say("An anytime network in four steps: about two minutes on two cores. All files go to %s. Ctrl-C is safe: the same command goes on.", o.out)
	n, err := o.analyse()
	if err != nil {
		return err
	}
	if err := o.train(ctx); err != nil {
		return err
	}
	f, err := o.search(ctx, n)
	if err != nil {
		return err
	}
	// What there is so far: the demo may be interrupted.
	if err := o.report(); err != nil {
		return err
	}
	err = o.infer(ctx, f)
	return errors.Join(err, o.report())
}

// file names a file of the results.
func (o *quickOptions) file(name string) string { return filepath.Join(o.out, name) }

// say writes a paragraph, as wide as it may be.
func (o *quickOptions) say(format string, args ...any) {
	fmt.Fprintln(o.stdout, wrap(strings.Fields(fmt.Sprintf(format, args...)), " ", o.show.width, ""))
}

// title begins a step.
func (o *quickOptions) title(format string, args ...any) {
	fmt.Fprintf(o.stdout, "\n%s\n", o.show.bold(fmt.Sprintf(format, args...)))
}

// analyse is step 1.
func (o *quickOptions) analyse() (*supernet.Network, error) {
	n, err := o.recipe.OpenNetwork()
	if err != nil {
		return nil, err
	}
	a, err := topology.Analyze(n, topology.Options{})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	if err := writeFile(o.file("network.svg"), report.Graph(n, a).WriteSVG); err != nil {
		return nil, err
	}
	macs := func(s supernet.Subnet) int64 {
		v, err := n.View(s, n.Input())
		if err != nil {
			return 0 // both are subnetworks of any network
		}
		return v.Costs().MACs
	}
	important := 0
	for _, is := range a.Important() {
		if is {
			important++
		}
	}
	name, _, _ := strings.Cut(n.Name(), ":")
	whole, least := macs(supernet.Subnet{}), macs(n.Smallest())
	o.title("1. Analyse: which operations matter")
	o.say("%s has %d width groups. Its subnetworks take %s to %s MACs (multiply-accumulates); the smallest takes %.0f %% of the whole.", name, len(n.Groups()), count(least), count(whole), 100*float64(least)/float64(whole))
	o.say("%d of %d operations are on the important path (%d nodes, TPS %.3f); training draws the %d groups that they write wider than the others.", important, len(a.Graph.Edges()), len(a.Path.Nodes), a.TPS(), len(a.FavouredGroups(n)))
	return n, nil
}

// train is step 2.
func (o *quickOptions) train(ctx context.Context) error {
	show := &quickTraining{quickOptions: o}
	_, err := train.Run(ctx, train.Options{Recipe: o.recipe, Out: o.out, Fresh: o.fresh, Formats: formats(), Observer: show, Program: version()})
	show.clear()
	return err
}

// search is step 3.
func (o *quickOptions) search(ctx context.Context, n *supernet.Network) (*frontier.Frontier, error) {
	lock, err := folder.Lock(o.out)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	j, err := judge.Open(judge.Options{Run: o.out, Formats: formats(), Cache: o.file(judgedFile), Fresh: o.fresh})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	f := j.Frontier()
	f.By = []frontier.Kind{frontier.MACs}
	if o.fresh {
		if err := os.Remove(o.file(searchState)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	o.title("3. Search: the subnetworks worth running")
	options := search.Options{
		Network: n, Judge: j, By: cost.MACs(), Evaluations: o.evaluations, Seed: 1, Depths: j.Depths(),
		State: o.file(searchState), Identity: j.Identity(), Parallel: together(runtime.GOMAXPROCS(0)),
	}
	line := newLiveLine(o.stderr, "judging subnetworks", 0, o.evaluations)
	var saving error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options.Observe = func(p search.Progress) {
		line.set(p.Evaluations)
		if p.Added && !p.Recalled && saving == nil && calibrated(&f, p.Frontier) {
			f.Points = p.Frontier
			if saving = f.Save(o.file(frontierFile)); saving != nil {
				cancel()
			}
		}
	}
	r, err := search.Run(ctx, options)
	line.clear()
	switch {
	case saving != nil:
		return nil, saving
	case err != nil:
		return nil, freshHint(err)
	}
	f.Points = r.Frontier
	if err := f.Save(o.file(frontierFile)); err != nil {
		return nil, err
	}
	chart := r.Chart(n.Name(), options.By, nil)
	if err := writeFile(o.file(frontierPicture), chart.WriteSVG); err != nil {
		return nil, err
	}
	return &f, o.showFrontier(&f, r, chart, j)
}

// infer is what all of it is for.
func (o *quickOptions) infer(ctx context.Context, f *frontier.Frontier) error {
	d, err := dataset.Open(o.recipe.Data, formats()...)
	if err != nil {
		return err
	}
	inputs, labels, err := testPictures(ctx, d, o.recipe, f.Network)
	if err != nil {
		return err
	}
	if err := o.writePictures(d); err != nil {
		return err
	}
	// One thread: sharing work of some microseconds costs more than it saves.
	e, err := engine.Open(o.file(train.WeightsFile), o.file(frontierFile), engine.Options{Threads: 1, MaxConcurrent: 1})
	if err != nil {
		return err
	}
	defer e.Close()
	times, err := demo.Measure(ctx, e, inputs[:e.InputLen()], o.each/2)
	if err != nil {
		return err
	}
	o.title("4. Run: the same weights, while the budget changes")
	o.say("One after the other of the %d test images, which nothing was chosen by, on one core. The budget limits MACs first, then time; the engine runs the most accurate subnetwork that fits.", len(labels))
	fmt.Fprintln(o.stdout)
	show := quickDemo{o.stdout, o.show, f, 0}
	show.head()
	t, err := demo.Run(ctx, demo.Options{
		Engine: e, Inputs: inputs, Labels: labels, On: "test images", Times: times,
		Next: demo.DownAndBack(f, o.falls), Each: o.each, Observe: show.period,
	})
	if t != nil && len(t.Periods) > 0 {
		err = errors.Join(err, writeFile(o.file(report.TraceFile), t.Write))
	}
	return err
}

// testPictures are the test images as inputs of the network.
func testPictures(ctx context.Context, d *dataset.Data, r *train.Recipe, n *supernet.Network) ([]float32, []int, error) {
	pipeline := d.Pipeline()
	if r.Augment != nil {
		pipeline = r.Augment.Normalised(d)
	}
	in := n.Input()
	l, err := dataset.NewLoader(d.Test, dataset.LoaderOptions{
		Batch: 256, Height: in.Height, Width: in.Width, Channels: in.Channels, Pipeline: pipeline.Evaluation(),
	})
	if err != nil {
		return nil, nil, err
	}
	var inputs []float32
	var labels []int
	for b, err := range l.Epoch(ctx, 0, 0) {
		if err != nil {
			return nil, nil, err
		}
		inputs = append(inputs, b.Images...)
		for _, label := range b.Labels {
			labels = append(labels, int(label))
		}
	}
	return inputs, labels, ctx.Err()
}

// writePictures writes the first test image of each class.
func (o *quickOptions) writePictures(d *dataset.Data) error {
	if err := os.MkdirAll(o.file(picturesFolder), 0o755); err != nil {
		return err
	}
	seen := make([]bool, d.Classes)
	for i := range d.Test.Len() {
		class := d.Test.Label(i)
		if seen[class] {
			continue
		}
		seen[class] = true
		p, err := d.Test.Image(i)
		if err != nil {
			return err
		}
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(d.ClassNames[class]))
		if err := writeFile(filepath.Join(o.file(picturesFolder), name+".png"), func(w io.Writer) error { return png.Encode(w, picture(p)) }); err != nil {
			return err
		}
	}
	return nil
}

// picture is an image that Go's encoders take.
func picture(p dataset.Picture) image.Image {
	if p.Channels == 1 {
		return &image.Gray{Pix: p.Pix, Stride: p.Width, Rect: image.Rect(0, 0, p.Width, p.Height)}
	}
	out := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		out.SetNRGBA(i%p.Width, i/p.Width, color.NRGBA{p.Pix[3*i], p.Pix[3*i+1], p.Pix[3*i+2], 255})
	}
	return out
}

// report writes the page.
func (o *quickOptions) report() error {
	r, err := report.Open(o.out)
	if err != nil {
		return err
	}
	r.Next = r.Commands(self(os.Args[0]), o.file(picturesFolder))
	return writeFile(o.file(report.File), r.Write)
}
