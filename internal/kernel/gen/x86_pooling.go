package main

import "fmt"

// pooling emits the reductions over pixels. Registers:
//
//	DI arguments, SI window of this output, DX its output, R11 outputs left
//	R14 byte offset of the channel block
//	AX pixel, BX row of the window, R9 bytes between pixels, CX pixels left, R13 rows left
func (m isa) pooling(a *asm, s *stubs) {
	for _, op := range []string{"max", "sum"} {
		name := op + "Pool" + m.name
		loop := "y[o][c] = max(y[o][c], x[o*step + i*row + j*pix + c])"
		if op == "sum" {
			loop = "y[o][c] += x[o*step + i*row + j*pix + c], then y[o][c] *= factor"
		}
		s.fn(name, "poolArgs", fmt.Sprintf("// %s computes, for o < n, i < ny, j < nx and c < end,\n// %s.", name, loop))
		a.text(name, "poolArgs")
		a.i("MOVQ p+0(FP), DI")
		a.i("MOVQ poolArgs_x(DI), SI")
		a.i("MOVQ poolArgs_y(DI), DX")
		a.i("MOVQ poolArgs_n(DI), R11")
		a.i("MOVQ poolArgs_pix(DI), R9")
		a.i("VBROADCASTSS poolArgs_factor(DI), %s", m.r(4))
		a.l("output")
		a.i("XORQ R14, R14")
		a.l("block")
		if op == "max" {
			a.i("VMOVAPS %s, %s", m.r(4), m.r(0)) // factor is -Inf
		} else {
			m.zero(a, 0)
		}
		a.i("LEAQ (SI)(R14*1), BX")
		a.i("MOVQ poolArgs_ny(DI), R13")
		a.l("row")
		a.i("MOVQ BX, AX")
		a.i("MOVQ poolArgs_nx(DI), CX")
		a.l("pixel")
		if op == "max" {
			// VMAXPS keeps a NaN of the maximum so far; one in x is put in by hand.
			a.i("VMOVUPS (AX), %s", m.r(1))
			a.i("VMAXPS %s, %s, %s", m.r(0), m.r(1), m.r(0))
			if m.masked {
				a.i("VCMPPS $3, %s, %s, K2", m.r(1), m.r(1))
				a.i("VMOVAPS %s, K2, %s", m.r(1), m.r(0))
			} else {
				a.i("VCMPPS $3, %s, %s, %s", m.r(1), m.r(1), m.r(2))
				a.i("VBLENDVPS %s, %s, %s, %s", m.r(2), m.r(1), m.r(0), m.r(0))
			}
		} else {
			a.i("VADDPS (AX), %s, %s", m.r(0), m.r(0))
		}
		a.i("ADDQ R9, AX")
		a.i("DECQ CX")
		a.i("JNE pixel")
		a.i("ADDQ poolArgs_row(DI), BX")
		a.i("DECQ R13")
		a.i("JNE row")
		if op == "sum" {
			a.i("VMULPS %s, %s, %s", m.r(4), m.r(0), m.r(0))
		}
		a.i("VMOVUPS %s, (DX)(R14*1)", m.r(0))
		a.i("ADDQ $%d, R14", m.bytes())
		a.i("CMPQ R14, poolArgs_end(DI)")
		a.i("JNE block")
		a.i("ADDQ poolArgs_step(DI), SI")
		a.i("ADDQ poolArgs_ypix(DI), DX")
		a.i("DECQ R11")
		a.i("JNE output")
		a.i("VZEROUPPER")
		a.i("RET")
	}
	m.mean(a, s)
}

// mean emits the reduction over all pixels of an image, four at a time: a
// chain of dependent additions over thousands of pixels would wait on itself.
func (m isa) mean(a *asm, s *stubs) {
	name := "mean" + m.name
	s.fn(name, "poolArgs", fmt.Sprintf("// %s computes, for j < nx and c < end, s[j%%4][c] += x[j*pix + c], then\n// y[c] = ((s[0][c] + s[1][c]) + (s[2][c] + s[3][c])) * factor.", name))
	a.text(name, "poolArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ poolArgs_x(DI), SI")
	a.i("MOVQ poolArgs_y(DI), DX")
	a.i("MOVQ poolArgs_pix(DI), R9")
	a.i("LEAQ (R9)(R9*2), R15")
	a.i("XORQ R14, R14")
	a.l("block")
	for i := range 4 {
		m.zero(a, i)
	}
	a.i("LEAQ (SI)(R14*1), AX")
	a.i("MOVQ poolArgs_nx(DI), CX")
	a.i("SUBQ $4, CX")
	a.i("JLT few")
	a.l("many")
	for i, idx := range []string{"", "(R9*1)", "(R9*2)", "(R15*1)"} {
		a.i("VADDPS (AX)%s, %s, %s", idx, m.r(i), m.r(i))
	}
	a.i("LEAQ (AX)(R9*4), AX")
	a.i("SUBQ $4, CX")
	a.i("JGE many")
	a.l("few")
	for i := range 3 {
		a.i("CMPQ CX, $%d", i-3)
		a.i("JLT sum")
		a.i("VADDPS (AX), %s, %s", m.r(i), m.r(i))
		a.i("ADDQ R9, AX")
	}
	a.l("sum")
	a.i("VADDPS %s, %s, %s", m.r(1), m.r(0), m.r(0))
	a.i("VADDPS %s, %s, %s", m.r(3), m.r(2), m.r(2))
	a.i("VADDPS %s, %s, %s", m.r(2), m.r(0), m.r(0))
	a.i("VBROADCASTSS poolArgs_factor(DI), %s", m.r(1))
	a.i("VMULPS %s, %s, %s", m.r(1), m.r(0), m.r(0))
	a.i("VMOVUPS %s, (DX)(R14*1)", m.r(0))
	a.i("ADDQ $%d, R14", m.bytes())
	a.i("CMPQ R14, poolArgs_end(DI)")
	a.i("JNE block")
	a.i("VZEROUPPER")
	a.i("RET")
}
