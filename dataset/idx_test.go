package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// idx is an idx file of bytes.
func idx(data []byte, shape ...uint32) []byte {
	header := binary.BigEndian.AppendUint32(nil, 0x800+uint32(len(shape)))
	for _, n := range shape {
		header = binary.BigEndian.AppendUint32(header, n)
	}
	return append(header, data...)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// ramp is n bytes, no two neighbours alike.
func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func writeFiles(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// smallMNIST is a set of three training and two test pictures.
func smallMNIST() map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte": idx(ramp(3*16), 3, 4, 4),
		"train-labels-idx1-ubyte": idx([]byte{9, 0, 5}, 3),
		"t10k-images-idx3-ubyte":  idx(ramp(2*16), 2, 4, 4),
		"t10k-labels-idx1-ubyte":  idx([]byte{1, 2}, 2),
	}
}

func TestMNIST(t *testing.T) {
	renamed := map[string]func(name string, content []byte) (string, []byte){
		"plain":       func(n string, c []byte) (string, []byte) { return n, c },
		"zipped":      func(n string, c []byte) (string, []byte) { return n + ".gz", zipped(c) },
		"dots":        func(n string, c []byte) (string, []byte) { return strings.Replace(n, "-idx", ".idx", 1), c },
		"torchvision": func(n string, c []byte) (string, []byte) { return filepath.Join("MNIST", "raw", n), c },
		"misnamed":    func(n string, c []byte) (string, []byte) { return n, zipped(c) },
	}
	for layout, rename := range renamed {
		files := map[string][]byte{}
		for name, content := range smallMNIST() {
			name, content = rename(name, content)
			files[name] = content
		}
		d, err := Open("mnist:" + writeFiles(t, t.TempDir(), files))
		if err != nil {
			t.Fatalf("%s: %v", layout, err)
		}
		if d.Name != "mnist" || d.Train.Len() != 3 || d.Test.Len() != 2 || d.Classes != 10 || d.Channels != 1 || d.Size != 4 || len(d.ClassNames) != 10 {
			t.Errorf("%s: %+v", layout, d)
		}
		for i, want := range []int{9, 0, 5} {
			p, err := d.Train.Image(i)
			if err != nil || d.Train.Label(i) != want || p.Width != 4 || p.Height != 4 || p.Channels != 1 || !bytes.Equal(p.Pix, ramp(48)[16*i:16*i+16]) {
				t.Errorf("%s: picture %d is %v of class %d, %v", layout, i, p, d.Train.Label(i), err)
			}
		}
	}
}

func TestBadMNIST(t *testing.T) {
	for _, test := range []struct {
		what, file string
		content    []byte
		want       string
	}{
		{"missing", "t10k-labels-idx1-ubyte", nil, "neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz is there"},
		{"empty", "train-images-idx3-ubyte", []byte{}, "ends within the header"},
		{"labels for images", "train-images-idx3-ubyte", idx(ramp(16), 16), "starts with"},
		{"other type", "train-images-idx3-ubyte", []byte("\x00\x00\x0d\x03aaaabbbbcccc"), "starts with 0x00000d03"},
		{"cut", "train-images-idx3-ubyte", idx(ramp(40), 3, 4, 4), "ends within record 2 of 3"},
		{"cut and compressed", "train-images-idx3-ubyte", zipped(idx(ramp(40), 3, 4, 4)), "ends within record 2 of 3"},
		{"compressed and cut", "train-images-idx3-ubyte", zipped(idx(ramp(48), 3, 4, 4))[:30], "ends within record 0 of 3"},
		{"too long", "train-images-idx3-ubyte", idx(ramp(49), 3, 4, 4), "goes on after its 3 records"},
		{"none", "train-images-idx3-ubyte", idx(nil, 0, 4, 4), "impossible"},
		{"flat", "train-images-idx3-ubyte", idx(nil, 3, 0, 4), "impossible"},
		{"huge", "train-images-idx3-ubyte", idx(nil, 1<<31, 4000, 4000), "impossible"},
		{"larger than the file", "train-images-idx3-ubyte", idx(ramp(40), 100, 4, 4), "claims 1600 bytes of data, more than a file of 56 bytes can hold"},
		{"large claim", "train-images-idx3-ubyte", zipped(idx(nil, 1<<20, 60, 60)), "can hold"},
		{"wide", "train-images-idx3-ubyte", idx(nil, 1, 1<<20, 1), "impossible"},
		{"fewer labels", "train-labels-idx1-ubyte", idx([]byte{1, 2}, 2), "2 labels for the 3 images of train-images-idx3-ubyte"},
		{"label", "train-labels-idx1-ubyte", idx([]byte{1, 10, 2}, 3), "record 1 has label 10; labels are 0 to 9"},
		{"sizes", "t10k-images-idx3-ubyte", idx(ramp(18), 2, 3, 3), "squares of one size"},
		{"checksum", "t10k-images-idx3-ubyte", func() []byte {
			z := zipped(idx(ramp(32), 2, 4, 4))
			z[len(z)-6] ^= 1
			return z
		}(), "checksum"},
	} {
		files := smallMNIST()
		if files[test.file] = test.content; test.content == nil {
			delete(files, test.file)
		}
		_, err := Open("mnist:" + writeFiles(t, t.TempDir(), files))
		oneLine(t, test.what, err, test.want)
		if err != nil && !strings.Contains(err.Error(), test.file) && test.what != "sizes" && test.what != "missing" {
			t.Errorf("%s: %v does not name %s", test.what, err, test.file)
		}
	}
}

// oneLine checks an error's message.
func oneLine(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: error %v; want one line with %q", what, err, want)
	}
}

func FuzzIDX(f *testing.F) {
	for _, content := range smallMNIST() {
		f.Add(content)
		f.Add(zipped(content))
		f.Add(content[:len(content)-1])
	}
	f.Add(idx(nil, 1<<31, 4000, 4000))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, dims := range []int{1, 3} {
			data, shape, err := readIDX(bytes.NewReader(file), int64(len(file)), dims)
			if err != nil {
				continue
			}
			n := 1
			for _, s := range shape {
				n *= s
			}
			if len(shape) != dims || len(data) != n || n == 0 {
				t.Fatalf("%d bytes of shape %v", len(data), shape)
			}
			if file[0] == 0 && !bytes.Equal(file, idx(data, dimensions(shape)...)) {
				t.Fatal("what was read, written again, differs")
			}
		}
	})
}

func dimensions(shape []int) []uint32 {
	d := make([]uint32, len(shape))
	for i, n := range shape {
		d[i] = uint32(n)
	}
	return d
}
