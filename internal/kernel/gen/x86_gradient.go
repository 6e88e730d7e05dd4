package main

import "fmt"

// gradientComment is the loop of a kernel of weight gradients.
func gradientComment(name string, rows, width int) string {
	return fmt.Sprintf(`// %s computes, for t < tiles, i < %d and j < %d,
// g[j/16][%d*t+i][j%%16] += s, where s is the sum of x[n][v][u][%d*t+i] * y[n][v][u][j]
// over n < nn, v < ny, u < nx.`, name, rows, width, rows, rows)
}

// gradients emits the kernels of weight gradients: gradientRxW keeps the sums of
// R input by W output channels in registers while the pixels pass by.
func (m isa) gradients(a *asm, s *stubs) {
	var shapes []shape
	for nv := 1; nv <= 3; nv++ {
		for mr := 1; mr <= m.gradientRows[nv]; mr++ {
			name := fmt.Sprintf("gradient%dx%d%s", mr, nv*m.lanes, m.name)
			m.gradient(a, name, mr, nv)
			s.fn(name, "gradientArgs", gradientComment(name, mr, nv*m.lanes))
			shapes = append(shapes, shape{fmt.Sprintf("%d<<8 | %d", nv*m.lanes, mr), name})
		}
	}
	s.pick("gradient"+m.name, "rows, width int", "gradientArgs", "// gradient"+m.name+" runs the kernel of rows input by width output channels; see gradientGeneric for what it computes.", "width<<8 | rows", shapes)
}

// walk adds a step of a walk to a register.
func walk(a *asm, arg, field, step, reg string) {
	a.i("ADDQ (%s_%s+walk_%s)(DI), %s", arg, field, step, reg)
}

// gradient emits one kernel. Registers:
//
//	DI arguments, SI x of this tile, R12 g of this tile
//	AX x, BX y, R8 R9 their steps from pixel to pixel
//	CX pixels left, R10 rows left, R11 images left, R13 second panel of g, R14 third
//
// Vectors: the sums, the output gradients, and broadcast inputs.
func (m isa) gradient(a *asm, name string, mr, nv int) {
	acc := func(i, j int) string { return m.r(i*nv + j) }
	y := func(j int) string { return m.r(mr*nv + j) }
	spare := (mr + 1) * nv
	nspare := min(m.regs-spare, 4)
	last := func(j int) bool { return j == nv-1 }
	panels := (nv*m.lanes + 15) / 16
	gmem := func(i, j int) string {
		lane := j * m.lanes
		return fmt.Sprintf("%d(%s)", 64*i+4*(lane%16), []string{"R12", "R13", "R14"}[lane/16])
	}

	a.text(name, "gradientArgs")
	a.i("MOVQ p+0(FP), DI")
	m.setMask(a, "gradientArgs_mask")
	a.i("MOVQ gradientArgs_x(DI), SI")
	a.i("MOVQ gradientArgs_g(DI), R12")
	a.i("MOVQ (gradientArgs_xwalk+walk_pixel)(DI), R8")
	a.i("MOVQ (gradientArgs_ywalk+walk_pixel)(DI), R9")
	a.l("tile")
	for i := range mr * nv {
		m.zero(a, i)
	}
	if panels > 1 {
		a.i("MOVQ gradientArgs_panel(DI), R13")
		if panels > 2 {
			a.i("LEAQ (R12)(R13*2), R14")
		}
		a.i("ADDQ R12, R13")
	}
	// Ask for the gradient now: it is needed at the end and may be far away.
	for i := range mr {
		for j := 0; j < nv; j += 16 / m.lanes {
			a.i("PREFETCHT0 %s", gmem(i, j))
		}
	}
	a.i("MOVQ SI, AX")
	a.i("MOVQ gradientArgs_y(DI), BX")
	a.i("MOVQ gradientArgs_nn(DI), R11")
	a.l("image")
	a.i("MOVQ gradientArgs_ny(DI), R10")
	a.l("row")
	a.i("MOVQ gradientArgs_nx(DI), CX")
	a.i("PCALIGN $32")
	a.l("pixel")
	for j := range nv {
		m.load(a, fmt.Sprintf("%d(BX)", j*m.bytes()), y(j), last(j))
	}
	// The pixels of a tile lie too far apart for the CPU to guess the next.
	a.i("PREFETCHT0 (AX)(R8*8)")
	if mr > 8 {
		a.i("PREFETCHT0 %d(AX)(R8*8)", 4*mr-4)
	}
	for j := 0; j < nv; j += 16 / m.lanes {
		a.i("PREFETCHT0 %d(BX)(R9*8)", j*m.bytes())
	}
	for i := range mr {
		if nv == 1 && m.masked {
			a.i("VFMADD231PS.BCST %d(AX), %s, %s", 4*i, y(0), acc(i, 0))
			continue
		}
		b := m.r(spare + i%nspare)
		a.i("VBROADCASTSS %d(AX), %s", 4*i, b)
		for j := range nv {
			a.i("VFMADD231PS %s, %s, %s", y(j), b, acc(i, j))
		}
	}
	a.i("ADDQ R8, AX")
	a.i("ADDQ R9, BX")
	a.i("DECQ CX")
	a.i("JNE pixel")
	walk(a, "gradientArgs", "xwalk", "row", "AX")
	walk(a, "gradientArgs", "ywalk", "row", "BX")
	a.i("DECQ R10")
	a.i("JNE row")
	walk(a, "gradientArgs", "xwalk", "image", "AX")
	walk(a, "gradientArgs", "ywalk", "image", "BX")
	a.i("DECQ R11")
	a.i("JNE image")
	for i := range mr {
		for j := range nv {
			if last(j) && m.masked {
				m.load(a, gmem(i, j), y(j), true)
				a.i("VADDPS %s, %s, %s", y(j), acc(i, j), acc(i, j))
			} else {
				a.i("VADDPS %s, %s, %s", gmem(i, j), acc(i, j), acc(i, j))
			}
			m.store(a, acc(i, j), gmem(i, j), last(j))
		}
	}
	a.i("ADDQ $%d, SI", 4*mr)
	a.i("ADDQ $%d, R12", 64*mr)
	a.i("DECQ gradientArgs_tiles(DI)")
	a.i("JNE tile")
	a.i("VZEROUPPER")
	a.i("RET")
}
