package dataset

import "math"

// scaler resizes pictures as PIL's bilinear filter does, to the last bit: every
// value is a mean of the source's, weighted by a triangle that widens as the
// picture shrinks; across first, then down, rounding to bytes after each.
type scaler struct {
	columns, rows []taps
	weights       []int32
	half          []uint8 // scaled across, not yet down
	out           []uint8
	sums          []int32
}

// taps are the source's values that one of the result is the mean of.
type taps struct {
	from    int
	weights []int32 // sum 1 in fixed point
}

const weightBits = 32 - 8 - 2 // after the point, as PIL has them

// scale resizes a view to w × h and returns the part of that which begins at x, y
// and is width × height large. The result is the scaler's until the next call.
func (s *scaler) scale(from view, w, h, x, y, width, height int) view {
	s.weights = s.weights[:0]
	s.columns = s.taps(s.columns[:0], from.width, w, x, width)
	s.rows = s.taps(s.rows[:0], from.height, h, y, height)
	first := s.rows[0].from
	last := 0
	for _, r := range s.rows {
		last = max(last, r.from+len(r.weights))
	}

	n, c := width*from.channels, from.channels
	s.half = grow(s.half, (last-first)*n)
	for i := first; i < last; i++ {
		across(s.half[(i-first)*n:][:n], from.row(i), s.columns, c)
	}
	s.out, s.sums = grow(s.out, height*n), grow(s.sums, n)
	for i, r := range s.rows {
		sums := s.sums
		for k := range sums {
			sums[k] = 1 << (weightBits - 1)
		}
		for j, weight := range r.weights {
			row := s.half[(r.from+j-first)*n:][:len(sums)]
			for k := range sums {
				sums[k] += weight * int32(row[k])
			}
		}
		to := s.out[i*n:][:len(sums)]
		for k, v := range sums {
			to[k] = clip(v)
		}
	}
	return view{s.out, width, height, n, c}
}

func across(to, from []uint8, columns []taps, channels int) {
	const round = 1 << (weightBits - 1)
	if channels == 1 {
		for i, t := range columns {
			v := int32(round)
			for k, p := range from[t.from:][:len(t.weights)] {
				v += t.weights[k] * int32(p)
			}
			to[i] = clip(v)
		}
		return
	}
	for i, t := range columns {
		red, green, blue := int32(round), int32(round), int32(round)
		p := from[3*t.from:][:3*len(t.weights)]
		for _, weight := range t.weights {
			red += weight * int32(p[0])
			green += weight * int32(p[1])
			blue += weight * int32(p[2])
			p = p[3:]
		}
		o := to[3*i : 3*i+3 : 3*i+3]
		o[0], o[1], o[2] = clip(red), clip(green), clip(blue)
	}
}

func clip(v int32) uint8 {
	return uint8(min(max(v>>weightBits, 0), 255))
}

// taps computes, for n values from number start on of a line of in values scaled
// to out, which of them they are the mean of.
func (s *scaler) taps(to []taps, in, out, start, n int) []taps {
	scale := float64(in) / float64(out)
	reach := max(scale, 1)
	for i := range n {
		centre := (float64(start+i) + 0.5) * scale
		from := max(int(centre-reach+0.5), 0)
		end := min(int(centre+reach+0.5), in)
		var sum float64
		for k := from; k < end; k++ {
			sum += triangle((float64(k) - centre + 0.5) / reach)
		}
		at := len(s.weights)
		for k := from; k < end; k++ {
			weight := triangle((float64(k)-centre+0.5)/reach) / sum
			s.weights = append(s.weights, int32(0.5+weight*(1<<weightBits)))
		}
		to = append(to, taps{from, s.weights[at:len(s.weights):len(s.weights)]})
	}
	return to
}

func triangle(x float64) float64 {
	return max(1-math.Abs(x), 0)
}

// grow returns a slice of n values, the given one if it is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
