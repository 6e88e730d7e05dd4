//go:build xla && cgo

package accel

import (
	"fmt"
	"io"
	"os"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"k8s.io/klog/v2"
)

// openPlugin loads a plugin; "" means the best that is found.
func openPlugin(path string, p Precision) (compute.Backend, error) {
	plugin, ok := choosePlugin(path)
	if !ok {
		return nil, errNoPlugin
	}
	if _, err := os.Stat(plugin.Path); err != nil {
		return nil, fmt.Errorf("accel: plugin: %w", err)
	}
	if err := ofProcess.decide(p); err != nil {
		return nil, err
	}
	options := ""
	if p == Float32 {
		options = ",tf32=false"
	}
	os.Setenv("GOPJRT_CUDA_CHECKS", "0") // Prepare has done what they would advise
	xla.EnableAutoInstall(false)         // nothing is downloaded
	// What goes wrong is told in the error, once.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	b, err := xla.New(plugin.Path + options)
	if err != nil {
		return nil, fmt.Errorf("accel: plugin %s: %w", plugin.Path, explain(err))
	}
	return b, nil
}
