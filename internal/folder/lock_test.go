package folder

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	f, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Lock(dir); err == nil {
		second.Close()
		if runtime.GOOS == "linux" {
			t.Error("a folder was locked twice")
		}
	} else if !strings.Contains(err.Error(), "another run or search is under way in "+dir) {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatalf("after the lock was closed: %v", err)
	}
	again.Close()
	if _, err := Lock(filepath.Join(dir, "nothing")); !os.IsNotExist(err) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
