package dataset

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSide bounds the sides of pictures that come without a decoder's own checks.
const maxSide = 1 << 12

func openMNIST(dir string) (*Data, error) {
	d, err := openIDX(dir, "MNIST")
	if err != nil {
		return nil, err
	}
	d.Name = "mnist"
	d.ClassNames = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	d.Mean, d.Std = []float32{0.1307}, []float32{0.3081}
	d.augment = Pipeline{Pad: 2}
	return d, nil
}

func openFashionMNIST(dir string) (*Data, error) {
	d, err := openIDX(dir, "FashionMNIST")
	if err != nil {
		return nil, err
	}
	return d.fashion(), nil
}

// FashionMNIST is Fashion-MNIST, or a part of it, from the contents of its four
// files, plain or compressed.
func FashionMNIST(trainImages, trainLabels, testImages, testLabels string) (*Data, error) {
	var sources [2]*Memory
	for i, files := range [2][2]string{{trainImages, trainLabels}, {testImages, testLabels}} {
		pixels, shape, err := readIDX(strings.NewReader(files[0]), int64(len(files[0])), 3)
		if err != nil {
			return nil, fmt.Errorf("dataset: Fashion-MNIST's images: %w", err)
		}
		labels, _, err := readIDX(strings.NewReader(files[1]), int64(len(files[1])), 1)
		if err != nil {
			return nil, fmt.Errorf("dataset: Fashion-MNIST's labels: %w", err)
		}
		if sources[i], err = NewMemory(shape[2], shape[1], 1, 10, pixels, labels); err != nil {
			return nil, fmt.Errorf("dataset: Fashion-MNIST: %w", err)
		}
	}
	d, err := squares(sources[0], sources[1])
	if err != nil {
		return nil, fmt.Errorf("dataset: Fashion-MNIST: %w", err)
	}
	return d.fashion(), nil
}

// fashion adds what is known about Fashion-MNIST.
func (d *Data) fashion() *Data {
	d.Name = "fashion-mnist"
	d.ClassNames = []string{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}
	d.Mean, d.Std = []float32{0.2860}, []float32{0.3530}
	d.augment = Pipeline{Pad: 2, Flip: true}
	return d
}

// openIDX reads the four files that MNIST and what is kept like it consist of.
// torchvision puts them into a folder of its own.
func openIDX(dir, torchvision string) (*Data, error) {
	var sources [2]*Memory
	for i, split := range []string{"train", "t10k"} {
		images, err := findIDX(dir, torchvision, split+"-images", "idx3-ubyte")
		if err != nil {
			return nil, err
		}
		labels, err := findIDX(dir, torchvision, split+"-labels", "idx1-ubyte")
		if err != nil {
			return nil, err
		}
		if sources[i], err = readIDXFiles(images, labels); err != nil {
			return nil, err
		}
	}
	d, err := squares(sources[0], sources[1])
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", dir, err)
	}
	return d, nil
}

// squares is data of sources whose pictures must be squares of one size.
func squares(train, test *Memory) (*Data, error) {
	if train.width != train.height || train.width != test.width || train.height != test.height {
		return nil, fmt.Errorf("training pictures of %d×%d and test pictures of %d×%d; squares of one size are expected",
			train.height, train.width, test.height, test.width)
	}
	return &Data{Train: train, Test: test, Classes: train.classes, Channels: train.channels, Size: train.width}, nil
}

// findIDX finds a file under the names it goes by.
func findIDX(dir, torchvision, stem, kind string) (string, error) {
	for _, folder := range []string{dir, filepath.Join(dir, "raw"), filepath.Join(dir, torchvision, "raw")} {
		for _, name := range []string{stem + "-" + kind, stem + "." + kind, stem + "-" + kind + ".gz", stem + "." + kind + ".gz"} {
			if file := filepath.Join(folder, name); isFile(file) {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("dataset %s: neither %s-%s nor %[2]s-%s.gz is there", dir, stem, kind)
}

func readIDXFiles(images, labels string) (*Memory, error) {
	pixels, shape, err := readIDXFile(images, 3)
	if err != nil {
		return nil, err
	}
	classes, _, err := readIDXFile(labels, 1)
	if err != nil {
		return nil, err
	}
	if len(classes) != shape[0] {
		return nil, fmt.Errorf("dataset %s: %d labels for the %d images of %s", labels, len(classes), shape[0], filepath.Base(images))
	}
	m, err := NewMemory(shape[2], shape[1], 1, 10, pixels, classes)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", labels, err)
	}
	return m, nil
}

func readIDXFile(name string, dims int) (data []byte, shape []int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	if data, shape, err = readIDX(f, info.Size(), dims); err != nil {
		return nil, nil, fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	return data, shape, nil
}

// readIDX reads a file of unsigned bytes in the given number of dimensions, which
// is size bytes long and may be compressed. Nothing is allocated that a file of
// that size could not hold.
func readIDX(file io.Reader, size int64, dims int) (data []byte, shape []int, err error) {
	r := bufio.NewReader(file)
	room := size
	if start, _ := r.Peek(2); len(start) == 2 && start[0] == 0x1f && start[1] == 0x8b {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		r = bufio.NewReader(z)
		room = size * 1032 // deflate cannot do better
	}
	header := make([]byte, 4+4*dims)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, nil, cut(err, "the header")
	}
	if got, want := binary.BigEndian.Uint32(header), uint32(0x800+dims); got != want {
		return nil, nil, fmt.Errorf("starts with %#08x; an idx file of bytes in %d dimensions starts with %#08x", got, dims, want)
	}
	shape = make([]int, dims)
	total := int64(1)
	for i := range shape {
		n := int64(binary.BigEndian.Uint32(header[4+4*i:]))
		if n < 1 || i > 0 && n > maxSide || n > maxMemory/total {
			return nil, nil, fmt.Errorf("claims %d × … records; a size of %d at dimension %d is impossible", binary.BigEndian.Uint32(header[4:]), n, i)
		}
		shape[i] = int(n)
		total *= n
	}
	if total > room {
		return nil, nil, fmt.Errorf("claims %d bytes of data, more than a file of %d bytes can hold", total, size)
	}
	data = make([]byte, total)
	if n, err := io.ReadFull(r, data); err != nil {
		return nil, nil, cut(err, fmt.Sprintf("record %d of %d", int64(n)/(total/int64(shape[0])), shape[0]))
	}
	// Reading on to the end is also what compares a compressed file's checksum.
	switch n, err := io.ReadFull(r, header[:1]); {
	case n > 0:
		return nil, nil, fmt.Errorf("goes on after its %d records", shape[0])
	case !errors.Is(err, io.EOF):
		return nil, nil, err
	}
	return data, shape, nil
}

// cut says where a file ends that should go on.
func cut(err error, where string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("ends within %s", where)
	}
	return fmt.Errorf("%s: %w", where, err)
}
