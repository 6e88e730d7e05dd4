//go:build !xla

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "device: built without accelerators; run it with go run -tags xla ./device")
	os.Exit(1)
}
