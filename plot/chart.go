package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is a figure with two axes.
type Chart struct {
	Title, XLabel, YLabel string
	Series                []Series
	Marks                 []Mark
	FromZero              bool // the Y axis starts at 0
	LogY                  bool // the Y axis is logarithmic, in SVG and PNG files; for values above 0, without Floor
	// Floor is what the Y axis of a picture in a file starts at where the data begin lower:
	// a few points far down would leave no room for all others. Lines, points and bars
	// are cut off there, bands are not. 0: it starts where the data do.
	Floor float64
}

// Mark is a dashed line across a chart at one place of its X axis.
type Mark struct {
	Name string
	X    float64
}

// Series is one set of points of a chart.
type Series struct {
	Name      string
	X, Y      []float64
	Deviation []float64 // of Y, drawn as a band; nil for none
	Bars      bool      // Deviation is drawn as a bar at each point instead
	Steps     bool      // the line stays at a point's Y up to the next point's X
	Scatter   bool      // points alone, without a line
	Dashed    bool      // a line of dashes, over the others
}

// Size of a chart on paper.
const (
	chartWidth  = 16 * vg.Centimeter
	chartHeight = 10.5 * vg.Centimeter
	chartMargin = 0.3 * vg.Centimeter
)

// palette tells series apart also for the colour-blind (Okabe and Ito).
var palette = []color.NRGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{86, 180, 233, 255}, {230, 159, 0, 255}, {90, 90, 90, 255}, {150, 60, 20, 255},
}

// pngDPI is twice what screens show, so that pictures survive enlarging.
const pngDPI = 192

// WriteSVG draws the chart as SVG.
func (c Chart) WriteSVG(w io.Writer) error { return Sheet{c}.WriteSVG(w) }

// WritePNG draws the chart as PNG.
func (c Chart) WritePNG(w io.Writer) error { return Sheet{c}.WritePNG(w) }

// Sheet is charts below each other in one picture.
type Sheet []Chart

// WriteSVG draws the charts as SVG.
func (s Sheet) WriteSVG(w io.Writer) error {
	return s.write(w, vgsvg.New(chartWidth, s.height()))
}

// WritePNG draws the charts as PNG.
func (s Sheet) WritePNG(w io.Writer) error {
	return s.write(w, vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(chartWidth, s.height()), vgimg.UseDPI(pngDPI))})
}

func (s Sheet) height() vg.Length { return chartHeight * vg.Length(len(s)) }

func (s Sheet) write(w io.Writer, canvas vg.CanvasWriterTo) error {
	sheet := draw.New(canvas)
	for i, c := range s {
		above := vg.Length(i) * chartHeight
		below := vg.Length(len(s)-1-i) * chartHeight
		if err := c.draw(draw.Crop(sheet, 0, 0, below, -above)); err != nil {
			return err
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}

// draw fills a sheet with the chart.
func (c Chart) draw(sheet draw.Canvas) error {
	p, err := c.build()
	if err != nil {
		return fmt.Errorf("plot: chart %q: %w", c.Title, err)
	}
	sheet.SetColor(color.White)
	sheet.Fill(sheet.Rectangle.Path())
	area := draw.Crop(sheet, chartMargin, -chartMargin, chartMargin, -chartMargin)
	// The legend stands beside the axes: inside, it would cover points.
	beside := p.Legend
	p.Legend = gonum.NewLegend()
	names := beside.Rectangle(area)
	// Viewers that lack the font show a wider one: there is room for it.
	wide := (names.Max.X-names.Min.X)*legendSpare + chartMargin
	axes := draw.Crop(area, 0, -wide, 0, 0)
	for p.Title.TextStyle.Width(p.Title.Text)*legendSpare > axes.Size().X && p.Title.TextStyle.Font.Size > smallestTitle {
		p.Title.TextStyle.Font.Size *= 0.95
	}
	p.Draw(axes)
	beside.Draw(draw.Crop(area, area.Size().X-wide+chartMargin, 0, 0, -vg.Points(24)))
	return nil
}

const (
	legendSpare   = 1.15
	smallestTitle = 6  // points
	mostMarks     = 40 // of the points of a line; where there are more, fewMarks
	fewMarks      = 10
)

// logTicks are, on an axis of logarithms, 1, 2 and 5 times powers of ten, named, and the
// others between, not.
type logTicks struct{}

// Ticks implements gonum's Ticker.
func (logTicks) Ticks(low, high float64) []gonum.Tick {
	var list []gonum.Tick
	for power := math.Floor(low); power <= math.Ceil(high); power++ {
		for m := 1.0; m < 10; m++ {
			t := gonum.Tick{Value: power + math.Log10(m)}
			if t.Value < low || t.Value > high {
				continue
			}
			if m == 1 || m == 2 || m == 5 {
				t.Label = strconv.FormatFloat(m*math.Pow(10, power), 'g', 3, 64)
			}
			list = append(list, t)
		}
	}
	return list
}

func (c Chart) build() (*gonum.Plot, error) {
	p := gonum.New()
	for _, text := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		text.Font.Variant = "Sans"
	}
	p.Title.Text = c.Title
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text, p.Y.Label.Text = c.XLabel, c.YLabel
	p.Legend.Top, p.Legend.Left = true, true // names after their signs: they may end anywhere
	p.Legend.Padding = vg.Points(4)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	for i, s := range c.Series {
		if len(s.X) != len(s.Y) || s.Deviation != nil && len(s.Deviation) != len(s.Y) {
			return nil, fmt.Errorf("series %q has %d x, %d y and %d deviations", s.Name, len(s.X), len(s.Y), len(s.Deviation))
		}
		at := func(y float64) float64 { return y }
		if c.LogY {
			for k, y := range s.Y {
				if s.Deviation != nil {
					y -= s.Deviation[k]
				}
				if y <= 0 {
					return nil, fmt.Errorf("series %q: %g on a logarithmic axis", s.Name, y)
				}
			}
			at = math.Log10
		}
		if err := s.addTo(p, at, palette[i%len(palette)], i); err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	switch {
	case c.LogY:
		// Logarithms on a plain axis: gonum's logarithmic one has its name in the wrong place.
		p.Y.Tick.Marker = logTicks{}
	case c.FromZero:
		p.Y.Min = 0
	}
	if c.Floor != 0 && !c.LogY && c.Floor < p.Y.Max {
		p.Y.Min = max(p.Y.Min, c.Floor)
	}
	for _, m := range c.Marks {
		if err := m.addTo(p); err != nil {
			return nil, fmt.Errorf("mark %q: %w", m.Name, err)
		}
	}
	return p, nil
}

// addTo draws the line from edge to edge of what the series span.
func (m Mark) addTo(p *gonum.Plot) error {
	low, high := p.Y.Min, p.Y.Max
	if low > high { // no series
		low, high = 0, 1
	}
	line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: low}, {X: m.X, Y: high}})
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: color.Gray{110}, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
	p.Add(line)
	p.Legend.Add(m.Name, line)
	return nil
}

// addTo draws a series, with its Y where at puts them.
func (s Series) addTo(p *gonum.Plot, at func(y float64) float64, ink color.NRGBA, number int) error {
	points := make(plotter.XYs, len(s.X))
	for i := range points {
		points[i].X, points[i].Y = s.X[i], at(s.Y[i])
	}
	if s.Deviation != nil && s.Bars {
		errors := make(plotter.YErrors, len(points))
		for i, d := range s.Deviation {
			errors[i].Low, errors[i].High = points[i].Y-at(s.Y[i]-d), at(s.Y[i]+d)-points[i].Y
		}
		bars, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{points, errors})
		if err != nil {
			return err
		}
		bars.LineStyle = draw.LineStyle{Color: color.NRGBA{ink.R, ink.G, ink.B, 160}, Width: vg.Points(0.8)}
		bars.CapWidth = vg.Points(4)
		p.Add(bars)
	}
	if s.Deviation != nil && !s.Bars {
		outline := make(plotter.XYs, 0, 2*len(points))
		for i, pt := range points {
			outline = append(outline, plotter.XY{X: pt.X, Y: at(s.Y[i] + s.Deviation[i])})
		}
		for i := len(points) - 1; i >= 0; i-- {
			outline = append(outline, plotter.XY{X: points[i].X, Y: at(s.Y[i] - s.Deviation[i])})
		}
		band, err := plotter.NewPolygon(outline)
		if err != nil {
			return err
		}
		band.Color = color.NRGBA{ink.R, ink.G, ink.B, 45}
		band.LineStyle.Width = 0
		p.Add(band)
	}
	glyphs := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}}
	marked := points
	if len(points) > mostMarks && !s.Scatter { // they would hide the line: now and then one, another's elsewhere
		marked = nil
		every := (len(points) + fewMarks - 1) / fewMarks
		for i := number % every; i < len(points); i += every {
			marked = append(marked, points[i])
		}
	}
	marks, err := plotter.NewScatter(marked)
	if err != nil {
		return err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(2.2), Shape: glyphs[number%len(glyphs)]}
	if s.Scatter {
		marks.GlyphStyle.Color = color.NRGBA{ink.R, ink.G, ink.B, 150}
		p.Add(marks)
		p.Legend.Add(s.Name, marks)
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.6)}
	if s.Steps {
		line.StepStyle = plotter.PostStep
	}
	if s.Dashed {
		line.LineStyle.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
	}
	p.Add(line, marks)
	p.Legend.Add(s.Name, line, marks)
	return nil
}
