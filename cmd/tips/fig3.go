package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"tips/dataset"
	"tips/reproduce"
	"tips/weights"
)

func newFig3() *cobra.Command {
	var out figureOutput
	var o reproduce.Fig3Options
	var model, file, images string
	var limit int
	cmd := &cobra.Command{
		Use:   "fig3",
		Short: "Accuracy with important and unimportant operations pruned",
		Long: `Figure 3: the last channels of each operation's output are set to zero, one
operation at a time, no other touched, and the accuracy of the network is measured.
The paper finds that pruning important operations costs more.

Images are a folder for each class, or files named by the number of their class, as
in 0042.jpg. Interrupted, the command goes on where it stopped when it is run again.`,
		Example: `  tips reproduce fig3 --weights mobilenet_v2.safetensors --images imagenet-val
  tips reproduce fig3 --weights resnet18.safetensors --model resnet18 --images val --limit 200`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" || images == "" {
				return fmt.Errorf("fig3: --weights and --images are needed; see 'tips reproduce fig3 --help'")
			}
			if o.Threads < 1 {
				return fmt.Errorf("--threads %d; want 1 or more", o.Threads)
			}
			if limit < 0 {
				return fmt.Errorf("--limit %d; want 1 or more, or 0 for all", limit)
			}
			n, err := openModel(model)
			if err != nil {
				return err
			}
			if o.Weights, err = weights.Open(file, n); err != nil {
				return failed(err)
			}
			if o.Images, err = dataset.Images(images); err != nil {
				return failed(err)
			}
			if limit > 0 && limit < len(o.Images) {
				o.Images = spreadOut(o.Images, limit)
			}
			if err := os.MkdirAll(out.dir, 0o755); err != nil {
				return failed(err)
			}
			o.State = filepath.Join(out.dir, "fig3.state.json")
			bar := countBar(cmd.ErrOrStderr(), len(o.Images), "images")
			o.Progress = func(done, _ int) { _ = bar.Set(done) }
			ctx, stop := interruptible()
			defer stop()
			f, err := reproduce.Fig3(ctx, o)
			_ = bar.Clear() // so that an error has a line of its own
			if errors.Is(err, context.Canceled) {
				err = fmt.Errorf("interrupted; run the same command again to go on from %s", o.State)
			}
			if err := out.finish(cmd, f, err); err != nil {
				return err
			}
			return failed(os.Remove(o.State))
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "weights", "", "safetensors `file` of the network's weights")
	f.StringVar(&images, "images", "", "`folder` of images")
	modelFlag(cmd, &model)
	f.IntVar(&o.Threads, "threads", runtime.GOMAXPROCS(0), "images at a time")
	f.IntVar(&limit, "limit", 0, "use this many of the images, evenly chosen (default all)")
	_ = cmd.MarkFlagFilename("weights", "safetensors")
	_ = cmd.MarkFlagDirname("images")
	out.register(cmd)
	return cmd
}

// spreadOut takes some of a list, evenly.
func spreadOut(list []dataset.LabelledImage, count int) []dataset.LabelledImage {
	some := make([]dataset.LabelledImage, count)
	for i := range some {
		some[i] = list[i*len(list)/count]
	}
	return some
}
