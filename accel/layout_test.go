//go:build xla

package accel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/weights"
)

// TestLayout: every parameter has one place, and comes back from there.
func TestLayout(t *testing.T) {
	for _, reference := range networks {
		n := network(t, reference)
		l := newLayout(n)
		set := randomSet(n, 1)
		flat := l.pack(set)
		if got := l.end[len(l.end)-1]; got != len(flat) {
			t.Errorf("%s: %d values, %d places", reference, len(flat), got)
		}
		back := weights.New(n)
		l.unpack(flat, back)
		for i := range back.Ops {
			copy(back.Ops[i].Mean, set.Ops[i].Mean)
			copy(back.Ops[i].Variance, set.Ops[i].Variance)
		}
		if diff := cmp.Diff(set.Ops, back.Ops); diff != "" {
			t.Errorf("%s: %s", reference, diff)
		}
		zeros := 0
		for _, v := range flat {
			if v == 0 {
				zeros++
			}
		}
		if zeros > len(flat)/100 {
			t.Errorf("%s: %d of %d places have no value", reference, zeros, len(flat))
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	n := network(b, "mobilenet_v2:width=1.4,data=cifar100")
	l, s := newLayout(n), weights.New(n)
	flat := make([]float32, l.size)
	for b.Loop() {
		l.unpack(flat, s)
	}
}
