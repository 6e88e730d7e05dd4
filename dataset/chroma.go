package dataset

import (
	"image"
	"image/color"
)

// smooth turns a JPEG's pixels into RGB with colours interpolated between the
// samples, where there is one sample for two or four pixels. Go's decoder repeats
// samples instead; libjpeg, and so PIL, OpenCV and all that networks are trained
// with, interpolates. A network notices: the accuracy of mobilenet_v2 on a
// thousand images of ImageNet differs by half a point.
func smooth(img image.Image) image.Image {
	j, ok := img.(*image.YCbCr)
	if !ok || j.Rect.Min != (image.Point{}) {
		return img
	}
	vertical := false
	switch j.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		vertical = true
	case image.YCbCrSubsampleRatio422:
	default:
		return img
	}
	w, h := j.Rect.Dx(), j.Rect.Dy()
	out := image.NewRGBA(j.Rect)
	samples := (w + 1) / 2
	cb, cr := make([]uint8, 2*samples), make([]uint8, 2*samples)
	sums := make([]int, samples)
	for y := range h {
		upsampleRow(cb, sums, j.Cb, j.CStride, h, y, vertical)
		upsampleRow(cr, sums, j.Cr, j.CStride, h, y, vertical)
		row := out.Pix[y*out.Stride:]
		for x := range w {
			r, g, b := color.YCbCrToRGB(j.Y[y*j.YStride+x], cb[x], cr[x])
			row[4*x], row[4*x+1], row[4*x+2], row[4*x+3] = r, g, b, 255
		}
	}
	return out
}

// upsampleRow computes a row of one colour: each pixel is three parts of the
// nearer sample and one of the farther, across and, if vertical, down, rounded as
// libjpeg rounds.
func upsampleRow(to []uint8, sums []int, samples []uint8, stride, height, y int, vertical bool) {
	scale, up, down := 4, 1, 2 // without the vertical sum
	if vertical {
		near := y / 2
		far := near - 1 + 2*(y%2)
		far = min(max(far, 0), (height+1)/2-1)
		for x := range sums {
			sums[x] = 3*int(samples[near*stride+x]) + int(samples[far*stride+x])
		}
		scale, up, down = 16, 8, 7
	} else {
		for x := range sums {
			sums[x] = int(samples[y*stride+x])
		}
	}
	last := len(sums) - 1
	for x, s := range sums {
		left, right := s, s
		if x > 0 {
			left = sums[x-1]
		}
		if x < last {
			right = sums[x+1]
		}
		to[2*x] = uint8((3*s + left + up) / scale)
		to[2*x+1] = uint8((3*s + right + down) / scale)
	}
}
