package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
)

// Preprocess is how an image becomes the input of a network that others trained:
// its shorter side scaled, its centre cut out, its colours normalised.
type Preprocess struct {
	Resize    int // shorter side before cropping; images whose shorter side is Size already are left as they are
	Size      int // height and width of the input
	Mean, Std [3]float32
}

// ImageNet is how the weights that people share for ImageNet want their inputs.
func ImageNet(size int) Preprocess {
	return Preprocess{
		Resize: size * 256 / 224, Size: size,
		Mean: [3]float32{0.485, 0.456, 0.406}, Std: [3]float32{0.229, 0.224, 0.225},
	}
}

// Load reads an image file into the input of a network: height, width, colour.
func (p Preprocess) Load(name string, input []float32) error {
	t, err := NewTransform(Pipeline{Resize: max(p.Resize, p.Size), Mean: p.Mean[:], Std: p.Std[:]}, p.Size, p.Size, 3)
	if err != nil {
		return err
	}
	picture, err := OpenPicture(name)
	if err != nil {
		return err
	}
	return t.Apply(input, picture, nil)
}

// What is read of an image: more is refused before any memory is taken for it.
const (
	maxPixels     = 1 << 26 // that a file may claim before they are decoded
	maxImageBytes = 1 << 28
)

// OpenPicture reads an image file of the formats that image sets come in, PNG and
// JPEG.
func OpenPicture(name string) (Picture, error) {
	f, err := os.Open(name)
	if err != nil {
		return Picture{}, fmt.Errorf("image %s: %w", name, cause(err))
	}
	defer f.Close()
	p, err := ReadPicture(f)
	if err != nil {
		return Picture{}, fmt.Errorf("image %s: %w", name, cause(err))
	}
	return p, nil
}

// ReadPicture reads an image, PNG or JPEG.
func ReadPicture(r io.Reader) (Picture, error) {
	// The head is read twice: for the size, and again with the pixels.
	var head bytes.Buffer
	from := &source{r: io.LimitReader(r, maxImageBytes)}
	c, _, err := image.DecodeConfig(io.TeeReader(from, &head))
	if err != nil {
		return Picture{}, from.explain(err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height {
		return Picture{}, fmt.Errorf("%d×%d pixels; 1 to %d in all are read", c.Width, c.Height, maxPixels)
	}
	img, _, err := image.Decode(io.MultiReader(&head, from))
	if err != nil {
		return Picture{}, from.explain(err)
	}
	return picture(smooth(img)), nil
}

// source remembers what reading came to, which decoders do not tell.
type source struct {
	r    io.Reader
	read int64
	err  error
}

func (s *source) Read(to []byte) (int, error) {
	n, err := s.r.Read(to)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// explain says what the error of a decoder means.
func (s *source) explain(err error) error {
	switch {
	case s.err != nil:
		return s.err
	case s.read == 0:
		return errors.New("empty; want a PNG or JPEG image")
	case errors.Is(err, image.ErrFormat):
		return errors.New("no image that can be read; want PNG or JPEG")
	}
	for _, early := range []error{io.EOF, io.ErrUnexpectedEOF, jpeg.FormatError("short Huffman data"), png.FormatError("not enough pixel data")} {
		if errors.Is(err, early) {
			return errors.New("the image ends too early; was it copied whole?")
		}
	}
	return err
}

// PictureOf turns what Go's image packages have decoded, or a program has drawn,
// into a picture.
func PictureOf(img image.Image) Picture { return picture(smooth(img)) }

// picture turns what Go's decoders return into bytes. Transparency is dropped, as
// PIL drops it.
func picture(img image.Image) Picture {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	if grey, ok := img.(*image.Gray); ok {
		p := Picture{w, h, 1, make([]uint8, w*h)}
		for y := range h {
			copy(p.Pix[y*w:], grey.Pix[y*grey.Stride:][:w])
		}
		return p
	}
	p := Picture{w, h, 3, make([]uint8, 3*w*h)}
	for y := range h {
		row := p.Pix[3*y*w:][:3*w]
		switch img := img.(type) {
		case *image.RGBA:
			dropAlpha(row, img.Pix[y*img.Stride:][:4*w])
		case *image.NRGBA:
			dropAlpha(row, img.Pix[y*img.Stride:][:4*w])
		case *image.YCbCr:
			for x := range w {
				c, l := img.COffset(b.Min.X+x, b.Min.Y+y), img.YOffset(b.Min.X+x, b.Min.Y+y)
				row[3*x], row[3*x+1], row[3*x+2] = color.YCbCrToRGB(img.Y[l], img.Cb[c], img.Cr[c])
			}
		default:
			for x := range w {
				c := color.NRGBAModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
				row[3*x], row[3*x+1], row[3*x+2] = c.R, c.G, c.B
			}
		}
	}
	return p
}

func dropAlpha(to, from []uint8) {
	for len(to) >= 3 && len(from) >= 4 {
		to[0], to[1], to[2] = from[0], from[1], from[2]
		to, from = to[3:], from[4:]
	}
}
