package plot

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// frontierChart is two series as a search leaves them.
func frontierChart() Chart {
	return Chart{
		Title: "net", XLabel: "MACs (M)", YLabel: "accuracy (%)",
		Series: []Series{
			{Name: "frontier", X: []float64{1, 2, 4}, Y: []float64{80, 86, 88}, Deviation: []float64{1, 1, 1}, Bars: true, Steps: true},
			{Name: "judged", X: []float64{1, 3, 4, 5}, Y: []float64{80, 84, 82, 87}, Scatter: true},
		},
	}
}

// TestText: as people see it, in both character sets.
func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := frontierChart().WriteText(&b, TextOptions{Width: 40, Height: 9}); err != nil {
		t.Fatal(err)
	}
	want := ` accuracy (%)
 88 ┤                         ●
    │                                 ·
 86 ┤         ●
    │
 84 ┤                 ·
    │
 82 ┤                         ·
    │
 80 ┤ ●
    └─┬───────┬───────┬───────┬───────┬─
      1       2       3       4       5
     MACs (M)   ● frontier   · judged
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
	b.Reset()
	if err := frontierChart().WriteText(&b, TextOptions{Width: 40, Height: 9, ASCII: true}); err != nil {
		t.Fatal(err)
	}
	ascii := strings.NewReplacer("┤", "+", "│", "|", "└", "+", "─", "-", "┬", "+", "●", "o", "·", ".").Replace(want)
	if d := cmp.Diff(ascii, b.String()); d != "" {
		t.Error(d)
	}
	b.Reset()
	if err := frontierChart().WriteText(&b, TextOptions{Width: 40, Height: 9, Colour: true}); err != nil {
		t.Fatal(err)
	}
	if plain := strings.NewReplacer("\x1b[94m", "", "\x1b[90m", "", "\x1b[0m", "").Replace(b.String()); plain != want {
		t.Error(cmp.Diff(want, plain))
	}

	if err := (Chart{Series: []Series{{X: []float64{1}}}}).WriteText(&b, TextOptions{}); err == nil {
		t.Error("a series with 1 x and no y")
	}
	if err := (Chart{YLabel: "µs", XLabel: "×"}).WriteText(&b, TextOptions{ASCII: true}); err != nil {
		t.Error(err)
	}
}

// TestTextFits: whatever is drawn keeps to its width and its characters, and shows
// a sign of every series.
func TestTextFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, 1e-9, 1e12, -3}))
		s := Series{Name: "s"}
		for range rapid.IntRange(1, 30).Draw(t, "points") {
			s.X, s.Y = append(s.X, value.Draw(t, "x")), append(s.Y, value.Draw(t, "y"))
		}
		c := Chart{XLabel: "µs", YLabel: "%", Series: []Series{s}, FromZero: rapid.Bool().Draw(t, "zero")}
		if rapid.Bool().Draw(t, "gap") {
			c.Series[0].X, c.Series[0].Y = append(c.Series[0].X, 1), append(c.Series[0].Y, math.NaN())
		}
		o := TextOptions{Width: rapid.IntRange(40, 90).Draw(t, "width"), Height: rapid.IntRange(4, 20).Draw(t, "height"), ASCII: true}
		var b bytes.Buffer
		if err := c.WriteText(&b, o); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > o.Width+6 {
				t.Errorf("%d characters of %d: %q", n, o.Width, line)
			}
			for _, r := range line {
				if r > '~' || r < ' ' && r != '\n' {
					t.Fatalf("%q in %q", r, line)
				}
			}
		}
		if strings.Count(b.String(), "o") < 2 { // one is the legend's
			t.Errorf("no point is drawn:\n%s", b.String())
		}
	})
}

// TestTicks: rising round numbers within the span, neither few nor many, and told
// apart by the digits they are written with.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		s := span{low, low + rapid.Float64Range(1e-3, 1e6).Draw(t, "size")}
		want := rapid.IntRange(2, 12).Draw(t, "want")
		values, decimals := s.ticks(want)
		if len(values) < want/2-1 || len(values) > 2*want+2 {
			t.Errorf("%d ticks over %v; %d wanted", len(values), s, want)
		}
		seen := map[string]bool{}
		for _, v := range values {
			if v < s.low-(s.high-s.low)*1e-6 || v > s.high+(s.high-s.low)*1e-6 {
				t.Errorf("tick %v of %v", v, s)
			}
			if text := tickText(v, decimals); seen[text] {
				t.Errorf("two ticks at %s", text)
			} else {
				seen[text] = true
			}
		}
	})
}
