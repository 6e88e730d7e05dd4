//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package folder

import (
	"fmt"
	"os"
	"syscall"
)

// Lock keeps others from writing results into a folder until it is closed. The system
// takes it back when the process ends, however that happens.
func Lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == syscall.EWOULDBLOCK {
		f.Close()
		return nil, fmt.Errorf("another run or search is under way in %s", dir)
	}
	return f, nil // also where the file system knows no locks
}
