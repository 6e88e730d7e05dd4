package train

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/supernet"
)

func someCheckpoint(t testing.TB, n *supernet.Network) *Checkpoint {
	return &Checkpoint{
		Position: Position{Step: 12, Closed: 1, Evaluated: 7, Seconds: 1.0 / 3, Epoch: Tally{Steps: 3, Loss: 0.1 + 0.2}, Results: Results{{Name: "full", Accuracy: 0.1}}},
		Recipe:   "version: 2\n", Method: []byte(`{"widths":[1,2]}`), Images: 100, Metrics: Mark{77, 99},
		State: &State{Weights: randomised(n, 1), Momentum: randomised(n, 2), Frozen: randomised(n, 3)},
	}
}

func TestCheckpointsRoundTrip(t *testing.T) {
	n := network(t, tinyNetwork)
	name := filepath.Join(t.TempDir(), "c")
	if _, err := OpenCheckpoint(name, n); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	c := someCheckpoint(t, n)
	if err := c.Save(name); err != nil {
		t.Fatal(err)
	}
	for _, as := range []*supernet.Network{n, nil} {
		got, err := OpenCheckpoint(name, as)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range c.State.sets() {
			other := *got.State.sets()[i].set
			if (*s.set == nil) != (other == nil) {
				t.Fatalf("%s: %v; want %v", s.name, other, *s.set)
			}
			if other == nil {
				continue
			}
			x, _ := values(*s.set)
			y, _ := values(other)
			if !slices.Equal(x, y) {
				t.Errorf("%s differ", s.name)
			}
		}
		want := *c
		want.State = nil
		got.State = nil
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := OpenCheckpoint(name, network(t, "resnet18:data=cifar10")); err == nil || !strings.Contains(err.Error(), "not of") {
		t.Errorf("another network's checkpoint: %v", err)
	}
}

// TestDamagedCheckpoints: whatever bit is wrong, and wherever the file ends, it is
// refused.
func TestDamagedCheckpoints(t *testing.T) {
	n := network(t, tinyNetwork)
	var b bytes.Buffer
	if err := someCheckpoint(t, n).write(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	read := func(data []byte) error {
		_, err := readCheckpoint(bytes.NewReader(data), int64(len(data)), n)
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	at := []int{0, 7, 8, 12, 16, 23}
	for i := 24; i < len(whole); i += len(whole)/150 + 1 {
		at = append(at, i)
	}
	for _, i := range at {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x20
		if err := read(damaged); err == nil {
			t.Errorf("byte %d of %d is wrong, and nobody noticed", i, len(whole))
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Errorf("byte %d: %v", i, err)
		}
		if err := read(whole[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut off at %d: %v", i, err)
		}
	}
	if err := read(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	next := bytes.Clone(whole)
	next[8]++
	if err := read(next); !errors.Is(err, ErrVersion) {
		t.Errorf("the next version: %v", err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	n := network(f, "mlp:depth=3,width=8,inputs=4,classes=2")
	var b bytes.Buffer
	if err := someCheckpoint(f, n).write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)), n)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := c.write(&again); err != nil {
			t.Fatal(err)
		}
		if _, err := readCheckpoint(bytes.NewReader(again.Bytes()), int64(again.Len()), n); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMetricsRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m")
	records := []Record{
		{Step: &StepRecord{Number: 0, Rate: 0.1, Loss: 2, Lessons: []LessonRecord{{Subnet: "full", Loss: 2, Label: 2, Accuracy: 0.5}}}},
		{Epoch: &EpochRecord{Number: 1, Steps: 1, Loss: 2}},
		{Evaluation: &EvaluationRecord{Epoch: 1, Steps: 1, On: "test", Results: Results{{Name: "full", Accuracy: 1, MACs: 5}}}},
	}
	m, err := openMetrics(name, Mark{})
	if err != nil {
		t.Fatal(err)
	}
	var marks []Mark
	for _, r := range records {
		if err := m.add(r); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, m.mark)
	}
	m.close()
	read := func() []Record {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		list, err := ReadMetrics(f)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if diff := cmp.Diff(records, read()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A killed run leaves half a line; whoever only looks does not see it, and
	// whoever goes on cuts it off with all after the mark.
	f, _ := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString(`{"step":{"num`)
	f.Close()
	if got := read(); len(got) != 3 {
		t.Errorf("%d records", len(got))
	}
	if m, err = openMetrics(name, marks[1]); err != nil {
		t.Fatal(err)
	}
	if err := m.add(records[0]); err != nil {
		t.Fatal(err)
	}
	m.close()
	if diff := cmp.Diff([]Record{records[0], records[1], records[0]}, read()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What the checkpoint vouches for must be there.
	for what, mark := range map[string]Mark{"cut off": {marks[2].Bytes + 1000, 1}, "changed": {marks[0].Bytes, marks[0].CRC + 1}} {
		if _, err := openMetrics(name, mark); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, bad := range []string{"{}\n", `{"step":{},"epoch":{}}` + "\n", "\n", `{"steps":{}}` + "\n", `{"step":{"number":"x"}}` + "\n", `{"epoch":{}} {}` + "\n"} {
		if _, err := ReadMetrics(strings.NewReader(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte(`{"step":{"number":3,"epoch":0,"rate":0.1,"loss":2,"norm":1,"lessons":[{"subnet":"full","loss":2,"label":2,"accuracy":1}],"seconds":0.1}}` + "\n"))
	f.Add([]byte(`{"epoch":{"number":1}}` + "\n" + `{"evaluation":{"epoch":1,"results":[{"name":"full"}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := ReadMetrics(bytes.NewReader(data))
		if err != nil {
			return
		}
		charts, err := Curves(records)
		if err != nil {
			return
		}
		for _, c := range charts {
			for _, s := range c.Series {
				if len(s.X) != len(s.Y) {
					t.Fatalf("%d x and %d y", len(s.X), len(s.Y))
				}
			}
		}
	})
}
