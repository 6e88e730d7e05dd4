package main

import "fmt"

// neonPooling emits the reductions over pixels, as isa.pooling does for x86.
func neonPooling(a *asm, s *stubs) {
	for _, op := range []string{"max", "sum"} {
		name := op + "PoolNEON"
		loop := "y[o][c] = max(y[o][c], x[o*step + i*row + j*pix + c])"
		if op == "sum" {
			loop = "y[o][c] += x[o*step + i*row + j*pix + c], then y[o][c] *= factor"
		}
		s.fn(name, "poolArgs", fmt.Sprintf("// %s computes, for o < n, i < ny, j < nx and c < end,\n// %s.", name, loop))
		a.text(name, "poolArgs")
		a.i("MOVD p+0(FP), R0")
		a.i("MOVD poolArgs_x(R0), R1")
		a.i("MOVD poolArgs_y(R0), R2")
		a.i("MOVD poolArgs_n(R0), R3")
		a.i("MOVD poolArgs_pix(R0), R9")
		a.i("MOVD poolArgs_row(R0), R10")
		a.i("MOVD poolArgs_end(R0), R11")
		neonBroadcast(a, "poolArgs_factor", 4)
		a.l("output")
		a.i("MOVD $0, R12")
		a.l("block")
		if op == "max" {
			a.i("VORR V4.B16, V4.B16, V0.B16") // factor is -Inf
		} else {
			neonZero(a, 0)
		}
		a.i("ADD R12, R1, R4")
		a.i("MOVD poolArgs_ny(R0), R7")
		a.l("row")
		a.i("MOVD R4, R8")
		a.i("MOVD poolArgs_nx(R0), R6")
		a.l("pixel")
		a.i("VLD1 (R8), [V1.S4]")
		if op == "max" {
			fmax(a, 0, 0, 1)
		} else {
			fadd(a, 0, 0, 1)
		}
		a.i("ADD R9, R8")
		a.i("SUBS $1, R6, R6")
		a.i("BNE pixel")
		a.i("ADD R10, R4")
		a.i("SUBS $1, R7, R7")
		a.i("BNE row")
		if op == "sum" {
			fmul(a, 0, 0, 4)
		}
		a.i("ADD R12, R2, R16")
		a.i("VST1 [V0.S4], (R16)")
		a.i("ADD $16, R12")
		a.i("CMP R11, R12")
		a.i("BNE block")
		a.i("MOVD poolArgs_step(R0), R14")
		a.i("ADD R14, R1")
		a.i("MOVD poolArgs_ypix(R0), R14")
		a.i("ADD R14, R2")
		a.i("SUBS $1, R3, R3")
		a.i("BNE output")
		a.i("RET")
	}

	name := "meanNEON"
	s.fn(name, "poolArgs", fmt.Sprintf("// %s computes, for j < nx and c < end, s[j%%4][c] += x[j*pix + c], then\n// y[c] = ((s[0][c] + s[1][c]) + (s[2][c] + s[3][c])) * factor.", name))
	a.text(name, "poolArgs")
	a.i("MOVD p+0(FP), R0")
	a.i("MOVD poolArgs_x(R0), R1")
	a.i("MOVD poolArgs_y(R0), R2")
	a.i("MOVD poolArgs_pix(R0), R9")
	a.i("MOVD poolArgs_end(R0), R11")
	neonBroadcast(a, "poolArgs_factor", 5)
	a.i("MOVD $0, R12")
	a.l("block")
	for i := range 4 {
		neonZero(a, i)
	}
	a.i("ADD R12, R1, R8")
	a.i("MOVD poolArgs_nx(R0), R6")
	a.l("pixel")
	for i := range 4 {
		a.i("VLD1 (R8), [V4.S4]")
		fadd(a, i, i, 4)
		a.i("ADD R9, R8")
		a.i("SUBS $1, R6, R6")
		a.i("BEQ sum")
	}
	a.i("B pixel")
	a.l("sum")
	fadd(a, 0, 0, 1)
	fadd(a, 2, 2, 3)
	fadd(a, 0, 0, 2)
	fmul(a, 0, 0, 5)
	a.i("ADD R12, R2, R16")
	a.i("VST1 [V0.S4], (R16)")
	a.i("ADD $16, R12")
	a.i("CMP R11, R12")
	a.i("BNE block")
	a.i("RET")
}
