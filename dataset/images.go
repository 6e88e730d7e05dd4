// Package dataset reads the data that networks are trained and judged on.
package dataset

import (
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // the formats that image sets come in
	_ "image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/draw"
)

// LabelledImage is a file and the class of what it shows.
type LabelledImage struct {
	Path  string
	Class int
}

// Images lists the images of a folder. Either every class has a folder of its
// own, classes being numbered by the names of these in order, as ImageNet is kept;
// or the files are named by the number of their class, as in 0042.jpg.
func Images(dir string) ([]LabelledImage, error) {
	entries, err := os.ReadDir(dir) // in order of names
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", dir, cause(err))
	}
	var folders, files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, e.Name())) // a link may lead to a folder
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %w", filepath.Join(dir, e.Name()), cause(err))
		}
		if info.IsDir() {
			folders = append(folders, e.Name())
		} else if isImage(e.Name()) {
			files = append(files, e.Name())
		}
	}
	switch {
	case len(folders) > 0 && len(files) > 0:
		return nil, fmt.Errorf("dataset %s: %s stands beside folders of classes; which class is it?", dir, files[0])
	case len(folders) > 0:
		return imagesInFolders(dir, folders)
	case len(files) > 0:
		return imagesByNumber(dir, files)
	}
	return nil, fmt.Errorf("dataset %s: no images (.jpg, .jpeg, .png)", dir)
}

func imagesInFolders(dir string, folders []string) ([]LabelledImage, error) {
	var list []LabelledImage
	for class, folder := range folders {
		name := filepath.Join(dir, folder)
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %w", name, cause(err))
		}
		before := len(list)
		for _, e := range entries {
			if isImage(e.Name()) && !strings.HasPrefix(e.Name(), ".") {
				list = append(list, LabelledImage{filepath.Join(name, e.Name()), class})
			}
		}
		if len(list) == before {
			// Counted as a class, it would shift the numbers of all after it.
			return nil, fmt.Errorf("dataset %s: no images in this folder, which counts as class %d; remove it", name, class)
		}
	}
	return list, nil
}

func imagesByNumber(dir string, files []string) ([]LabelledImage, error) {
	var list []LabelledImage
	for _, name := range files {
		number, err := strconv.Atoi(strings.TrimSuffix(name, filepath.Ext(name)))
		if err != nil || number < 0 {
			return nil, fmt.Errorf("dataset %s: %s is not named by the number of its class, as in 0042.jpg", dir, name)
		}
		list = append(list, LabelledImage{filepath.Join(dir, name), number})
	}
	return list, nil
}

func isImage(name string) bool {
	return slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(filepath.Ext(name)))
}

// cause drops the path from an error whose message names it already.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Preprocess is how an image becomes the input of a network: its shorter side
// scaled, its centre cut out, its colours normalised.
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

// maxPixels bounds what a file may claim before its pixels are decoded.
const maxPixels = 1 << 26

// Load reads an image file into the input of a network: height, width, colour.
func (p Preprocess) Load(name string, input []float32) error {
	if len(input) != 3*p.Size*p.Size {
		panic(fmt.Sprintf("dataset: %d values for an input of %d×%d", len(input), p.Size, p.Size))
	}
	img, err := decode(name)
	if err != nil {
		return fmt.Errorf("image %s: %w", name, cause(err))
	}
	p.convert(img, input)
	return nil
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
		return nil, fmt.Errorf("%d×%d pixels", c.Width, c.Height)
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

// convert scales, crops and normalises.
func (p Preprocess) convert(img image.Image, input []float32) {
	b := img.Bounds()
	short := min(b.Dx(), b.Dy())
	resize := p.Resize
	if short == p.Size {
		resize = p.Size
	}
	// The square of the source that the crop shows, and that square scaled.
	side := max(short*p.Size/max(resize, p.Size), 1)
	at := image.Pt(b.Min.X+(b.Dx()-side)/2, b.Min.Y+(b.Dy()-side)/2)
	square := image.NewRGBA(image.Rect(0, 0, p.Size, p.Size))
	source := image.Rectangle{at, at.Add(image.Pt(side, side))}
	if side == p.Size {
		draw.Draw(square, square.Bounds(), img, at, draw.Src)
	} else {
		draw.BiLinear.Scale(square, square.Bounds(), img, source, draw.Src, nil)
	}
	for y := range p.Size {
		for x := range p.Size {
			pixel := square.Pix[square.PixOffset(x, y):]
			for c := range 3 {
				input[(y*p.Size+x)*3+c] = (float32(pixel[c])/255 - p.Mean[c]) / p.Std[c]
			}
		}
	}
}
