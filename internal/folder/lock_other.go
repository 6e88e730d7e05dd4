//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package folder

import "os"

// Lock does nothing where there is no lock that ends with the process.
func Lock(dir string) (*os.File, error) { return os.Open(dir) }
