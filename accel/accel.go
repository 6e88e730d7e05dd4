// Package accel trains and judges networks on accelerators: the arithmetic of
// package train, as programs for any device that XLA has a plugin for. It is built
// with the tag xla; without it Open says so, and nothing else is here.
//
// A step is one program. The networks of the step run stacked along the batch, each
// with its own widths, its own left-out blocks and its own batch statistics: widths
// are masks, computed on the device from a few numbers, so that one program serves
// all subnetworks. Parameters, momentum and moving average are one vector each, stay
// on the device, and are updated in one pass.
//
// docs/accelerators.md tells how to get a plugin.
package accel

import (
	"fmt"
	"strings"
)

// Names of devices. XLAName may be followed by a colon and the path of a plugin.
const (
	XLAName = "xla" // a PJRT plugin
	GoName  = "go"  // GoMLX's own backend, for tests: no plugin needed, and slow
)

// Precision is what maps are computed in. Parameters, statistics and sums are always
// in float32.
type Precision string

// The precisions.
const (
	BFloat16 Precision = "bf16"    // maps and the factors of products
	TF32     Precision = "tf32"    // maps are float32; factors are rounded as NVIDIA's matrix units do
	Float32  Precision = "float32" // everything
)

// Valid tells whether p is a precision, or "", which lets the device choose.
func (p Precision) Valid() bool { return p == "" || p == BFloat16 || p == TF32 || p == Float32 }

// Options say how a device computes.
type Options struct {
	Precision Precision // "" means BFloat16, and Float32 on the Go backend
}

// Names tells whether name can be that of a device.
func Names(name string) bool {
	_, _, err := parse(name)
	return err == nil
}

// parse splits the name of a device.
func parse(name string) (kind, path string, err error) {
	kind, path, _ = strings.Cut(name, ":")
	if kind != XLAName && name != GoName || kind == XLAName && name != XLAName && path == "" {
		return "", "", fmt.Errorf("accel: device %q; want %s, %s:/path/to/plugin.so, or %s", name, XLAName, XLAName, GoName)
	}
	return kind, path, nil
}
