package dataset

import (
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // the formats that image sets come in
	_ "image/png"
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
	picture, err := readImage(name)
	if err != nil {
		return err
	}
	return t.Apply(input, picture, nil)
}

// maxPixels bounds what a file may claim before its pixels are decoded.
const maxPixels = 1 << 26

// readImage reads an image file.
func readImage(name string) (Picture, error) {
	img, err := decode(name)
	if err != nil {
		return Picture{}, fmt.Errorf("image %s: %w", name, cause(err))
	}
	return picture(img), nil
}

func decode(name string) (image.Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, err
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height {
		return nil, fmt.Errorf("%d×%d pixels; 1 to %d in all are read", c.Width, c.Height, maxPixels)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, err
	}
	return smooth(img), nil
}

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
