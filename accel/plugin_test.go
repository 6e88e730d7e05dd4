//go:build xla

package accel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKnows: a word is found wherever it is in a file, also across the parts that the
// file is read in.
func TestKnows(t *testing.T) {
	const word = "xla_some_flag"
	for _, at := range []int{0, 1, 1<<20 - 5, 1 << 20, 2<<20 - 13, 3<<20 - 13} {
		file := []byte(strings.Repeat("x", 3<<20))
		copy(file[at:], word)
		p := Plugin{Path: filepath.Join(t.TempDir(), "plugin.so")}
		if err := os.WriteFile(p.Path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if !p.knows(word) {
			t.Errorf("the word at %d is not found", at)
		}
		if p.knows(word + "s") {
			t.Error("a word that is not there is found")
		}
	}
	if (Plugin{Path: "/nowhere"}).knows(word) {
		t.Error("a word is found in no file")
	}
}
