package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tips/demo"
	"tips/frontier"
	"tips/recipes"
	"tips/report"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
)

// quickTest is a quickstart of made-up pictures and a tiny network.
func quickTest(t *testing.T, out string, stdout io.Writer) *quickOptions {
	t.Helper()
	r, err := recipes.Open("synthetic")
	if err != nil {
		t.Fatal(err)
	}
	r.Data, r.Epochs, r.Holdout, r.Evaluate.Calibration = "synthetic:train=320,test=64", 2, 64, 64
	return &quickOptions{
		out: out, recipe: r, images: "made-up images", evaluations: 12, falls: 2, each: 40 * time.Millisecond, stdout: stdout, stderr: io.Discard,
	}
}

// cancelAt cancels when a text is written.
type cancelAt struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (c *cancelAt) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if strings.Contains(c.String(), c.text) {
		c.cancel()
	}
	return n, err
}

// TestQuickstart: interrupted in each of its steps it goes on, leaves everything in
// one folder, and does not do again what is done.
func TestQuickstart(t *testing.T) {
	out := filepath.Join(t.TempDir(), "quick")
	for _, text := range []string{"2. Train", "3. Search", "4. Run"} {
		ctx, cancel := context.WithCancel(context.Background())
		w := &cancelAt{text: text, cancel: cancel}
		err := quickTest(t, out, w).run(ctx)
		var s stopped
		if !errors.As(err, &s) || !strings.Contains(err.Error(), "run the same command again") {
			t.Fatalf("interrupted at %q: error %v, output:\n%s", text, err, w)
		}
	}
	var b bytes.Buffer
	if err := quickTest(t, out, &b).run(context.Background()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"1. Analyse", "2. Train", "holds a finished training", "3. Search", "12 subnetworks judged by 64 held-out images", "accuracy (%)", "4. Run", "What next", " run " + out + " "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			t.Errorf("control characters where nobody looks: %q", line)
		}
		if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, out) {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
	for _, name := range []string{
		train.RecipeFile, train.NetworkFile, train.MetricsFile, train.WeightsFile, train.CurvesFile, "network.svg", frontierFile, frontierPicture, report.TraceFile, report.File,
	} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	checkPage(t, filepath.Join(out, report.File))
	checkPictures(t, filepath.Join(out, picturesFolder), 10)
	checkTrace(t, out)
	checkNext(t, out)

	// A new start forgets all of it.
	ctx, cancel := context.WithCancel(context.Background())
	fresh := quickTest(t, out, &cancelAt{text: "2. Train", cancel: cancel})
	fresh.fresh = true
	if err := fresh.run(ctx); err == nil {
		t.Error("not interrupted")
	}
	if _, err := os.Stat(filepath.Join(out, train.WeightsFile)); err == nil {
		t.Error("old weights beside a new start")
	}
	// Another recipe's folder is refused.
	other := quickTest(t, out, io.Discard)
	other.recipe.Seed = 99
	if err := other.run(context.Background()); err == nil || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("error %v", err)
	}
}

// checkNext wants the commands that are recommended to work on what is there.
func checkNext(t *testing.T, out string) {
	t.Helper()
	r, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, c := range r.Commands("tips", filepath.Join(out, picturesFolder)) {
		line := strings.Replace(c.Line, "--evaluations 300", "--evaluations 15", 1)
		var stdout, stderr bytes.Buffer
		if status := run(strings.Fields(line)[1:], &stdout, &stderr); status != 0 || stdout.Len() == 0 {
			t.Errorf("%s: exit status %d, %s", line, status, &stderr)
		}
	}
}

// checkPage wants a well-formed page that needs nothing from elsewhere, with all its
// pictures.
func checkPage(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	dec := xml.NewDecoder(bytes.NewReader(data))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
			for _, a := range start.Attr {
				if a.Name.Local == "src" || a.Name.Local == "href" {
					t.Errorf("%s has %s=%q", start.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	// The graph, two curves, the frontier, three of the demo.
	if count["svg"] != 7 || count["h2"] != 6 || count["script"] != 0 || count["table"] != 3 {
		t.Errorf("%s: %v", name, count)
	}
}

func checkPictures(t *testing.T, dir string, want int) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != want {
		t.Fatalf("%v, %v", list, err)
	}
	for _, e := range list {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(f); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
		f.Close()
	}
}

// checkTrace wants subnetworks that respond to budgets.
func checkTrace(t *testing.T, dir string) {
	t.Helper()
	trace, err := demo.Open(filepath.Join(dir, report.TraceFile))
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(dir, train.NetworkFile))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	n, err := supernet.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	f, err := frontier.Open(filepath.Join(dir, frontierFile), n)
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Periods) != 5 || len(trace.Times) != len(f.Points) {
		t.Fatalf("%+v", trace)
	}
	low, high := f.Points[0], f.Points[len(f.Points)-1]
	for i, p := range trace.Periods {
		if p.MACs > 0 && p.Cost > p.MACs || i%4 == 0 && p.Cost != high.Costs.MACs || i == 2 && p.Subnet != low.Subnet.String() {
			t.Errorf("budget %d: %+v", i+1, p)
		}
	}
}

// TestScreen: what environments ask for.
// TestQuickDemoLines: a line is written again only where it fits.
func TestQuickDemoLines(t *testing.T) {
	n, err := zoo.New("mlp")
	if err != nil {
		t.Fatal(err)
	}
	f := &frontier.Frontier{Network: n, Points: []frontier.Point{{}}}
	p := demo.Period{Subnet: "full", Cost: 123456, Pictures: 10, Kept: 10, Correct: 9, Median: 9999 * time.Microsecond, Time: 9999 * time.Microsecond, Length: time.Second}
	for _, c := range []struct {
		show  screen
		lines int // that begin anew
	}{{screen{width: 80}, 0}, {screen{width: 80, live: true}, 2}, {screen{width: 79, live: true}, 0}} {
		var b bytes.Buffer
		q := quickDemo{out: &b, show: c.show, front: f}
		q.period(0, p, false)
		q.period(0, p, true)
		text := b.String()
		if got := strings.Count(text, "\r"); got != c.lines || strings.Count(text, "\n") != 1 {
			t.Errorf("%+v: %q", c.show, text)
		}
		text = strings.NewReplacer("\r", "", "\x1b[K", "").Replace(text)
		for line := range strings.Lines(text) {
			if got := len([]rune(strings.TrimSuffix(line, "\n"))); c.lines == 0 && got > demoWidth {
				t.Errorf("a line of %d characters: %q", got, line)
			}
		}
	}
}

func TestScreen(t *testing.T) {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG", "NO_COLOR", "TERM", "COLUMNS"} {
		t.Setenv(name, "")
	}
	if s := newScreen(&bytes.Buffer{}); s != (screen{width: 80}) {
		t.Errorf("%+v", s)
	}
	t.Setenv("LANG", "en_GB.UTF-8")
	t.Setenv("COLUMNS", "60")
	if s := newScreen(&bytes.Buffer{}); s != (screen{width: 60}) {
		t.Errorf("%+v", s)
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("COLUMNS", "200")
	s := newScreen(&bytes.Buffer{})
	if s != (screen{width: 80, ascii: true}) {
		t.Errorf("%+v", s)
	}
	if got := s.bar(0.5, 10) + s.bold("x"); got != "#####x" {
		t.Errorf("%q", got)
	}
	if got := s.shortened("12345", 5) + s.shortened("123456", 5); got != "123451234~" {
		t.Errorf("%q", got)
	}
	if got := (screen{}).shortened("123456", 5); got != "1234…" {
		t.Errorf("%q", got)
	}
	s = screen{colour: true}
	if got := s.bar(0.55, 10); got != "█████▌" {
		t.Errorf("%q", got)
	}
	if s.bar(7, 3) != "███" || s.bar(-1, 3) != "" || s.bold("x") != "\x1b[1mx\x1b[0m" {
		t.Error(s.bar(7, 3))
	}
	for called, want := range map[string]string{"tips": "tips", "./tips": "./tips", "/tmp/go-build123/b001/exe/tips": "go run ./cmd/tips"} {
		if got := self(called); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	for n, want := range map[int]int{0: 0, 1: 1, 12: 12, 13: 12, 100: 12} {
		list := spread(n, 12)
		if len(list) != want || want > 0 && (list[0] != 0 || list[want-1] != n-1) {
			t.Errorf("spread(%d, 12) = %v", n, list)
		}
	}
}
