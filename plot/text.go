package plot

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// TextOptions say what characters a chart is made of.
type TextOptions struct {
	Width  int  // in characters; 0: 72, at least 24
	Height int  // of the axes in lines; 0: 12, at least 4
	ASCII  bool // nothing that a terminal of 1980 could not show
	Colour bool // by escape sequences
}

// signs of series, the first of the list first.
var (
	textSigns  = []rune("●·■▲◆")
	asciiSigns = []rune("o.#^*")
	// Bright blue, grey, red, green, magenta: legible on dark and on light.
	textColours = []string{"94", "90", "31", "32", "35"}
)

// textCell is a character of the drawing; series is what it shows, -1 for nothing.
type textCell struct {
	sign   rune
	series int
}

// WriteText draws the chart's points with characters, for terminals. Earlier series
// lie over later ones. Lines, bands and error bars are left out.
func (c Chart) WriteText(w io.Writer, o TextOptions) error {
	for _, s := range c.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("plot: chart %q: series %q has %d x and %d y", c.Title, s.Name, len(s.X), len(s.Y))
		}
	}
	if o.Width == 0 {
		o.Width = 72
	}
	if o.Height == 0 {
		o.Height = 12
	}
	signs, vertical, tick, corner, horizontal, below := textSigns, '│', '┤', '└', '─', '┬'
	if o.ASCII {
		signs, vertical, tick, corner, horizontal, below = asciiSigns, '|', '+', '+', '-', '+'
	}
	points := Chart{Marks: c.Marks, FromZero: c.FromZero}
	for _, s := range c.Series {
		points.Series = append(points.Series, Series{X: s.X, Y: s.Y})
	}
	xs, ys := points.spans()
	height := max(o.Height, 4)
	yTicks, yDecimals := ys.ticks(height / 3)
	room := 0
	for _, v := range yTicks {
		room = max(room, len(tickText(v, yDecimals)))
	}
	width := max(o.Width, 24) - room - 3 // a blank at the left, one before the axis, and the axis

	cells := make([][]textCell, height)
	for y := range cells {
		cells[y] = make([]textCell, width)
		for x := range cells[y] {
			cells[y][x] = textCell{' ', -1}
		}
	}
	column := func(v float64) int { return 1 + int(xs.at(v)*float64(width-3)+0.5) }
	line := func(v float64) int { return height - 1 - int(ys.at(v)*float64(height-1)+0.5) }
	for i := len(c.Series) - 1; i >= 0; i-- {
		s := c.Series[i]
		for k := range s.X {
			if math.IsNaN(s.Y[k]) {
				continue
			}
			cells[line(s.Y[k])][column(s.X[k])] = textCell{signs[i%len(signs)], i}
		}
	}

	paint := func(i int, text string) string {
		if !o.Colour || i < 0 {
			return text
		}
		return "\x1b[" + textColours[i%len(textColours)] + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, " %s\n", c.YLabel)
	labels := map[int]string{}
	for _, v := range yTicks {
		labels[line(v)] = tickText(v, yDecimals)
	}
	for y, row := range cells {
		label, labelled := labels[y]
		mark := vertical
		if labelled {
			mark = tick
		}
		fmt.Fprintf(&b, " %*s %c", room, label, mark)
		end := len(row)
		for end > 0 && row[end-1].series < 0 {
			end--
		}
		for _, cell := range row[:end] {
			b.WriteString(paint(cell.series, string(cell.sign)))
		}
		b.WriteByte('\n')
	}
	xTicks, xDecimals := xs.ticks(max(2, width/9))
	axis := []rune(strings.Repeat(string(horizontal), width))
	numbers := []rune(strings.Repeat(" ", width+8))
	for _, v := range xTicks {
		at := column(v)
		axis[at] = below
		text := tickText(v, xDecimals)
		copy(numbers[max(0, at-(len(text)-1)/2):], []rune(text))
	}
	indent := strings.Repeat(" ", room+2)
	fmt.Fprintf(&b, "%s%c%s\n", indent, corner, string(axis))
	fmt.Fprintf(&b, "%s %s\n", indent, strings.TrimRight(string(numbers), " "))
	legend := c.XLabel
	for i, s := range c.Series {
		legend += "   " + paint(i, string(signs[i%len(signs)])) + " " + s.Name
	}
	fmt.Fprintf(&b, "%s %s\n", indent, legend)
	if o.ASCII && !ascii(c.YLabel+legend) {
		_, err := io.WriteString(w, toASCII(b.String()))
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ascii(text string) bool { return len(text) == utf8.RuneCountInString(text) }

// toASCII replaces what labels may hold.
func toASCII(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 'µ', r == 'μ':
			return 'u'
		case r == '×':
			return 'x'
		case r > 0x7e:
			return '?'
		}
		return r
	}, text)
}
