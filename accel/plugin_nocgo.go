//go:build xla && !cgo

package accel

import (
	"errors"

	"github.com/gomlx/compute"
)

func openPlugin(string, Precision) (compute.Backend, error) {
	return nil, errors.New("accel: this program was built without cgo, which plugins need; build it with CGO_ENABLED=1 go build -tags xla ./cmd/tips")
}
