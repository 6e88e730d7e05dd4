//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package judge

import "os"

// lock does nothing where there is no lock that ends with the process.
func lock(*os.File) error { return nil }

func unlock(*os.File) error { return nil }
