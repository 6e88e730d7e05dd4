package main

import "fmt"

// isa describes the two x86 vector extensions the emitters write for.
type isa struct {
	name   string // in function names
	file   string // in file names
	reg    string // vector register prefix
	lanes  int    // float32 lanes of a register
	regs   int    // number of vector registers
	masked bool   // the last vector of a row may be partial (mask in K1)
	// rows[nv] is the most pixel rows of a tile nv vectors wide.
	rows map[int]int
	// gradientRows[nv] is the most input channels of a tile of weight gradients.
	gradientRows map[int]int
	// window is the most outputs a depthwise or grouped tile keeps.
	window int
	// chains is how many vectors an elementwise loop works on at once.
	chains int
}

var (
	avx2 = isa{name: "AVX2", file: "avx2", reg: "Y", lanes: 8, regs: 16,
		rows: map[int]int{1: 12, 2: 6, 3: 4}, gradientRows: map[int]int{1: 12, 2: 6, 3: 4}, window: 8, chains: 3}
	avx512 = isa{name: "AVX512", file: "avx512", reg: "Z", lanes: 16, regs: 32, masked: true,
		rows: map[int]int{1: 14, 2: 14, 3: 9}, gradientRows: map[int]int{1: 24, 2: 14, 3: 9}, window: 14, chains: 3}
)

func (m isa) r(i int) string { return fmt.Sprintf("%s%d", m.reg, i) }

// bytes is the size of a vector register.
func (m isa) bytes() int { return 4 * m.lanes }

// zero clears a register.
func (m isa) zero(a *asm, i int) {
	if m.masked {
		a.i("VPXORD %s, %s, %s", m.r(i), m.r(i), m.r(i))
	} else {
		a.i("VXORPS %s, %s, %s", m.r(i), m.r(i), m.r(i))
	}
}

// load reads a vector; a partial one under the mask, its other lanes zero.
func (m isa) load(a *asm, mem, dst string, partial bool) {
	if partial && m.masked {
		a.i("VMOVUPS.Z %s, K1, %s", mem, dst)
	} else {
		a.i("VMOVUPS %s, %s", mem, dst)
	}
}

// store writes a vector; of a partial one only the lanes under the mask.
func (m isa) store(a *asm, src, mem string, partial bool) {
	if partial && m.masked {
		a.i("VMOVUPS %s, K1, %s", src, mem)
	} else {
		a.i("VMOVUPS %s, %s", src, mem)
	}
}

// clamp limits v to [lo, hi] and keeps NaN: when an operand is NaN, VMAXPS and
// VMINPS return the operand that Go's syntax writes first.
func (m isa) clamp(a *asm, v, lo, hi string) {
	a.i("VMAXPS %s, %s, %s", v, lo, v)
	a.i("VMINPS %s, %s, %s", v, hi, v)
}

// setMask loads K1 from the argument block at DI, through AX.
func (m isa) setMask(a *asm, field string) {
	if m.masked {
		a.i("MOVQ %s(DI), AX", field)
		a.i("KMOVW AX, K1")
	}
}
