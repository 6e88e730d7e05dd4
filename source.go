// Package tips holds the source files of those packages of the module that a
// program needs to run an anytime network, so that 'tips export --go' can put them
// into the folder it writes. Everything else is in the packages below.
package tips

import (
	"embed"
	"io/fs"
	"strings"
)

// Files are matched by pattern, so that nobody has to add new ones here; tests
// come with them and are left out below. A test compares with what go list says.
//
//go:embed LICENSE go.mod
//go:embed supernet/*.go supernet/zoo/*.go weights/*.go internal/atomicfile/*.go
//go:embed internal/cpuid/*.go internal/cpuid/*.s internal/kernel/*.go internal/kernel/*.s
//go:embed nn/*.go frontier/*.go engine/*.go engine/input/*.go dataset/*.go
var source embed.FS

// Runtime gives the source files of engine, engine/input and all that they
// import, by their path in the module, tests left out, with the module's licence.
func Runtime() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == modFile || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files[name], err = source.ReadFile(name)
		return err
	})
	return files, err
}

const modFile = "go.mod"

// GoVersion is the version of Go that the module asks for.
func GoVersion() string {
	text, err := source.ReadFile(modFile)
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if version, ok := strings.CutPrefix(line, "go "); ok {
				return strings.TrimSpace(version)
			}
		}
	}
	panic("tips: go.mod names no version of Go") // as compiled in
}
