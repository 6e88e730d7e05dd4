package reproduce

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tips/frontier"
	"tips/supernet/zoo"
	"tips/weights"
)

func overheadOptions(t *testing.T) OverheadOptions {
	t.Helper()
	n, err := zoo.New("resnet_small:data=fashion-mnist,size=16,divisor=2")
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	return OverheadOptions{Weights: set, Origin: "random", Subnets: 12, Repetitions: 2, Threads: 1, Machine: "a machine"}
}

// program writes a shell script that stands for an interpreter with ONNX Runtime.
func program(t *testing.T, body string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	name := filepath.Join(t.TempDir(), "interpreter")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// value finds a number in the data of a figure.
func value(t *testing.T, f Figure, quantity, subnet string) float64 {
	t.Helper()
	for _, row := range f.Rows {
		if strings.HasPrefix(row[0], quantity) && row[1] == subnet {
			v, err := strconv.ParseFloat(row[4], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %q of %q", quantity, subnet)
	return 0
}

func TestOverhead(t *testing.T) {
	o := overheadOptions(t)
	o.Python = program(t, `echo '{"version": "9.8", "language": "Shell"}'
while read -r name; do
  [ -s "$name" ] || exit 1
  echo '{"create": 0.25, "first": 0.5, "again": 0.125}'
done
`)
	done := 0
	o.Progress = func(n, total int) {
		if n != done || total != 2 {
			t.Errorf("%d of %d repetitions; want %d of 2", n, total, done)
		}
		done++
	}
	f, err := Overhead(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}

	// Storage, counted another way: by the frontier that was drawn.
	drawn, err := o.frontier()
	if err != nil {
		t.Fatal(err)
	}
	choices, networks := 0, 0.0
	for i, p := range drawn.Points {
		code, err := p.Subnet.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		choices += 1 + len(code)
		stored := value(t, f, "network stored separately", p.Subnet.String())
		if tensors := 4 * float64(p.Costs.Params); stored < tensors || stored > tensors+64<<10 {
			t.Errorf("%s takes %v bytes; its parameters take %v", p.Subnet, stored, tensors)
		}
		networks += stored
		if exported := value(t, f, "ONNX model", p.Subnet.String()); exported > stored {
			t.Errorf("%s takes %v bytes as an ONNX model, more than the %v of its weights", p.Subnet, exported, stored)
		}
		if got := value(t, f, "ONNX Runtime, session", p.Subnet.String()); got != 250 {
			t.Errorf("session of %s took %v ms; want 250", p.Subnet, got)
		}
		if i > 0 && p.Costs.MACs <= drawn.Points[i-1].Costs.MACs {
			t.Errorf("subnetwork %d does not cost more than the one before", i)
		}
	}
	if !drawn.Points[11].Subnet.IsFull() || drawn.Points[0].Subnet != o.Weights.Network.Smallest() {
		t.Errorf("subnetworks go from %s to %s; want smallest to full", drawn.Points[0].Subnet, drawn.Points[11].Subnet)
	}
	if got := value(t, f, "configurations of 12", ""); got != float64(choices) {
		t.Errorf("configurations take %v bytes; want %d", got, choices)
	}
	if got := value(t, f, "12 networks stored separately", ""); got != networks {
		t.Errorf("networks take %v bytes together; want %v", got, networks)
	}

	// Times: all there, and in the order that nothing but a defect changes.
	change, reload := value(t, f, "switch to another", ""), value(t, f, "reload", "")
	if !(change > 0 && change < 0.037 && reload > change) {
		t.Errorf("a switch takes %v ms, to reload %v", change, reload)
	}
	if parts := value(t, f, "  read", "") + value(t, f, "  pack", "") + value(t, f, "  plan", ""); parts > 3*reload {
		t.Errorf("parts of a reload take %v ms, it takes %v", parts, reload)
	}
	if len(f.Findings) != 2 || !f.Findings[1].Holds {
		t.Errorf("findings: %+v", f.Findings)
	}
	text := strings.Join(f.Remarks, "\n")
	if !strings.Contains(text, "ONNX Runtime 9.8 ran in a process of its own, called from Shell") || !strings.Contains(text, "page cache") {
		t.Errorf("remarks: %s", text)
	}
	for _, write := range []func(w *strings.Builder) error{
		func(w *strings.Builder) error { return f.Drawn().WriteSVG(w) },
		func(w *strings.Builder) error { return f.Drawn().WritePNG(w) },
		func(w *strings.Builder) error { return f.WriteCSV(w) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil || b.Len() == 0 {
			t.Errorf("%d bytes: %v", b.Len(), err)
		}
	}
}

// TestOverheadWithoutPeer: what could not be measured is said, and has no number.
func TestOverheadWithoutPeer(t *testing.T) {
	o := overheadOptions(t)
	o.Subnets, o.Repetitions = 3, 1
	t.Setenv("PATH", t.TempDir())
	f, err := Overhead(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if last := f.Remarks[len(f.Remarks)-1]; !strings.HasPrefix(last, "ONNX Runtime was not measured: python3: executable file not found") || !strings.Contains(last, "node: ") {
		t.Errorf("remark: %s", last)
	}
	for _, row := range append(f.Table, f.Rows...) {
		if strings.HasPrefix(row[0], "ONNX Runtime") {
			t.Errorf("row %q", row)
		}
	}

	// Who asks for a program gets an error instead.
	for body, want := range map[string]string{
		"echo 'Traceback'; echo \"ModuleNotFoundError: No module named 'onnxruntime'\" >&2; exit 1": "ModuleNotFoundError: No module named 'onnxruntime'",
		"exit 0": "ended without an answer",
		"echo '{\"version\": \"1\"}'; read -r name; echo 'RuntimeError: no model' >&2": "RuntimeError: no model",
	} {
		o.Python = program(t, body)
		if _, err := Overhead(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", body, err, want)
		}
	}
	o.Python = filepath.Join(t.TempDir(), "nothing")
	if _, err := Overhead(context.Background(), o); err == nil || !strings.Contains(err.Error(), "nothing: ") {
		t.Errorf("no program: %v", err)
	}
}

// TestOverheadOfFrontier takes points of a frontier, and refuses what is of others.
func TestOverheadOfFrontier(t *testing.T) {
	o := overheadOptions(t)
	o.Subnets = 20
	all, err := o.frontier()
	if err != nil {
		t.Fatal(err)
	}
	o.Frontier = all
	for _, count := range []int{2, 7, 12, 19, 20} {
		o.Subnets = count
		some, err := o.frontier()
		if err != nil {
			t.Fatal(err)
		}
		if len(some.Points) != count || some.Points[0].Subnet != all.Points[0].Subnet || some.Points[count-1].Subnet != all.Points[19].Subnet {
			t.Errorf("%d of 20: %d, from %s to %s", count, len(some.Points), some.Points[0].Subnet, some.Points[len(some.Points)-1].Subnet)
		}
		if err := some.Validate(); err != nil {
			t.Errorf("%d of 20: %v", count, err)
		}
	}
	o.Subnets = 21
	if _, err := Overhead(context.Background(), o); !IsUsage(err) || !strings.Contains(err.Error(), "the frontier has 20") {
		t.Errorf("21 of 20: %v", err)
	}
	o.Subnets, o.Weights = 12, weights.Random(o.Weights.Network, 3)
	if _, err := Overhead(context.Background(), o); err == nil || !strings.Contains(err.Error(), frontier.ErrMismatch.Error()) {
		t.Errorf("other weights: %v", err)
	}
	for _, wrong := range []func(*OverheadOptions){
		func(o *OverheadOptions) { o.Subnets = 1 }, func(o *OverheadOptions) { o.Repetitions = 0 }, func(o *OverheadOptions) { o.Threads = 0 },
	} {
		o := overheadOptions(t)
		wrong(&o)
		if _, err := Overhead(context.Background(), o); !IsUsage(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Overhead(ctx, overheadOptions(t)); err == nil {
		t.Error("measured though cancelled")
	}
}

func TestSample(t *testing.T) {
	s := sample{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 2.5, 1: 4} {
		if got := s.at(q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v is %v; want %v", q, got, want)
		}
	}
	if !math.IsNaN(sample(nil).median()) || (sample{7}).at(0.75) != 7 || s[0] != 4 {
		t.Error("no, or one measurement; or the order was changed")
	}
	for s, want := range map[float64]string{0.287: "287 ms", 0.0394: "39.4 ms", 0.00977: "9.77 ms", 37e-6: "0.037 ms", 14.2e-9: "0.000014 ms"} {
		if got := milliseconds(s); got != want {
			t.Errorf("%v s is %s; want %s", s, got, want)
		}
	}
	for n, want := range map[float64]string{482: "482 B", 1900: "1.9 KB", 117.8e6: "117.8 MB", 160e3: "160 KB"} {
		if got := size(n); got != want {
			t.Errorf("%v bytes are %s; want %s", n, got, want)
		}
	}
}
