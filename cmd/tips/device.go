package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tips/accel"
	"tips/train"
)

// cpuDevice is the device that needs nothing but the processor.
const cpuDevice = "cpu"

// deviceFlags say what does the arithmetic.
type deviceFlags struct{ device, precision string }

func (d *deviceFlags) add(f *pflag.FlagSet) {
	f.StringVar(&d.device, "device", cpuDevice, "what computes: cpu, xla, or xla:/path/to/plugin.so; see 'tips devices'")
	f.StringVar(&d.precision, "precision", "", "of --device xla: bf16, tf32 or float32 (default bf16)")
}

// open opens the device. Without one it gives nil, which means the processor. It may
// start the program anew, so it comes before anything else is done.
func (d *deviceFlags) open() (*accel.Device, error) {
	if d.device == cpuDevice {
		if d.precision != "" {
			return nil, fmt.Errorf("--precision %s: --device cpu computes in float32", d.precision)
		}
		return nil, nil
	}
	o := accel.Options{Precision: accel.Precision(d.precision)}
	if !accel.Names(d.device) {
		return nil, fmt.Errorf("--device %q; want %s, %s, or %s:/path/to/plugin.so", d.device, cpuDevice, accel.XLAName, accel.XLAName)
	}
	if !o.Precision.Valid() {
		return nil, fmt.Errorf("--precision %q; want %s, %s or %s", d.precision, accel.BFloat16, accel.TF32, accel.Float32)
	}
	if err := accel.Prepare(d.device); err != nil {
		return nil, failed(err)
	}
	device, err := accel.Open(d.device, o)
	return device, failed(err)
}

// executors are what train.Options.Executor asks for.
func executors(d *accel.Device) func(train.Settings) (train.Executor, error) {
	if d == nil {
		return nil
	}
	return d.NewExecutor
}

func newDevices() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List what networks can be trained on here",
		Long: `List what --device can name on this machine, and where it was found: the
processor, and the PJRT plugins of XLA. docs/accelerators.md tells how to get one.`,
		Example:           `  tips devices`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := []deviceInfo{{Device: cpuDevice, Usable: true, About: fmt.Sprintf("this machine's processor, %s", plural(runtime.GOMAXPROCS(0), "thread"))}}
			for i, p := range accel.Plugins() {
				list = append(list, describePlugin(p, i == 0))
			}
			if asJSON {
				return failed(writeJSON(cmd.OutOrStdout(), list))
			}
			t := newTable(cmd.OutOrStdout(), "DEVICE", "USABLE", "")
			for _, d := range list {
				usable := "no"
				if d.Usable {
					usable = "yes"
				}
				t.row(d.Device, usable, d.About)
			}
			if err := t.flush(); err != nil {
				return failed(err)
			}
			var hint string
			switch {
			case !accel.Built:
				hint = "\nThis program was built without accelerators; to use them: CGO_ENABLED=1 go build -tags xla ./cmd/tips\n"
			case len(list) == 1:
				hint = "\nNo XLA plugin found; for an NVIDIA GPU: pip install 'jax[cuda13]', or name one with --device xla:/path/to/plugin.so\n"
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), hint)
			return failed(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// deviceInfo is a device as tips devices lists it.
type deviceInfo struct {
	Device string `json:"device"`
	Usable bool   `json:"usable"`
	About  string `json:"about"`
	Plugin string `json:"plugin,omitempty"`
}

// describePlugin says whether a plugin works, by loading it: a file alone tells
// nothing of drivers. Only the first is loaded, which is what --device xla means; a
// process has room for one.
func describePlugin(p accel.Plugin, first bool) deviceInfo {
	if !first {
		return deviceInfo{Device: accel.XLAName + ":" + p.Path, Plugin: p.Path, About: "another plugin, not tried"}
	}
	d := deviceInfo{Device: accel.XLAName, Plugin: p.Path, About: "the plugin " + p.Path}
	if !accel.Built {
		d.About += "; this program cannot load it"
		return d
	}
	err := accel.Prepare(d.Device)
	if err == nil {
		var device *accel.Device
		if device, err = accel.Open(d.Device, accel.Options{}); err == nil {
			defer device.Close()
			d.Usable, d.About = true, d.About+": "+device.Description()
			return d
		}
	}
	d.About += ": " + oneLine(err)
	return d
}
