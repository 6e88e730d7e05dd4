package dataset

// view is a part of a picture.
type view struct {
	pix           []uint8
	width, height int
	stride        int // bytes from one row to the next
	channels      int
}

// cut is a part of a view.
func (v view) cut(x, y, width, height int) view {
	return view{v.pix[y*v.stride+x*v.channels:], width, height, v.stride, v.channels}
}

func (v view) row(y int) []uint8 {
	return v.pix[y*v.stride:][:v.width*v.channels]
}

// place writes a view into an input, its upper left corner at left, top, and black
// around it; mirrored, all of it, if flip. What a byte becomes is in the tables; nil:
// a number from 0 to 1. This is all that is done to most pictures, so its loops are
// plain: a table for each channel, no bounds to check, no call for a pixel.
func (t *Transform) place(to []float32, from view, left, top int, flip bool, tables *[3][256]float32) {
	t0, t1, t2 := &t.plain, &t.plain, &t.plain
	if tables != nil {
		t0, t1, t2 = &tables[0], &tables[1], &tables[2]
	}
	if flip {
		left = t.width - left - from.width
	}
	stride := t.width * t.channels
	for y := range t.height {
		row := to[y*stride:][:stride]
		if y < top || y >= top+from.height || from.width == 0 {
			t.black(row, t0, t1, t2)
			continue
		}
		start, end := left*t.channels, (left+from.width)*t.channels
		t.black(row[:start], t0, t1, t2)
		t.black(row[end:], t0, t1, t2)
		pixels, values := from.row(y-top), row[start:end]
		switch {
		case t.channels == 1 && from.channels == 1:
			placeGrey(values, pixels, flip, t0)
		case t.channels == 3 && from.channels == 3:
			placeColour(values, pixels, flip, t0, t1, t2)
		case t.channels == 3:
			placeGreyAsColour(values, pixels, flip, t0, t1, t2)
		default:
			placeColourAsGrey(values, pixels, flip, t0)
		}
	}
}

func (t *Transform) black(values []float32, t0, t1, t2 *[256]float32) {
	if t.channels == 1 {
		for i := range values {
			values[i] = t0[0]
		}
		return
	}
	b0, b1, b2 := t0[0], t1[0], t2[0]
	for len(values) >= 3 {
		values[0], values[1], values[2] = b0, b1, b2
		values = values[3:]
	}
}

func placeGrey(to []float32, from []uint8, flip bool, table *[256]float32) {
	if flip {
		last := len(to) - 1
		for i := range to {
			to[i] = table[from[last-i]]
		}
		return
	}
	from = from[:len(to)]
	for i := range to {
		to[i] = table[from[i]]
	}
}

func placeColour(to []float32, from []uint8, flip bool, t0, t1, t2 *[256]float32) {
	if flip {
		for len(to) >= 3 && len(from) >= 3 {
			p := from[len(from)-3:]
			to[0], to[1], to[2] = t0[p[0]], t1[p[1]], t2[p[2]]
			to, from = to[3:], from[:len(from)-3]
		}
		return
	}
	for len(to) >= 3 && len(from) >= 3 {
		to[0], to[1], to[2] = t0[from[0]], t1[from[1]], t2[from[2]]
		to, from = to[3:], from[3:]
	}
}

func placeGreyAsColour(to []float32, from []uint8, flip bool, t0, t1, t2 *[256]float32) {
	for i := range from {
		v := from[i]
		if flip {
			v = from[len(from)-1-i]
		}
		to[3*i], to[3*i+1], to[3*i+2] = t0[v], t1[v], t2[v]
	}
}

func placeColourAsGrey(to []float32, from []uint8, flip bool, table *[256]float32) {
	for i := range to {
		p := from[3*i:]
		if flip {
			p = from[3*(len(to)-1-i):]
		}
		// ITU-R 601, as PIL computes it.
		grey := (19595*uint32(p[0]) + 38470*uint32(p[1]) + 7471*uint32(p[2]) + 1<<15) >> 16
		to[i] = table[uint8(grey)]
	}
}
