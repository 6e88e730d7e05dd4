//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package judge

import (
	"os"
	"syscall"
)

// lock waits until no other process holds the file, and keeps them from it. The
// system takes it back when the process ends, however that happens.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return nil // also where the file system knows no locks
		}
	}
}

func unlock(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return nil
}
