//go:build xla

package accel

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
)

// Built tells whether this program can use accelerators.
const Built = true

// Device is an accelerator that programs run on.
type Device struct {
	backend   compute.Backend
	name      string // as in Open
	precision Precision
}

// Open opens a device: GoName, XLAName, or XLAName with a colon and the path of a
// plugin. Call Prepare first. With a plugin a process computes in Float32 or in other
// precisions, not in both.
func Open(name string, o Options) (*Device, error) {
	kind, path, err := parse(name)
	if err != nil {
		return nil, err
	}
	if !o.Precision.Valid() {
		return nil, fmt.Errorf("accel: precision %q; want %s, %s or %s", o.Precision, BFloat16, TF32, Float32)
	}
	d := &Device{name: name, precision: o.Precision}
	if d.precision == "" {
		d.precision = BFloat16
		if kind == GoName {
			d.precision = Float32
		}
	}
	if kind == GoName {
		// One operation after the other, each on all cores: where several run at once, products
		// of matrices wait for workers that wait for them (compute v0.1.6, Pool.Saturate).
		if d.backend, err = gobackend.New("ops_sequential"); err != nil {
			return nil, fmt.Errorf("accel: %w", err)
		}
		return d, nil
	}
	if d.backend, err = openPlugin(path, d.precision); err != nil {
		return nil, err
	}
	return d, nil
}

// Description says what the device is.
func (d *Device) Description() string {
	if d.name == GoName {
		return "GoMLX's Go backend: this machine's processor, slowly; for tests"
	}
	n := d.backend.NumDevices()
	if n == 0 {
		return "no device"
	}
	about := d.backend.DeviceDescription(0)
	if n > 1 {
		about += fmt.Sprintf(", and %d more, which are not used", n-1)
	}
	return about
}

// Close gives the device back.
func (d *Device) Close() error {
	d.backend.Finalize()
	return nil
}

// upload copies values to the device.
func (d *Device) upload(values []float32, dims ...int) (compute.Buffer, error) {
	b, err := d.backend.BufferFromFlatData(0, values, shapes.Make(dtypes.Float32, dims...))
	if err != nil {
		return nil, fmt.Errorf("accel: %w", explain(err))
	}
	return b, nil
}

// execute runs a program and waits for it. Inputs stay as they are. The host has
// nothing to do in that time but what meanwhile does, on a goroutine that has ended
// when execute returns.
func (d *Device) execute(p compute.Executable, inputs []compute.Buffer, meanwhile func()) ([]compute.Buffer, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	outputs, err := p.Execute(inputs, nil, 0)
	<-done
	if err != nil {
		return nil, fmt.Errorf("accel: %w", explain(err))
	}
	return outputs, nil
}

// finalize gives back the memory of buffers, those that there are.
func finalize(buffers ...compute.Buffer) error {
	var all error
	for _, b := range buffers {
		if b != nil {
			all = errors.Join(all, b.Finalize())
		}
	}
	return all
}
