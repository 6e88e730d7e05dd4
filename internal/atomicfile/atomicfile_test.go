package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write := func(text string) error {
		return Write(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
	if err := write("first"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write("second"); err != nil {
		t.Fatal(err)
	}
	want := func(text string) {
		t.Helper()
		got, err := os.ReadFile(name)
		if err != nil || string(got) != text {
			t.Errorf("the file holds %q, %v; want %q", got, err, text)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("left in the folder: %v, %v", entries, err)
		}
	}
	want("second")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, %v; want those of the file replaced", info.Mode(), err)
	}

	// A writer that fails half-way leaves what was there.
	broken := errors.New("broken")
	err := Write(name, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v; want the cause and the file's name", err)
	}
	want("second")

	// A file that nobody wrote does not come into being.
	other := filepath.Join(dir, "other")
	if err := Write(other, func(io.Writer) error { return broken }); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", other, err)
	}
	if err := Write(filepath.Join(dir, "no", "such", "folder"), func(io.Writer) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}
