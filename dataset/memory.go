package dataset

import "fmt"

// Memory is a source whose pictures all have one size and lie in memory, one
// after the other.
type Memory struct {
	width, height, channels, classes int
	pixels                           []uint8
	labels                           []uint8
}

// maxMemory bounds the pixels that one file or set may put into memory.
const maxMemory = 1 << 32

// NewMemory makes a source of pictures that stand in pixels one after the other.
// It keeps both slices.
func NewMemory(width, height, channels, classes int, pixels, labels []uint8) (*Memory, error) {
	if width < 1 || height < 1 || width > maxSide || height > maxSide || channels != 1 && channels != 3 {
		return nil, fmt.Errorf("pictures of %d×%d with %d channels; sides of 1 to %d and 1 or 3 channels are possible", width, height, channels, maxSide)
	}
	if classes < 1 || classes > 256 {
		return nil, fmt.Errorf("%d classes; 1 to 256 are possible", classes)
	}
	if size := width * height * channels; len(pixels)%size != 0 || len(pixels)/size != len(labels) {
		return nil, fmt.Errorf("%d bytes of pixels for %d pictures of %d×%d×%d", len(pixels), len(labels), height, width, channels)
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("no pictures")
	}
	for i, label := range labels {
		if int(label) >= classes {
			return nil, fmt.Errorf("record %d has label %d; labels are 0 to %d", i, label, classes-1)
		}
	}
	return &Memory{width, height, channels, classes, pixels, labels}, nil
}

// Len returns the number of pictures.
func (m *Memory) Len() int { return len(m.labels) }

// Classes returns the number of classes.
func (m *Memory) Classes() int { return m.classes }

// Label returns the class of picture i.
func (m *Memory) Label(i int) int { return int(m.labels[i]) }

// Image returns picture i, which shares the source's memory.
func (m *Memory) Image(i int) (Picture, error) {
	size := m.width * m.height * m.channels
	return Picture{m.width, m.height, m.channels, m.pixels[i*size : (i+1)*size : (i+1)*size]}, nil
}
