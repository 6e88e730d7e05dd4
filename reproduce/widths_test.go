package reproduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tips/plot"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

func (madeUpJudge) Calibration() int { return 48 }

type otherCalibration struct{ madeUpJudge }

func (otherCalibration) Calibration() int { return 47 }

type otherImages struct{ madeUpJudge }

func (otherImages) Accuracy(context.Context, supernet.Subnet) (int, int, *weights.Statistics, error) {
	return 1, 1, nil, nil
}

func TestWidths(t *testing.T) {
	n := network(t, table1Network)
	usual := made{network: table1Network, method: "tips", seed: 1, holdout: 32, rate: 0.05}
	with := func(change func(*made)) string {
		m := usual
		change(&m)
		return madeUp(t, m)
	}
	runs := []string{
		with(func(m *made) {}),
		with(func(m *made) { m.method = "us-nets" }),
		with(func(m *made) { m.seed = 2 }),
	}
	plus := map[string]int{runs[0]: 20, runs[1]: 10, runs[2]: 40}
	var progress []int
	o := WidthsOptions{
		Runs:     runs,
		Ratios:   []float64{1, 0.5, 0.75}, // in any order
		Judge:    func(run string) (CalibratingJudge, error) { return madeUpJudge{n, plus[run], "test"}, nil },
		Progress: func(done, total int) { progress = append(progress, done, total) },
	}
	f, err := Widths(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	goldenFigure(t, f, "widths")
	if want := 3 * 3 * 3; len(progress) != 2*want || progress[len(progress)-2] != want || progress[len(progress)-1] != want {
		t.Errorf("progress %v; want up to %d", progress, want)
	}
	sheet := f.Picture.(plot.Sheet)
	if len(sheet) != 3 || len(sheet[0].Series) != 2 || len(sheet[2].Series[1].X) != 3 || sheet[1].Series[0].Y[2] != 83 || math.Abs(sheet[0].Floor-75.3) > 1e-9 {
		t.Errorf("drawn is %+v", sheet)
	}

	// The data alone give the same figure.
	again, err := ReadWidths(strings.NewReader(csvOf(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := errors.Join(f.Drawn().WriteSVG(&first), again.Drawn().WriteSVG(&second)); err != nil {
		t.Fatal(err)
	}
	if csvOf(t, f) != csvOf(t, again) || textOf(f) != textOf(again) || f.Name != again.Name || f.Caption != again.Caption || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("from its data the figure is\n%s\nwant\n%s", textOf(again), textOf(f))
	}

	o.Ratios = nil
	if f, err = Widths(context.Background(), o); err != nil || len(f.Rows) != 3*3*8 || f.Rows[0][7] != "0.35" {
		t.Errorf("%d rows (%v); want eight ratios from 0.35 on", len(f.Rows), err)
	}
	kept := with(func(m *made) { m.method = "ofa" })
	if err := errors.Join(os.Remove(filepath.Join(kept, train.WeightsFile)), os.WriteFile(filepath.Join(kept, testedFile), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		runs   []string
		judge  string
		ratios []float64
		usage  bool
		want   string
	}{
		"none":          {nil, "test", nil, true, "no runs to compare"},
		"too narrow":    {runs, "test", []float64{0.2, 1}, true, "--ratios 0.2; want ratios from 0.35, the least of resnet_small:"},
		"too wide":      {runs, "test", []float64{0.5, 1.5}, true, "--ratios 1.5; want ratios from 0.35"},
		"ratio twice":   {runs, "test", []float64{0.5, 1, 0.5}, true, "--ratios 0.5; want"},
		"many ratios":   {runs, "test", make([]float64, 100), true, "100 --ratios; want at most 50"},
		"twice":         {[]string{runs[0], runs[0]}, "test", nil, false, "are both of tips with seed 1"},
		"kept":          {[]string{kept}, "test", nil, false, "the run was kept without weights"},
		"other network": {[]string{runs[0], with(func(m *made) { m.method, m.network = "us-nets", table1Network+",min=0.3" })}, "test", nil, false, "differ in more than method and seed"},
		"cannot shrink": {[]string{with(func(m *made) { m.network = "resnet_small:min=1" })}, "test", nil, true, "want a network whose widths can shrink"},
		"wrong images":  {runs[:1], "held-out", nil, false, "is judged by held-out images; want test"},
		"nowhere":       {[]string{"nowhere"}, "test", nil, false, "want the folder of a training run"},
	} {
		bad := o
		bad.Runs, bad.Ratios = c.runs, c.ratios
		bad.Judge = func(string) (CalibratingJudge, error) { return madeUpJudge{n, 0, c.judge}, nil }
		_, err := Widths(context.Background(), bad)
		if err == nil || !strings.Contains(err.Error(), c.want) || IsUsage(err) != c.usage {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	o.Judge = func(run string) (CalibratingJudge, error) {
		j := madeUpJudge{n, 0, "test"}
		if run == runs[1] {
			return otherCalibration{j}, nil
		}
		return j, nil
	}
	if _, err := Widths(context.Background(), o); err == nil || !strings.Contains(err.Error(), "is calibrated on 47 images, and the first run on 48; --calibration says") {
		t.Errorf("calibrated on different images: %v", err)
	}
	o.Judge = func(run string) (CalibratingJudge, error) {
		j := madeUpJudge{n, 0, "test"}
		if run == runs[1] {
			return otherImages{j}, nil
		}
		return j, nil
	}
	if _, err := Widths(context.Background(), o); err == nil || !strings.Contains(err.Error(), "is judged by 1 test image, and the first run by 1000; not to be compared") {
		t.Errorf("judged by different images: %v", err)
	}
	failing := errors.New("no judge today")
	o.Judge = func(string) (CalibratingJudge, error) { return nil, failing }
	if _, err := Widths(context.Background(), o); !errors.Is(err, failing) {
		t.Errorf("a judge that fails: %v", err)
	}
}

// TestWidthFamilies: what is narrow is what the family says, and nothing else.
func TestWidthFamilies(t *testing.T) {
	for name, families := range map[string]int{"mobilenet_v2:width=1.4,data=cifar100": 3, "resnet34": 3, "resnet50": 3, "mlp": 3, "mlp:depth=2": 1, "resnet_small": 3} {
		n := network(t, name)
		var w widths
		list, err := w.choose(n, []float64{0.35, 0.5, 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 3*families {
			t.Errorf("%s: %d subnetworks; want those of %d families", name, len(list), families)
		}
		for i, s := range list {
			at := w.at[i]
			k := slices.IndexFunc(widthFamilies, func(f widthFamily) bool { return f.name == at.family })
			narrow := widthFamilies[k].groups(n)
			channels, without, err := n.Widths(s)
			if err != nil || len(without) > 0 {
				t.Fatalf("%s: %s leaves out %v (%v)", name, s, without, err)
			}
			for g, group := range n.Groups() {
				want := group.Channels
				if slices.Contains(narrow, g) {
					want = group.Round(at.ratio)
				}
				if channels[g] != want {
					t.Errorf("%s, %s at %v: group %s has %d channels; want %d", name, at.family, at.ratio, group.Name, channels[g], want)
				}
			}
			if at.ratio == 1 && !s.IsFull() || at.ratio < 1 && s.IsFull() {
				t.Errorf("%s, %s at %v: %s", name, at.family, at.ratio, s)
			}
		}
		if list[0] != n.Smallest() {
			t.Errorf("%s: with all widths at 0.35 it is %s, and not the smallest", name, list[0])
		}
	}
}

// widthsText is a file of two runs.
func widthsText(lines ...string) string {
	return strings.Join(widthsHeader, ",") + "\n" + strings.Join(lines, "\n") + "\n"
}

// FuzzWidths: whatever a file of the figure's data holds is refused, or is what the
// figure would write.
func FuzzWidths(f *testing.F) {
	line := func(label, family, ratio, subnet, macs, correct, images string) string {
		return fmt.Sprintf(`"mobilenet_v2:width=1.4,data=cifar100",CIFAR-100,60,2048,%s,1,%s,%s,%s,%s,%s,%s`, label, family, ratio, subnet, macs, correct, images)
	}
	a, b, c := line("tips", "all", "0.5", "w1.2", "10", "5", "9"), line("tips", "all", "1", "full", "20", "7", "9"), line(`"tips, factor 1"`, "all", "0.5", "w1.2", "10", "5", "9")
	d := line(`"tips, factor 1"`, "all", "1", "full", "20", "9", "9")
	good := widthsText(a, b, c, d)
	if _, err := readWidths(strings.NewReader(good)); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	many := []string{a}
	for i := range 8 {
		many = append(many, line(fmt.Sprint("m", i), "all", "0.5", "w1.2", "10", "5", "9"))
	}
	for bad, want := range map[string]string{
		"":                  "want the columns network,data,",
		widthsText()[:20]:   "want the columns",
		widthsText():        "no line below the header",
		widthsText("a,b"):   "wrong number of fields",
		widthsText(a, b, c): "has 1 subnetworks; want 2",
		widthsText(a, c, d): "has more subnetworks than the 1",
		widthsText(a, b, a): "want at most 50 rising ones",
		widthsText(b, a):    "rising",
		widthsText(many...): "runs of 9 methods; want at most 8",
		widthsText(a, line("tips", "some", "1", "full", "20", "7", "9")):                  `family "some"; want all, trunk, inner`,
		widthsText(line("tips", "trunk", "1", "full", "20", "7", "9"), a):                 `family "all"; want`,
		widthsText(a, line("tips", "trunk", "1", "full", "20", "7", "9")):                 "want the same for all families",
		widthsText(a, b, c, line(`"tips, factor 1"`, "all", "1", "full", "21", "9", "9")): "want all at 1, full, as in the first run",
		widthsText(line("tips", "all", "0", "w1.2", "10", "5", "9")):                      `ratio "0"; want`,
		widthsText(line("tips", "all", "0.50", "w1.2", "10", "5", "9")):                   `ratio "0.50"; want`,
		widthsText(line("tips", "all", "NaN", "w1.2", "10", "5", "9")):                    `ratio "NaN"; want`,
		widthsText(line("tips", "all", "0.5", "", "10", "5", "9")):                        "want a name in print",
		widthsText(line("", "all", "0.5", "w1.2", "10", "5", "9")):                        "want a name in print",
		widthsText(line("\"a\x1bb\"", "all", "0.5", "w1.2", "10", "5", "9")):              "want a name in print",
		widthsText(line("tips", "all", "0.5", "w1.2", "-1", "5", "9")):                    `macs "-1"; want`,
		widthsText(line("tips", "all", "0.5", "w1.2", "10", "10", "9")):                   "10 of 9 images right",
		widthsText(line("tips", "all", "0.5", "w1.2", "10", "05", "9")):                   "05 of 9 images right",
		widthsText(a, line("tips", "all", "1", "full", "20", "7", "10")):                  "want as many images as in the first line",
		strings.ReplaceAll(good, "mobilenet_v2", "../mobilenet_v2"):                       "want a name of letters",
		strings.ReplaceAll(good, "width=1.4", "\x1b"):                                     "want a name in print",
		strings.ReplaceAll(good, "CIFAR-100", "../x"):                                     "the data is called",
		strings.Replace(good, "CIFAR-100", "CIFAR-10", 1):                                 `data "CIFAR-100"; want "CIFAR-10" as in the first line`,
		strings.ReplaceAll(good, ",60,", ",-60,"):                                         `epochs "-60"; want`,
		strings.ReplaceAll(good, ",2048,", ",many,"):                                      `calibration "many"; want`,
		strings.ReplaceAll(good, "tips,1,", "tips,one,"):                                  `seed "one"; want`,
		strings.Join(widthsHeader, ",") + strings.Repeat("\n"+a, maxTestedBytes/len(a)):   "more than 4194304 bytes",
	} {
		if _, err := readWidths(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), want) {
			f.Errorf("%.500q: %v; want %q", bad, err, want)
		}
		if len(bad) < 10000 {
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := readWidths(strings.NewReader(text))
		if err != nil {
			return
		}
		figure := w.figure()
		written := csvOf(t, figure)
		again, err := readWidths(strings.NewReader(written))
		if err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		if csvOf(t, again.figure()) != written || len(figure.Rows) != len(w.at)*len(w.runs) || strings.ContainsAny(figure.Name, `/\.`) {
			t.Errorf("%s is read as\n%s", written, csvOf(t, again.figure()))
		}
		if err := figure.Drawn().WriteSVG(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}
