//go:build xla

package accel

import (
	"fmt"
	"os"
	"testing"
)

// TestMain starts the tests anew where the device that TIPS_DEVICE names needs it.
func TestMain(m *testing.M) {
	if name := os.Getenv("TIPS_DEVICE"); name != "" {
		if err := Prepare(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
