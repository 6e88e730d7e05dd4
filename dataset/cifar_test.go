package dataset

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// cifar is a file of records with the given labels before random pixels, in planes.
func cifar(labels ...[]byte) []byte {
	var file []byte
	for i, l := range labels {
		file = append(file, l...)
		for p := range 3 * 1024 {
			file = append(file, byte(p*(i+3)+p>>8))
		}
	}
	return file
}

func smallCIFAR10() map[string][]byte {
	files := map[string][]byte{"test_batch.bin": cifar([]byte{3}, []byte{9})}
	for i := range 5 {
		files[fmt.Sprintf("data_batch_%d.bin", i+1)] = cifar([]byte{byte(i)}, []byte{byte(i + 1)})
	}
	return files
}

func TestCIFAR(t *testing.T) {
	ten := smallCIFAR10()
	hundred := map[string][]byte{"train.bin": cifar([]byte{19, 99}, []byte{0, 7}, []byte{3, 0}), "test.bin": cifar([]byte{1, 42})}
	inside := map[string][]byte{}
	for name, content := range ten {
		inside[filepath.Join("cifar-10-batches-bin", name)] = content
	}
	for _, test := range []struct {
		format        string
		files         map[string][]byte
		train, test   []int
		classes, skip int
		first         []byte
	}{
		{"cifar10", ten, []int{0, 1, 1, 2, 2, 3, 3, 4, 4, 5}, []int{3, 9}, 10, 1, ten["data_batch_1.bin"]},
		{"cifar10", inside, []int{0, 1, 1, 2, 2, 3, 3, 4, 4, 5}, []int{3, 9}, 10, 1, ten["data_batch_1.bin"]},
		{"cifar100", hundred, []int{99, 7, 0}, []int{42}, 100, 2, hundred["train.bin"]},
	} {
		d, err := Open(test.format + ":" + writeFiles(t, t.TempDir(), test.files))
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != test.format || d.Classes != test.classes || d.Channels != 3 || d.Size != 32 || len(d.ClassNames) != test.classes || len(d.Mean) != 3 {
			t.Errorf("%s: %+v", test.format, d)
		}
		for source, want := range map[Source][]int{d.Train: test.train, d.Test: test.test} {
			if source.Len() != len(want) {
				t.Fatalf("%s: %d pictures; want %d", test.format, source.Len(), len(want))
			}
			for i, label := range want {
				if source.Label(i) != label {
					t.Errorf("%s: label %d is %d; want %d", test.format, i, source.Label(i), label)
				}
			}
		}
		p, err := d.Train.Image(0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1024 {
			want := []byte{test.first[test.skip+i], test.first[test.skip+1024+i], test.first[test.skip+2048+i]}
			if !bytes.Equal(p.Pix[3*i:3*i+3], want) {
				t.Fatalf("%s: pixel %d is %v; want %v", test.format, i, p.Pix[3*i:3*i+3], want)
			}
		}
	}
}

func TestBadCIFAR(t *testing.T) {
	good := cifar([]byte{1}, []byte{2})
	for _, test := range []struct {
		what    string
		content []byte
		want    string
	}{
		{"missing", nil, "data_batch_3.bin: no such file"},
		{"empty", []byte{}, "data_batch_3.bin: 0 bytes are not a whole number of records of 3073"},
		{"cut", good[:len(good)-1], "data_batch_3.bin: 6145 bytes are not a whole number"},
		{"label", cifar([]byte{1}, []byte{10}), "data_batch_3.bin: record 1 has label 10; labels are 0 to 9"},
	} {
		files := smallCIFAR10()
		if files["data_batch_3.bin"] = test.content; test.content == nil {
			delete(files, "data_batch_3.bin")
		}
		_, err := Open("cifar10:" + writeFiles(t, t.TempDir(), files))
		oneLine(t, test.what, err, test.want)
	}
	_, err := Open("cifar100:" + t.TempDir())
	oneLine(t, "no files", err, "test.bin: no such file")
	_, err = Open("cifar100:" + writeFiles(t, t.TempDir(), map[string][]byte{"test.bin": cifar([]byte{1, 100}), "train.bin": nil}))
	oneLine(t, "fine label", err, "test.bin: record 0 has label 100; labels are 0 to 99")
}

func FuzzCIFAR(f *testing.F) {
	f.Add(cifar([]byte{1}, []byte{2}), 1, int64(2*3073))
	f.Add(cifar([]byte{1, 99}), 2, int64(3074))
	f.Add(cifar([]byte{11}), 1, int64(3073))
	f.Add([]byte{}, 1, int64(0))
	f.Fuzz(func(t *testing.T, file []byte, labels int, size int64) {
		if labels != 1 && labels != 2 || size > 1<<22 { // what a caller may ask; files have the size they have
			return
		}
		m := &Memory{width: 32, height: 32, channels: 3, classes: 10}
		if err := m.readCIFAR(bytes.NewReader(file), size, labels); err != nil {
			return
		}
		if m.Len() < 1 || m.Len()*(labels+3072) > len(file) || len(m.pixels) != m.Len()*3072 {
			t.Fatalf("%d records of %d bytes", m.Len(), len(file))
		}
		for i := range m.Len() {
			if m.Label(i) >= 10 {
				t.Fatalf("label %d", m.Label(i))
			}
		}
	})
}
