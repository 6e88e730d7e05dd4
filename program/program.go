// Package program writes an anytime network as a Go program of its own: a folder
// with weights and frontier to embed, a short main.go to start from, and the source
// of the packages that run them. It builds offline, without cgo, to one static
// binary, for every platform that Go knows.
//
// The packages are copied into the folder, as tips/ with a go.mod of its own, and
// main.go imports them by their usual names; a line "replace" in the folder's go.mod
// leads there. So the folder needs neither a network nor this module beside it, and
// it goes on building as it did when the module moves on.
package program

import (
	_ "embed" // what the program does
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tips"
	"tips/frontier"
	"tips/internal/atomicfile"
	"tips/weights"
)

// Files of the folder.
const (
	WeightsFile  = "net.safetensors"
	FrontierFile = "net.frontier"
	modFile      = "go.mod"
	runtimeDir   = "tips"
)

//go:embed main.go.txt
var mainText string

//go:embed readme.md.txt
var readmeText string

// Sizes are the bytes of what was written.
type Sizes struct {
	Weights  int64 `json:"weights"`
	Frontier int64 `json:"frontier"`
	Source   int64 `json:"source"` // of the packages that run the network, and of main.go
}

// Write writes the program to a folder, which must be new or empty, whole or not at
// all. The program is called as the folder.
func Write(dir string, set *weights.Set, f *frontier.Frontier) (Sizes, error) {
	s, err := write(dir, set, f)
	if err != nil {
		return Sizes{}, fmt.Errorf("program %s: %w", dir, err)
	}
	return s, nil
}

func write(dir string, set *weights.Set, f *frontier.Frontier) (s Sizes, err error) {
	if err := f.CheckWeights(set); err != nil {
		return Sizes{}, err
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return Sizes{}, err
	}
	if err := free(target); err != nil {
		return Sizes{}, err
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Sizes{}, atomicfile.Cause(err)
	}
	// In a folder of another name until it is whole.
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(target)+".*.tmp")
	if err != nil {
		return Sizes{}, atomicfile.Cause(err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if s, err = fill(temp, moduleName(filepath.Base(target)), set, f); err != nil {
		return Sizes{}, err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return Sizes{}, atomicfile.Cause(err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return Sizes{}, atomicfile.Cause(err)
	}
	if err := os.Rename(temp, target); err != nil {
		return Sizes{}, atomicfile.Cause(err)
	}
	return s, nil
}

// free tells whether a folder can be made at a place.
func free(target string) error {
	if here, err := os.Getwd(); err == nil && here == target {
		return errors.New("this is the current folder; want a new one")
	}
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return atomicfile.Cause(err)
	case len(entries) > 0:
		return fmt.Errorf("the folder holds %s; want a new or an empty one", entries[0].Name())
	}
	return nil
}

// fill writes all files.
func fill(dir, module string, set *weights.Set, f *frontier.Frontier) (Sizes, error) {
	source, err := tips.Runtime()
	if err != nil {
		return Sizes{}, err
	}
	files := map[string][]byte{}
	for name, text := range source {
		files[runtimeDir+"/"+name] = text
	}
	version := tips.GoVersion()
	files[runtimeDir+"/"+modFile] = fmt.Appendf(nil, "module tips\n\ngo %s\n", version)
	files[modFile] = fmt.Appendf(nil, "module %s\n\ngo %s\n\nrequire tips v0.0.0\n\nreplace tips => ./%s\n", module, version, runtimeDir)
	name := module[strings.LastIndexByte(module, '/')+1:]
	files["main.go"] = []byte(strings.ReplaceAll(mainText, "NAME", name))
	readme, err := describe(name, f)
	if err != nil {
		return Sizes{}, err
	}
	files["README.md"] = []byte(readme)

	var s Sizes
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return Sizes{}, atomicfile.Cause(err)
		}
		if err := atomicfile.Write(file, func(w io.Writer) error {
			_, err := w.Write(files[name])
			return err
		}); err != nil {
			return Sizes{}, err
		}
		s.Source += int64(len(files[name]))
	}
	if err := set.Save(filepath.Join(dir, WeightsFile)); err != nil {
		return Sizes{}, err
	}
	if err := f.Save(filepath.Join(dir, FrontierFile)); err != nil {
		return Sizes{}, err
	}
	for name, size := range map[string]*int64{WeightsFile: &s.Weights, FrontierFile: &s.Frontier} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return Sizes{}, atomicfile.Cause(err)
		}
		*size = info.Size()
	}
	return s, nil
}

// moduleName makes the path of a module of a folder's name. The first element
// keeps it apart from packages of Go and from ours.
func moduleName(folder string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case r == ' ', r == '.':
			return '-'
		}
		return -1
	}, folder)
	name = strings.Trim(name, "-_")
	if name == "" {
		name = "classify"
	}
	return "anytime/" + name
}

// describe is the page of the folder.
func describe(name string, f *frontier.Frontier) (string, error) {
	var table strings.Builder
	if err := f.WriteTable(&table); err != nil {
		return "", err
	}
	return strings.NewReplacer("NAME", name, "NETWORK", f.Network.Name(), "INPUT", f.Input.String(), "TABLE", strings.TrimRight(table.String(), "\n"),
		"VERSION", tips.GoVersion()).Replace(readmeText), nil
}
