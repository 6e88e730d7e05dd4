package dataset

import (
	"hash/crc32"
	"math"
	"testing"
)

// TestSynthetic: the same bytes on every machine and with every version.
func TestSynthetic(t *testing.T) {
	sum := func(s Source) uint32 {
		m := s.(*Memory)
		return crc32.Update(crc32.ChecksumIEEE(m.pixels), crc32.IEEETable, m.labels)
	}
	d := synthetic(t, "")
	if d.Train.Len() != 512 || d.Test.Len() != 128 || d.Classes != 10 || d.Size != 16 || d.Channels != 1 || len(d.ClassNames) != 10 || len(d.Mean) != 1 {
		t.Errorf("%+v", d)
	}
	if a, b := sum(d.Train), sum(d.Test); a != 0x570e864d || b != 0xf2568a65 {
		t.Errorf("checksums %#08x and %#08x", a, b)
	}
	if sum(d.Train) == sum(synthetic(t, "seed=2").Train) {
		t.Error("another seed, the same pictures")
	}
	for spec, want := range map[string]string{
		"classes=1":                 "1 classes",
		"classes=257":               "257 classes",
		"channels=2":                "2 channels",
		"noise=256":                 "noise 256",
		"size=3":                    "size 3",
		"size=100000":               "size 100000",
		"train=0":                   "0 pictures",
		"test=-1":                   "-1 pictures",
		"train=99999999":            "99999999 pictures",
		"size":                      "option \"size\" is no whole number",
		"size=x":                    "option \"size=x\" is no whole number",
		"colour=3":                  "option \"colour=3\"; each of channels, classes, noise, seed, size, test, train may be set once",
		"size=8,size=9":             "option \"size=9\"",
		"size=8,":                   "option \"\"",
		"size=99999999999999999999": "no whole number",
	} {
		_, err := Open("synthetic:" + spec)
		oneLine(t, spec, err, want)
	}
}

// TestLearnable: a linear classifier tells most test pictures apart after a few
// passes, so a small network will; and it does not at the first.
func TestLearnable(t *testing.T) {
	for _, spec := range []string{"", "size=8", "noise=160", "classes=4,size=32,channels=3,train=256"} {
		d := synthetic(t, spec)
		n := d.Size * d.Size * d.Channels
		w := make([]float64, d.Classes*n)
		o := LoaderOptions{Batch: 16, Height: d.Size, Width: d.Size, Channels: d.Channels, Pipeline: d.Pipeline(), Shuffle: true}
		train := loader(t, d.Train, o)
		o.Pipeline, o.Shuffle = o.Pipeline.Evaluation(), false
		test := loader(t, d.Test, o)
		loss := func(l *Loader, epoch int, rate float64) (sum, right float64) {
			p := make([]float64, d.Classes)
			for b, err := range l.Epoch(t.Context(), epoch, 0) {
				if err != nil {
					t.Fatal(err)
				}
				for k := range b.N {
					x := b.Images[k*n : (k+1)*n]
					var total float64
					best := 0
					for c := range p {
						var y float64
						for i, v := range x {
							y += w[c*n+i] * float64(v)
						}
						p[c] = math.Exp(y)
						total += p[c]
						if p[c] > p[best] {
							best = c
						}
					}
					label := int(b.Labels[k])
					sum -= math.Log(p[label] / total)
					if best == label {
						right++
					}
					for c := range p {
						g := p[c] / total
						if c == label {
							g--
						}
						for i, v := range x {
							w[c*n+i] -= rate * g * float64(v)
						}
					}
				}
			}
			return sum / float64(l.source.Len()), right / float64(l.source.Len())
		}
		first, _ := loss(test, 0, 0)
		for epoch := range 6 {
			loss(train, epoch, 0.3/float64(n))
		}
		last, right := loss(test, 0, 0)
		t.Logf("%q: loss %.3f, then %.3f; %.1f %% right", spec, first, last, 100*right)
		if math.Abs(first-math.Log(float64(d.Classes))) > 1e-9 || last > first/3 || right < 0.9 {
			t.Errorf("%q: loss %.3f, then %.3f; %.1f %% right", spec, first, last, 100*right)
		}
	}
}
