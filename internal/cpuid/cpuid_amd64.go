package cpuid

// cpuid executes the CPUID instruction.
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// xgetbv reads XCR0: the registers that the operating system keeps for a program.
// Only processors with OSXSAVE have the instruction.
func xgetbv() (eax, edx uint32)

// Features are sets of instructions that kernels use together.
type Features struct {
	AVX2   bool // AVX2 and FMA
	AVX512 bool // AVX2, FMA, and AVX-512 F, DQ, BW and VL
}

// Detect asks the processor. Bits are those of Intel's manual, volume 2, CPUID.
func Detect() Features {
	highest, _, _, _ := cpuid(0, 0)
	if highest < 7 {
		return Features{}
	}
	_, _, ecx1, _ := cpuid(1, 0)
	const fma, osxsave, avx = 1 << 12, 1 << 27, 1 << 28
	if ecx1&(fma|osxsave|avx) != fma|osxsave|avx {
		return Features{}
	}
	kept, _ := xgetbv()
	_, ebx7, _, _ := cpuid(7, 0)
	const (
		ymm, zmm                              = 1<<1 | 1<<2, 1<<5 | 1<<6 | 1<<7 // of XCR0
		avx2                                  = 1 << 5
		avx512f, avx512dq, avx512bw, avx512vl = 1 << 16, 1 << 17, 1 << 30, 1 << 31
		avx512                                = avx512f | avx512dq | avx512bw | avx512vl
	)
	var f Features
	f.AVX2 = kept&ymm == ymm && ebx7&avx2 != 0
	f.AVX512 = f.AVX2 && kept&zmm == zmm && ebx7&avx512 == avx512
	return f
}
