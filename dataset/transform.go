package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Transform turns pictures into inputs of one size, as a pipeline says. What it
// computes depends on the picture and the random numbers only; between calls it keeps
// nothing but memory to work in, so one goroutine at a time may use it.
type Transform struct {
	p                       Pipeline
	height, width, channels int

	mean, std [3]float32
	table     [3][256]float32 // what a byte becomes in each channel of the input
	plain     [256]float32    // what it becomes before colours are changed
	scaler    scaler
}

// NewTransform makes a pipeline ready for inputs of height × width × channels.
func NewTransform(p Pipeline, height, width, channels int) (*Transform, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	switch {
	case height < 1 || width < 1 || height > maxInput || width > maxInput:
		return nil, fmt.Errorf("dataset: an input of %d×%d; sides of 1 to %d are possible", height, width, maxInput)
	case channels != 1 && channels != 3:
		return nil, fmt.Errorf("dataset: an input of %d channels; 1 or 3 are possible", channels)
	case p.Resize > 0 && p.Resize < max(height, width):
		return nil, fmt.Errorf("dataset: resize %d for an input of %d×%d; it must not be smaller than the input", p.Resize, height, width)
	case len(p.Mean) > channels:
		return nil, fmt.Errorf("dataset: %d values of mean and std for an input of %d channels", len(p.Mean), channels)
	}
	t := &Transform{p: p, height: height, width: width, channels: channels, std: [3]float32{1, 1, 1}}
	for v := range t.plain {
		t.plain[v] = float32(v) / 255
	}
	for c := range channels {
		if len(p.Mean) > 0 {
			t.mean[c], t.std[c] = p.Mean[c%len(p.Mean)], p.Std[c%len(p.Std)]
		}
		for v := range t.table[c] {
			t.table[c][v] = (t.plain[v] - t.mean[c]) / t.std[c]
		}
	}
	return t, nil
}

// Apply writes the input that a picture becomes: rows, columns, channels. rng may be
// nil if the pipeline has no use for chance.
func (t *Transform) Apply(to []float32, pic Picture, rng *rand.Rand) error {
	if len(to) != t.height*t.width*t.channels {
		panic(fmt.Sprintf("dataset: %d values for an input of %d×%d×%d", len(to), t.height, t.width, t.channels))
	}
	if pic.Width < 1 || pic.Height < 1 || pic.Channels != 1 && pic.Channels != 3 || len(pic.Pix) != pic.Width*pic.Height*pic.Channels {
		return fmt.Errorf("dataset: %d bytes for a picture of %d×%d×%d", len(pic.Pix), pic.Height, pic.Width, pic.Channels)
	}
	from := view{pic.Pix, pic.Width, pic.Height, pic.Width * pic.Channels, pic.Channels}
	left, top := 0, 0 // where from stands within the input
	if t.p.RandomResizedCrop {
		x, y, w, h := t.p.crop(rng, from.width, from.height)
		from = t.scaler.scale(from.cut(x, y, w, h), t.width, t.height, 0, 0, t.width, t.height)
	} else {
		from, left, top = t.window(from, rng)
	}
	flip := t.p.Flip && rng.Uint64()>>63 == 1
	if !t.p.jitters() {
		t.place(to, from, left, top, flip, &t.table)
		return nil
	}
	t.place(to, from, left, top, flip, nil)
	t.jitter(to, rng)
	t.normalise(to)
	return nil
}

// window scales a picture if it must, and finds the part of it that the input
// shows and where the input shows it.
func (t *Transform) window(from view, rng *rand.Rand) (part view, left, top int) {
	w, h := t.scaled(from.width, from.height)
	// The input's upper left corner within the scaled picture.
	x, y := halfEven(w-t.width), halfEven(h-t.height)
	if pad := t.p.Pad; pad > 0 {
		x, y = rng.IntN(w+2*pad-t.width+1)-pad, rng.IntN(h+2*pad-t.height+1)-pad
	}
	// That part of it which the scaled picture covers. Much padding may leave none.
	left, top = min(max(-x, 0), t.width), min(max(-y, 0), t.height)
	x, y = min(max(x, 0), w), min(max(y, 0), h)
	width, height := min(w-x, t.width-left), min(h-y, t.height-top)
	if width <= 0 || height <= 0 {
		return view{channels: from.channels}, 0, 0
	}
	if w == from.width && h == from.height {
		return from.cut(x, y, width, height), left, top
	}
	return t.scaler.scale(from, w, h, x, y, width, height), left, top
}

// scaled is the size a picture is scaled to before the input's size is cut out:
// at least the input's.
func (t *Transform) scaled(width, height int) (w, h int) {
	if min(width, height) == min(t.width, t.height) && width >= t.width && height >= t.height {
		return width, height
	}
	if r := t.p.Resize; r > 0 {
		if width <= height {
			return r, int(int64(r) * int64(height) / int64(width))
		}
		return int(int64(r) * int64(width) / int64(height)), r
	}
	// The larger of both factors, as fractions.
	if int64(t.width)*int64(height) >= int64(t.height)*int64(width) {
		return t.width, max(int(int64(height)*int64(t.width)/int64(width)), t.height)
	}
	return max(int(int64(width)*int64(t.height)/int64(height)), t.width), t.height
}

// halfEven is n/2, rounded to even as Python does and so torchvision's centre.
func halfEven(n int) int {
	return int(math.RoundToEven(float64(n) / 2))
}

// crop draws the part of a picture that a random resized crop shows.
func (p Pipeline) crop(rng *rand.Rand, width, height int) (x, y, w, h int) {
	scale, ratio := p.cropRanges()
	low, high := math.Log(ratio[0]), math.Log(ratio[1])
	area := float64(width) * float64(height)
	for range 10 {
		part := area * (scale[0] + (scale[1]-scale[0])*rng.Float64())
		shape := math.Exp(low + (high-low)*rng.Float64())
		w = int(math.RoundToEven(math.Sqrt(part * shape)))
		h = int(math.RoundToEven(math.Sqrt(part / shape)))
		if w > 0 && w <= width && h > 0 && h <= height {
			return rng.IntN(width - w + 1), rng.IntN(height - h + 1), w, h
		}
	}
	// No luck with a picture of extreme shape: as much of its centre as is allowed.
	w, h = width, height
	if r := float64(width) / float64(height); r < ratio[0] {
		h = min(max(int(math.RoundToEven(float64(w)/ratio[0])), 1), height)
	} else if r > ratio[1] {
		w = min(max(int(math.RoundToEven(float64(h)*ratio[1])), 1), width)
	}
	return (width - w) / 2, (height - h) / 2, w, h
}

// normalise is what the table does, for values that are no bytes any more.
func (t *Transform) normalise(to []float32) {
	if t.channels == 1 {
		for i, v := range to {
			to[i] = (v - t.mean[0]) / t.std[0]
		}
		return
	}
	for i := 0; i+2 < len(to); i += 3 {
		p := to[i : i+3 : i+3]
		p[0], p[1], p[2] = (p[0]-t.mean[0])/t.std[0], (p[1]-t.mean[1])/t.std[1], (p[2]-t.mean[2])/t.std[2]
	}
}
