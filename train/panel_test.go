package train

import (
	"context"
	"errors"
	"iter"
	"math"
	"reflect"
	"testing"

	"tips/dataset"
	"tips/supernet"
)

// reused yields batches as a loader does: in memory that the next one overwrites.
func reused(batches ...*dataset.Batch) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		var own dataset.Batch
		for _, b := range batches {
			own.N, own.Images, own.Labels = b.N, append(own.Images[:0], b.Images...), append(own.Labels[:0], b.Labels...)
			if !yield(&own, nil) {
				return
			}
		}
	}
}

// TestPanel: whatever the number of threads, a panel finds what the executor does on
// one, to the bit but for the order in which losses are added.
func TestPanel(t *testing.T) {
	n := network(t, tinyNetwork)
	set := randomised(n, 1)
	half, err := n.Uniform(0.5)
	if err != nil {
		t.Fatal(err)
	}
	examination := func() Examination {
		return Examination{
			Subnets:     []supernet.Subnet{{}, half, n.Smallest()},
			Calibration: reused(randomBatch(n, 16, 1), randomBatch(n, 16, 2), randomBatch(n, 16, 3), randomBatch(n, 5, 4)),
			Test:        reused(randomBatch(n, 24, 5), randomBatch(n, 24, 6), randomBatch(n, 24, 7), randomBatch(n, 1, 8)),
		}
	}
	want, err := newTestCPU(t, n, Settings{}, NewState(set, false)).Evaluate(t.Context(), examination())
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 2, 7} {
		p := NewPanel(set, threads)
		got, err := p.Evaluate(t.Context(), examination())
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if math.Abs(got[i].Loss-want[i].Loss) > 1e-12*want[i].Loss {
				t.Errorf("%d threads: loss %v; want %v", threads, got[i].Loss, want[i].Loss)
			}
			got[i].Loss = want[i].Loss
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d threads: scores or statistics are not those of the executor", threads)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPanelFails: errors come out, and nothing is left behind that keeps a panel from
// its next examination.
func TestPanelFails(t *testing.T) {
	n := network(t, tinyNetwork)
	p := NewPanel(randomised(n, 1), 3)
	defer p.Close() // hangs if a thread is lost
	broken := errors.New("a picture that is none")
	failing := func(yield func(*dataset.Batch, error) bool) {
		if yield(randomBatch(n, 4, 1), nil) {
			yield(nil, broken)
		}
	}
	good := func() iter.Seq2[*dataset.Batch, error] { return reused(randomBatch(n, 4, 1), randomBatch(n, 4, 2)) }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	wrong := &dataset.Batch{N: 4, Images: make([]float32, 3), Labels: make([]int32, 4)}
	for name, c := range map[string]struct {
		ctx  context.Context
		e    Examination
		want error // nil: any
	}{
		"no average":        {t.Context(), Examination{Average: true, Calibration: good(), Test: good()}, nil},
		"calibration":       {t.Context(), Examination{Calibration: failing, Test: good()}, broken},
		"test":              {t.Context(), Examination{Calibration: good(), Test: failing}, broken},
		"no calibration":    {t.Context(), Examination{Calibration: reused(), Test: good()}, nil},
		"interrupted":       {over, Examination{Calibration: good(), Test: good()}, context.Canceled},
		"a batch too small": {t.Context(), Examination{Calibration: reused(wrong), Test: good()}, nil},
	} {
		c.e.Subnets = []supernet.Subnet{{}, n.Smallest()}
		if _, err := p.Evaluate(c.ctx, c.e); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
	if _, err := p.Evaluate(t.Context(), Examination{Subnets: []supernet.Subnet{{}}, Calibration: good(), Test: good()}); err != nil {
		t.Errorf("after errors: %v", err)
	}
}
