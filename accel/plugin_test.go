//go:build xla

package accel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKnows: words are found wherever they are in a file, also across the parts that
// the file is read in.
func TestKnows(t *testing.T) {
	const word, other = "xla_some_flag", "xla_another_rather_long_flag"
	for _, at := range []int{0, 1, 1<<20 - 5, 1 << 20, 2<<20 - 13, 3<<20 - 13} {
		file := []byte(strings.Repeat("x", 3<<20))
		copy(file[2<<20+100:], other)
		copy(file[at:], word)
		p := Plugin{Path: filepath.Join(t.TempDir(), "plugin.so")}
		if err := os.WriteFile(p.Path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.knows(other, "xla_no_flag", word); !slices.Equal(got, []string{other, word}) {
			t.Errorf("with the word at %d: %q", at, got)
		}
	}
	if got := (Plugin{Path: "/nowhere"}).knows(word); got != nil {
		t.Errorf("in no file: %q", got)
	}
}

// TestAddFlags: flags are added once, where the plugin knows them and the user has not
// set them.
func TestAddFlags(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	p := Plugin{Path: filepath.Join(t.TempDir(), "plugin.so")}
	if err := os.WriteFile(p.Path, []byte("..."+autotuneFlag+"..."+tritonFlag), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XLA_FLAGS", "--"+tritonFlag+"=true")
	set := map[string]string{}
	p.addFlags(set)
	want := "--" + tritonFlag + "=true --" + autotuneFlag + "=" + filepath.Join(cache, "tips", "xla")
	if set["XLA_FLAGS"] != want {
		t.Errorf("XLA_FLAGS=%s; want %s", set["XLA_FLAGS"], want)
	}
	p.addFlags(set)
	if set["XLA_FLAGS"] != want {
		t.Errorf("a second time XLA_FLAGS=%s; want %s", set["XLA_FLAGS"], want)
	}
}

// TestRounding: the first device decides whether float32 is rounded, and only devices
// of that kind come after it.
func TestRounding(t *testing.T) {
	const variable = "NVIDIA_TF32_OVERRIDE"
	for _, c := range []struct {
		list     []Precision
		refused  bool // the last one
		variable string
	}{
		{[]Precision{BFloat16, TF32, BFloat16}, false, ""},
		{[]Precision{Float32, Float32}, false, "0"},
		{[]Precision{Float32, TF32}, true, "0"},
		{[]Precision{Float32, BFloat16}, true, "0"},
		{[]Precision{TF32, Float32}, true, ""},
	} {
		t.Setenv(variable, "")
		var r rounding
		for i, p := range c.list {
			if err := r.decide(p); (err != nil) != (c.refused && i == len(c.list)-1) {
				t.Errorf("%v, number %d: %v", c.list, i, err)
			}
		}
		if got := os.Getenv(variable); got != c.variable {
			t.Errorf("%v: %s=%s; want %s", c.list, variable, got, c.variable)
		}
	}
}
