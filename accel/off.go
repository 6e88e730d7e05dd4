//go:build !xla

package accel

import (
	"errors"

	"tips/train"
)

// Built tells whether this program can use accelerators.
const Built = false

var errNotBuilt = errors.New("accel: this program was built without accelerators; build it with CGO_ENABLED=1 go build -tags xla ./cmd/tips")

// Device is an accelerator that programs run on.
type Device struct{}

// Prepare makes this process ready for Open.
func Prepare(name string) error {
	if _, _, err := parse(name); err != nil {
		return err
	}
	return errNotBuilt
}

// Open opens a device: never, in a program built without the tag xla.
func Open(name string, _ Options) (*Device, error) { return nil, Prepare(name) }

// Description says what the device is.
func (*Device) Description() string { return "" }

// NewExecutor makes an executor for a network on the device.
func (*Device) NewExecutor(train.Settings) (train.Executor, error) { return nil, errNotBuilt }

// Close gives the device back.
func (*Device) Close() error { return nil }
