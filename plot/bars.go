package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Bars is amounts beside each other, as bars on a logarithmic axis: what differs
// by a factor of thousands can be compared no other way.
type Bars struct {
	Title  string
	Panels []Panel // below each other
}

// Panel is the amounts of one unit.
type Panel struct {
	Label string // of the axis, with the unit
	Bars  []Bar  // from top to bottom
}

// Bar is one amount.
type Bar struct {
	Name   string
	Value  float64 // more than 0
	Text   string  // stands beside it: the amount as people read it
	Claim  bool    // somebody else's number: drawn hollow
	Series int     // of one colour
}

const (
	barStep    = 0.62 * vg.Centimeter // from one bar to the next
	barsAround = 2.1 * vg.Centimeter  // axis and label of a panel
	barsTitle  = 0.9 * vg.Centimeter
)

// WriteSVG draws the bars as SVG.
func (b Bars) WriteSVG(w io.Writer) error {
	return b.write(w, vgsvg.New(chartWidth, b.height()))
}

// WritePNG draws the bars as PNG.
func (b Bars) WritePNG(w io.Writer) error {
	return b.write(w, vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(chartWidth, b.height()), vgimg.UseDPI(pngDPI))})
}

func (p Panel) height() vg.Length { return barsAround + barStep*vg.Length(len(p.Bars)) }

func (b Bars) height() vg.Length {
	h := barsTitle + 2*chartMargin
	for _, p := range b.Panels {
		h += p.height()
	}
	return h
}

func (b Bars) write(w io.Writer, canvas vg.CanvasWriterTo) error {
	sheet := draw.New(canvas)
	sheet.SetColor(color.White)
	sheet.Fill(sheet.Rectangle.Path())
	area := draw.Crop(sheet, chartMargin, -chartMargin, chartMargin, -chartMargin)
	title := gonum.New().Title.TextStyle
	title.Font.Variant, title.XAlign, title.YAlign = "Sans", draw.XCenter, draw.YTop
	for title.Width(b.Title)*legendSpare > area.Size().X && title.Font.Size > smallestTitle {
		title.Font.Size *= 0.95
	}
	area.FillText(title, vg.Point{X: area.Center().X, Y: area.Max.Y}, b.Title)

	// Names of all panels stand in one column, and the bars begin below each other.
	names := vg.Length(0)
	for _, p := range b.Panels {
		for _, bar := range p.Bars {
			names = max(names, nameStyle().Width(bar.Name)*legendSpare)
		}
	}
	top := area.Max.Y - barsTitle
	for _, p := range b.Panels {
		part := area
		part.Max.Y, part.Min.Y = top, top-p.height()
		if err := p.draw(part, names); err != nil {
			return fmt.Errorf("plot: bars %q: %w", b.Title, err)
		}
		top -= p.height()
	}
	_, err := canvas.WriteTo(w)
	return err
}

func nameStyle() text.Style {
	s := gonum.New().X.Tick.Label
	s.Font.Variant = "Sans"
	return s
}

func (p Panel) draw(area draw.Canvas, names vg.Length) error {
	low, high := math.Inf(1), 0.0
	for _, bar := range p.Bars {
		if !(bar.Value > 0) || math.IsInf(bar.Value, 0) {
			return fmt.Errorf("%q is %v; a logarithmic axis takes more than 0", bar.Name, bar.Value)
		}
		low, high = min(low, bar.Value), max(high, bar.Value)
	}
	if len(p.Bars) == 0 {
		return fmt.Errorf("panel %q has no bars", p.Label)
	}
	g := gonum.New()
	for _, style := range []*text.Style{&g.X.Label.TextStyle, &g.X.Tick.Label} {
		style.Font.Variant = "Sans"
	}
	g.X.Label.Text = p.Label
	g.X.Scale = gonum.LogScale{}
	g.X.Tick.Marker = decades{}
	// From the power of ten below the smallest; beside the longest there is room
	// for its text.
	first, last := math.Floor(math.Log10(low)-0.3), math.Log10(high)
	g.X.Min, g.X.Max = math.Pow(10, first), math.Pow(10, last+max(0.5, 0.22*(last-first)))
	g.HideY()
	g.Y.Min, g.Y.Max = 0, float64(len(p.Bars))
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Transparent
	g.Add(grid, bars{p.Bars})
	g.X.Min, g.X.Max = math.Pow(10, first), math.Pow(10, last+max(0.5, 0.22*(last-first)))
	g.Y.Min, g.Y.Max = 0, float64(len(p.Bars))
	inner := draw.Crop(area, names+chartMargin, 0, 0, -chartMargin)
	g.Draw(inner)

	data := g.DataCanvas(inner)
	style := nameStyle()
	style.XAlign, style.YAlign = draw.XRight, draw.YCenter
	_, y := g.Transforms(&data)
	for i, bar := range p.Bars {
		area.FillText(style, vg.Point{X: data.Min.X - vg.Points(4), Y: y(float64(len(p.Bars)-i) - 0.5)}, bar.Name)
	}
	return nil
}

// decades marks powers of ten.
type decades struct{}

func (decades) Ticks(low, high float64) []gonum.Tick {
	var ticks []gonum.Tick
	from, to := int(math.Ceil(math.Log10(low)-1e-9)), int(math.Floor(math.Log10(high)+1e-9))
	every := (to-from)/10 + 1
	for e := from; e <= to; e++ {
		t := gonum.Tick{Value: math.Pow(10, float64(e))}
		if (e-from)%every == 0 {
			t.Label = power(e)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// power writes 10^e plainly where that is short.
func power(e int) string {
	switch {
	case e >= 0 && e <= 4:
		return fmt.Sprintf("%.0f", math.Pow(10, float64(e)))
	case e < 0 && e >= -4:
		return fmt.Sprintf("%.*f", -e, math.Pow(10, float64(e)))
	}
	return fmt.Sprintf("1e%d", e)
}

// bars are drawn from the axis's beginning, wherever that is.
type bars struct{ list []Bar }

func (b bars) Plot(c draw.Canvas, p *gonum.Plot) {
	x, y := p.Transforms(&c)
	style := nameStyle()
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	for i, bar := range b.list {
		middle := float64(len(b.list)-i) - 0.5
		from, to := x(p.X.Min), x(bar.Value)
		low, high := y(middle-0.34), y(middle+0.34)
		ink := palette[bar.Series%len(palette)]
		corners := []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}}
		if bar.Claim {
			c.FillPolygon(color.NRGBA{ink.R, ink.G, ink.B, 40}, corners)
			c.StrokeLines(draw.LineStyle{Color: ink, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(3), vg.Points(2)}}, append(corners, corners[0]))
		} else {
			c.FillPolygon(ink, corners)
		}
		c.FillText(style, vg.Point{X: to + vg.Points(4), Y: y(middle)}, bar.Text)
	}
}
