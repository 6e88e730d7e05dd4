// Package input turns pictures into what a network takes in, as its frontier says:
// scaled, cut out of the centre, normalised. It stands beside package engine so that
// programs whose inputs are no pictures do not link decoders of images.
//
//	pictures, err := input.New(e.Frontier())
//	x, err := pictures.File("cat.jpg")
//	r, err := e.Infer(ctx, x, engine.Budget{Time: 20 * time.Millisecond})
package input

import (
	"fmt"
	"image"
	"io"
	"math"
	"sync"

	"tips/dataset"
	"tips/frontier"
	"tips/supernet"
)

// Reader makes inputs of pictures. Grey pictures become three equal channels, and
// colours grey, where the network asks for it. Any number of goroutines may use it.
type Reader struct {
	shape supernet.Shape // of the pictures
	pool  sync.Pool      // of *dataset.Transform
}

// New makes a reader for the networks of a frontier. Networks that take pixels as
// channels, as perceptrons do, are told by a number of channels that is that of a
// square grey or coloured picture.
func New(f *frontier.Frontier) (*Reader, error) {
	shape, err := pictureShape(f.Input)
	if err != nil {
		return nil, err
	}
	p, err := pipeline(f.Preprocess, shape.Channels)
	if err != nil {
		return nil, err
	}
	first, err := dataset.NewTransform(p, shape.Height, shape.Width, shape.Channels)
	if err != nil {
		return nil, fmt.Errorf("input: the frontier's network takes no pictures: %w", err)
	}
	r := &Reader{shape: shape}
	r.pool.New = func() any {
		t, err := dataset.NewTransform(p, shape.Height, shape.Width, shape.Channels)
		if err != nil {
			panic(err) // it was made before
		}
		return t
	}
	r.pool.Put(first)
	return r, nil
}

// Shape is the size and the channels of a picture as the network sees it.
func (r *Reader) Shape() supernet.Shape { return r.shape }

// File reads an image file, PNG or JPEG.
func (r *Reader) File(name string) ([]float32, error) {
	p, err := dataset.OpenPicture(name)
	if err != nil {
		return nil, err
	}
	return r.input(p)
}

// Read reads an image, PNG or JPEG.
func (r *Reader) Read(from io.Reader) ([]float32, error) {
	p, err := dataset.ReadPicture(from)
	if err != nil {
		return nil, err
	}
	return r.input(p)
}

// Image takes a picture that is decoded already, or was never a file.
func (r *Reader) Image(img image.Image) ([]float32, error) {
	return r.input(dataset.PictureOf(img))
}

func (r *Reader) input(p dataset.Picture) ([]float32, error) {
	t := r.pool.Get().(*dataset.Transform)
	defer r.pool.Put(t)
	x := make([]float32, r.shape.Elements())
	if err := t.Apply(x, p, nil); err != nil {
		return nil, err
	}
	return x, nil
}

// pictureShape is what pictures become for an input. A square of grey pixels is no
// three squares, so one number of channels is never both.
func pictureShape(in supernet.Shape) (supernet.Shape, error) {
	if in.Height > 1 || in.Width > 1 {
		return in, nil
	}
	for _, channels := range []int{1, 3} {
		side := int(math.Round(math.Sqrt(float64(in.Channels) / float64(channels))))
		if side*side*channels == in.Channels {
			return supernet.Shape{Channels: channels, Height: side, Width: side}, nil
		}
	}
	return supernet.Shape{}, fmt.Errorf("input: the frontier's network takes %d values, which are no square picture, grey or coloured", in.Channels)
}

// pipeline gives mean and deviation as many values as each other.
func pipeline(p frontier.Preprocess, channels int) (dataset.Pipeline, error) {
	spread := func(list []float32, otherwise float32) ([]float32, error) {
		switch len(list) {
		case 0:
			list = []float32{otherwise}
		case 1, channels:
		default:
			return nil, fmt.Errorf("input: the frontier normalises %d channels, and pictures have %d", len(list), channels)
		}
		out := make([]float32, channels)
		for c := range out {
			out[c] = list[c%len(list)]
		}
		return out, nil
	}
	mean, err := spread(p.Mean, 0)
	if err != nil {
		return dataset.Pipeline{}, err
	}
	std, err := spread(p.Std, 1)
	if err != nil {
		return dataset.Pipeline{}, err
	}
	return dataset.Pipeline{Resize: p.Resize, Mean: mean, Std: std}, nil
}
