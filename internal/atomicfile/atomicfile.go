// Package atomicfile writes files whole or not at all: whoever opens the name
// finds what was there before or all that was written, also after a crash. What
// is no regular file, a pipe or a device, is written to as it is.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write creates or replaces the file with what write writes. On any error the
// file is as it was before.
func Write(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return through(name, write)
	}
	// A link stays a link: the file it leads to is replaced.
	target := name
	if to, err := filepath.EvalSymlinks(name); err == nil {
		target = to
	}
	if err := replace(target, write); err != nil {
		return fmt.Errorf("write %s: %w", name, Cause(err))
	}
	return nil
}

// through writes to something that is no file.
func through(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, Cause(err))
	}
	return nil
}

func replace(name string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(name)
	// In the same folder, because a rename across file systems is a copy.
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(mode(name)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// Clean removes what writes of the file left that were killed before they could
// remove it themselves. Nobody else may be writing the file.
func Clean(name string) error {
	left, err := filepath.Glob(filepath.Join(quoteMeta(filepath.Dir(name)), "."+quoteMeta(filepath.Base(name))+".*.tmp"))
	if err != nil {
		return err
	}
	for _, l := range left {
		if err := os.Remove(l); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clean %s: %w", name, Cause(err))
		}
	}
	return nil
}

// quoteMeta keeps Glob from reading a name as a pattern.
func quoteMeta(name string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(name)
}

// mode keeps the permissions of a file that is replaced.
func mode(name string) os.FileMode {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return info.Mode().Perm()
	}
	return 0o644
}

// syncDir makes the rename last. Not every file system can; then the rename is
// as lasting as it gets.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// Cause drops the name of a file from an error: that of a temporary one the user never
// asked for, and others stand in the message already.
func Cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}
