package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// drawPicture writes a picture for a script: picture FILE WIDTH HEIGHT [grey]. Its
// name says the format.
func drawPicture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: picture FILE WIDTH HEIGHT [grey]")
	}
	w, err := strconv.Atoi(args[1])
	ts.Check(err)
	h, err := strconv.Atoi(args[2])
	ts.Check(err)
	var img image.Image
	if len(args) > 3 {
		grey := image.NewGray(image.Rect(0, 0, w, h))
		for i := range grey.Pix {
			grey.Pix[i] = uint8(7 * i)
		}
		img = grey
	} else {
		colours := image.NewNRGBA(image.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				colours.SetNRGBA(x, y, color.NRGBA{uint8(9 * x), uint8(5 * y), uint8(x * y), 255})
			}
		}
		img = colours
	}
	var b bytes.Buffer
	if strings.HasSuffix(args[0], ".png") {
		ts.Check(png.Encode(&b, img))
	} else {
		ts.Check(jpeg.Encode(&b, img, nil))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

// cutFile leaves the first part of a file to another: cut FROM TO BYTES.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(ts.ReadFile(args[0]))[:n], 0o644))
}

// hugePicture writes a file that claims to be 65536×65536 pixels: huge FILE.
func hugePicture(ts *testscript.TestScript, _ bool, args []string) {
	header := []byte("IHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x06\x00\x00\x00")
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	file = binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(header))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), file, 0o644))
}

// TestRunImageNet: the verb makes of published weights and ImageNet's pictures what
// the test of package nn makes of them by another way.
func TestRunImageNet(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	file := filepath.Join(data, "mobilenet_v2", "mobilenet_v2_imagenet.safetensors")
	if _, err := os.Stat(file); err != nil {
		t.Skip("no published weights beside the repository: ", err)
	}
	if testing.Short() {
		t.Skip("takes a hundred inferences")
	}
	args := []string{"run", "--weights", file, "--network", "mobilenet_v2", "--top", "5", "--json"}
	const every = 10
	for i := 0; i < 1000; i += every {
		args = append(args, filepath.Join(data, "imagenet-val", strconv.Itoa(10000 + i)[1:]+".jpg"))
	}
	var stdout, stderr bytes.Buffer
	if status := run(args, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	images, first, among := 0, 0, 0
	for line := range bytes.Lines(stdout.Bytes()) {
		var a answer
		if err := json.Unmarshal(line, &struct {
			*answer
			Subnet string `json:"subnet"`
		}{answer: &a}); err != nil {
			t.Fatal(err)
		}
		want, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(a.Image), ".jpg"))
		if err != nil {
			t.Fatal(err)
		}
		images++
		for i, c := range a.Top {
			if c.Index != want {
				continue
			}
			among++
			if i == 0 {
				first++
			}
		}
	}
	t.Logf("%d of %d right, %d among the first five", first, images, among)
	if images != 1000/every || first < 62 || first > 76 || among < 84 { // 69.4 % and 89 % of all, less chance
		t.Errorf("%d of %d right, %d among the first five", first, images, among)
	}
}
