package kernel

import "unsafe"

// Strides say where the pixels of a batch lie: image n, row y, pixel x starts at
// n*Image + y*Row + x*Pixel. A zero means as close as they fit: PadChannels of
// the channels, a row of pixels, an image of rows. The interior of images that
// have a border around them is a slice from the first interior pixel on with
// the strides of the whole.
type Strides struct {
	Pixel, Row, Image int
}

// of fills in what is zero for images of h by w pixels of c channels.
func (s Strides) of(h, w, c int) Strides {
	if s.Pixel == 0 {
		s.Pixel = PadChannels(c)
	}
	if s.Row == 0 {
		s.Row = w * s.Pixel
	}
	if s.Image == 0 {
		s.Image = h * s.Row
	}
	return s
}

// fit reports whether n images of h by w pixels, each of c floats, lie apart
// from each other within length floats.
func (s Strides) fit(n, h, w, c, length int) bool {
	if s.Pixel < c || s.Row < (w-1)*s.Pixel+c || s.Image < (h-1)*s.Row+(w-1)*s.Pixel+c {
		return false
	}
	return n == 0 || length >= (n-1)*s.Image+(h-1)*s.Row+(w-1)*s.Pixel+c
}

// flat reports whether all pixels are equally far apart.
func (s Strides) flat(h, w int) bool { return s.Row == w*s.Pixel && s.Image == h*s.Row }

func (s Strides) at(n, y, x int) int { return n*s.Image + y*s.Row + x*s.Pixel }

// walk is what assembly needs to go over the pixels of some images, row by row:
// bytes from a pixel to the next, from the end of a row to the next row, and
// from the end of an image's last row to the next image.
type walk struct {
	pixel, row, image uintptr
}

// walk returns the steps over boxes of ny rows of nx pixels. Steps may be
// negative and wrap around.
func (s Strides) walk(ny, nx int) walk {
	return walk{
		pixel: uintptr(4 * s.Pixel),
		row:   uintptr(4 * (s.Row - nx*s.Pixel)),
		image: uintptr(4 * (s.Image - ny*s.Row)),
	}
}

// box is how many images, rows and pixels one call works on.
type box struct{ n, y, x int }

// boxOf returns the largest box of about most pixels: whole images, else whole
// rows of one, else a piece of a row.
func boxOf(n, y, x, most int) box {
	switch {
	case x*y <= most:
		return box{max(1, min(n, most/max(1, x*y))), y, x}
	case x <= most:
		return box{1, max(1, most/x), x}
	}
	return box{1, 1, most}
}

// pointer returns the address of s[i].
func pointer(s []float32, i int) unsafe.Pointer { return unsafe.Pointer(&s[i]) }
