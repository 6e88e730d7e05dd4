package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// chainDiagram is n nodes in a row with a skip over every two.
func chainDiagram(n int) Diagram {
	d := Diagram{Title: "a <test> & more", Subtitle: "subtitle", ValueName: "TAS", MarkName: "path"}
	for v := range n {
		d.Nodes = append(d.Nodes, DiagramNode{Section: fmt.Sprint("block", v/3), Detail: "a < b", Value: float64(v % 5)})
		if v > 0 {
			d.Edges = append(d.Edges, DiagramEdge{From: v - 1, To: v, Label: "3×3", Marked: v%3 == 1})
		}
		if v > 0 && v%7 == 0 { // another operation between neighbours
			d.Edges = append(d.Edges, DiagramEdge{From: v - 1, To: v, Label: "1×1"})
		}
		if v > 40 && v%37 == 0 { // a way over whole rows
			d.Edges = append(d.Edges, DiagramEdge{From: v - 40, To: v, Label: "+"})
		}
		if v > 1 && v%2 == 0 {
			d.Edges = append(d.Edges, DiagramEdge{From: v - 2, To: v, Label: "+", Marked: v%3 == 2})
		}
	}
	return d
}

// TestDiagram: well-formed XML, a circle for every node within the picture at a
// place of its own, and a path for every edge, no two of them the same.
func TestDiagram(t *testing.T) {
	for _, n := range []int{1, 2, 7, 55, 150, 1000} {
		d := chainDiagram(n)
		var b bytes.Buffer
		if err := d.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		var width, height float64
		places := map[string]bool{}
		paths := 0
		drawn := map[string]bool{}
		dec := xml.NewDecoder(&b)
		for {
			token, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%d nodes: %v", n, err)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			attr := map[string]string{}
			for _, a := range start.Attr {
				attr[a.Name.Local] = a.Value
			}
			number := func(name string) float64 {
				var x float64
				if _, err := fmt.Sscan(attr[name], &x); err != nil {
					t.Fatalf("%d nodes: %s has %s=%q", n, start.Name.Local, name, attr[name])
				}
				return x
			}
			switch start.Name.Local {
			case "svg":
				width, height = number("width"), number("height")
			case "circle":
				x, y, r := number("cx"), number("cy"), number("r")
				if x-r < 0 || x+r > width || y-r < 0 || y+r > height {
					t.Errorf("%d nodes: circle at %v, %v leaves the picture of %v × %v", n, x, y, width, height)
				}
				places[attr["cx"]+","+attr["cy"]] = true
			case "path":
				paths++
				if drawn[attr["d"]] {
					t.Errorf("%d nodes: two edges are drawn as %s", n, attr["d"])
				}
				drawn[attr["d"]] = true
				if strings.Contains(attr["d"], "NaN") {
					t.Errorf("%d nodes: path %s", n, attr["d"])
				}
			}
		}
		if len(places) != n {
			t.Errorf("%d nodes stand at %d places", n, len(places))
		}
		if want := len(d.Edges) + 2; paths != want { // two in the legend
			t.Errorf("%d nodes: %d paths; want %d", n, paths, want)
		}
	}
	bad := chainDiagram(3)
	bad.Edges[0].To = 9
	if err := bad.WriteSVG(io.Discard); err == nil {
		t.Error("an edge to nowhere was drawn")
	}
	if err := (Diagram{}).WriteSVG(io.Discard); err == nil {
		t.Error("nothing was drawn without complaint")
	}
}

// TestRowsAreCutBetweenSections where no arc is in the way.
func TestRowsAreCutBetweenSections(t *testing.T) {
	d := Diagram{}
	for v := range 60 {
		d.Nodes = append(d.Nodes, DiagramNode{Section: fmt.Sprint("block", v/4)})
		if v%4 == 3 {
			d.Edges = append(d.Edges, DiagramEdge{From: v - 3, To: v})
		}
	}
	for _, r := range d.layOut() {
		if r.end%4 != 0 {
			t.Errorf("a row ends before node %d, inside a block", r.end)
		}
	}
}

func TestChart(t *testing.T) {
	c := Chart{Title: "title", XLabel: "λ", YLabel: "y", Series: []Series{
		{Name: "line", X: []float64{1, 2, 3}, Y: []float64{3, 1, 2}, Deviation: []float64{0.1, 0.2, 0.1}},
		{Name: "points", X: []float64{1, 2}, Y: []float64{1, 1}, Scatter: true},
		{Name: "stairs", X: []float64{1, 2}, Y: []float64{1, 2}, Deviation: []float64{0.3, 0.2}, Bars: true, Steps: true},
	}, Marks: []Mark{{"the cap", 1.5}}}
	var svg, picture bytes.Buffer
	if err := c.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "title", "line", "points", "stairs", "the cap", "λ"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%q is not in the SVG", want)
		}
	}
	if err := c.WritePNG(&picture); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&picture)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 3 {
		for x := 0; x < img.Bounds().Dx(); x += 3 {
			colours[fmt.Sprint(img.At(x, y))] = true
		}
	}
	if len(colours) < 10 {
		t.Errorf("the picture has %d colours: nothing is drawn", len(colours))
	}
	for _, bad := range []Series{{X: []float64{1}, Y: nil}, {X: []float64{1}, Y: []float64{1}, Deviation: []float64{}}} {
		if err := (Chart{Series: []Series{bad}}).WriteSVG(io.Discard); err == nil {
			t.Errorf("series %+v was drawn", bad)
		}
	}
}

// TestFloor: what is far down is cut off, and makes nothing else small.
func TestFloor(t *testing.T) {
	for _, c := range []struct{ floor, low float64 }{{0, 5}, {50, 50}, {3, 5}, {70, 5}} {
		p, err := Chart{Floor: c.floor, Series: []Series{{X: []float64{1, 2, 3}, Y: []float64{5, 58, 60}, Deviation: []float64{0, 1, 1}, Bars: true}}}.build()
		if err != nil || p.Y.Min != c.low || p.Y.Max != 61 {
			t.Errorf("with a floor of %v the axis is from %v to %v (%v); want %v to 61", c.floor, p.Y.Min, p.Y.Max, err, c.low)
		}
	}
}

// TestLongTitles makes titles smaller rather than cut them off.
func TestLongTitles(t *testing.T) {
	size := func(title string) float64 {
		var out bytes.Buffer
		c := Chart{Title: title, XLabel: "x", YLabel: "y", Series: []Series{{Name: "a name", X: []float64{0, 1}, Y: []float64{0, 1}}}}
		if err := c.WriteSVG(&out); err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`font-size:([0-9.]+)[^>]*>` + title).FindStringSubmatch(out.String())
		if found == nil {
			t.Fatalf("no title %q in %.2000s", title, out.String())
		}
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	short, long := size("short"), size(strings.Repeat("long ", 20)+"title")
	if !(long < 0.9*short) {
		t.Errorf("a title of 105 letters has letters of %v, one of 5 letters of %v", long, short)
	}
}

// TestBars: bars are drawn from left to right in the order of their values, names
// and texts stand in the picture, and what no logarithm takes is refused.
func TestBars(t *testing.T) {
	b := Bars{Title: "sizes <and> times", Panels: []Panel{
		{Label: "bytes", Bars: []Bar{{Name: "small", Value: 482, Text: "482 B"}, {Name: "large", Value: 117.8e6, Text: "117.8 MB", Claim: true, Series: 1}}},
		{Label: "ms", Bars: []Bar{{Name: "only", Value: 14e-6, Text: "14 ns"}}},
	}}
	var svg bytes.Buffer
	if err := b.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sizes &lt;and&gt; times", "small", "482 B", "117.8 MB", "only", "14 ns", "bytes"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	var picture bytes.Buffer
	if err := b.WritePNG(&picture); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&picture); err != nil {
		t.Error(err)
	}
	for _, wrong := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		b.Panels[1].Bars[0].Value = wrong
		if err := b.WriteSVG(io.Discard); err == nil {
			t.Errorf("a bar of %v was drawn", wrong)
		}
	}
	b.Panels[1].Bars = nil
	if err := b.WriteSVG(io.Discard); err == nil {
		t.Error("a panel without bars was drawn")
	}
}

// TestLogY: a logarithmic axis has named ticks at 1, 2 and 5 times powers of ten, and
// refuses what it cannot show.
func TestLogY(t *testing.T) {
	var named []string
	all := logTicks{}.Ticks(math.Log10(0.13), math.Log10(4.5))
	for _, tick := range all {
		if v := math.Pow(10, tick.Value); v < 0.13 || v > 4.5 || tick.Label != "" && fmt.Sprintf("%.3g", v) != tick.Label {
			t.Errorf("a tick at %v, called %q", v, tick.Label)
		}
		if tick.Label != "" {
			named = append(named, tick.Label)
		}
	}
	if got := strings.Join(named, " "); got != "0.2 0.5 1 2" || len(all) != 12 {
		t.Errorf("ticks %q, %d in all; want 0.2 0.5 1 2, 12", got, len(all))
	}
	c := Chart{LogY: true, Series: []Series{{Name: "a", X: []float64{1, 2, 3}, Y: []float64{1, 0.1, 0.01}}}}
	var b bytes.Buffer
	if err := c.WriteSVG(&b); err != nil || !strings.Contains(b.String(), ">0.02<") {
		t.Errorf("%v; no tick 0.02 in %d bytes", err, b.Len())
	}
	c.Series[0].Y[2] = 0
	if err := c.WriteSVG(&b); err == nil {
		t.Error("zero on a logarithmic axis was drawn")
	}
}
