package dataset

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// pattern is a picture that any language can make up: tests compare what others
// made of it.
func pattern(w, h, c int) Picture {
	p := Picture{w, h, c, make([]uint8, 0, w*h*c)}
	for y := range h {
		for x := range w {
			for k := range c {
				p.Pix = append(p.Pix, uint8(x*31+y*17+k*97+x*y*7+x*x*k*3))
			}
		}
	}
	return p
}

func whole(p Picture) view {
	return view{p.Pix, p.Width, p.Height, p.Width * p.Channels, p.Channels}
}

// TestScalePIL: the same bytes as PIL 9.4's Image.resize(size, BILINEAR).
func TestScalePIL(t *testing.T) {
	for _, test := range []struct {
		w, h, c, toW, toH int
		want              uint32
	}{
		{37, 23, 3, 16, 10, 0xab6df908},
		{10, 8, 3, 32, 20, 0x03fc7e56},
		{300, 200, 3, 64, 43, 0x4f2c0b60},
		{28, 28, 1, 32, 32, 0x0dc4cc13},
		{64, 64, 1, 28, 28, 0xd63b3e83},
		{3, 50, 3, 20, 7, 0xf3d52ebe},
		{5, 5, 3, 5, 9, 0xcf43ad68},
	} {
		var s scaler
		got := s.scale(whole(pattern(test.w, test.h, test.c)), test.toW, test.toH, 0, 0, test.toW, test.toH)
		if sum := crc32.ChecksumIEEE(got.pix[:test.toW*test.toH*test.c]); sum != test.want {
			t.Errorf("%+v: checksum %#08x", test, sum)
		}
	}
}

// TestScaleWindow: a part of a scaled picture is that part of the whole.
func TestScaleWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.IntRange(1, 40)
		p := pattern(side.Draw(t, "w"), side.Draw(t, "h"), rapid.SampledFrom([]int{1, 3}).Draw(t, "c"))
		w, h := side.Draw(t, "to w"), side.Draw(t, "to h")
		x, y := rapid.IntRange(0, w-1).Draw(t, "x"), rapid.IntRange(0, h-1).Draw(t, "y")
		width, height := rapid.IntRange(1, w-x).Draw(t, "width"), rapid.IntRange(1, h-y).Draw(t, "height")
		var s, of scaler
		all, part := s.scale(whole(p), w, h, 0, 0, w, h), of.scale(whole(p), w, h, x, y, width, height)
		for i := range height {
			want, got := all.cut(x, y, width, height).row(i), part.row(i)
			if string(want) != string(got) {
				t.Fatalf("row %d is %v; want %v", i, got, want)
			}
		}
	})
}

// reference computes what Apply should for a pipeline without scaling and colours,
// one value at a time.
func reference(t *Transform, pic Picture, x0, y0 int, flip bool) []float32 {
	var out []float32
	for y := range t.height {
		for x := range t.width {
			at := x
			if flip {
				at = t.width - 1 - x
			}
			for c := range t.channels {
				v := 0
				if sx, sy := x0+at, y0+y; sx >= 0 && sy >= 0 && sx < pic.Width && sy < pic.Height {
					p := pic.Pix[(sy*pic.Width+sx)*pic.Channels:]
					switch {
					case pic.Channels == t.channels:
						v = int(p[c])
					case pic.Channels == 1:
						v = int(p[0])
					default:
						v = int(math.Round((19595*float64(p[0]) + 38470*float64(p[1]) + 7471*float64(p[2])) / 65536))
					}
				}
				out = append(out, (float32(v)/255-t.mean[c])/t.std[c])
			}
		}
	}
	return out
}

// TestPadCropFlip: the result is one of those that there may be, and they all come.
func TestPadCropFlip(t *testing.T) {
	for _, channels := range [][2]int{{1, 1}, {3, 3}, {1, 3}, {3, 1}} {
		p := Pipeline{Pad: 2, Flip: true, Mean: []float32{0.3}, Std: []float32{0.5}}
		tr, err := NewTransform(p, 5, 6, channels[1])
		if err != nil {
			t.Fatal(err)
		}
		pic := pattern(6, 5, channels[0])
		possible := map[string]bool{}
		key := func(values []float32) string {
			var k []byte
			for _, v := range values {
				b := math.Float32bits(v)
				k = append(k, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
			}
			return string(k)
		}
		for x := -2; x <= 2; x++ {
			for y := -2; y <= 2; y++ {
				possible[key(reference(tr, pic, x, y, false))] = false
				possible[key(reference(tr, pic, x, y, true))] = false
			}
		}
		to := make([]float32, 5*6*channels[1])
		rng := rand.New(rand.NewPCG(1, 1))
		for range 1000 {
			if err := tr.Apply(to, pic, rng); err != nil {
				t.Fatal(err)
			}
			if _, ok := possible[key(to)]; !ok {
				t.Fatalf("%v: a result that there cannot be", channels)
			}
			possible[key(to)] = true
		}
		if len(possible) != 50 {
			t.Errorf("%v: %d different results; want 50", channels, len(possible))
		}
		for _, came := range possible {
			if !came {
				t.Errorf("%v: a result never came", channels)
			}
		}
	}
}

// TestAny: every picture can become every input, and all its values are those of a
// byte unless colours change.
func TestAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.IntRange(1, 50)
		pic := pattern(side.Draw(t, "w"), side.Draw(t, "h"), rapid.SampledFrom([]int{1, 3}).Draw(t, "c"))
		strength := rapid.Float64Range(0, 0.5)
		p := Pipeline{Flip: rapid.Bool().Draw(t, "flip")}
		if rapid.Bool().Draw(t, "jitter") {
			p.Brightness, p.Contrast, p.Saturation, p.Hue = strength.Draw(t, "b"), strength.Draw(t, "c"), strength.Draw(t, "s"), strength.Draw(t, "h")
		}
		height, width := side.Draw(t, "height"), side.Draw(t, "width")
		switch rapid.IntRange(0, 2).Draw(t, "crop") {
		case 0:
			p.RandomResizedCrop = true
		case 1:
			p.Pad = rapid.IntRange(0, 60).Draw(t, "pad")
		}
		if rapid.Bool().Draw(t, "resize") {
			p.Resize = max(height, width) + side.Draw(t, "more")
		}
		channels := rapid.SampledFrom([]int{1, 3}).Draw(t, "channels")
		tr, err := NewTransform(p, height, width, channels)
		if err != nil {
			t.Fatal(err)
		}
		a, b := make([]float32, height*width*channels), make([]float32, height*width*channels)
		for i := range a {
			a[i], b[i] = -7, -8
		}
		seed := rapid.Uint64().Draw(t, "seed")
		for _, to := range [][]float32{a, b} {
			if err := tr.Apply(to, pic, rand.New(rand.NewPCG(seed, 1))); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range a {
			if !(v >= 0 && v <= 1) || v != b[i] {
				t.Fatalf("value %d is %v, then %v", i, v, b[i])
			}
			if !p.jitters() && v != float32(math.Round(float64(v)*255))/255 {
				t.Fatalf("value %d is %v, which no byte becomes", i, v)
			}
		}
	})
}

// TestCropBox: a random resized crop keeps to its ranges, wherever the picture's
// shape lets it, and covers them.
func TestCropBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	p := Pipeline{RandomResizedCrop: true}
	const w, h = 320, 240
	least, most, narrow, wide := 1.0, 0.0, 9.0, 0.0
	var left, sum float64
	const n = 20000
	for range n {
		x, y, cw, ch := p.crop(rng, w, h)
		if x < 0 || y < 0 || cw < 1 || ch < 1 || x+cw > w || y+ch > h {
			t.Fatalf("crop %d×%d at %d, %d", cw, ch, x, y)
		}
		area, ratio := float64(cw*ch)/(w*h), float64(cw)/float64(ch)
		least, most, narrow, wide = min(least, area), max(most, area), min(narrow, ratio), max(wide, ratio)
		sum += area
		if cw < w {
			left += float64(x) / float64(w-cw)
		} else {
			left += 0.5
		}
	}
	// Rounding to pixels moves the limits by about a pixel's worth.
	if least < 0.078 || least > 0.085 || most < 0.95 || most > 1 || narrow < 0.73 || narrow > 0.77 || wide < 1.31 || wide > 1.36 {
		t.Errorf("areas %v to %v, ratios %v to %v", least, most, narrow, wide)
	}
	// Any shape fits up to an area of 9/16, then those above 4a/3: −ln a of ln 16/9.
	if mean := sum / n; math.Abs(mean-0.432) > 0.006 {
		t.Errorf("mean area %v; want 0.432", mean)
	}
	if mean := left / n; mean < 0.49 || mean > 0.51 {
		t.Errorf("crops stand at %v of their room; want the middle", mean)
	}
	// Extreme shapes: the centre, as wide or high as allowed.
	if x, y, cw, ch := p.crop(rng, 2, 1000); x != 0 || y != 498 || cw != 2 || ch != 3 {
		t.Errorf("crop %d×%d at %d, %d of a tall picture", cw, ch, x, y)
	}
	if x, y, cw, ch := p.crop(rng, 1000, 3); x != 498 || y != 0 || cw != 4 || ch != 3 {
		t.Errorf("crop %d×%d at %d, %d of a wide picture", cw, ch, x, y)
	}
}

// TestEvaluation: scaled to the shorter side, the centre, and the same with and
// without the random parts of a pipeline.
func TestEvaluation(t *testing.T) {
	p := Pipeline{Pad: 4, Flip: true, Hue: 0.1, Resize: 32, Mean: []float32{0.1, 0.2, 0.3}, Std: []float32{1, 2, 3}}
	tr, err := NewTransform(p.Evaluation(), 28, 28, 3)
	if err != nil {
		t.Fatal(err)
	}
	pic := pattern(80, 50, 3)
	to := make([]float32, 28*28*3)
	if err := tr.Apply(to, pic, nil); err != nil {
		t.Fatal(err)
	}
	var s scaler
	scaled := s.scale(whole(pic), 51, 32, 0, 0, 51, 32) // int(32·80/50)
	want := reference(tr, Picture{51, 32, 3, scaled.pix}, 12, 2, false)
	for i := range want {
		if to[i] != want[i] {
			t.Fatalf("value %d is %v; want %v", i, to[i], want[i])
		}
	}
	if tr.p.Random() || !p.Random() {
		t.Error("Random")
	}
}

func TestApplyErrors(t *testing.T) {
	tr, err := NewTransform(Pipeline{}, 4, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, pic := range []Picture{{}, {2, 2, 1, make([]byte, 3)}, {2, 2, 2, make([]byte, 8)}, {-1, -1, 1, make([]byte, 1)}} {
		oneLine(t, "picture", tr.Apply(make([]float32, 16), pic, nil), "for a picture of")
	}
}
