package peak

import "tips/internal/cpuid"

// fmaAVX2 does 12 independent 8-lane multiply-adds n times.
//
//go:noescape
func fmaAVX2(n int)

// fmaAVX512 does 24 independent 16-lane multiply-adds n times.
//
//go:noescape
func fmaAVX512(n int)

// Units returns the widths this CPU has, by the name of the kernel variant that
// uses them.
func Units() (u []Unit) {
	has := cpuid.Detect()
	if has.AVX2 {
		u = append(u, Unit{"avx2", 12 * 8 * 2, fmaAVX2})
	}
	if has.AVX512 {
		u = append(u, Unit{"avx512", 24 * 16 * 2, fmaAVX512})
	}
	return u
}
