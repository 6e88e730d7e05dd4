package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// elements counts the elements of an XML text by name, and calls each with those that
// have a place.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	count := map[string]int{}
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		count[start.Name.Local]++
		for _, a := range start.Attr {
			switch a.Name.Local {
			case "cx", "cy", "x", "y":
				if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < 0 || v > 720 {
					t.Errorf("%s at %s=%q", start.Name.Local, a.Name.Local, a.Value)
				}
			}
			if strings.Contains(a.Value, "NaN") {
				t.Errorf("%s has %s=%q", start.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

// TestInline: well-formed XML within its frame, a circle for every point and sign, a
// gap where there is no value.
func TestInline(t *testing.T) {
	c := frontierChart()
	c.Title = "a < b & c"
	c.Marks = []Mark{{Name: "cap", X: 3}}
	var b bytes.Buffer
	if err := c.WriteInline(&b, InlineOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := elements(t, b.String())["circle"]; n != 3+4+1 { // and the sign of the scattered ones
		t.Errorf("%d circles", n)
	}
	if strings.Contains(b.String(), "http") && strings.Count(b.String(), "http") != strings.Count(b.String(), "http://www.w3.org/2000/svg") {
		t.Error("something from elsewhere")
	}

	gap := Chart{FromZero: true, Series: []Series{
		{Name: "limit", X: []float64{0, 1, 2, 3, 4}, Y: []float64{5, math.NaN(), 7, 8, 8}, Steps: true, Dashed: true},
		{Name: "band", X: []float64{0, 4}, Y: []float64{1, 2}, Deviation: []float64{0.1, 0.2}},
	}}
	b.Reset()
	if err := gap.WriteInline(&b, InlineOptions{Width: 300, Height: 200}); err != nil {
		t.Fatal(err)
	}
	elements(t, b.String())
	p := inline{chart: gap, width: 300, height: 200, top: 30}
	p.xs, p.ys = gap.spans()
	d := p.path(gap.Series[0])
	if strings.Count(d, "M") != 2 || strings.Count(d, "V") != 2 || strings.Count(d, "H") != 3 {
		t.Errorf("path %s", d)
	}
	if p.ys.low != 0 || p.ys.high != 8 {
		t.Errorf("axis over %v", p.ys)
	}
	for _, bad := range []Series{{X: []float64{1}}, {X: []float64{1}, Y: []float64{1}, Deviation: []float64{}}} {
		if err := (Chart{Series: []Series{bad}}).WriteInline(&b, InlineOptions{}); err == nil {
			t.Errorf("%+v", bad)
		}
	}
}

// TestInlineNames: names that do not fit a line go on to the next.
func TestInlineNames(t *testing.T) {
	c := Chart{}
	for range 7 {
		c.Series = append(c.Series, Series{Name: "a name of some length", X: []float64{1}, Y: []float64{1}})
	}
	p := inline{chart: c, width: 400, height: 300}
	places, top := p.arrange()
	lines := map[float64]bool{}
	for _, at := range places {
		lines[at[1]] = true
		if at[1] >= top || at[0] > 400-100 {
			t.Errorf("name at %v, axes from %v", at, top)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines of names", len(lines))
	}
}
