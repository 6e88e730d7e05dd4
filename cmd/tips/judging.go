package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"tips/accel"
	"tips/judge"
	"tips/reproduce"
	"tips/train"
)

// judgedFile is where verdicts are kept in the folder of a run.
const judgedFile = "judged.cache"

// judgingFlags are those of all verbs that judge subnetworks.
type judgingFlags struct {
	run, weights, data, cache    string
	images, calibration, threads int
	computer                     deviceFlags
	device                       *accel.Device // opened; nil: the processor
}

// add adds the flags.
func (o *judgingFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.weights, "weights", "", "safetensors `file` of the weights (default those of RUN)")
	f.StringVar(&o.data, "data", "", "the `DATA` to judge by, as 'tips train --data' takes it (default that of RUN)")
	f.IntVar(&o.images, "images", 0, "images to judge by, evenly chosen; 0 for all")
	f.IntVar(&o.calibration, "calibration", 0, "training images to re-estimate batch-norm statistics on (default as RUN's recipe)")
	f.StringVar(&o.cache, "cache", "", "`file` that what was judged is kept in, or none (default RUN/"+judgedFile+")")
	f.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "threads; results do not depend on their number")
	o.computer.add(f)
	_ = cmd.MarkFlagFilename("weights", "safetensors")
}

// addForRuns adds the flags of verbs that judge several runs.
func (o *judgingFlags) addForRuns(cmd *cobra.Command) {
	o.add(cmd)
	_ = cmd.Flags().MarkHidden("weights") // of several runs no file is the one
}

// openDevice opens the device, unless it is open: several judges can share one.
func (o *judgingFlags) openDevice() (err error) {
	if o.device == nil {
		o.device, err = o.computer.open()
	}
	return err
}

// together is how many subnetworks a search judges at once, when the device is open. A
// device has room for all, whatever the threads of its host.
func (o *judgingFlags) together() int {
	if o.device != nil {
		return mostTogether
	}
	return together(o.threads)
}

// done gives back the device.
func (o *judgingFlags) done() {
	if o.device != nil {
		o.device.Close()
	}
}

// least is a flag and the least it may be.
type least struct {
	name         string
	value, least int
}

// check refuses numbers that are too small.
func (o *judgingFlags) check(more ...least) error {
	for _, f := range append(more, least{"threads", o.threads, 1}, least{"images", o.images, 0}, least{"calibration", o.calibration, 0}) {
		if f.value < f.least {
			return fmt.Errorf("--%s %d; want %d or more", f.name, f.value, f.least)
		}
	}
	if o.threads > maxThreads {
		return fmt.Errorf("--threads %d; want 1 to %d", o.threads, maxThreads)
	}
	return nil
}

// checkForRuns does the same for verbs that judge several runs.
func (o *judgingFlags) checkForRuns() error {
	if o.weights != "" {
		return fmt.Errorf("--weights %s: runs are judged by their own", o.weights)
	}
	return o.check()
}

// maxThreads is as many as training takes.
const maxThreads = 1024

// open opens the judge that the flags and some more options ask for. Call done after
// it was closed.
func (o *judgingFlags) open(more judge.Options, stderr io.Writer) (*judge.Judge, error) {
	if err := o.openDevice(); err != nil {
		return nil, err
	}
	var err error
	more.Executor = executors(o.device)
	more.Run, more.Weights = o.run, o.weights
	more.Images, more.Calibration, more.Threads = o.images, o.calibration, o.threads
	more.Formats = formats()
	if o.data != "" {
		named := ""
		if o.run != "" {
			recipe, err := train.OpenRecipe(filepath.Join(o.run, train.RecipeFile))
			if err != nil {
				return nil, failed(fmt.Errorf("%w; want the folder of a training run", err))
			}
			named = recipe.Data
		}
		if more.Data, err = dataSpec(named, o.data); err != nil {
			return nil, err
		}
	}
	switch {
	case o.cache == "none":
	case o.cache != "":
		more.Cache = o.cache
	case o.run != "":
		more.Cache = filepath.Join(o.run, judgedFile)
	}
	j, err := judge.Open(more)
	if unwritable(err) && o.cache == "" && more.Cache != "" { // somebody else's run
		more.Cache = ""
		if j, err = judge.Open(more); err == nil {
			fmt.Fprintf(stderr, "%s cannot be written; what is judged is not kept\n", filepath.Join(o.run, judgedFile))
		}
	}
	if err != nil {
		return nil, failed(err)
	}
	if n := j.Dropped(); n > 0 {
		fmt.Fprintf(stderr, "%s ended in %s that were not written to their end; they are cut off\n", more.Cache, plural(int(n), "byte"))
	}
	return j, nil
}

// openRun opens the judge of one of several runs by its test images. Judging takes
// long: that the folder of what comes of it cannot be made is found out before.
func (o judgingFlags) openRun(run, out string, stderr io.Writer) (*judge.Judge, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	o.run = run
	return o.open(judge.Options{Test: true, Counts: true}, stderr)
}

// unwritable tells of a place that one may read and not write.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// figure makes a figure for which runs are judged: with a device, progress, and in a way
// that can be interrupted.
func (o *judgingFlags) figure(cmd *cobra.Command, out *figureOutput, compute func(ctx context.Context, progress func(done, total int)) (reproduce.Figure, error)) error {
	defer o.done()
	if err := o.openDevice(); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	bar := countBar(cmd.ErrOrStderr(), -1, "subnetworks")
	f, err := compute(ctx, func(done, total int) {
		bar.ChangeMax(total)
		_ = bar.Set(done)
	})
	_ = bar.Clear() // so that an error has a line of its own
	if errors.Is(err, context.Canceled) {
		return stopped{fmt.Errorf("%s: interrupted; run the same command again to go on", cmd.Name())}
	}
	return out.finish(cmd, f, err)
}
