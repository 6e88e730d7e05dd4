package main

import "fmt"

// neonWinograd emits the transforms of F(4×4, 3×3), as isa.winograd does for
// x86, on four channels at a time.
func neonWinograd(a *asm, s *stubs) {
	v := vecOps{
		mov: func(d, s int) { a.i("VORR V%d.B16, V%d.B16, V%d.B16", s, s, d) },
		add: func(d, x, y int) { fadd(a, d, x, y) }, sub: func(d, x, y int) { fsub(a, d, x, y) },
		mul: func(d, x, y int) { fmul(a, d, x, y) },
		fma: func(d, x, y int) { fmla(a, d, x, y) }, fnma: func(d, x, y int) { fmls(a, d, x, y) },
	}
	start := func(name, comment string, list []int) []int {
		s.fn(name+"NEON", name, fmt.Sprintf(comment, name+"NEON"))
		a.text(name+"NEON", name)
		a.i("MOVD p+0(FP), R0")
		a.i("MOVD %s_consts(R0), R1", name)
		for i, c := range list {
			a.i("ADD $%d, R1, R16", winoConstBytes*c)
			a.i("VLD1R (R16), [V%d.S4]", 23+i)
		}
		a.i("MOVD %s_tmp(R0), R2", name)
		return from(23, len(list))
	}

	// R3 byte offset of the channels, R4 bytes between outputs, R5 pixel, R6 output,
	// R7 end of the channels
	arg := "winogradInput"
	consts := start(arg, winoInputComment, winoInputConst)
	a.i("MOVD %s_off(R0), R3", arg)
	a.i("MOVD %s_pos(R0), R4", arg)
	a.i("MOVD %s_end(R0), R7", arg)
	a.l("vector")
	for j := range 6 {
		for i := range 6 {
			a.i("MOVD (%s_x+%d)(R0), R5", arg, 8*(6*i+j))
			a.i("ADD R3, R5")
			a.i("FMOVQ (R5), F%d", i)
		}
		for i, r := range winoInput(v, from(0, 6), from(6, 4), consts) {
			a.i("FMOVQ F%d, %d(R2)", r, 16*(6*i+j))
		}
	}
	a.i("MOVD %s_v(R0), R6", arg)
	a.i("ADD R3, R6")
	for i := range 6 {
		for j := range 6 {
			a.i("FMOVQ %d(R2), F%d", 16*(6*i+j), j)
		}
		for _, r := range winoInput(v, from(0, 6), from(6, 4), consts) {
			a.i("FMOVQ F%d, (R6)", r)
			a.i("ADD R4, R6")
		}
	}
	a.i("ADD $16, R3")
	a.i("CMP R7, R3")
	a.i("BNE vector")
	a.i("RET")

	// R3 to R5 rows of taps, R6 bytes between taps, R7 twice that, R8 output of this
	// vector, R9 of this position, R10 bytes between positions, R11 vectors left
	arg = "winogradWeights"
	consts = start(arg, winoWeightsComment, winoWeightConst)
	a.i("MOVD %s_w(R0), R3", arg)
	a.i("MOVD %s_tap(R0), R6", arg)
	a.i("ADD R6, R6, R7")
	a.i("ADD R6, R7, R9")
	a.i("ADD R3, R9, R4")
	a.i("ADD R4, R9, R5")
	a.i("MOVD %s_u(R0), R8", arg)
	a.i("MOVD %s_pos(R0), R10", arg)
	a.i("MOVD %s_n(R0), R11", arg)
	a.l("vector")
	load := func(i, j, r int) {
		if j == 0 {
			a.i("FMOVQ (R%d), F%d", 3+i, r)
		} else {
			a.i("ADD R%d, R%d, R16", 5+j, 3+i)
			a.i("FMOVQ (R16), F%d", r)
		}
	}
	for j := range 3 {
		for i := range 3 {
			load(i, j, i)
		}
		winoWeights(v, from(0, 3), []int{7 + j, 10 + j, 13 + j, 16 + j}, consts)
	}
	a.i("MOVD R8, R9")
	for i := range 6 {
		g := from(4+3*i, 3)
		if i == 0 || i == 5 { // a row of taps itself
			g = from(0, 3)
			for j := range 3 {
				load(i/2, j, j)
			}
		}
		for _, r := range winoWeights(v, g, from(3, 4), consts) {
			a.i("FMOVQ F%d, (R9)", r)
			a.i("ADD R10, R9")
		}
	}
	for _, r := range []int{3, 4, 5, 8} {
		a.i("ADD $16, R%d", r)
	}
	a.i("SUBS $1, R11, R11")
	a.i("BNE vector")
	a.i("RET")

	// R3 byte offset of the channels, R4 bytes between positions, R5 sums, R6 output
	// row, R7 output pixel, R8 bytes between pixels, R9 residual pixel, R10 from the
	// output to the residual, R11 the residual or 0, R12 and R13 rows and columns
	arg = "winogradOutput"
	consts = start(arg, winoOutputComment, winoOutputConst)
	a.i("MOVD %s_off(R0), R3", arg)
	a.i("MOVD %s_pos(R0), R4", arg)
	a.i("MOVD %s_ypix(R0), R8", arg)
	a.i("MOVD %s_res(R0), R11", arg)
	a.i("MOVD %s_y(R0), R10", arg)
	a.i("SUB R10, R11, R10")
	a.i("MOVD %s_ny(R0), R12", arg)
	a.i("MOVD %s_nx(R0), R13", arg)
	neonBroadcast(a, arg+"_lo", 16)
	neonBroadcast(a, arg+"_hi", 17)
	a.l("vector")
	for j := range 6 {
		a.i("MOVD %s_m(R0), R5", arg)
		a.i("ADD R3, R5")
		for range j {
			a.i("ADD R4, R5")
		}
		a.i("ADD R4<<1, R4, R14") // three positions
		for i := range 6 {
			a.i("FMOVQ (R5), F%d", i)
			a.i("ADD R14<<1, R5")
		}
		for i, r := range winoOutput(v, from(0, 6), from(6, 2), consts) {
			a.i("FMOVQ F%d, %d(R2)", r, 16*(6*i+j))
		}
	}
	a.i("MOVD %s_scale(R0), R7", arg)
	a.i("ADD R3, R7")
	a.i("FMOVQ (R7), F14")
	a.i("MOVD %s_bias(R0), R7", arg)
	a.i("ADD R3, R7")
	a.i("FMOVQ (R7), F15")
	a.i("MOVD %s_y(R0), R6", arg)
	a.i("ADD R3, R6")
	for i := range 4 {
		if i > 0 {
			a.i("CMP $%d, R12", i)
			a.i("BLE next")
		}
		for j := range 6 {
			a.i("FMOVQ %d(R2), F%d", 16*(6*i+j), j)
		}
		a.i("MOVD R6, R7")
		for j, r := range winoOutput(v, from(0, 6), from(6, 2), consts) {
			if j > 0 {
				a.i("CMP $%d, R13", j)
				a.i("BLE row%d", i)
				a.i("ADD R8, R7")
			}
			v.mov(18, 15)
			fmla(a, 18, r, 14)
			a.i("CBZ R11, clamp%d%d", i, j)
			a.i("ADD R10, R7, R9")
			a.i("FMOVQ (R9), F19")
			fadd(a, 18, 18, 19)
			a.l("clamp%d%d", i, j)
			neonClamp(a, 18, 16, 17)
			a.i("FMOVQ F18, (R7)")
		}
		a.l("row%d", i)
		a.i("MOVD %s_yrow(R0), R14", arg)
		a.i("ADD R14, R6")
	}
	a.l("next")
	a.i("ADD $16, R3")
	a.i("MOVD %s_end(R0), R14", arg)
	a.i("CMP R14, R3")
	a.i("BNE vector")
	a.i("RET")
}
