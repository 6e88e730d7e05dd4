package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tips/dataset"
	"tips/dataset/fashion"
	"tips/recipes"
	"tips/train"
	"tips/train/method"
)

func newTrain() *cobra.Command {
	var o trainOptions
	cmd := &cobra.Command{
		Use:   "train RECIPE",
		Short: "Train a network and its subnetworks at once",
		Long: `Train a network so that its subnetworks work too (step 2 of the paper).

RECIPE is a name of 'tips train --list', or the path of a YAML file with the keys
of docs/recipe.md. Flags change single keys. The folder --out gets the recipe as it
was carried out, the network, the weights, the metrics, their curves, and a
checkpoint. Interrupted with Ctrl-C or killed, a run goes on from its checkpoint
when the same command is run again.

DATA, as --data takes it, is a folder for the format that the recipe names, or
FORMAT:DIR:
` + formatHelp() + `
Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted and saved.`,
		Example: `  tips train quick
  tips train fashion-mnist --data /usr/share/datasets/fashion-mnist
  tips train cifar100-mobilenet_v2 --data cifar-100-binary --method us-nets --loss own --seed 2
  tips train my.yaml --set sgd.rate=0.1 --set evaluate.every=5 --out runs/faster
  tips train --list
  tips train plot runs/quick-tips-1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.list && len(args) == 0 {
				return nil
			}
			return exactly("RECIPE")(cmd, args)
		},
		ValidArgsFunction: completeRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return o.printRecipes(cmd.OutOrStdout())
			}
			return o.run(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the recipes that come with the program")
	f.BoolVar(&o.show, "print", false, "print the recipe with all changes, and train nothing")
	f.StringVar(&o.out, "out", "", "`folder` of the results (default runs/NAME-METHOD-SEED, or runs/NAME-METHOD-SEED-own for the loss own)")
	f.StringVar(&o.data, "data", "", "the `DATA` to train on")
	f.StringVar(&o.method, "method", "", "training method: "+strings.Join(method.Names(), ", "))
	f.StringVar(&o.loss, "loss", "", "paper: the loss of TIPS for every method; own: the method's own")
	f.IntVar(&o.epochs, "epochs", 0, "passes over the training images")
	f.Uint64Var(&o.seed, "seed", 0, "seed of everything left to chance")
	f.IntVar(&o.threads, "threads", 0, "threads; 1 gives the same bits every time (default all processors)")
	f.StringArrayVar(&o.set, "set", nil, "change a key of the recipe, as in `sgd.rate=0.1`; may be repeated")
	f.BoolVar(&o.fresh, "fresh", false, "start again where the folder holds a checkpoint")
	f.BoolVar(&o.resume, "resume", false, "fail where the folder holds no checkpoint to go on from")
	f.IntVar(&o.stopAfter, "stop-after", 0, "save and stop after this many `steps`, as if interrupted")
	o.deviceFlags.add(f)
	f.BoolVar(&o.asJSON, "json", false, "write the results as JSON")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(method.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("loss", cobra.FixedCompletions([]string{"paper", "own"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newTrainPlot())
	return cmd
}

// trainOptions are the flags of tips train.
type trainOptions struct {
	deviceFlags
	list, show, fresh, resume, asJSON bool
	out, data, method, loss           string
	epochs, threads, stopAfter        int
	seed                              uint64
	set                               []string
}

// formats are the data formats that the program reads.
func formats() []dataset.Format { return []dataset.Format{fashion.Format()} }

// formatHelp lists the data formats.
func formatHelp() string {
	list := slices.Concat(dataset.Formats(), formats())
	slices.SortFunc(list, func(a, b dataset.Format) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, f := range list {
		what, help, _ := strings.Cut(f.Help, "  ")
		if what != "" {
			what = ":" + what
		}
		fmt.Fprintf(&b, "  %s%s\n      %s\n", f.Name, what, help)
	}
	return b.String()
}

func completeRecipe(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, name := range recipes.Names() {
		if r, err := recipes.Open(name); err == nil {
			names = append(names, cobra.CompletionWithDesc(name, r.About))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// openRecipe finds what RECIPE names: a file, or a recipe of the program.
func openRecipe(name string) (*train.Recipe, error) {
	if strings.ContainsRune(name, os.PathSeparator) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		r, err := train.OpenRecipe(name)
		return r, failed(err)
	}
	r, err := recipes.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w; or give the path of a file (./NAME or NAME.yaml)", err)
	}
	return r, nil
}

// resolve is the recipe with the changes of the flags.
func (o *trainOptions) resolve(cmd *cobra.Command, name string) (*train.Recipe, error) {
	r, err := openRecipe(name)
	if err != nil {
		return nil, err
	}
	for _, change := range o.set {
		key, value, ok := strings.Cut(change, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q; want KEY=VALUE, as in sgd.rate=0.1", change)
		}
		if err := r.Set(key, value); err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
	}
	given := cmd.Flags().Changed
	if given("epochs") {
		r.Epochs = o.epochs
	}
	if given("seed") {
		r.Seed = o.seed
	}
	if given("threads") {
		r.Threads = o.threads
	}
	if given("method") {
		r.Method.Name = o.method
	}
	if given("loss") {
		r.Method.Loss = o.loss
	}
	if given("data") {
		if r.Data, err = dataSpec(r.Data, o.data); err != nil {
			return nil, err
		}
	}
	return r, r.Validate()
}

// dataSpec is what --data means for a recipe: a folder of the format it names, or
// another format.
func dataSpec(recipe, flag string) (string, error) {
	format, _, colon := strings.Cut(flag, ":")
	var names []string
	for _, f := range slices.Concat(dataset.Formats(), formats()) {
		if f.Name == format {
			return flag, nil
		}
		names = append(names, f.Name)
	}
	// A folder may have a colon in its name, and does after the letter of a drive.
	if colon && len(format) > 1 && !strings.ContainsAny(format, `/\`) {
		if _, err := os.Stat(flag); err != nil {
			slices.Sort(names)
			return "", fmt.Errorf("--data %s: unknown format %q; want one of %s, or a folder", flag, format, strings.Join(names, ", "))
		}
	}
	named, _, _ := strings.Cut(recipe, ":")
	return named + ":" + flag, nil
}

// defaultFolder is where a run's results go unless --out says: runs that differ in
// what they are compared by do not share one.
func defaultFolder(r *train.Recipe) string {
	name := fmt.Sprintf("%s-%s-%d", r.Name, r.Method.Name, r.Seed)
	if r.Method.Loss == string(method.Own) {
		name += "-own"
	}
	return filepath.Join("runs", name)
}

func (o *trainOptions) run(cmd *cobra.Command, name string) error {
	if o.stopAfter < 0 {
		return fmt.Errorf("--stop-after %d; want 1 or more steps, or 0 for all", o.stopAfter)
	}
	if o.fresh && o.resume {
		return fmt.Errorf("--fresh and --resume; want one of them")
	}
	r, err := o.resolve(cmd, name)
	if err != nil {
		return err
	}
	if o.show {
		return failed(r.Write(cmd.OutOrStdout()))
	}
	out := o.out
	if out == "" {
		out = defaultFolder(r)
	}
	if o.resume {
		if _, err := os.Stat(filepath.Join(out, train.CheckpointFile)); err != nil {
			return failed(fmt.Errorf("train: --resume: %w", err))
		}
	}
	device, err := o.open()
	if err != nil {
		return err
	}
	if device != nil {
		defer device.Close()
	}
	ctx, stop := interruptible()
	defer stop()
	show := newTrainProgress(cmd.ErrOrStderr())
	summary, err := train.Run(ctx, train.Options{
		Recipe: r, Out: out, Fresh: o.fresh, StopAfter: o.stopAfter, Formats: formats(), Observer: show, Executor: executors(device), Program: version(),
	})
	show.clear()
	var interrupted *train.InterruptedError
	if errors.As(err, &interrupted) || err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return stopped{fmt.Errorf("%w; run the same command again to go on", err)}
	}
	if err != nil {
		return failed(err)
	}
	if o.asJSON {
		return failed(writeJSON(cmd.OutOrStdout(), summary))
	}
	return failed(printSummary(cmd.OutOrStdout(), summary))
}

// printSummary says what came of a run.
func printSummary(w io.Writer, s *train.Summary) error {
	t := newTable(w, "SUBNETWORK", "MACS", "ACCURACY", "LOSS")
	for _, r := range s.Results {
		t.row(r.Name, count(r.MACs), fmt.Sprintf("%.2f %%", 100*r.Accuracy), fmt.Sprintf("%.4f", r.Loss))
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s in %s; wrote %s to %s\n", plural(s.Epochs, "epoch"), duration(s.Seconds),
		strings.Join([]string{train.WeightsFile, train.NetworkFile, train.RecipeFile, train.MetricsFile, train.CurvesFile}, ", "), s.Out)
	return err
}

func (o *trainOptions) printRecipes(w io.Writer) error {
	t := newTable(w, "RECIPE", "NETWORK", "EPOCHS", "")
	for _, name := range recipes.Names() {
		r, err := recipes.Open(name)
		if err != nil {
			return failed(err)
		}
		t.row(name, r.Network, fmt.Sprint(r.Epochs), r.About)
	}
	return failed(t.flush())
}

func newTrainPlot() *cobra.Command {
	return &cobra.Command{
		Use:   "plot DIR",
		Short: "Draw the curves of a run, also of one under way",
		Long: `Draw losses and accuracies of the run in a folder, from its metrics.jsonl to its
curves.svg.`,
		Example: `  tips train plot runs/quick-tips-1`,
		Args:    exactly("DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := train.Plot(args[0]); err != nil {
				return failed(err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", filepath.Join(args[0], train.CurvesFile))
			return failed(err)
		},
	}
}
