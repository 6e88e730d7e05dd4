package dataset

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const cifarSide = 32

func openCIFAR10(dir string) (*Data, error) {
	train := make([]string, 5)
	for i := range train {
		train[i] = fmt.Sprintf("data_batch_%d.bin", i+1)
	}
	d, err := openCIFAR(dir, "cifar-10-batches-bin", train, []string{"test_batch.bin"}, 1, 10)
	if err != nil {
		return nil, err
	}
	d.Name = "cifar10"
	d.ClassNames = strings.Fields(cifar10Names)
	d.Mean, d.Std = []float32{0.4914, 0.4822, 0.4465}, []float32{0.2470, 0.2435, 0.2616}
	return d, nil
}

func openCIFAR100(dir string) (*Data, error) {
	d, err := openCIFAR(dir, "cifar-100-binary", []string{"train.bin"}, []string{"test.bin"}, 2, 100)
	if err != nil {
		return nil, err
	}
	d.Name = "cifar100"
	d.ClassNames = strings.Fields(cifar100Names)
	d.Mean, d.Std = []float32{0.5071, 0.4865, 0.4409}, []float32{0.2673, 0.2564, 0.2762}
	return d, nil
}

// openCIFAR reads files whose records begin with the given number of labels, the
// last of which counts. The archive's own folder may be named or the one that it is in.
func openCIFAR(dir, archive string, train, test []string, labels, classes int) (*Data, error) {
	if inner := filepath.Join(dir, archive); !isFile(filepath.Join(dir, test[0])) && isFile(filepath.Join(inner, test[0])) {
		dir = inner
	}
	read := func(files []string) (*Memory, error) {
		m := &Memory{width: cifarSide, height: cifarSide, channels: 3, classes: classes}
		for i, file := range files {
			if err := m.appendCIFAR(filepath.Join(dir, file), labels, len(files)-i); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	d := &Data{Classes: classes, Channels: 3, Size: cifarSide, augment: Pipeline{Pad: 4, Flip: true}}
	var err error
	if d.Test, err = read(test); err != nil { // the smaller first: what is missing shows sooner
		return nil, err
	}
	if d.Train, err = read(train); err != nil {
		return nil, err
	}
	return d, nil
}

// appendCIFAR reads a file, the first of as many as are left and probably as large.
func (m *Memory) appendCIFAR(name string, labels, left int) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	if m.pixels == nil && info.Size() <= maxMemory/int64(left) {
		m.pixels = make([]uint8, 0, int(info.Size())*left)
	}
	if err := m.readCIFAR(f, info.Size(), labels); err != nil {
		return fmt.Errorf("dataset %s: %w", name, cause(err))
	}
	return nil
}

// readCIFAR appends the records of a file of the given size: labels, then a plane
// each of red, green and blue.
func (m *Memory) readCIFAR(r io.Reader, size int64, labels int) error {
	const plane = cifarSide * cifarSide
	record := labels + 3*plane
	if size == 0 || size%int64(record) != 0 || size > maxMemory {
		return fmt.Errorf("%d bytes are not a whole number of records of %d", size, record)
	}
	n := int(size / int64(record))
	buffer := make([]byte, record)
	at := len(m.pixels)
	m.pixels = append(m.pixels, make([]uint8, n*3*plane)...)
	m.labels = append(m.labels, make([]uint8, n)...)
	classes := m.labels[len(m.labels)-n:]
	for i := range n {
		if _, err := io.ReadFull(r, buffer); err != nil {
			return cut(err, fmt.Sprintf("record %d of %d", i, n))
		}
		label := buffer[labels-1]
		if int(label) >= m.classes {
			return fmt.Errorf("record %d has label %d; labels are 0 to %d", i, label, m.classes-1)
		}
		classes[i] = label
		pixels := m.pixels[at : at+3*plane]
		red, green, blue := buffer[labels:][:plane], buffer[labels+plane:][:plane], buffer[labels+2*plane:][:plane]
		for j := range plane {
			p := pixels[3*j : 3*j+3 : 3*j+3]
			p[0], p[1], p[2] = red[j], green[j], blue[j]
		}
		at += 3 * plane
	}
	return nil
}

const cifar10Names = "airplane automobile bird cat deer dog frog horse ship truck"

const cifar100Names = `apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
bowl boy bridge bus butterfly camel can castle caterpillar cattle
chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
plain plate poppy porcupine possum rabbit raccoon ray road rocket
rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm`
