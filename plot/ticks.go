package plot

import (
	"math"
	"strconv"
	"strings"
)

// span is the values of one axis, from the least to the most that it shows.
type span struct{ low, high float64 }

// spans are what a chart's series reach over, error bars and marks included, with a
// little room where a value is all there is.
func (c Chart) spans() (x, y span) {
	none := span{math.Inf(1), math.Inf(-1)}
	x, y = none, none
	for _, s := range c.Series {
		for i := range s.X {
			if math.IsNaN(s.Y[i]) { // a gap
				continue
			}
			d := 0.0
			if s.Deviation != nil {
				d = s.Deviation[i]
			}
			x, y = x.with(s.X[i]), y.with(s.Y[i]-d).with(s.Y[i]+d)
		}
	}
	for _, m := range c.Marks {
		x = x.with(m.X)
	}
	if c.FromZero {
		y = y.with(0)
	}
	return x.atLeast(), y.atLeast()
}

func (s span) with(v float64) span { return span{min(s.low, v), max(s.high, v)} }

// atLeast is a span that something can be drawn over.
func (s span) atLeast() span {
	switch {
	case s.low > s.high:
		return span{0, 1}
	case s.low == s.high:
		room := max(math.Abs(s.low)/10, 1e-9)
		return span{s.low - room, s.high + room}
	}
	return s
}

// at is where a value lies, 0 to 1.
func (s span) at(v float64) float64 { return (v - s.low) / (s.high - s.low) }

// padded has room at both ends, a share of the whole.
func (s span) padded(share float64) span {
	room := (s.high - s.low) * share
	return span{s.low - room, s.high + room}
}

// ticks are round numbers within the span, about as many as wanted, and how many
// decimals they need.
func (s span) ticks(want int) (values []float64, decimals int) {
	rough := (s.high - s.low) / float64(max(want, 1))
	power := math.Floor(math.Log10(rough))
	step := math.Pow(10, power)
	for _, m := range []float64{2, 5, 10} {
		if step*1.5 >= rough { // some more than wanted are better than too few
			break
		}
		step = m * math.Pow(10, power)
	}
	if power = math.Floor(math.Log10(step) + 1e-9); power < 0 {
		decimals = int(-power)
	}
	for i := math.Ceil(s.low/step - 1e-9); i*step <= s.high+step*1e-9; i++ {
		values = append(values, i*step)
	}
	return values, decimals
}

// tickText is a tick as it is written.
func tickText(v float64, decimals int) string {
	if decimals > 6 || math.Abs(v) >= 1e9 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" { // not -0
		return strings.TrimPrefix(text, "-")
	}
	return text
}
