package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

func TestLinksAndPipes(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	hello := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	if err := os.WriteFile(file, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if err := Write(link, hello); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); string(got) != "hello" {
		t.Errorf("what the link leads to holds %q", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info.Mode(), err)
	}

	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	read := make(chan string, 1)
	go func() {
		got, _ := os.ReadFile(pipe)
		read <- string(got)
	}()
	if err := Write(pipe, hello); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "hello" {
		t.Errorf("%q came through the pipe", got)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is no pipe any more: %v, %v", info.Mode(), err)
	}
}

func TestClean(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".x.123.tmp", ".x.456.tmp", ".xy.123.tmp", "x", ".x.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".x.tmp .xy.123.tmp x" {
		t.Errorf("left %s", got)
	}
}
