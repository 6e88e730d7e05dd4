//go:build !amd64

package peak

// Units is not written for this architecture.
func Units() []Unit { return nil }
