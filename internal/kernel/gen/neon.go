package main

import (
	"fmt"
	"strings"
)

// Go's arm64 assembler lacks most vector floating-point instructions; these
// write them as words, on four lanes.

func neon3(a *asm, name string, op uint32, d, n, m int) {
	a.i("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.4S", op|uint32(m)<<16|uint32(n)<<5|uint32(d), name, d, n, m)
}

func neon2(a *asm, name string, op uint32, d, n int) {
	a.i("WORD $0x%08x // %s V%d.4S, V%d.4S", op|uint32(n)<<5|uint32(d), name, d, n)
}

func fadd(a *asm, d, n, m int) { neon3(a, "FADD", 0x4e20d400, d, n, m) }
func fsub(a *asm, d, n, m int) { neon3(a, "FSUB", 0x4ea0d400, d, n, m) }
func fmul(a *asm, d, n, m int) { neon3(a, "FMUL", 0x6e20dc00, d, n, m) }
func fdiv(a *asm, d, n, m int) { neon3(a, "FDIV", 0x6e20fc00, d, n, m) }
func fmax(a *asm, d, n, m int) { neon3(a, "FMAX", 0x4e20f400, d, n, m) }
func fmin(a *asm, d, n, m int) { neon3(a, "FMIN", 0x4ea0f400, d, n, m) }

// fmla adds the product of n and m to d, fmls subtracts it.
func fmla(a *asm, d, n, m int) { a.i("VFMLA V%d.S4, V%d.S4, V%d.S4", m, n, d) }
func fmls(a *asm, d, n, m int) { a.i("VFMLS V%d.S4, V%d.S4, V%d.S4", m, n, d) }

// fmlaLane adds n times lane of m to d.
func fmlaLane(a *asm, d, n, m, lane int) {
	w := 0x4f801000 | uint32(lane&1)<<21 | uint32(m)<<16 | uint32(lane>>1)<<11 | uint32(n)<<5 | uint32(d)
	a.i("WORD $0x%08x // FMLA V%d.4S, V%d.4S, V%d.S[%d]", w, d, n, m, lane)
}

// neonClamp limits v to [lo, hi]; FMAX and FMIN keep NaN.
func neonClamp(a *asm, v, lo, hi int) {
	fmax(a, v, v, lo)
	fmin(a, v, v, hi)
}

func neonZero(a *asm, v int) { a.i("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v) }

// neonList is a register list of n vectors from v on.
func neonList(v, n int) string {
	var regs []string
	for i := range n {
		regs = append(regs, fmt.Sprintf("V%d.S4", v+i))
	}
	return "[" + strings.Join(regs, ", ") + "]"
}

// neonBroadcast loads a field of the argument block at R0 into all lanes,
// through R16.
func neonBroadcast(a *asm, field string, v int) {
	a.i("ADD $%s, R0, R16", field)
	a.i("VLD1R (R16), [V%d.S4]", v)
}
