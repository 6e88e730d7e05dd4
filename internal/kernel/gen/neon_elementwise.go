package main

import (
	"fmt"
	"math"
)

// neonElementwise emits the loops over rows, as isa.elementwise does for x86.
// V0 and V1 are the inputs, V2 to V7 scratch, V8 and V9 the limits, V16 and up
// the constants of exp.
func neonElementwise(a *asm, s *stubs) {
	a.WriteString("\n")
	for i, c := range expConst {
		fmt.Fprintf(a, "DATA expNEON<>+%d(SB)/4, $0x%08x // %s\n", 4*i, math.Float32bits(c.value), c.name)
	}
	fmt.Fprintf(a, "GLOBL expNEON<>(SB), RODATA|NOPTR, $%d\n", 4*len(expConst))
	for _, op := range []struct {
		name, comment string
		z, exp        bool
		body          func()
	}{
		{"clamp", "y = min(max(x, lo), hi)", false, false, func() { neonClamp(a, 0, 8, 9) }},
		{"add", "y = min(max(x + z, lo), hi)", true, false, func() { fadd(a, 0, 0, 1); neonClamp(a, 0, 8, 9) }},
		{"mul", "y = min(max(x · z, lo), hi)", true, false, func() { fmul(a, 0, 0, 1); neonClamp(a, 0, 8, 9) }},
		{"exp", "y = exp(x - lo)", false, true, func() { fsub(a, 0, 0, 8); neonExp(a) }},
		{"sigmoid", "y = 1 / (1 + exp(-x))", false, true, func() { neonSigmoid(a) }},
		{"silu", "y = x / (1 + exp(-x))", false, true, func() { neonMove(a, 6, 0); neonSigmoid(a); fmul(a, 0, 0, 6) }},
	} {
		name := op.name + "NEON"
		s.fn(name, "mapArgs", fmt.Sprintf("// %s computes %s\n// over rows of n channels, a multiple of 8.", name, op.comment))
		a.text(name, "mapArgs")
		a.i("MOVD p+0(FP), R0")
		a.i("MOVD mapArgs_x(R0), R1")
		a.i("MOVD mapArgs_y(R0), R2")
		if op.z {
			a.i("MOVD mapArgs_z(R0), R3")
		}
		a.i("MOVD mapArgs_rows(R0), R4")
		neonBroadcast(a, "mapArgs_lo", 8)
		neonBroadcast(a, "mapArgs_hi", 9)
		if op.exp {
			neonLoadExp(a)
		}
		a.l("row")
		a.i("MOVD R1, R5")
		a.i("MOVD R2, R6")
		if op.z {
			a.i("MOVD R3, R7")
		}
		a.i("MOVD mapArgs_n(R0), R8")
		a.l("vector")
		a.i("VLD1.P 16(R5), [V0.S4]")
		if op.z {
			a.i("VLD1.P 16(R7), [V1.S4]")
		}
		op.body()
		a.i("VST1.P [V0.S4], 16(R6)")
		a.i("SUBS $4, R8, R8")
		a.i("BNE vector")
		advance := func(field string, reg int) {
			a.i("MOVD %s(R0), R14", field)
			a.i("ADD R14, R%d", reg)
		}
		advance("mapArgs_ldx", 1)
		advance("mapArgs_ldy", 2)
		if op.z {
			advance("mapArgs_ldz", 3)
		}
		a.i("SUBS $1, R4, R4")
		a.i("BNE row")
		a.i("RET")
	}
}

// neonLoadExp loads the constants of exp.
func neonLoadExp(a *asm) {
	a.i("MOVD $expNEON<>(SB), R16")
	for i := range expConst {
		a.i("VLD1R.P 4(R16), [V%d.S4]", 16+i)
	}
}

// neonConstant returns the register of a constant of exp.
func neonConstant(name string) int {
	for i, c := range expConst {
		if c.name == name {
			return 16 + i
		}
	}
	panic("no constant " + name)
}

func neonMove(a *asm, d, n int) { a.i("VORR V%d.B16, V%d.B16, V%d.B16", n, n, d) }

// neonExp replaces V0 by its exponential; V2 to V5 are scratch.
func neonExp(a *asm) {
	constant := neonConstant
	fmin(a, 0, 0, constant("max"))
	fmax(a, 0, 0, constant("min"))
	fmul(a, 2, 0, constant("log2e"))
	neon2(a, "FCVTNS", 0x4e21a800, 2, 2)
	neon2(a, "SCVTF", 0x4e21d800, 3, 2)
	fmls(a, 0, 3, constant("ln2hi"))
	fmls(a, 0, 3, constant("ln2lo"))
	neonMove(a, 4, constant("p0"))
	p, t := 4, 5
	for _, k := range []string{"p1", "p2", "p3", "p4", "p5"} {
		neonMove(a, t, constant(k))
		fmla(a, t, p, 0)
		p, t = t, p
	}
	fmul(a, 3, 0, 0)
	fmla(a, 0, p, 3)
	fadd(a, 0, 0, constant("one"))
	a.i("VSHL $23, V2.S4, V2.S4")
	a.i("VADD V2.S4, V0.S4, V0.S4")
}

// neonSigmoid replaces V0 by 1/(1+exp(-V0)).
func neonSigmoid(a *asm) {
	neon2(a, "FNEG", 0x6ea0f800, 0, 0)
	neonExp(a)
	fadd(a, 0, 0, neonConstant("one"))
	fdiv(a, 0, neonConstant("one"), 0)
}
