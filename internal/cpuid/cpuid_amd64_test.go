package cpuid

import (
	"testing"

	"golang.org/x/sys/cpu"
)

// TestDetect compares with the package that everybody else uses.
func TestDetect(t *testing.T) {
	x := cpu.X86
	want := Features{AVX2: x.HasAVX2 && x.HasFMA}
	want.AVX512 = want.AVX2 && x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL
	if got := Detect(); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
