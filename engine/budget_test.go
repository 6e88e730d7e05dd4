package engine

import (
	"strings"
	"testing"
	"time"

	"tips/supernet"
	"tips/supernet/zoo"
)

func TestParseBudget(t *testing.T) {
	n, err := zoo.New(reference)
	if err != nil {
		t.Fatal(err)
	}
	smallest, full := n.Smallest(), supernet.Subnet{}
	for _, c := range []struct {
		text string
		want Budget
	}{
		{"20ms", Budget{Time: 20 * time.Millisecond}},
		{"1.5s", Budget{Time: 1500 * time.Millisecond}},
		{"30M", Budget{MACs: 30e6}},
		{"1.2G", Budget{MACs: 1.2e9}},
		{"500k", Budget{MACs: 500e3}},
		{"12345", Budget{MACs: 12345}},
		{"1e6", Budget{MACs: 1e6}},
		{"4MiB", Budget{Memory: 4 << 20}},
		{"4MB", Budget{Memory: 4e6}},
		{"512KiB", Budget{Memory: 512 << 10}},
		{"100B", Budget{Memory: 100}},
		{"20ms,30M,4MiB", Budget{Time: 20 * time.Millisecond, MACs: 30e6, Memory: 4 << 20}},
		{"smallest", Budget{Subnet: &smallest}},
		{"full", Budget{Subnet: &full}},
		{smallest.String(), Budget{Subnet: &smallest}},
	} {
		got, err := ParseBudget(c.text, n)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if !sameBudget(got, c.want) {
			t.Errorf("%q is %v; want %v", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", "0", "0ms", "-1", "-20ms", "30X", "M", "NaN", "Inf", "1e40", "0.5", "20ms,30ms", "30M,40M", "4MB,1KiB", "full,20ms",
		"full,smallest", "w7", "d99", "20ms,", "4 0M", strings.Repeat("9", 400)} {
		if b, err := ParseBudget(text, n); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is read as %v; want an error of one line (%v)", text, b, err)
		}
	}
}

func sameBudget(a, b Budget) bool {
	if (a.Subnet == nil) != (b.Subnet == nil) || a.Subnet != nil && *a.Subnet != *b.Subnet {
		return false
	}
	return a.MACs == b.MACs && a.Time == b.Time && a.Memory == b.Memory
}

// FuzzParseBudget: what is taken is valid, and is read again from its own text.
func FuzzParseBudget(f *testing.F) {
	n, err := zoo.New(reference)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"20ms", "30M", "4MiB", "20ms,1G", "smallest", "d1.2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBudget(text, n)
		if err != nil {
			return
		}
		if err := b.check(); err != nil || !b.limited() && b.Subnet == nil {
			t.Fatalf("%q is read as %+v (%v)", text, b, err)
		}
		again, err := ParseBudget(b.String(), n)
		if err != nil || !sameBudget(again, b) {
			t.Fatalf("%q is written %q and read as %+v (%v)", text, b, again, err)
		}
	})
}
