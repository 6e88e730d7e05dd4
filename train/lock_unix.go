//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package train

import (
	"fmt"
	"os"
	"syscall"
)

// lock keeps other processes from training in a folder. The system takes it back
// when the process ends, however that happens.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == syscall.EWOULDBLOCK {
		f.Close()
		return nil, fmt.Errorf("another run is under way in %s", dir)
	}
	return f, nil // also where the file system knows no locks
}
