package dataset

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/cat/1.png", "train/cat/2.png", "train/bird/x.png", "val/bird/1.png", "val/cat/1.png"} {
		writeImage(t, filepath.Join(dir, name), 9, 7)
	}
	d, err := Open("folder:" + dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Train.Len() != 3 || d.Test.Len() != 2 || d.Classes != 2 || !slices.Equal(d.ClassNames, []string{"bird", "cat"}) {
		t.Fatalf("%+v", d)
	}
	p, err := d.Train.Image(2)
	if err != nil || d.Train.Label(2) != 1 || p.Width != 9 || p.Height != 7 || p.Channels != 3 {
		t.Errorf("%v, %v", p, err)
	}

	writeImage(t, filepath.Join(dir, "val", "dog", "1.png"), 9, 7)
	_, err = Open("folder:" + dir)
	oneLine(t, "another class", err, "2 classes to train on and 3 to test on, different from number 2 on")
	writeImage(t, filepath.Join(dir, "train", "loose.png"), 9, 7)
	_, err = Open("folder:" + dir)
	oneLine(t, "loose", err, "loose.png stands outside the folders of classes")
	_, err = Open("folder:" + t.TempDir())
	oneLine(t, "nothing", err, "train: this folder is missing")
}

// smallTiny is Tiny-ImageNet with two classes, whose order in wnids.txt is not the
// order of names.
func smallTiny(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"train/n02/images/n02_0.JPEG", "train/n02/images/n02_1.JPEG", "train/n01/images/n01_0.JPEG", "val/images/val_0.JPEG", "val/images/val_1.JPEG"} {
		writeImage(t, filepath.Join(dir, name), 64, 64)
	}
	return writeFiles(t, dir, map[string][]byte{
		"wnids.txt":               []byte("n02\r\nn01\r\n"),
		"words.txt":               []byte("n00\tnothing\nn01\tgoldfish, Carassius auratus\n"),
		"val/val_annotations.txt": []byte("val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t52\t55\t57\t59\n"),
		"train/n01/n01_boxes.txt": []byte("n01_0.JPEG\t0\t10\t63\t58\n"),
	})
}

func TestTinyImageNet(t *testing.T) {
	d, err := Open("tiny-imagenet:" + smallTiny(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Train.Len() != 3 || d.Test.Len() != 2 || d.Classes != 2 || d.Size != 64 || !slices.Equal(d.ClassNames, []string{"goldfish", "n02"}) {
		t.Fatalf("%+v", d)
	}
	for source, want := range map[Source][]int{d.Train: {0, 1, 1}, d.Test: {1, 0}} {
		for i, label := range want {
			if source.Label(i) != label {
				t.Errorf("label %d is %d; want %d", i, source.Label(i), label)
			}
			if _, err := source.Image(i); err != nil {
				t.Error(err)
			}
		}
	}
	for what, test := range map[string]struct{ file, content, want string }{
		"list":       {"wnids.txt", "", "line 1: \"\" is no name of a class"},
		"path":       {"wnids.txt", "n01\n../n02\n", "line 2: \"../n02\" is no name of a class"},
		"twice":      {"wnids.txt", "n01\nn02\nn01\n", "class n01 twice"},
		"unknown":    {"wnids.txt", "n01\n", "n02: this class is not in wnids.txt"},
		"no folder":  {"wnids.txt", "n01\nn02\nn03\n", "images: no such file"},
		"class":      {"val/val_annotations.txt", "val_0.JPEG\tn02\nval_1.JPEG\tn07\t1\n", "line 2: class \"n07\" is not in wnids.txt"},
		"columns":    {"val/val_annotations.txt", "val_0.JPEG n02\n", "line 1: \"val_0.JPEG n02\" is no annotation"},
		"escape":     {"val/val_annotations.txt", "../../val_0.JPEG\tn02\n", "is no annotation"},
		"duplicates": {"val/val_annotations.txt", "val_0.JPEG\tn02\nval_0.JPEG\tn01\n", "line 2: \"val_0.JPEG\" twice"},
		"no image":   {"val/val_annotations.txt", "val_7.JPEG\tn02\n", "line 1 names \"val_7.JPEG\", which is not in images/"},
	} {
		dir := writeFiles(t, smallTiny(t), map[string][]byte{test.file: []byte(test.content)})
		_, err := Open("tiny-imagenet:" + dir)
		oneLine(t, what, err, test.want)
	}
	_, err = Open("tiny-imagenet:" + t.TempDir())
	oneLine(t, "nothing", err, "wnids.txt: no such file")

	dir := smallTiny(t)
	if err := os.Truncate(filepath.Join(dir, "wnids.txt"), 1<<30); err != nil {
		t.Fatal(err)
	}
	_, err = Open("tiny-imagenet:" + dir)
	oneLine(t, "huge", err, "up to 16777216 are read")
}

func FuzzTinyAnnotations(f *testing.F) {
	f.Add("n02\nn01\n", "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t52\t55\t57\t59\n")
	f.Add("n01\r\n", "a.jpg\tn01\r\n")
	f.Add("", "\t\n")
	f.Add("n01", "../a.jpg\tn01")
	f.Fuzz(func(t *testing.T, wnids, annotations string) {
		ids, err := parseIDs(wnids)
		if err != nil {
			return
		}
		names, labels, err := parseAnnotations(annotations, ids)
		if err != nil {
			return
		}
		if len(ids) == 0 || len(names) == 0 || len(names) != len(labels) {
			t.Fatalf("%d classes, %d names, %d labels", len(ids), len(names), len(labels))
		}
		unique := map[string]bool{}
		for i, name := range names {
			unique[name] = true
			if int(labels[i]) >= len(ids) || filepath.Base(name) != name || strings.HasPrefix(name, ".") {
				t.Fatalf("%q of class %d", name, labels[i])
			}
		}
		if len(unique) != len(names) {
			t.Fatal("a name twice")
		}
	})
}

func TestOpen(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Formats() {
		names[f.Name] = true
		if f.Name == "synthetic" {
			continue
		}
		_, err := Open(f.Name + ":" + filepath.Join(t.TempDir(), "missing"))
		oneLine(t, f.Name, err, "missing: there is no such folder")
		_, err = Open(f.Name)
		oneLine(t, f.Name, err, "dataset: "+f.Name+" without the folder it is in; want "+f.Name+":DIR")
	}
	for _, spec := range []string{"", "embedded", "imagenet:x", ":", "mnists:/"} {
		_, err := Open(spec)
		oneLine(t, spec, err, "names no format of data; there are cifar10, cifar100, fashion-mnist")
	}
	d, err := Open("mine:here", Format{Name: "mine", Open: func(rest string) (*Data, error) { return &Data{Name: rest}, nil }})
	if err != nil || d.Name != "here" {
		t.Errorf("%v, %v", d, err)
	}
	if len(names) != 7 {
		t.Errorf("formats %v", slices.Sorted(maps.Keys(names)))
	}
}
