package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// files is a source of image files.
type files struct {
	dir     string
	folders []string // where the files of each class are, below dir; nil: in dir itself
	names   []string
	labels  []int32
	classes int
}

func (f *files) Len() int                     { return len(f.names) }
func (f *files) Classes() int                 { return f.classes }
func (f *files) Label(i int) int              { return int(f.labels[i]) }
func (f *files) Image(i int) (Picture, error) { return OpenPicture(f.path(i)) }

func (f *files) path(i int) string {
	if f.folders == nil {
		return filepath.Join(f.dir, f.names[i])
	}
	return filepath.Join(f.dir, f.folders[f.labels[i]], f.names[i])
}

// openFolder reads images in one folder a class, as ImageNet is kept. Classes are
// numbered by the names of these in order.
func openFolder(dir string) (*Data, error) {
	train := filepath.Join(dir, "train")
	test := filepath.Join(dir, "val")
	if !isFolder(test) && isFolder(filepath.Join(dir, "test")) {
		test = filepath.Join(dir, "test")
	}
	var sources [2]*files
	for i, name := range []string{train, test} {
		if !isFolder(name) {
			return nil, fmt.Errorf("dataset %s: this folder is missing; images to train on are expected in train/CLASS/, others to test on in val/CLASS/", name)
		}
		folders, loose, err := listDir(name)
		if err != nil {
			return nil, err
		}
		if len(loose) > 0 {
			return nil, fmt.Errorf("dataset %s: %s stands outside the folders of classes; which class is it?", name, loose[0])
		}
		if len(folders) == 0 {
			return nil, fmt.Errorf("dataset %s: no folders of classes", name)
		}
		if sources[i], err = listFolders(name, folders); err != nil {
			return nil, err
		}
	}
	if a, b := sources[0].folders, sources[1].folders; !slices.Equal(a, b) {
		i := 0
		for i < len(a) && i < len(b) && a[i] == b[i] {
			i++
		}
		return nil, fmt.Errorf("dataset %s: %d classes to train on and %d to test on, different from number %d on; they must be the same", dir, len(a), len(b), i)
	}
	usual := ImageNet(224)
	return &Data{
		Name: "folder", Train: sources[0], Test: sources[1],
		Classes: len(sources[0].folders), ClassNames: sources[0].folders,
		Channels: 3, Size: 224, Mean: usual.Mean[:], Std: usual.Std[:],
		augment: Pipeline{RandomResizedCrop: true, Flip: true, Resize: 256},
	}, nil
}

// LabelledImage is a file and the class of what it shows.
type LabelledImage struct {
	Path  string
	Class int
}

// Images lists the images of a folder. Either every class has a folder of its
// own, classes being numbered by the names of these in order, as ImageNet is kept;
// or the files are named by the number of their class, as in 0042.jpg.
func Images(dir string) ([]LabelledImage, error) {
	folders, loose, err := listDir(dir)
	if err != nil {
		return nil, err
	}
	var f *files
	switch {
	case len(folders) > 0 && len(loose) > 0:
		return nil, fmt.Errorf("dataset %s: %s stands beside folders of classes; which class is it?", dir, loose[0])
	case len(folders) > 0:
		f, err = listFolders(dir, folders)
	case len(loose) > 0:
		f, err = listNumbers(dir, loose)
	default:
		err = fmt.Errorf("dataset %s: no images (.jpg, .jpeg, .png)", dir)
	}
	if err != nil {
		return nil, err
	}
	list := make([]LabelledImage, f.Len())
	for i := range list {
		list[i] = LabelledImage{f.path(i), f.Label(i)}
	}
	return list, nil
}

// listDir lists the folders and images of a folder in the order of their names.
func listDir(dir string) (folders, images []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("dataset %s: %w", dir, cause(err))
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		folder := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 { // may lead to a folder
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, nil, fmt.Errorf("dataset %s: %w", filepath.Join(dir, e.Name()), cause(err))
			}
			folder = info.IsDir()
		}
		if folder {
			folders = append(folders, e.Name())
		} else if isImage(e.Name()) {
			images = append(images, e.Name())
		}
	}
	return folders, images, nil
}

func listFolders(dir string, folders []string) (*files, error) {
	f := &files{dir: dir, folders: folders, classes: len(folders)}
	for class, folder := range folders {
		_, images, err := listDir(filepath.Join(dir, folder))
		if err != nil {
			return nil, err
		}
		if len(images) == 0 {
			// Counted as a class, it would shift the numbers of all after it.
			return nil, fmt.Errorf("dataset %s: no images in this folder, which counts as class %d; remove it", filepath.Join(dir, folder), class)
		}
		f.names = append(f.names, images...)
		for range images {
			f.labels = append(f.labels, int32(class))
		}
	}
	return f, nil
}

func listNumbers(dir string, images []string) (*files, error) {
	f := &files{dir: dir, names: images}
	for _, name := range images {
		number, err := strconv.ParseUint(strings.TrimSuffix(name, filepath.Ext(name)), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %s is not named by the number of its class, as in 0042.jpg", dir, name)
		}
		f.labels = append(f.labels, int32(number))
		f.classes = max(f.classes, int(number)+1)
	}
	return f, nil
}

func isImage(name string) bool {
	return slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(filepath.Ext(name)))
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// cause drops the path from an error whose message names it already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
