package dataset

import (
	"math"
	"math/rand/v2"
	"testing"
)

func jittered(t *testing.T, p Pipeline, pic Picture, channels int, seed uint64) []float32 {
	t.Helper()
	tr, err := NewTransform(p, pic.Height, pic.Width, channels)
	if err != nil {
		t.Fatal(err)
	}
	to := make([]float32, pic.Height*pic.Width*channels)
	if err := tr.Apply(to, pic, rand.New(rand.NewPCG(seed, 9))); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestJitter finds out which factor was drawn by one pixel, and checks all others
// by the definition of the change.
func TestJitter(t *testing.T) {
	pic := Picture{4, 1, 3, []byte{100, 120, 90, 60, 60, 60, 110, 70, 90, 130, 90, 120}}
	plain := jittered(t, Pipeline{}, pic, 3, 0)
	grey := func(i int) float64 {
		return 0.2989*float64(plain[i/3*3]) + 0.587*float64(plain[i/3*3+1]) + 0.114*float64(plain[i/3*3+2])
	}
	mean := (grey(0) + grey(3) + grey(6) + grey(9)) / 4
	for name, test := range map[string]struct {
		p    Pipeline
		base func(i int) float64 // what a factor of 0 would leave
	}{
		"brightness": {Pipeline{Brightness: 0.4}, func(int) float64 { return 0 }},
		"contrast":   {Pipeline{Contrast: 0.4}, func(int) float64 { return mean }},
		"saturation": {Pipeline{Saturation: 0.4}, grey},
	} {
		least, most := 9.0, 0.0
		for seed := range uint64(300) {
			got := jittered(t, test.p, pic, 3, seed)
			factor := (float64(got[0]) - test.base(0)) / (float64(plain[0]) - test.base(0))
			least, most = min(least, factor), max(most, factor)
			for i := range got {
				want := test.base(i) + factor*(float64(plain[i])-test.base(i))
				if math.Abs(float64(got[i])-want) > 1e-4 {
					t.Fatalf("%s by %v: value %d is %v; want %v", name, factor, i, got[i], want)
				}
			}
		}
		if least < 0.599 || least > 0.62 || most < 1.38 || most > 1.401 {
			t.Errorf("%s: factors %v to %v; want 0.6 to 1.4", name, least, most)
		}
	}
}

// TestHue turns colours round the circle and compares with the definition of hue.
func TestHue(t *testing.T) {
	red := func(turn float32) [3]float32 {
		r, g, b := turnHue(1, 0, 0, turn)
		return [3]float32{r, g, b}
	}
	for turn, want := range map[float32][3]float32{
		0: {1, 0, 0}, 1. / 6: {1, 1, 0}, 1. / 3: {0, 1, 0}, 0.5: {0, 1, 1}, -0.5: {0, 1, 1}, -1. / 3: {0, 0, 1}, -1. / 6: {1, 0, 1},
	} {
		got := red(turn)
		for c := range 3 {
			if math.Abs(float64(got[c]-want[c])) > 1e-5 {
				t.Errorf("red turned by %v is %v; want %v", turn, got, want)
				break
			}
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		r, g, b := rng.Float32(), rng.Float32(), rng.Float32()
		turn := rng.Float32() - 0.5
		r2, g2, b2 := turnHue(r, g, b, turn)
		if d := max(r, g, b) - max(r2, g2, b2); d > 1e-6 || d < -1e-6 {
			t.Fatalf("value changed by %v", d)
		}
		if d := min(r, g, b) - min(r2, g2, b2); d > 1e-5 || d < -1e-5 {
			t.Fatalf("least channel changed by %v", d)
		}
		for c, want := range rotate(r, g, b, turn) {
			if got := [3]float32{r2, g2, b2}[c]; math.Abs(float64(got-want)) > 1e-4 {
				t.Fatalf("channel %d is %v; want %v", c, got, want)
			}
		}
	}
	if r, g, b := turnHue(0.4, 0.4, 0.4, 0.3); r != 0.4 || g != 0.4 || b != 0.4 {
		t.Error("grey changed")
	}
}

// rotate is the textbook's way: hue, saturation and value, then back by the six
// cases.
func rotate(r, g, b, turn float32) [3]float32 {
	value, least := float64(max(r, g, b)), float64(min(r, g, b))
	spread := value - least
	var hue float64
	switch value {
	case float64(r):
		hue = math.Mod(float64(g-b)/spread+6, 6)
	case float64(g):
		hue = float64(b-r)/spread + 2
	default:
		hue = float64(r-g)/spread + 4
	}
	hue = math.Mod(hue/6+float64(turn)+2, 1)
	sector := math.Floor(hue * 6)
	f, s := hue*6-sector, spread/value
	p, q, u := value*(1-s), value*(1-s*f), value*(1-s*(1-f))
	cases := [6][3]float64{{value, u, p}, {q, value, p}, {p, value, u}, {p, q, value}, {u, p, value}, {value, p, q}}
	c := cases[int(sector)%6]
	return [3]float32{float32(c[0]), float32(c[1]), float32(c[2])}
}

// TestJitterGrey: grey pictures keep their three channels alike, and colours of one
// channel do not exist.
func TestJitterGrey(t *testing.T) {
	p := Pipeline{Brightness: 0.4, Contrast: 0.4, Saturation: 0.4, Hue: 0.5}
	for seed := range uint64(20) {
		grey := jittered(t, p, pattern(5, 5, 1), 3, seed)
		for i := 0; i < len(grey); i += 3 {
			if d := max(grey[i], grey[i+1], grey[i+2]) - min(grey[i], grey[i+1], grey[i+2]); d > 1e-5 {
				t.Fatalf("colours %v from grey", grey[i:i+3])
			}
		}
		a, b := jittered(t, Pipeline{Hue: 0.5, Saturation: 0.9}, pattern(5, 5, 1), 1, seed), jittered(t, Pipeline{}, pattern(5, 5, 1), 1, seed)
		for i := range a {
			if a[i] != b[i] {
				t.Fatal("hue and saturation changed a grey picture")
			}
		}
	}
}
