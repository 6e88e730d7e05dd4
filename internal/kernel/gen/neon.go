package main

import (
	"fmt"
	"math"
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

// neonTiles emits the matrix kernels, as isa.tiles does for x86.
func neonTiles(a *asm, s *stubs) {
	var shapes []shape
	add := func(mr, nv int) {
		name := fmt.Sprintf("tile%dx%dNEON", mr, 4*nv)
		neonTile(a, name, mr, nv)
		s.fn(name, "tileArgs", fmt.Sprintf("// %s is tile with %d rows and %d channels.", name, mr, 4*nv))
		shapes = append(shapes, shape{fmt.Sprintf("%d<<8 | %d", 4*nv, mr), name})
	}
	for _, nv := range []int{1, 2, 4} {
		for mr := 1; mr <= 4; mr++ {
			add(mr, nv)
		}
	}
	add(1, 16)
	s.pick("tileNEON", "rows, width int", "tileArgs", "// tileNEON runs the kernel of rows pixels by width channels; see tileGeneric for what it computes.", "width<<8 | rows", shapes)
}

// neonTile emits one matrix kernel. Registers:
//
//	R0 arguments, R1 pixels of this tile, R3 output of this tile, R5 tiles left
//	R6 to R9 the rows
//	R10, and R19 to R21 for more panels, weights
//	R11 channels left, R12 taps left in the row, R13 tap rows left, R14 R16 scratch
//	V0 to V3 four channels of each row, V4 to V7 weights, V16 to V31 sums
func neonTile(a *asm, name string, mr, nv int) {
	panels := max(1, nv/4)
	vectors := min(nv, 4) // of a panel
	weights := []int{10, 19, 20, 21}[:panels]
	acc := func(i, j int) int { return 16 + i*nv + j }
	rows := func(ptr, stride, half string) {
		a.i("MOVD %s(R0), R14", stride)
		a.i("MOVD %s, R6", ptr)
		for i := 1; i < mr; i++ {
			if i == (mr+1)/2 {
				a.i("MOVD %s(R0), R16", half)
				a.i("ADD R16, %s, R%d", ptr, 6+i)
			} else {
				a.i("ADD R14, R%d, R%d", 5+i, 6+i)
			}
		}
	}
	// each calls f for the vectors of row i, a register list at a time; R16 is
	// left at the address of the list.
	each := func(i int, base string, f func(first, n int)) {
		for p := range panels {
			if p == 0 {
				a.i("MOVD %s, R16", base)
			} else {
				a.i("ADD $64, R16")
			}
			f(acc(i, 4*p), vectors)
		}
	}

	a.text(name, "tileArgs")
	a.i("MOVD p+0(FP), R0")
	a.i("MOVD tileArgs_a(R0), R1")
	a.i("MOVD tileArgs_c(R0), R3")
	a.i("MOVD tileArgs_tiles(R0), R5")
	a.l("tile")
	for i := range mr * nv {
		neonZero(a, 16+i)
	}
	a.i("MOVD tileArgs_resume(R0), R14")
	a.i("CBZ R14, start")
	rows("R3", "tileArgs_ldc", "tileArgs_chalf")
	for i := range mr {
		each(i, fmt.Sprintf("R%d", 6+i), func(first, n int) { a.i("VLD1 (R16), %s", neonList(first, n)) })
	}
	a.l("start")
	rows("R1", "tileArgs_lda", "tileArgs_half")
	a.i("MOVD tileArgs_w(R0), R10")
	if panels > 1 {
		a.i("MOVD tileArgs_panel(R0), R14")
		for p := 1; p < panels; p++ {
			a.i("ADD R14, R%d, R%d", weights[p-1], weights[p])
		}
	}
	step := func(lane int) {
		for p, w := range weights {
			if vectors == 4 {
				a.i("VLD1.P 64(R%d), %s", w, neonList(4, 4))
			} else {
				a.i("VLD1 (R%d), %s", w, neonList(4, vectors))
				a.i("ADD $64, R%d", w)
			}
			for i := range mr {
				for j := range vectors {
					fmlaLane(a, acc(i, 4*p+j), 4+j, i, lane)
				}
			}
		}
	}
	a.i("MOVD tileArgs_ky(R0), R13")
	a.l("taprow")
	a.i("MOVD tileArgs_kx(R0), R12")
	a.l("tap")
	a.i("MOVD tileArgs_k(R0), R11")
	a.i("SUBS $4, R11, R11")
	a.i("BLT few")
	a.i("PCALIGN $16")
	a.l("many")
	for i := range mr {
		a.i("VLD1.P 16(R%d), [V%d.S4]", 6+i, i)
	}
	for lane := range 4 {
		step(lane)
	}
	a.i("SUBS $4, R11, R11")
	a.i("BGE many")
	a.l("few")
	a.i("ADDS $4, R11, R11")
	a.i("BEQ next")
	a.l("one")
	for i := range mr {
		a.i("VLD1R.P 4(R%d), [V%d.S4]", 6+i, i)
	}
	step(0)
	a.i("SUBS $1, R11, R11")
	a.i("BNE one")
	a.l("next")
	a.i("MOVD tileArgs_wskip(R0), R14")
	for _, w := range weights {
		a.i("ADD R14, R%d", w)
	}
	skip := func(field string) {
		a.i("MOVD %s(R0), R14", field)
		for i := range mr {
			a.i("ADD R14, R%d", 6+i)
		}
	}
	a.i("SUBS $1, R12, R12")
	a.i("BEQ rowdone")
	skip("tileArgs_askip")
	a.i("B tap")
	a.l("rowdone")
	skip("tileArgs_arow")
	a.i("SUBS $1, R13, R13")
	a.i("BNE taprow")

	rows("R3", "tileArgs_ldc", "tileArgs_chalf")
	a.i("MOVD tileArgs_raw(R0), R14")
	a.i("CBNZ R14, store")
	a.i("MOVD tileArgs_scale(R0), R10")
	a.i("MOVD tileArgs_bias(R0), R11")
	for p := range panels {
		a.i("VLD1.P %d(R10), %s", 16*vectors, neonList(4, vectors))
		a.i("VLD1.P %d(R11), %s", 16*vectors, neonList(0, vectors))
		for i := range mr {
			for j := range vectors {
				fmul(a, acc(i, 4*p+j), acc(i, 4*p+j), 4+j)
				fadd(a, acc(i, 4*p+j), acc(i, 4*p+j), j)
			}
		}
	}
	a.i("MOVD tileArgs_res(R0), R14")
	a.i("CBZ R14, clamp")
	a.i("MOVD tileArgs_c(R0), R16")
	a.i("SUB R16, R14, R14")
	for i := range mr {
		a.i("ADD R14, R%d, R10", 6+i)
		each(i, "R10", func(first, n int) {
			a.i("VLD1 (R16), %s", neonList(4, n))
			for j := range n {
				fadd(a, first+j, first+j, 4+j)
			}
		})
	}
	a.l("clamp")
	neonBroadcast(a, "tileArgs_lo", 0)
	neonBroadcast(a, "tileArgs_hi", 1)
	for i := range mr * nv {
		neonClamp(a, 16+i, 0, 1)
	}
	a.l("store")
	for i := range mr {
		each(i, fmt.Sprintf("R%d", 6+i), func(first, n int) { a.i("VST1 %s, (R16)", neonList(first, n)) })
	}
	a.i("MOVD tileArgs_next(R0), R14")
	a.i("ADD R14, R1")
	a.i("MOVD tileArgs_cnext(R0), R14")
	a.i("ADD R14, R3")
	a.i("SUBS $1, R5, R5")
	a.i("BNE tile")
	a.i("RET")
}

// neonOutputs is the most outputs of a depthwise tile.
const neonOutputs = 8

// neonWindows emits the depthwise kernels, as isa.windows does for x86.
// Grouped convolutions need none: the matrix kernels go down to four channels.
func neonWindows(a *asm, s *stubs) {
	var shapes []shape
	for _, kernel := range []int{3, 5} {
		for _, stride := range []int{1, 2} {
			for n := 1; n <= neonOutputs; n++ {
				name := fmt.Sprintf("depthwise%ds%dx%dNEON", kernel, stride, n)
				neonDepthwise(a, name, kernel, stride, n)
				s.fn(name, "windowArgs", fmt.Sprintf("// %s is depthwise with a %d×%d kernel, stride %d, %d outputs a tile.", name, kernel, kernel, stride, n))
				shapes = append(shapes, shape{fmt.Sprintf("%d<<8 | %d<<4 | %d", kernel, stride, n), name})
			}
		}
	}
	s.pick("depthwiseNEON", "kernel, stride, outputs int", "windowArgs", "// depthwiseNEON runs the depthwise kernel of this shape; see depthwiseGeneric.", "kernel<<8 | stride<<4 | outputs", shapes)
}

// neonDepthwise emits one kernel. Registers:
//
//	R0 arguments, R1 first column of this tile, R2 its output, R3 tiles left
//	R4 tap row in the input, R5 its weights, R6 bytes between taps, R7 rows left
//	R8 column, R9 bytes between columns, R10 and R11 columns outside the image
//	R12 byte offset of the channel block, R14 R16 scratch
//	V0 to V4 a row of weights, V5 and V6 input, V16 and up the outputs
func neonDepthwise(a *asm, name string, kernel, stride, n int) {
	columns := (n-1)*stride + kernel
	clip := (kernel - 1) / 2
	a.text(name, "windowArgs")
	a.i("MOVD p+0(FP), R0")
	a.i("MOVD windowArgs_pix(R0), R9")
	a.i("MOVD windowArgs_wtap(R0), R6")
	a.i("MOVD $0, R12")
	a.l("block")
	a.i("MOVD windowArgs_x(R0), R1")
	a.i("MOVD windowArgs_off(R0), R14")
	a.i("ADD R14, R1")
	a.i("ADD R12, R1")
	a.i("MOVD windowArgs_y(R0), R2")
	a.i("ADD R12, R2")
	a.i("MOVD windowArgs_tiles(R0), R3")
	a.i("MOVD windowArgs_left(R0), R10")
	a.l("tile")
	a.i("MOVD windowArgs_right(R0), R11")
	a.i("CMP $1, R3")
	a.i("CSEL EQ, R11, ZR, R11")
	for o := range n {
		neonZero(a, 16+o)
	}
	a.i("MOVD R1, R4")
	a.i("MOVD windowArgs_w(R0), R5")
	a.i("ADD R12, R5")
	a.i("MOVD windowArgs_ny(R0), R7")
	a.l("row")
	a.i("MOVD R5, R16")
	for k := range kernel {
		a.i("VLD1 (R16), [V%d.S4]", k)
		if k < kernel-1 {
			a.i("ADD R6, R16")
		}
	}
	a.i("MOVD R4, R8")
	for j := range columns {
		skip := false
		if j < clip {
			a.i("CMP $%d, R10", j)
			a.i("BGT skip%d", j)
			skip = true
		}
		if columns-j <= clip {
			a.i("CMP $%d, R11", columns-j)
			a.i("BGE skip%d", j)
			skip = true
		}
		a.i("VLD1 (R8), [V%d.S4]", 5+j%2)
		for k := range kernel {
			if o := j - k; o >= 0 && o%stride == 0 && o/stride < n {
				fmla(a, 16+o/stride, 5+j%2, k)
			}
		}
		if skip {
			a.l("skip%d", j)
		}
		if j < columns-1 {
			a.i("ADD R9, R8")
		}
	}
	a.i("MOVD windowArgs_row(R0), R14")
	a.i("ADD R14, R4")
	a.i("MOVD windowArgs_wrow(R0), R14")
	a.i("ADD R14, R5")
	a.i("SUBS $1, R7, R7")
	a.i("BNE row")
	for i, field := range []string{"scale", "bias"} {
		a.i("MOVD windowArgs_%s(R0), R16", field)
		a.i("ADD R12, R16")
		a.i("VLD1 (R16), [V%d.S4]", i)
	}
	neonBroadcast(a, "windowArgs_lo", 2)
	neonBroadcast(a, "windowArgs_hi", 3)
	a.i("MOVD windowArgs_ypix(R0), R14")
	for o := range n {
		fmul(a, 16+o, 16+o, 0)
		fadd(a, 16+o, 16+o, 1)
		neonClamp(a, 16+o, 2, 3)
		a.i("VST1 [V%d.S4], (R2)", 16+o)
		a.i("ADD R14, R2")
	}
	a.i("MOVD windowArgs_next(R0), R14")
	a.i("ADD R14, R1")
	a.i("MOVD $0, R10")
	a.i("SUBS $1, R3, R3")
	a.i("BNE tile")
	a.i("ADD $16, R12")
	a.i("MOVD windowArgs_end(R0), R14")
	a.i("CMP R14, R12")
	a.i("BNE block")
	a.i("RET")
}

// neonElementwise emits the loops over rows, as isa.elementwise does for x86.
// V0 and V1 are the inputs, V2 to V7 scratch, V8 and V9 the limits, V16 and up
// the constants of exp.
func neonElementwise(a *asm, s *stubs) {
	a.WriteString("\n")
	for i, c := range expConst {
		fmt.Fprintf(a, "DATA expNEON<>+%d(SB)/4, $0x%08x // %s\n", 4*i, math.Float32bits(c.value), c.name)
	}
	fmt.Fprintf(a, "GLOBL expNEON<>(SB), RODATA|NOPTR, $%d\n", 4*len(expConst))
	constant := func(name string) int {
		for i, c := range expConst {
			if c.name == name {
				return 16 + i
			}
		}
		panic("no constant " + name)
	}
	move := func(d, n int) { a.i("VORR V%d.B16, V%d.B16, V%d.B16", n, n, d) }
	// exp replaces V0 by its exponential.
	exp := func() {
		fmin(a, 0, 0, constant("max"))
		fmax(a, 0, 0, constant("min"))
		fmul(a, 2, 0, constant("log2e"))
		neon2(a, "FCVTNS", 0x4e21a800, 2, 2)
		neon2(a, "SCVTF", 0x4e21d800, 3, 2)
		fmls(a, 0, 3, constant("ln2hi"))
		fmls(a, 0, 3, constant("ln2lo"))
		move(4, constant("p0"))
		p, t := 4, 5
		for _, k := range []string{"p1", "p2", "p3", "p4", "p5"} {
			move(t, constant(k))
			fmla(a, t, p, 0)
			p, t = t, p
		}
		fmul(a, 3, 0, 0)
		fmla(a, 0, p, 3)
		fadd(a, 0, 0, constant("one"))
		a.i("VSHL $23, V2.S4, V2.S4")
		a.i("VADD V2.S4, V0.S4, V0.S4")
	}
	sigmoid := func() {
		neon2(a, "FNEG", 0x6ea0f800, 0, 0)
		exp()
		fadd(a, 0, 0, constant("one"))
		fdiv(a, 0, constant("one"), 0)
	}
	for _, op := range []struct {
		name, comment string
		z, exp        bool
		body          func()
	}{
		{"clamp", "y = min(max(x, lo), hi)", false, false, func() { neonClamp(a, 0, 8, 9) }},
		{"add", "y = min(max(x + z, lo), hi)", true, false, func() { fadd(a, 0, 0, 1); neonClamp(a, 0, 8, 9) }},
		{"mul", "y = min(max(x · z, lo), hi)", true, false, func() { fmul(a, 0, 0, 1); neonClamp(a, 0, 8, 9) }},
		{"exp", "y = exp(x - lo)", false, true, func() { fsub(a, 0, 0, 8); exp() }},
		{"sigmoid", "y = 1 / (1 + exp(-x))", false, true, sigmoid},
		{"silu", "y = x / (1 + exp(-x))", false, true, func() { move(6, 0); sigmoid(); fmul(a, 0, 0, 6) }},
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
			a.i("MOVD $expNEON<>(SB), R16")
			for i := range expConst {
				a.i("VLD1R.P 4(R16), [V%d.S4]", 16+i)
			}
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
