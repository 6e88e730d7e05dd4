package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// openTinyImageNet reads Tiny-ImageNet as its archive has it. Classes are numbered
// by the names of their folders in order, as everybody's reader of folders does, and
// not as wnids.txt lists them.
func openTinyImageNet(dir string) (*Data, error) {
	if inner := filepath.Join(dir, "tiny-imagenet-200"); !isFile(filepath.Join(dir, "wnids.txt")) && isFolder(inner) {
		dir = inner
	}
	file := filepath.Join(dir, "wnids.txt")
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	ids, err := parseIDs(text)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", file, err)
	}
	train, err := tinyTrain(filepath.Join(dir, "train"), ids)
	if err != nil {
		return nil, err
	}
	test, err := tinyVal(filepath.Join(dir, "val"), ids)
	if err != nil {
		return nil, err
	}
	names, err := tinyNames(filepath.Join(dir, "words.txt"), ids)
	if err != nil {
		return nil, err
	}
	usual := ImageNet(224)
	return &Data{
		Name: "tiny-imagenet", Train: train, Test: test, Classes: len(ids), ClassNames: names,
		Channels: 3, Size: 64, Mean: usual.Mean[:], Std: usual.Std[:],
		augment: Pipeline{Pad: 8, Flip: true},
	}, nil
}

func tinyTrain(dir string, ids []string) (*files, error) {
	folders, _, err := listDir(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range folders {
		if _, found := slices.BinarySearch(ids, name); !found {
			return nil, fmt.Errorf("dataset %s: this class is not in wnids.txt", filepath.Join(dir, name))
		}
	}
	inner := make([]string, len(ids))
	for i, id := range ids {
		inner[i] = filepath.Join(id, "images")
	}
	return listFolders(dir, inner)
}

func tinyVal(dir string, ids []string) (*files, error) {
	file := filepath.Join(dir, "val_annotations.txt")
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	f := &files{dir: filepath.Join(dir, "images"), classes: len(ids)}
	if f.names, f.labels, err = parseAnnotations(text, ids); err != nil {
		return nil, fmt.Errorf("dataset %s: %w", file, err)
	}
	_, images, err := listDir(f.dir)
	if err != nil {
		return nil, err
	}
	for i, name := range f.names {
		if _, found := slices.BinarySearch(images, name); !found {
			return nil, fmt.Errorf("dataset %s: line %d names %q, which is not in images/", file, i+1, name)
		}
	}
	return f, nil
}

// parseIDs reads the classes of wnids.txt, one a line, and sorts them.
func parseIDs(text string) ([]string, error) {
	ids := lines(text)
	for i, id := range ids {
		if !plainName(id) {
			return nil, fmt.Errorf("line %d: %.40q is no name of a class; one like n01443537 is expected", i+1, id)
		}
	}
	slices.Sort(ids)
	for i := range ids[1:] {
		if ids[i] == ids[i+1] {
			return nil, fmt.Errorf("class %s twice", ids[i])
		}
	}
	return ids, nil
}

// parseAnnotations reads the files and classes of val_annotations.txt: columns
// between tabs, of which the first two count and the others frame what is seen.
func parseAnnotations(text string, ids []string) (names []string, labels []int32, err error) {
	seen := map[string]bool{}
	for i, line := range lines(text) {
		columns := strings.Split(line, "\t")
		if len(columns) < 2 || !plainName(columns[0]) || !isImage(columns[0]) {
			return nil, nil, fmt.Errorf("line %d: %.40q is no annotation; a file's name, a tab and a class are expected", i+1, line)
		}
		class, found := slices.BinarySearch(ids, columns[1])
		if !found {
			return nil, nil, fmt.Errorf("line %d: class %.40q is not in wnids.txt", i+1, columns[1])
		}
		if seen[columns[0]] {
			return nil, nil, fmt.Errorf("line %d: %.40q twice", i+1, columns[0])
		}
		seen[columns[0]] = true
		names, labels = append(names, columns[0]), append(labels, int32(class))
	}
	return names, labels, nil
}

// tinyNames reads what the classes are called, where the archive's list is there:
// the first of the words that mean it.
func tinyNames(file string, ids []string) ([]string, error) {
	names := slices.Clone(ids)
	if !isFile(file) {
		return names, nil
	}
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		id, words, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		if i, found := slices.BinarySearch(ids, id); found {
			if name, _, _ := strings.Cut(words, ","); name != "" {
				names[i] = name
			}
		}
	}
	return names, nil
}

// plainName reports whether a name from a file can be joined to a folder's.
func plainName(name string) bool {
	return name != "" && len(name) <= 255 && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\\\x00")
}

// readText reads a list, which cannot be long.
func readText(name string) (string, error) {
	const most = 1 << 24
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	if info.Size() > most {
		return "", fmt.Errorf("dataset %s: %d bytes; up to %d are read", name, info.Size(), most)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	return string(text), nil
}

// lines splits a text that may come from any system, without empty lines at its end.
func lines(text string) []string {
	return strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
}
