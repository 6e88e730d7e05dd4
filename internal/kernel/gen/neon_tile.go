package main

import "fmt"

// neonTiles emits the matrix kernels, as isa.tiles does for x86.
func neonTiles(a *asm, s *stubs) {
	var shapes []shape
	add := func(mr, nv int) {
		name := fmt.Sprintf("tile%dx%dNEON", mr, 4*nv)
		neonTile(a, name, mr, nv)
		s.fn(name, "tileArgs", tileComment(name, mr, 4*nv))
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
