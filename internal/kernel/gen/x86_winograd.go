package main

import "fmt"

// ops returns the arithmetic of the transforms.
func (m isa) ops(a *asm) vecOps {
	three := func(op string) func(d, x, y int) {
		return func(d, x, y int) { a.i("%s %s, %s, %s", op, m.constant(y), m.r(x), m.r(d)) }
	}
	return vecOps{
		mov: func(d, s int) { a.i("VMOVAPS %s, %s", m.r(s), m.r(d)) },
		add: three("VADDPS"), sub: three("VSUBPS"), mul: three("VMULPS"),
		fma: three("VFMADD231PS"), fnma: three("VFNMADD231PS"),
	}
}

// winograd emits the transforms of F(4×4, 3×3).
func (m isa) winograd(a *asm, s *stubs) {
	for _, k := range []struct {
		name, arg, comment string
		emit               func(a *asm, name string)
	}{
		{"winogradInput", "winogradInput", winoInputComment, m.winogradInput},
		{"winogradWeights", "winogradWeights", winoWeightsComment, m.winogradWeights},
		{"winogradOutput", "winogradOutput", winoOutputComment, m.winogradOutput},
	} {
		name := k.name + m.name
		s.fn(name, k.arg, fmt.Sprintf(k.comment, name))
		a.text(name, k.arg)
		a.i("MOVQ p+0(FP), DI")
		k.emit(a, k.arg)
		a.i("VZEROUPPER")
		a.i("RET")
	}
}

// inMemory and up stand for constants that have no register.
const inMemory = 100

// constant returns the operand of a register or a constant; SI points to those
// in memory.
func (m isa) constant(i int) string {
	if i >= inMemory {
		return fmt.Sprintf("%d(SI)", winoConstBytes*(i-inMemory))
	}
	return m.r(i)
}

// constants returns the constants of a transform. Where there are 32 registers
// they are in those from 23 on, else in memory.
func (m isa) constants(a *asm, arg string, list []int) []int {
	a.i("MOVQ %s_consts(DI), SI", arg)
	var operands []int
	for i, c := range list {
		if m.regs == 32 {
			a.i("VBROADCASTSS %d(SI), %s", winoConstBytes*c, m.r(23+i))
			operands = append(operands, 23+i)
		} else {
			operands = append(operands, inMemory+c)
		}
	}
	return operands
}

// winogradInput emits the transform of a tile of pixels. Registers:
//
//	DI arguments, R14 byte offset of the channels, SI constants, CX temporaries
//	AX pixel, BX output, R9 bytes between outputs
func (m isa) winogradInput(a *asm, arg string) {
	v, b := m.ops(a), m.bytes()
	consts := m.constants(a, arg, winoInputConst)
	a.i("MOVQ %s_tmp(DI), CX", arg)
	a.i("MOVQ %s_pos(DI), R9", arg)
	a.i("MOVQ %s_off(DI), R14", arg)
	a.i("PCALIGN $32")
	a.l("vector")
	for j := range 6 {
		for i := range 6 {
			a.i("MOVQ (%s_x+%d)(DI), AX", arg, 8*(6*i+j))
			a.i("VMOVUPS (AX)(R14*1), %s", m.r(i))
		}
		for i, r := range winoInput(v, from(0, 6), from(6, 4), consts) {
			a.i("VMOVUPS %s, %d(CX)", m.r(r), (6*i+j)*b)
		}
	}
	a.i("MOVQ %s_v(DI), BX", arg)
	a.i("ADDQ R14, BX")
	for i := range 6 {
		for j := range 6 {
			a.i("VMOVUPS %d(CX), %s", (6*i+j)*b, m.r(j))
		}
		for _, r := range winoInput(v, from(0, 6), from(6, 4), consts) {
			a.i("VMOVUPS %s, (BX)", m.r(r))
			a.i("ADDQ R9, BX")
		}
	}
	a.i("ADDQ $%d, R14", b)
	a.i("CMPQ R14, %s_end(DI)", arg)
	a.i("JNE vector")
}

// winogradWeights emits the transform of taps. Registers:
//
//	DI arguments, SI constants, R11 temporaries, CX vectors left
//	AX BX R12 rows of taps, R9 bytes between taps
//	DX output of this vector, R8 of this position, R10 bytes between positions
//
// Vectors: 0 to 2 taps, 3 to 6 their transform; with 32 registers the columns'
// transform stays in those from 7 on, else in memory.
func (m isa) winogradWeights(a *asm, arg string) {
	v, b := m.ops(a), m.bytes()
	consts := m.constants(a, arg, winoWeightConst)
	a.i("MOVQ %s_tmp(DI), R11", arg)
	a.i("MOVQ %s_tap(DI), R9", arg)
	a.i("MOVQ %s_w(DI), AX", arg)
	a.i("LEAQ (R9)(R9*2), R12")
	a.i("LEAQ (AX)(R12*1), BX")
	a.i("ADDQ BX, R12")
	a.i("MOVQ %s_u(DI), DX", arg)
	a.i("MOVQ %s_pos(DI), R10", arg)
	a.i("MOVQ %s_n(DI), CX", arg)
	load := func(i, j, r int) {
		a.i("VMOVUPS (%s)%s, %s", []string{"AX", "BX", "R12"}[i], []string{"", "(R9*1)", "(R9*2)"}[j], m.r(r))
	}
	a.i("PCALIGN $32")
	a.l("vector")
	for j := range 3 {
		for i := range 3 {
			load(i, j, i)
		}
		if m.regs == 32 {
			winoWeights(v, from(0, 3), []int{7 + j, 10 + j, 13 + j, 16 + j}, consts)
			continue
		}
		winoWeights(v, from(0, 3), from(3, 4), consts)
		for i := range 4 {
			a.i("VMOVUPS %s, %d(R11)", m.r(3+i), (3*i+j)*b)
		}
	}
	a.i("MOVQ DX, R8")
	for i := range 6 {
		g := from(0, 3)
		switch {
		case i == 0 || i == 5: // a row of taps itself
			for j := range 3 {
				load(i/2, j, j)
			}
		case m.regs == 32:
			g = from(4+3*i, 3)
		default:
			for j := range 3 {
				a.i("VMOVUPS %d(R11), %s", (3*(i-1)+j)*b, m.r(j))
			}
		}
		for _, r := range winoWeights(v, g, from(3, 4), consts) {
			a.i("VMOVUPS %s, (R8)", m.r(r))
			a.i("ADDQ R10, R8")
		}
	}
	for _, r := range []string{"AX", "BX", "R12", "DX"} {
		a.i("ADDQ $%d, %s", b, r)
	}
	a.i("DECQ CX")
	a.i("JNE vector")
}

// winogradOutput emits the transform of sums to outputs. Registers:
//
//	DI arguments, SI constants, R14 byte offset of the channels, DX temporaries
//	AX sums, BX those of this column, R9 bytes between positions, R10 between
//	rows of them, R11 three times and R12 five times that
//	R8 output row, AX output pixel, R15 bytes between pixels, R13 from the
//	output to the residual
func (m isa) winogradOutput(a *asm, arg string) {
	v, b := m.ops(a), m.bytes()
	consts := m.constants(a, arg, winoOutputConst)
	scale, bias := m.r(8), m.r(9)
	a.i("MOVQ %s_tmp(DI), DX", arg)
	a.i("MOVQ %s_pos(DI), R9", arg)
	a.i("LEAQ (R9)(R9*2), R10")
	a.i("ADDQ R10, R10")
	a.i("LEAQ (R10)(R10*2), R11")
	a.i("LEAQ (R10)(R10*4), R12")
	a.i("MOVQ %s_ypix(DI), R15", arg)
	a.i("MOVQ %s_res(DI), R13", arg)
	a.i("SUBQ %s_y(DI), R13", arg)
	a.i("MOVQ %s_off(DI), R14", arg)
	a.i("PCALIGN $32")
	a.l("vector")
	a.i("MOVQ %s_m(DI), BX", arg)
	a.i("ADDQ R14, BX")
	for j := range 6 {
		for i := range 6 {
			a.i("VMOVUPS (BX)%s, %s", []string{"", "(R10*1)", "(R10*2)", "(R11*1)", "(R10*4)", "(R12*1)"}[i], m.r(i))
		}
		a.i("ADDQ R9, BX")
		for i, r := range winoOutput(v, from(0, 6), from(6, 2), consts) {
			a.i("VMOVUPS %s, %d(DX)", m.r(r), (6*i+j)*b)
		}
	}
	a.i("MOVQ %s_scale(DI), AX", arg)
	a.i("VMOVUPS (AX)(R14*1), %s", scale)
	a.i("MOVQ %s_bias(DI), AX", arg)
	a.i("VMOVUPS (AX)(R14*1), %s", bias)
	a.i("MOVQ %s_y(DI), R8", arg)
	a.i("ADDQ R14, R8")
	for i := range 4 {
		if i > 0 {
			a.i("CMPQ %s_ny(DI), $%d", arg, i)
			a.i("JLE next")
		}
		for j := range 6 {
			a.i("VMOVUPS %d(DX), %s", (6*i+j)*b, m.r(j))
		}
		out := winoOutput(v, from(0, 6), from(6, 2), consts)
		a.i("VBROADCASTSS %s_lo(DI), %s", arg, m.r(6))
		a.i("VBROADCASTSS %s_hi(DI), %s", arg, m.r(7))
		for _, r := range out {
			a.i("VFMADD213PS %s, %s, %s", bias, scale, m.r(r))
		}
		a.i("CMPQ %s_res(DI), $0", arg)
		a.i("JEQ clamp%d", i)
		a.i("LEAQ (R8)(R13*1), AX")
		for j, r := range out {
			if j > 0 {
				a.i("CMPQ %s_nx(DI), $%d", arg, j)
				a.i("JLE clamp%d", i)
				a.i("ADDQ R15, AX")
			}
			a.i("VADDPS (AX), %s, %s", m.r(r), m.r(r))
		}
		a.l("clamp%d", i)
		a.i("MOVQ R8, AX")
		for j, r := range out {
			if j > 0 {
				a.i("CMPQ %s_nx(DI), $%d", arg, j)
				a.i("JLE row%d", i)
				a.i("ADDQ R15, AX")
			}
			m.clamp(a, m.r(r), m.r(6), m.r(7))
			a.i("VMOVUPS %s, (AX)", m.r(r))
		}
		a.l("row%d", i)
		a.i("ADDQ %s_yrow(DI), R8", arg)
	}
	a.l("next")
	a.i("ADDQ $%d, R14", b)
	a.i("CMPQ R14, %s_end(DI)", arg)
	a.i("JNE vector")
}
