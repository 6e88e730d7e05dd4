package main

import "fmt"

// tiles emits the matrix kernels: tileRxW multiplies R pixel rows by W output
// channels held in panels, for R from 1 to what the register file allows. The
// one-row kernel of four panels is for matrix-vector products.
func (m isa) tiles(a *asm, s *stubs) {
	var shapes []shape
	add := func(mr, nv int) {
		name := fmt.Sprintf("tile%dx%d%s", mr, nv*m.lanes, m.name)
		m.tile(a, name, mr, nv)
		s.fn(name, "tileArgs", tileComment(name, mr, nv*m.lanes))
		shapes = append(shapes, shape{fmt.Sprintf("%d<<8 | %d", nv*m.lanes, mr), name})
	}
	for nv := 1; nv <= 3; nv++ {
		for mr := 1; mr <= m.rows[nv]; mr++ {
			add(mr, nv)
		}
	}
	add(1, 64/m.lanes)
	s.pick("tile"+m.name, "rows, width int", "tileArgs", "// tile"+m.name+" runs the kernel of rows pixels by width channels; see tileGeneric for what it computes.", "width<<8 | rows", shapes)
}

// rowMem addresses row i of a tile of mr rows. Rows from (mr+1)/2 on hang off
// the second base, so that a tile may cover two lines of an image. The row
// stride is in R9, three times it in R15 and five times it in R14.
func rowMem(i, mr, disp int) string {
	base, half := "AX", (mr+1)/2
	if i >= half {
		base, i = "BX", i-half
	}
	d := ""
	if disp != 0 {
		d = fmt.Sprint(disp)
	}
	return d + "(" + base + ")" + []string{"", "(R9*1)", "(R9*2)", "(R15*1)", "(R9*4)", "(R14*1)", "(R15*2)"}[i]
}

// rowBases loads what rowMem needs: the rows start at ptr, stride and the
// offset of the second half come from the argument block.
func rowBases(a *asm, mr int, ptr, stride, half string) {
	a.i("MOVQ %s(DI), R9", stride)
	if h := (mr + 1) / 2; h > 3 {
		a.i("LEAQ (R9)(R9*2), R15")
		if h > 5 {
			a.i("LEAQ (R9)(R9*4), R14")
		}
	}
	a.i("MOVQ %s, AX", ptr)
	if mr > 1 {
		a.i("MOVQ %s(DI), BX", half)
		a.i("ADDQ %s, BX", ptr)
	}
}

// tile emits one matrix kernel. Registers:
//
//	DI arguments, SI pixels of this tile, DX output of this tile
//	R11 weights to fetch
//	AX BX R9 R14 R15 row addresses (see rowMem)
//	R12 weights, R8 bytes between panels, R15 three times that when mr is 1
//	R13 channels left, CX taps left in the row, R10 tap rows left
func (m isa) tile(a *asm, name string, mr, nv int) {
	acc := func(i, j int) string { return m.r(i*nv + j) }
	// Weights are read once and used for every row; a single row reads them
	// straight from memory.
	nw := nv
	if mr == 1 {
		nw = 1
	}
	w := func(j int) string { return m.r(mr*nv + j%nw) }
	spare := mr*nv + nw // first broadcast register
	nspare := min(m.regs-spare, 4)
	panels := max(1, nv*m.lanes/16)
	if nv*m.lanes > 16 && nv*m.lanes%16 != 0 {
		panels++
	}
	vecMem := func(disp, j int) string { // vector j of the weight row at disp
		perPanel := 16 / m.lanes
		disp += j % perPanel * m.bytes()
		return fmt.Sprintf("%d(R12)", disp) + []string{"", "(R8*1)", "(R8*2)", "(R15*1)"}[j/perPanel]
	}
	last := func(j int) bool { return j == nv-1 }

	a.text(name, "tileArgs")
	a.i("MOVQ p+0(FP), DI")
	m.setMask(a, "tileArgs_mask")
	a.i("MOVQ tileArgs_a(DI), SI")
	a.i("MOVQ tileArgs_c(DI), DX")
	a.i("MOVQ tileArgs_fetch(DI), R11")
	if panels > 1 {
		a.i("MOVQ tileArgs_panel(DI), R8")
	}

	a.l("tile")
	for i := range mr * nv {
		m.zero(a, i)
	}
	a.i("CMPQ tileArgs_resume(DI), $0")
	a.i("JEQ start")
	rowBases(a, mr, "DX", "tileArgs_ldc", "tileArgs_chalf")
	for i := range mr {
		for j := range nv {
			m.load(a, rowMem(i, mr, j*m.bytes()), acc(i, j), last(j))
		}
	}
	a.l("start")
	// Ask for the output and the residual now: they may be far away, and a tile
	// that waits for them at its end computes nothing meanwhile.
	rowBases(a, mr, "DX", "tileArgs_ldc", "tileArgs_chalf")
	ask := func() {
		for i := range mr {
			for off := 0; off < nv*m.bytes(); off += 64 {
				a.i("PREFETCHT0 %s", rowMem(i, mr, off))
			}
		}
	}
	ask()
	a.i("MOVQ tileArgs_res(DI), R13")
	a.i("TESTQ R13, R13")
	a.i("JEQ sum")
	a.i("SUBQ tileArgs_c(DI), R13")
	a.i("ADDQ R13, AX")
	if mr > 1 {
		a.i("ADDQ R13, BX")
	}
	ask()
	a.l("sum")
	rowBases(a, mr, "SI", "tileArgs_lda", "tileArgs_half")
	if panels > 3 {
		a.i("LEAQ (R8)(R8*2), R15")
	}
	a.i("MOVQ tileArgs_w(DI), R12")
	a.i("MOVQ tileArgs_ky(DI), R10")

	step := func(u int) {
		if mr == 1 {
			b := m.r(spare + u%nspare)
			a.i("VBROADCASTSS %s, %s", rowMem(0, 1, 4*u), b)
			for j := range nv {
				a.i("VFMADD231PS %s, %s, %s", vecMem(64*u, j), b, acc(0, j))
			}
			return
		}
		for j := range nv {
			a.i("VMOVUPS %s, %s", vecMem(64*u, j), w(j))
		}
		for i := range mr {
			b := m.r(spare + i%nspare)
			a.i("VBROADCASTSS %s, %s", rowMem(i, mr, 4*u), b)
			for j := range nv {
				a.i("VFMADD231PS %s, %s, %s", w(j), b, acc(i, j))
			}
		}
	}
	advance := func(u int) {
		a.i("ADDQ $%d, R12", 64*u)
		a.i("ADDQ $%d, AX", 4*u)
		if mr > 1 {
			a.i("ADDQ $%d, BX", 4*u)
		}
	}
	const unroll = 4
	a.l("taprow")
	a.i("MOVQ tileArgs_kx(DI), CX")
	a.l("tap")
	a.i("MOVQ tileArgs_k(DI), R13")
	a.i("SUBQ $%d, R13", unroll)
	a.i("JLT few")
	a.i("PCALIGN $32")
	a.l("many")
	a.i("PREFETCHT1 (R11)")
	a.i("PREFETCHT1 64(R11)")
	for u := range unroll {
		step(u)
	}
	a.i("ADDQ tileArgs_fetchstep(DI), R11")
	advance(unroll)
	a.i("SUBQ $%d, R13", unroll)
	a.i("JGE many")
	a.l("few")
	a.i("ADDQ $%d, R13", unroll)
	a.i("JEQ next")
	a.l("one")
	step(0)
	advance(1)
	a.i("DECQ R13")
	a.i("JNE one")
	a.l("next")
	a.i("ADDQ tileArgs_wskip(DI), R12")
	skip := func(field string) {
		a.i("MOVQ %s(DI), R13", field)
		a.i("ADDQ R13, AX")
		if mr > 1 {
			a.i("ADDQ R13, BX")
		}
	}
	a.i("DECQ CX")
	a.i("JEQ rowdone")
	skip("tileArgs_askip")
	a.i("JMP tap")
	a.l("rowdone")
	skip("tileArgs_arow")
	a.i("DECQ R10")
	a.i("JNE taprow")

	// acc*scale + bias, + residual, clamp, store.
	rowBases(a, mr, "DX", "tileArgs_ldc", "tileArgs_chalf")
	a.i("CMPQ tileArgs_raw(DI), $0")
	a.i("JNE store")
	a.i("MOVQ tileArgs_scale(DI), R12")
	a.i("MOVQ tileArgs_bias(DI), R13")
	bias := m.r(spare)
	for j := range nv {
		m.load(a, fmt.Sprintf("%d(R12)", j*m.bytes()), w(j), last(j))
		m.load(a, fmt.Sprintf("%d(R13)", j*m.bytes()), bias, last(j))
		for i := range mr {
			a.i("VFMADD213PS %s, %s, %s", bias, w(j), acc(i, j))
		}
	}
	a.i("MOVQ tileArgs_res(DI), R13")
	a.i("TESTQ R13, R13")
	a.i("JEQ clamp")
	a.i("SUBQ tileArgs_c(DI), R13")
	a.i("ADDQ R13, AX")
	if mr > 1 {
		a.i("ADDQ R13, BX")
	}
	for i := range mr {
		for j := range nv {
			if last(j) && m.masked {
				m.load(a, rowMem(i, mr, j*m.bytes()), bias, true)
				a.i("VADDPS %s, %s, %s", bias, acc(i, j), acc(i, j))
			} else {
				a.i("VADDPS %s, %s, %s", rowMem(i, mr, j*m.bytes()), acc(i, j), acc(i, j))
			}
		}
	}
	a.i("SUBQ R13, AX")
	if mr > 1 {
		a.i("SUBQ R13, BX")
	}
	a.l("clamp")
	a.i("VBROADCASTSS tileArgs_lo(DI), %s", w(0))
	a.i("VBROADCASTSS tileArgs_hi(DI), %s", bias)
	for i := range mr {
		for j := range nv {
			m.clamp(a, acc(i, j), w(0), bias)
		}
	}
	a.l("store")
	for i := range mr {
		for j := range nv {
			m.store(a, acc(i, j), rowMem(i, mr, j*m.bytes()), last(j))
		}
	}
	a.i("ADDQ tileArgs_next(DI), SI")
	a.i("ADDQ tileArgs_cnext(DI), DX")
	a.i("DECQ tileArgs_tiles(DI)")
	a.i("JNE tile")
	a.i("VZEROUPPER")
	a.i("RET")
}
