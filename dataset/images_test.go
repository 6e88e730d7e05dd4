package dataset

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeImage writes an image file of random colours and returns it.
func writeImage(t *testing.T, name string, w, h int) *image.RGBA {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(w), uint64(h)))
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = uint8(rng.IntN(256))
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if strings.HasSuffix(name, ".png") {
		err = png.Encode(f, img)
	} else {
		err = jpeg.Encode(f, img, &jpeg.Options{Quality: 95})
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"folders/b/2.jpg", "folders/a/1.png", "folders/b/1.JPEG", "numbers/0007.jpg", "numbers/12.png"} {
		writeImage(t, filepath.Join(dir, strings.ToLower(name)), 8, 8)
	}
	if err := os.WriteFile(filepath.Join(dir, "folders", "b", "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folders", ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	for layout, want := range map[string][]LabelledImage{
		"folders": {{"a/1.png", 0}, {"b/1.jpeg", 1}, {"b/2.jpg", 1}},
		"numbers": {{"0007.jpg", 7}, {"12.png", 12}},
	} {
		got, err := Images(filepath.Join(dir, layout))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %v; want %v", layout, got, want)
		}
		for i := range got {
			if got[i].Class != want[i].Class || got[i].Path != filepath.Join(dir, layout, want[i].Path) {
				t.Errorf("%s: %v; want %v", layout, got[i], want[i])
			}
		}
	}
	for name, want := range map[string]string{"missing": "no such file", "empty": "no images", "mixed": "stands beside folders", "mixed too": "stands beside folders", "gap": "no images in this folder", "named": "not named by the number of its class"} {
		folder := filepath.Join(dir, name)
		switch name {
		case "empty":
			_ = os.Mkdir(folder, 0o755)
		case "mixed":
			writeImage(t, filepath.Join(folder, "a", "1.png"), 8, 8)
			writeImage(t, filepath.Join(folder, "z.png"), 8, 8)
		case "mixed too":
			writeImage(t, filepath.Join(folder, "n0", "1.png"), 8, 8)
			writeImage(t, filepath.Join(folder, "0003.png"), 8, 8)
		case "gap":
			writeImage(t, filepath.Join(folder, "n1", "1.png"), 8, 8)
			_ = os.Mkdir(filepath.Join(folder, "n0"), 0o755)
		case "named":
			writeImage(t, filepath.Join(folder, "cat.png"), 8, 8)
		}
		if _, err := Images(folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q in it", name, err, want)
		}
	}
}

// TestCrop: an image of the right size comes through value by value; a larger one
// gives its middle.
func TestCrop(t *testing.T) {
	dir := t.TempDir()
	p := Preprocess{Resize: 8, Size: 8, Mean: [3]float32{0.1, 0.2, 0.3}, Std: [3]float32{0.5, 1, 2}}
	for _, size := range [][2]int{{8, 8}, {12, 8}, {8, 15}} {
		name := filepath.Join(dir, "x.png")
		img := writeImage(t, name, size[0], size[1])
		input := make([]float32, 3*8*8)
		if err := p.Load(name, input); err != nil {
			t.Fatal(err)
		}
		left, top := (size[0]-8)/2, (size[1]-8+1)/2 // 3.5 is rounded to 4, as torchvision does
		for y := range 8 {
			for x := range 8 {
				for c := range 3 {
					want := (float64(img.Pix[img.PixOffset(left+x, top+y)+c])/255 - float64(p.Mean[c])) / float64(p.Std[c])
					if got := input[(y*8+x)*3+c]; math.Abs(float64(got)-want) > 1e-6 {
						t.Fatalf("%v: value %d, %d, %d is %v; want %v", size, y, x, c, got, want)
					}
				}
			}
		}
	}
}

// TestResize: a plain slope stays one when it is made smaller.
func TestResize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "slope.png")
	img := image.NewGray(image.Rect(0, 0, 64, 48))
	for y := range 48 {
		for x := range 64 {
			img.SetGray(x, y, color.Gray{uint8(3 * x)})
		}
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	f.Close()
	p := Preprocess{Resize: 24, Size: 20, Std: [3]float32{1, 1, 1}}
	input := make([]float32, 3*20*20)
	if err := p.Load(name, input); err != nil {
		t.Fatal(err)
	}
	// Half the size, the middle 20 of 32 columns: column x shows source 2(x+6)+½.
	for x := 1; x < 19; x++ {
		want := 3 * (2*float64(x+6) + 0.5) / 255
		if got := float64(input[(10*20+x)*3]); math.Abs(got-want) > 2.5/255 {
			t.Errorf("column %d is %v; want %v", x, got*255, want*255)
		}
	}
}

func TestBadImages(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.jpg")
	writeImage(t, good, 32, 32)
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	input := make([]float32, 3*8*8)
	p := ImageNet(8)
	for want, content := range map[string][]byte{
		"empty.jpg: empty; want a PNG or JPEG image":                    nil,
		"text.jpg: no image that can be read; want PNG or JPEG":         []byte("hello"),
		"cut.jpg: the image ends too early; was it copied whole?":       whole[:len(whole)/2],
		"head.jpg: the image ends too early; was it copied whole?":      whole[:8],
		"signature.png: the image ends too early; was it copied whole?": []byte("\x89PNG\r\n\x1a\n"),
	} {
		name, _, _ := strings.Cut(want, ":")
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		oneLine(t, name, p.Load(file, input), want)
	}
	oneLine(t, "folder", p.Load(dir, input), "is a directory")
	if err := p.Load(filepath.Join(dir, "missing.jpg"), input); err == nil {
		t.Error("a missing file was read")
	}
}

// TestSmooth compares interpolated colours with the definition: bilinear between
// samples that stand in the middle of their pixels.
func TestSmooth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, ratio := range []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio422} {
		for _, size := range [][2]int{{16, 16}, {7, 5}, {1, 1}, {2, 3}} {
			w, h := size[0], size[1]
			img := image.NewYCbCr(image.Rect(0, 0, w, h), ratio)
			for i := range img.Y {
				img.Y[i] = 128
			}
			for i := range img.Cb {
				img.Cb[i], img.Cr[i] = uint8(rng.IntN(256)), 128
			}
			got := smooth(img).(*image.RGBA)
			at := func(x, y int) float64 {
				x, y = min(max(x, 0), (w+1)/2-1), min(max(y, 0), (h+1)/2-1)
				if ratio == image.YCbCrSubsampleRatio422 {
					panic("rows are not halved")
				}
				return float64(img.Cb[y*img.CStride+x])
			}
			for y := range h {
				for x := range w {
					near, far := x/2, x/2-1+2*(x%2)
					far = min(max(far, 0), (w+1)/2-1)
					var cb float64
					if ratio == image.YCbCrSubsampleRatio422 {
						row := img.Cb[y*img.CStride:]
						cb = 0.75*float64(row[near]) + 0.25*float64(row[far])
					} else {
						up := y/2 - 1 + 2*(y%2)
						cb = 0.75*(0.75*at(near, y/2)+0.25*at(near, up)) + 0.25*(0.75*at(far, y/2)+0.25*at(far, up))
					}
					// Blue is 128 + 1.772·(Cb − 128), between 0 and 255.
					want := min(max(128+1.772*(cb-128), 0), 255)
					if b := float64(got.RGBAAt(x, y).B); math.Abs(b-want) > 2 {
						t.Fatalf("%v, %d×%d: blue at %d, %d is %v; want %v", ratio, w, h, x, y, b, want)
					}
				}
			}
		}
	}
}

// TestBadFolder: one bad file among good ones ends an epoch with a line that names it;
// a file that claims to be huge is refused by its claim.
func TestBadFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/a/1.jpg", "train/a/2.jpg", "train/b/3.jpg", "val/a/1.jpg", "val/b/1.jpg"} {
		writeImage(t, filepath.Join(dir, name), 20, 30)
	}
	header := []byte("IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x06\x00\x00\x00") // 65536 × 65536
	bomb := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	bomb = binary.BigEndian.AppendUint32(bomb, crc32.ChecksumIEEE(header))
	for want, content := range map[string][]byte{"2.jpg: the image ends too early": {0xff, 0xd8}, "2.jpg: 65536×65536 pixels; 1 to 67108864 in all are read": bomb} {
		writeFiles(t, dir, map[string][]byte{"train/a/2.jpg": content})
		d, err := Open("folder:" + dir)
		if err != nil {
			t.Fatal(err)
		}
		l := loader(t, d.Train, LoaderOptions{Batch: 1, Height: 16, Width: 16, Channels: 3, Pipeline: d.Pipeline()})
		n := 0
		for _, err = range l.Epoch(t.Context(), 0, 0) {
			n++
		}
		oneLine(t, "epoch", err, want)
		if n != 2 {
			t.Errorf("the loop ended after %d rounds; want 2", n)
		}
	}
}

// TestPicture compares the ways in which pixels are read with Go's own, pixel by
// pixel.
func TestPicture(t *testing.T) {
	r := image.Rect(0, 0, 9, 5)
	rng := rand.New(rand.NewPCG(2, 2))
	random := func(pix []uint8) {
		for i := range pix {
			pix[i] = uint8(rng.IntN(256))
		}
	}
	grey, nrgba, rgba, cmyk, grey16 := image.NewGray(r), image.NewNRGBA(r), image.NewRGBA(r), image.NewCMYK(r), image.NewGray16(r)
	full, quarter := image.NewYCbCr(r, image.YCbCrSubsampleRatio444), image.NewYCbCr(r, image.YCbCrSubsampleRatio410)
	palette := image.NewPaletted(r, color.Palette{color.RGBA{1, 2, 3, 255}, color.RGBA{200, 100, 50, 255}})
	for _, pix := range [][]uint8{grey.Pix, nrgba.Pix, cmyk.Pix, grey16.Pix, full.Y, full.Cb, full.Cr, quarter.Y, quarter.Cb, quarter.Cr} {
		random(pix)
	}
	for i := range rgba.Pix {
		rgba.Pix[i] = uint8(i) | uint8(255*((i%4)/3)) // opaque, as decoders return it
	}
	for i := range palette.Pix {
		palette.Pix[i] = uint8(i % 2)
	}
	for _, img := range []image.Image{grey, nrgba, rgba, cmyk, grey16, full, quarter, palette} {
		p := picture(img)
		if p.Width != 9 || p.Height != 5 || len(p.Pix) != 45*p.Channels || p.Channels == 1 != (img == image.Image(grey)) {
			t.Fatalf("%T: %d×%d×%d", img, p.Width, p.Height, p.Channels)
		}
		for i := range 45 {
			want := color.NRGBAModel.Convert(img.At(i%9, i/9)).(color.NRGBA)
			if img == image.Image(nrgba) {
				want = nrgba.NRGBAAt(i%9, i/9) // without the detour that transparent colours lose by
			}
			got := p.Pix[i*p.Channels:][:p.Channels]
			if got[0] != want.R || p.Channels == 3 && (got[1] != want.G || got[2] != want.B) {
				t.Fatalf("%T: pixel %d is %v; want %v", img, i, got, want)
			}
		}
	}
}

// FuzzReadPicture: whatever is read is a picture or an error. Files that claim many
// pixels are left out: what they cost is what decoders take for them.
func FuzzReadPicture(f *testing.F) {
	img := image.NewNRGBA(image.Rect(0, 0, 5, 3))
	for i := range img.Pix {
		img.Pix[i] = uint8(31 * i)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	if err := jpeg.Encode(&b, img, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	f.Add(b.Bytes()[:40])
	f.Add([]byte("text"))
	transform, err := NewTransform(Pipeline{}, 8, 8, 3)
	if err != nil {
		f.Fatal(err)
	}
	input := make([]float32, 8*8*3)
	f.Fuzz(func(t *testing.T, file []byte) {
		if c, _, err := image.DecodeConfig(bytes.NewReader(file)); err == nil && c.Width > 1<<16/max(c.Height, 1) {
			return
		}
		p, err := ReadPicture(bytes.NewReader(file))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
			return
		}
		if err := transform.Apply(input, p, nil); err != nil {
			t.Errorf("a picture of %d×%d×%d cannot be used: %v", p.Height, p.Width, p.Channels, err)
		}
	})
}
