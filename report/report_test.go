package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"tips/demo"
	"tips/frontier"
	"tips/supernet/zoo"
	"tips/topology"
	"tips/weights"
)

// sample is a report of random weights and three subnetworks.
func sample(t *testing.T) *Report {
	t.Helper()
	n, err := zoo.New("resnet_small:data=fashion-mnist,divisor=8,min=0.1")
	if err != nil {
		t.Fatal(err)
	}
	a, err := topology.Analyze(n, topology.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	f := &frontier.Frontier{Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs}}
	trace := &demo.Trace{Pictures: 9, Threads: 1, On: "test images"}
	for i, ratio := range []float64{0.1, 0.5, 1} {
		s, err := n.Uniform(ratio)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, f.Input)
		if err != nil {
			t.Fatal(err)
		}
		f.Points = append(f.Points, frontier.Judged(s, 80+5*i, 100, frontier.CostsOf(v.Costs()), nil))
		trace.Times = append(trace.Times, demo.Time{Subnet: s.String(), Time: time.Duration(20*(i+1)) * time.Microsecond})
		trace.Periods = append(trace.Periods, demo.Period{
			Start: time.Duration(i) * time.Second, Length: time.Second, Time: time.Duration(i) * 20 * time.Microsecond, Budget: strings.Repeat("x", i),
			Subnet: s.String(), Cost: v.Costs().MACs, Pictures: 9, Correct: 3 + i, Kept: 9, Share: 1, Median: time.Duration(20*(i+1)) * time.Microsecond,
		})
	}
	return &Report{Run: "some where", Network: n, Analysis: a, WeightsBytes: 700000, Frontier: f, JudgedOn: "held-out", Trace: trace}
}

// wellFormed counts the elements of a page.
func wellFormed(t *testing.T, page []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	dec := xml.NewDecoder(bytes.NewReader(page))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatalf("%v in %s", err, page)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
		}
	}
}

// TestPage: what there is is shown, what there is not is not, and names cannot break
// the page.
func TestPage(t *testing.T) {
	r := sample(t)
	r.Next = append(r.Commands("./tips", "a/b"), Command{"<script>", "a & b"})
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	count := wellFormed(t, b.Bytes())
	if count["svg"] != 5 || count["script"] != 0 || count["table"] != 3 {
		t.Errorf("%v", count)
	}
	for _, want := range []string{"80 → 90 %", "20 → 60 µs", "18.7×", "684 KiB", "./tips run &#39;some where&#39; a/b --top 1 --budget 220k", "100 held-out images"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}

	bare := &Report{Network: r.Network, Analysis: r.Analysis}
	b.Reset()
	if err := bare.Write(&b); err != nil {
		t.Fatal(err)
	}
	if count := wellFormed(t, b.Bytes()); count["svg"] != 1 || !strings.Contains(b.String(), "No search has run") || !strings.Contains(b.String(), "No step is recorded") {
		t.Errorf("%v", count)
	}
	if bare.Commands("tips", "x") != nil {
		t.Error("commands without a frontier")
	}
}

// TestAxis: a frontier is drawn over the cost that it was searched by.
func TestAxis(t *testing.T) {
	r := sample(t)
	for i := range r.Frontier.Points {
		c := &r.Frontier.Points[i].Costs
		c.Latency, c.Energy, c.Own = time.Duration(i+1)*time.Millisecond, float64(i+1), float64(i+1)
	}
	r.Frontier.OwnName = "price"
	for _, k := range []frontier.Kind{frontier.MACs, frontier.Params, frontier.WeightBytes, frontier.PeakBytes, frontier.Latency, frontier.Energy, frontier.Own} {
		r.Frontier.By = []frontier.Kind{k}
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, b.Bytes())
		if by := axisOf(r.Frontier); by.kind != k || !strings.Contains(b.String(), ">"+by.label+"<") || !strings.Contains(b.String(), "range of "+by.name) {
			t.Errorf("%s: %+v", k, by)
		}
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{"runs/a-1": "runs/a-1", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$x": "'$x'"} {
		if got := quoted(path); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		count(12): "12", count(7522): "7.5 k", count(219920): "220 k", count(4112192): "4.11 M", count(2e9): "2.00 G",
		bytesize(204): "204 B", bytesize(1500): "1.5 KiB", bytesize(700200): "684 KiB", bytesize(3 << 20): "3.0 MiB",
		micro(1500): "1.5 µs", micro(20800): "21 µs", micro(12 * time.Millisecond): "12.0 ms",
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestOpenNothing(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "want the folder of a training run") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
