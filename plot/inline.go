package plot

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// InlineOptions say how large a chart within a page is, in the page's pixels.
type InlineOptions struct {
	Width, Height float64 // 0: 720 and 380
}

// Measures of a chart within a page.
const (
	inlineLeft   = 58.0
	inlineRight  = 16.0
	inlineTop    = 14.0 // above the axes, and
	inlineName   = 18.0 // for each line of names of series
	inlineBottom = 46.0
	inlineMark   = 3.4
	inlineMost   = 40 // points of a line that are marked; more would hide it
)

// WriteInline draws the chart as an SVG element for a page. Its parts have classes,
// so that the page's style can give them other colours in the dark: axis, grid,
// label, mild, and s0 to s7 for the series. Without a style the picture is a light
// one. Points tell their values when pointed at. A Y that is not a number is a gap.
func (c Chart) WriteInline(w io.Writer, o InlineOptions) error {
	for _, s := range c.Series {
		if len(s.X) != len(s.Y) || s.Deviation != nil && len(s.Deviation) != len(s.Y) {
			return fmt.Errorf("plot: chart %q: series %q has %d x, %d y and %d deviations", c.Title, s.Name, len(s.X), len(s.Y), len(s.Deviation))
		}
	}
	if o.Width == 0 {
		o.Width = 720
	}
	if o.Height == 0 {
		o.Height = 380
	}
	p := &inline{chart: c, width: o.Width, height: o.Height}
	p.places, p.top = p.arrange()
	p.xs, p.ys = c.spans()
	low := p.ys.low
	p.xs, p.ys = p.xs.padded(0.02), p.ys.padded(0.06)
	if c.FromZero {
		p.ys.low = low
	}
	p.line(`<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" font-family="system-ui, Helvetica, Arial, sans-serif">`, px(o.Width), px(o.Height))
	p.line(`<title>%s</title>`, html.EscapeString(c.Title))
	p.axes()
	for _, m := range c.Marks {
		x := p.x(m.X)
		p.line(`<path class="mild" d="M%s %s V%s" fill="none" stroke="%s" stroke-dasharray="4 3"><title>%s</title></path>`,
			px(x), px(p.top), px(p.height-inlineBottom), mildColour, html.EscapeString(m.Name))
	}
	for _, dashed := range []bool{false, true} {
		for i := len(c.Series) - 1; i >= 0; i-- { // the first on top
			if c.Series[i].Dashed == dashed {
				p.series(c.Series[i], i)
			}
		}
	}
	p.legend()
	p.line(`</svg>`)
	_, err := w.Write(p.out.Bytes())
	return err
}

// inline is a chart being drawn.
type inline struct {
	chart         Chart
	width, height float64
	xs, ys        span
	places        [][2]float64 // of the names of series
	top           float64      // of the axes
	out           bytes.Buffer
}

func (p *inline) line(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *inline) x(v float64) float64 {
	return inlineLeft + p.xs.at(v)*(p.width-inlineLeft-inlineRight)
}

func (p *inline) y(v float64) float64 {
	return p.height - inlineBottom - p.ys.at(v)*(p.height-p.top-inlineBottom)
}

func (p *inline) text(x, y float64, class, anchor, colour, text, more string) {
	p.line(`<text class="%s" x="%s" y="%s" font-size="12" fill="%s" text-anchor="%s"%s>%s</text>`, class, px(x), px(y), colour, anchor, more, html.EscapeString(text))
}

// axes draws the grid, its numbers and what they are of.
func (p *inline) axes() {
	left, right, top, bottom := inlineLeft, p.width-inlineRight, p.top, p.height-inlineBottom
	values, decimals := p.ys.ticks(max(2, int((bottom-top)/48)))
	for _, v := range values {
		p.line(`<path class="grid" d="M%s %s H%s" fill="none" stroke="#e3e8ec"/>`, px(left), px(p.y(v)), px(right))
		p.text(left-8, p.y(v)+4, "label", "end", mildColour, tickText(v, decimals), "")
	}
	values, decimals = p.xs.ticks(max(2, int((right-left)/64)))
	for _, v := range values {
		p.line(`<path class="grid" d="M%s %s V%s" fill="none" stroke="#e3e8ec"/>`, px(p.x(v)), px(top), px(bottom))
		p.text(p.x(v), bottom+18, "label", "middle", mildColour, tickText(v, decimals), "")
	}
	p.line(`<path class="axis" d="M%s %s V%s H%s" fill="none" stroke="%s"/>`, px(left), px(top), px(bottom), px(right), mildColour)
	p.text((left+right)/2, p.height-8, "label", "middle", mildColour, p.chart.XLabel, "")
	middle := (top + bottom) / 2
	p.text(14, middle, "label", "middle", mildColour, p.chart.YLabel, fmt.Sprintf(` transform="rotate(-90 14 %s)"`, px(middle)))
}

// arrange finds places for the names of series, in lines above the axes, and where
// the axes begin below them.
func (p *inline) arrange() (places [][2]float64, top float64) {
	const letter, sign, gap = 6.3, 23.0, 14.0
	x, y := inlineLeft, inlineName
	for _, s := range p.chart.Series {
		wide := sign + letter*float64(len([]rune(s.Name)))
		if x > inlineLeft && x+wide > p.width-inlineRight {
			x, y = inlineLeft, y+inlineName
		}
		places = append(places, [2]float64{x, y})
		x += wide + gap
	}
	return places, y + inlineTop
}

// legend names the series, each after its sign.
func (p *inline) legend() {
	for i, s := range p.chart.Series {
		x, y := p.places[i][0], p.places[i][1]
		if s.Scatter {
			p.line(`<circle class="s%d" cx="%s" cy="%s" r="%s" fill="%s" fill-opacity="0.55"/>`, i%len(palette), px(x+9), px(y-4), px(inlineMark), p.colour(i))
		} else {
			p.line(`<path class="s%d" d="M%s %s h18" fill="none" stroke="%s" stroke-width="2.4"%s/>`, i%len(palette), px(x), px(y-4), p.colour(i), s.dashes())
		}
		p.text(x+23, y, "label", "start", textColour, s.Name, "")
	}
}

func (p *inline) colour(i int) string {
	c := palette[i%len(palette)]
	return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
}

// series draws deviations, the line, and its points.
func (p *inline) series(s Series, number int) {
	class, colour := fmt.Sprintf("s%d", number%len(palette)), p.colour(number)
	for i := range s.X {
		if s.Deviation == nil || math.IsNaN(s.Y[i]) {
			break
		}
		if s.Bars {
			p.line(`<path class="%s" d="M%s %s V%s" fill="none" stroke="%s" stroke-width="1.2" stroke-opacity="0.55"/>`,
				class, px(p.x(s.X[i])), px(p.y(s.Y[i]-s.Deviation[i])), px(p.y(s.Y[i]+s.Deviation[i])), colour)
		}
	}
	if s.Deviation != nil && !s.Bars && len(s.X) > 1 {
		var d strings.Builder
		for i := range s.X {
			fmt.Fprintf(&d, "%c%s %s", "ML"[min(i, 1)], px(p.x(s.X[i])), px(p.y(s.Y[i]+s.Deviation[i])))
		}
		for i := len(s.X) - 1; i >= 0; i-- {
			fmt.Fprintf(&d, "L%s %s", px(p.x(s.X[i])), px(p.y(s.Y[i]-s.Deviation[i])))
		}
		p.line(`<path class="%s" d="%sZ" fill="%s" fill-opacity="0.15" stroke="none"/>`, class, d.String(), colour)
	}
	if !s.Scatter {
		p.line(`<path class="%s" d="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round"%s/>`, class, p.path(s), colour, s.dashes())
	}
	if !s.Scatter && (len(s.X) > inlineMost || s.Steps && s.Deviation == nil) {
		return
	}
	opacity, radius := 1.0, inlineMark
	if s.Scatter {
		opacity, radius = 0.45, inlineMark-1
	}
	for i := range s.X {
		if math.IsNaN(s.Y[i]) {
			continue
		}
		tip := fmt.Sprintf("%s: %s %.4g, %s %.4g", s.Name, p.chart.XLabel, s.X[i], p.chart.YLabel, s.Y[i])
		p.line(`<circle class="%s" cx="%s" cy="%s" r="%s" fill="%s" fill-opacity="%s"><title>%s</title></circle>`,
			class, px(p.x(s.X[i])), px(p.y(s.Y[i])), px(radius), colour, px(opacity), html.EscapeString(tip))
	}
}

// dashes is how a dashed line says so.
func (s Series) dashes() string {
	if !s.Dashed {
		return ""
	}
	return ` stroke-dasharray="5 4"`
}

// path is the line through a series, broken at its gaps.
func (p *inline) path(s Series) string {
	var d strings.Builder
	pen := byte('M')
	for i := range s.X {
		if math.IsNaN(s.Y[i]) {
			if s.Steps && pen != 'M' {
				fmt.Fprintf(&d, "H%s", px(p.x(s.X[i])))
			}
			pen = 'M'
			continue
		}
		if s.Steps && pen != 'M' {
			fmt.Fprintf(&d, "H%sV%s", px(p.x(s.X[i])), px(p.y(s.Y[i])))
		} else {
			fmt.Fprintf(&d, "%c%s %s", pen, px(p.x(s.X[i])), px(p.y(s.Y[i])))
		}
		pen = 'L'
	}
	return d.String()
}
