package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tips/engine"
	"tips/frontier"
	"tips/onnx"
	"tips/program"
	"tips/supernet"
	"tips/weights"
)

func newExport() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [RUN]",
		Short: "Write a subnetwork, or all of them, for use elsewhere",
		Long: `Write one subnetwork as a network of its own, truly smaller: only its operations,
only its channels, with the batch-norm statistics that were calibrated for it.

  --onnx FILE         an ONNX model, batch norm folded into the weights
  --safetensors FILE  weights for tips and others; the file tells its network
  --go DIR            a folder with a Go program that has the network within it.
                      Without --subnet it is the whole anytime network, with all
                      subnetworks of the frontier; with it, that subnetwork alone

RUN is the folder of a training run after 'tips search', or name files by --weights
and --frontier. What is written, as --subnet takes it:
` + choiceHelp + `

The folder of --go needs nothing but Go: it holds the source of the packages that
run the network, and builds offline with 'CGO_ENABLED=0 go build' to one static
binary, also for another processor (GOARCH=arm64). Its main.go is short, and yours
to change.

A subnetwork without calibrated statistics is refused: those of the whole network do
not suit it. Points of a frontier have their own.`,
		Example: `  tips export runs/quick-tips-1 --subnet 1M --onnx small.onnx
  tips export runs/quick-tips-1 --subnet 3 --safetensors third.safetensors --json
  tips export runs/quick-tips-1 --go classify
  tips export runs/quick-tips-1 --go classify-small --subnet smallest
  tips export --weights mobilenet_v2.safetensors --network mobilenet_v2 --onnx mobilenet_v2.onnx`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.weights != "" && len(args) == 0 {
				return nil
			}
			return exactly("RUN")(cmd, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			run := ""
			if len(args) > 0 {
				run = args[0]
			}
			return o.run(cmd, run)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.subnet, "subnet", "", "the subnetwork, or a budget that chooses one (default the whole network)")
	f.StringVar(&o.onnx, "onnx", "", "ONNX `file` to write")
	f.StringVar(&o.safetensors, "safetensors", "", "safetensors `file` to write")
	f.StringVar(&o.golang, "go", "", "`folder` to write a Go program to, new or empty")
	f.IntVar(&o.batch, "batch", 0, "inputs at once that the ONNX model takes; 0 leaves it open")
	f.BoolVar(&o.keepNorm, "keep-norm", false, "keep batch norm as nodes of their own in the ONNX model, to train it further")
	f.BoolVar(&o.uncalibrated, "uncalibrated", false, "write a subnetwork that nobody calibrated, with statistics of the whole network")
	f.BoolVar(&o.asJSON, "json", false, "write what was written as JSON")
	o.anytimeOptions.register(cmd)
	_ = cmd.MarkFlagFilename("onnx", "onnx")
	_ = cmd.MarkFlagFilename("safetensors", "safetensors")
	_ = cmd.MarkFlagDirname("go")
	return cmd
}

// exportOptions are the flags of tips export.
type exportOptions struct {
	anytimeOptions
	subnet, onnx, safetensors, golang string
	batch                             int
	keepNorm, uncalibrated, asJSON    bool
}

// exported is what was written.
type exported struct {
	Network    string          `json:"network"`
	Subnet     supernet.Subnet `json:"subnet"`
	Point      int             `json:"point,omitempty"` // of the frontier's table
	Calibrated bool            `json:"calibrated"`
	Accuracy   float64         `json:"accuracy,omitempty"`
	frontier.Costs
	Files []exportedFile `json:"files"`

	point frontier.Point
	whole frontier.Costs
}

// exportedFile is a file, or the folder of a program.
type exportedFile struct {
	Format  string         `json:"format"`
	Name    string         `json:"name"`
	Bytes   int64          `json:"bytes"`
	Whole   int64          `json:"bytes_of_whole,omitempty"` // the same of the whole network, for comparison
	Subnets int            `json:"subnets"`
	Program *program.Sizes `json:"program,omitempty"`
}

func (o *exportOptions) run(cmd *cobra.Command, run string) error {
	if o.onnx == "" && o.safetensors == "" && o.golang == "" {
		return errors.New("export: nothing to write; want --onnx FILE, --safetensors FILE or --go DIR")
	}
	if o.batch < 0 {
		return fmt.Errorf("--batch %d; want 1 or more, or 0 to leave it open", o.batch)
	}
	a, err := o.open(run)
	if err != nil {
		return err
	}
	chosen := cmd.Flags().Changed("subnet")
	budget := engine.Budget{Subnet: &supernet.Subnet{}}
	if chosen {
		if budget, err = a.parse(o.subnet); err != nil {
			return fmt.Errorf("--subnet %w", err)
		}
	}
	result, err := o.choose(a, budget)
	if err != nil {
		return failed(err)
	}
	if !a.judged && o.golang != "" {
		if run != "" {
			return failed(fmt.Errorf("export: %s has no %s, which a program needs; 'tips search %s' makes it", run, frontierFile, run))
		}
		if err := a.prepareAsImageNet(); err != nil {
			return failed(fmt.Errorf("export: %w", err))
		}
	}
	alone, own, err := a.Extract(a.set, result.point)
	if err != nil {
		return failed(err)
	}
	if o.onnx != "" {
		if err := o.writeONNX(a, alone, result); err != nil {
			return failed(err)
		}
	}
	if o.safetensors != "" {
		file := exportedFile{Format: "safetensors", Name: o.safetensors, Subnets: 1}
		if err := file.write(alone.Write, a.set.Write); err != nil {
			return failed(err)
		}
		result.Files = append(result.Files, file)
	}
	if o.golang != "" {
		set, f := a.set, a.Frontier
		if chosen {
			set, f = alone, own
		}
		sizes, err := program.Write(o.golang, set, f)
		if err != nil {
			return failed(err)
		}
		file := exportedFile{Format: "go", Name: o.golang, Bytes: sizes.Weights + sizes.Frontier + sizes.Source, Subnets: len(f.Points), Program: &sizes}
		result.Files = append(result.Files, file)
	}
	if o.asJSON {
		return failed(writeJSON(cmd.OutOrStdout(), result))
	}
	return failed(result.print(cmd.OutOrStdout(), a))
}

// choose finds the subnetwork and holds it to having statistics of its own.
func (o *exportOptions) choose(a *anytime, b engine.Budget) (*exported, error) {
	p, index, err := a.choose(b)
	if err != nil {
		return nil, fmt.Errorf("--subnet %s: %w", o.subnet, err)
	}
	calibrated, err := a.Calibrated(p)
	if err != nil {
		return nil, err
	}
	if !calibrated && !o.uncalibrated {
		return nil, fmt.Errorf("export: nobody calibrated batch norm for %s, and the statistics of the whole network do not suit it; %s, or give --uncalibrated", p.Subnet, a.remedy(p))
	}
	r := &exported{Network: a.Network.Name(), Subnet: p.Subnet, Calibrated: calibrated, Accuracy: p.Accuracy, Costs: p.Costs, point: p, whole: frontier.CostsOf(a.Network.Full().Costs())}
	if a.judged {
		r.Point = index + 1
	}
	return r, nil
}

// remedy says how to get the statistics of a subnetwork.
func (a *anytime) remedy(p frontier.Point) string {
	eval := "judge it by 'tips eval' first"
	if a.run != "" {
		eval = fmt.Sprintf("judge it by 'tips eval %s --subnet %s --out FILE' and give --frontier FILE", a.run, p.Subnet)
	}
	if a.judged {
		return fmt.Sprintf("take one of the frontier (1 to %d), %s", len(a.Points), eval)
	}
	return eval
}

func (o *exportOptions) writeONNX(a *anytime, alone *weights.Set, r *exported) error {
	options := onnx.Options{Input: a.Input, Batch: o.batch, KeepNorm: o.keepNorm}
	file := exportedFile{Format: "onnx", Name: o.onnx, Subnets: 1}
	err := file.write(
		func(w io.Writer) error { return onnx.Export(w, alone, options) },
		func(w io.Writer) error { return onnx.Export(w, a.set, options) },
	)
	r.Files = append(r.Files, file)
	return err
}

// write writes the file, and counts what the whole network would take.
func (f *exportedFile) write(part, whole func(io.Writer) error) error {
	var all counter
	if err := whole(&all); err != nil {
		return err
	}
	f.Whole = int64(all)
	return writeFile(f.Name, func(w io.Writer) error {
		var n counter
		err := part(io.MultiWriter(w, &n))
		f.Bytes = int64(n)
		return err
	})
}

// counter counts bytes.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// print says what was written, for people.
func (r *exported) print(w io.Writer, a *anytime) error {
	for _, f := range r.Files {
		if f.Format == "go" && f.Subnets > 1 {
			continue // tells of all subnetworks
		}
		fmt.Fprintf(w, "%s of %s", r.Subnet, r.Network)
		if r.Point > 0 {
			fmt.Fprintf(w, ", %d of %d on the frontier", r.Point, len(a.Points))
		}
		fmt.Fprintf(w, ": %s MACs (%.1f %%), %s parameters (%.1f %%)", count(r.MACs), percent(r.MACs, r.whole.MACs), count(r.Params), percent(r.Params, r.whole.Params))
		if text := accuracyText(r.point); text != "" {
			fmt.Fprintf(w, ", accuracy %s", text)
		}
		fmt.Fprintln(w)
		break
	}
	for _, f := range r.Files {
		if p := f.Program; p != nil {
			what := plural(f.Subnets, "subnetwork")
			fmt.Fprintf(w, "wrote %s: %s, weights %s, frontier %s, source %s; build it there with 'CGO_ENABLED=0 go build'\n",
				f.Name, what, bytesize(p.Weights), bytesize(p.Frontier), bytesize(p.Source))
			continue
		}
		fmt.Fprintf(w, "wrote %s: %s", f.Name, bytesize(f.Bytes))
		if f.Bytes != f.Whole {
			fmt.Fprintf(w, " (the whole network: %s)", bytesize(f.Whole))
		}
		fmt.Fprintln(w)
	}
	if !r.Calibrated {
		fmt.Fprintln(w, "batch norm is not calibrated: re-estimate its statistics before you trust its answers")
	}
	return nil
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
