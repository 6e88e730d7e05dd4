package main

import "fmt"

// tapGradientComment is the loop of a kernel of depthwise weight gradients.
func tapGradientComment(name string, kernel int) string {
	return fmt.Sprintf(`// %s computes, for i, j < %d and each channel c, g[i][j][c] += s,
// where s is the sum of x[n][v][u][i][j][c] * y[n][v][u][c] over n < nn, v < ny, u < nx.`, name, kernel)
}

// backComment is the loop of a kernel of depthwise input gradients.
func backComment(name string, kernel, outputs int) string {
	return fmt.Sprintf(`// %s computes, for t < tiles, o < %d and each channel c,
// y[t][o][c] = s, where s is the sum of x[t][i][j][c] * w[2*i][%d-o+2*j][c]
// over i < ny and those j for which that is a tap.`, name, outputs, backTap(kernel, 0, 0))
}

// depthwiseGradients emits the kernels of depthwise gradients that the forward
// ones cannot compute: those of weights, and those of inputs with stride 2.
func (m isa) depthwiseGradients(a *asm, s *stubs) {
	var weights, inputs []shape
	for _, kernel := range []int{3, 5} {
		name := fmt.Sprintf("tapGradient%d%s", kernel, m.name)
		m.tapGradient(a, name, kernel)
		s.fn(name, "tapGradientArgs", tapGradientComment(name, kernel))
		weights = append(weights, shape{fmt.Sprint(kernel), name})
		for n := 1; n <= m.window; n++ {
			name := fmt.Sprintf("depthwiseBack%dx%d%s", kernel, n, m.name)
			m.depthwiseBack(a, name, kernel, n)
			s.fn(name, "windowArgs", backComment(name, kernel, n))
			inputs = append(inputs, shape{fmt.Sprintf("%d<<8 | %d", kernel, n), name})
		}
	}
	s.pick("tapGradient"+m.name, "kernel int", "tapGradientArgs", "// tapGradient"+m.name+" runs the kernel of depthwise weight gradients; see tapGradientGeneric.", "kernel", weights)
	s.pick("depthwiseBack"+m.name, "kernel, outputs int", "windowArgs", "// depthwiseBack"+m.name+" runs the kernel of depthwise input gradients of this shape; see depthwiseBackGeneric.", "kernel<<8 | outputs", inputs)
}

// tapGradient emits a kernel of weight gradients. Registers:
//
//	DI arguments, R14 byte offset of the channel block
//	SI, AX, DX, R12, R13 x at the first tap of each row of taps, R8 its step
//	R10 bytes between taps, R15 three times that
//	BX y, R9 its step, CX pixels left, R11 rows left
//
// The sums of all taps are in registers where they fit; else some rows of taps
// are, and the pixels pass by again for the others.
func (m isa) tapGradient(a *asm, name string, kernel int) {
	a.text(name, "tapGradientArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ (tapGradientArgs_xwalk+walk_pixel)(DI), R8")
	a.i("MOVQ (tapGradientArgs_ywalk+walk_pixel)(DI), R9")
	a.i("MOVQ tapGradientArgs_pix(DI), R10")
	a.i("LEAQ (R10)(R10*2), R15")
	a.i("XORQ R14, R14")
	rows := min(kernel, (m.regs-2)/kernel)
	if 2*kernel*kernel+2 <= m.regs {
		m.tapBlock(a, "two", kernel, 0, kernel, 2)
	}
	a.l("one")
	a.i("CMPQ R14, tapGradientArgs_end(DI)")
	a.i("JEQ done")
	for from := 0; from < kernel; from += rows {
		m.tapBlock(a, fmt.Sprintf("one%d", from), kernel, from, min(rows, kernel-from), 1)
	}
	a.i("ADDQ $%d, R14", m.bytes())
	a.i("JMP one")
	a.l("done")
	a.i("VZEROUPPER")
	a.i("RET")
}

// tapBlock emits the sums of some rows of taps of nv vectors of channels; with
// two it loops over channels as long as there are as many.
func (m isa) tapBlock(a *asm, label string, kernel, from, rows, nv int) {
	acc := func(i, j, v int) string { return m.r((i*kernel+j)*nv + v) }
	y := func(v int) string { return m.r(rows*kernel*nv + v) }
	ptr := []string{"SI", "AX", "DX", "R12", "R13"}[:rows]
	if nv > 1 {
		a.l(label)
		a.i("MOVQ tapGradientArgs_end(DI), AX")
		a.i("SUBQ R14, AX")
		a.i("CMPQ AX, $%d", nv*m.bytes())
		a.i("JLT %sdone", label)
	}
	for i := range rows * kernel * nv {
		m.zero(a, i)
	}
	a.i("MOVQ tapGradientArgs_x(DI), SI")
	a.i("ADDQ R14, SI")
	a.i("MOVQ tapGradientArgs_row(DI), BX")
	for range from {
		a.i("ADDQ BX, SI")
	}
	for i := 1; i < rows; i++ {
		a.i("LEAQ (%s)(BX*1), %s", ptr[i-1], ptr[i])
	}
	a.i("MOVQ tapGradientArgs_y(DI), BX")
	a.i("ADDQ R14, BX")
	a.i("MOVQ tapGradientArgs_nn(DI), CX")
	a.i("MOVQ CX, tapGradientArgs_left(DI)")
	a.l("%simage", label)
	a.i("MOVQ tapGradientArgs_ny(DI), R11")
	a.l("%srow", label)
	a.i("MOVQ tapGradientArgs_nx(DI), CX")
	a.i("PCALIGN $32")
	a.l("%spixel", label)
	for v := range nv {
		a.i("VMOVUPS %d(BX), %s", v*m.bytes(), y(v))
	}
	for i := range rows {
		for j := range kernel {
			for v := range nv {
				mem := fmt.Sprintf("%d(%s)", v*m.bytes(), ptr[i]) + []string{"", "(R10*1)", "(R10*2)", "(R15*1)", "(R10*4)"}[j]
				a.i("VFMADD231PS %s, %s, %s", mem, y(v), acc(i, j, v))
			}
		}
	}
	for _, p := range ptr {
		a.i("ADDQ R8, %s", p)
	}
	a.i("ADDQ R9, BX")
	a.i("DECQ CX")
	a.i("JNE %spixel", label)
	step := func(step string) {
		a.i("MOVQ (tapGradientArgs_xwalk+walk_%s)(DI), CX", step)
		for _, p := range ptr {
			a.i("ADDQ CX, %s", p)
		}
		walk(a, "tapGradientArgs", "ywalk", step, "BX")
	}
	step("row")
	a.i("DECQ R11")
	a.i("JNE %srow", label)
	step("image")
	a.i("DECQ tapGradientArgs_left(DI)")
	a.i("JNE %simage", label)
	a.i("MOVQ tapGradientArgs_g(DI), SI")
	a.i("ADDQ R14, SI")
	a.i("MOVQ tapGradientArgs_gtap(DI), BX")
	for range from * kernel {
		a.i("ADDQ BX, SI")
	}
	for i := range rows {
		for j := range kernel {
			for v := range nv {
				a.i("VADDPS %d(SI), %s, %s", v*m.bytes(), acc(i, j, v), acc(i, j, v))
				a.i("VMOVUPS %s, %d(SI)", acc(i, j, v), v*m.bytes())
			}
			a.i("ADDQ BX, SI")
		}
	}
	if nv > 1 {
		a.i("ADDQ $%d, R14", nv*m.bytes())
		a.i("JMP %s", label)
		a.l("%sdone", label)
	}
}

// backTap returns which tap of reversed weights leads from column j of a tile
// to output o of a depthwise input gradient of stride 2 and (kernel-1)/2 of
// padding; there is none if it is not in [0, kernel). The first output of a tile
// is an even one.
func backTap(kernel, o, j int) int {
	if kernel == 3 {
		return 1 - o + 2*j
	}
	return -o + 2*j
}

// backColumns returns how many columns the outputs of a tile look at.
func backColumns(kernel, n int) (columns int) {
	for backTap(kernel, n-1, columns) < kernel {
		columns++
	}
	return columns
}

// depthwiseBack emits a kernel of input gradients. Registers as in windowKernel.
func (m isa) depthwiseBack(a *asm, name string, kernel, n int) {
	acc := func(o int) string { return m.r(o) }
	w := func(k int) string { return m.r(n + k) }
	tmp := func(j int) string { return m.r(n + kernel + j%2) }
	columns := backColumns(kernel, n)
	a.text(name, "windowArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ windowArgs_pix(DI), R9")
	a.i("LEAQ (R9)(R9*2), R15")
	a.i("MOVQ windowArgs_wtap(DI), R10")
	a.i("XORQ R14, R14")
	a.l("block")
	a.i("MOVQ windowArgs_x(DI), SI")
	a.i("ADDQ windowArgs_off(DI), SI")
	a.i("MOVQ windowArgs_y(DI), DX")
	a.i("ADDQ R14, SI")
	a.i("ADDQ R14, DX")
	a.i("MOVQ windowArgs_tiles(DI), R11")
	a.i("MOVQ windowArgs_left(DI), CX")
	a.l("tile")
	a.i("XORQ R8, R8")
	a.i("CMPQ R11, $1")
	a.i("CMOVQEQ windowArgs_right(DI), R8")
	for o := range n {
		m.zero(a, o)
	}
	a.i("MOVQ SI, BX")
	a.i("MOVQ windowArgs_w(DI), R12")
	a.i("ADDQ R14, R12")
	a.i("MOVQ windowArgs_ny(DI), R13")
	a.i("PCALIGN $32")
	a.l("row")
	x86TapRow(a, kernel, w)
	a.i("MOVQ BX, AX")
	for j := range columns {
		if j > 0 && j%4 == 0 {
			a.i("LEAQ (AX)(R9*4), AX")
		}
		skip := false
		if j == 0 && kernel == 5 { // left of the image in the first tile
			a.i("TESTQ CX, CX")
			a.i("JNE skip%d", j)
			skip = true
		}
		if j == columns-1 { // may be right of it in the last
			a.i("TESTQ R8, R8")
			a.i("JNE skip%d", j)
			skip = true
		}
		a.i("VMOVUPS (AX)%s, %s", []string{"", "(R9*1)", "(R9*2)", "(R15*1)"}[j%4], tmp(j))
		for o := range n {
			if k := backTap(kernel, o, j); k >= 0 && k < kernel {
				a.i("VFMADD231PS %s, %s, %s", tmp(j), w(k), acc(o))
			}
		}
		if skip {
			a.l("skip%d", j)
		}
	}
	a.i("ADDQ windowArgs_row(DI), BX")
	a.i("ADDQ windowArgs_wrow(DI), R12")
	a.i("DECQ R13")
	a.i("JNE row")
	a.i("MOVQ windowArgs_ypix(DI), AX")
	for o := range n {
		a.i("VMOVUPS %s, (DX)", acc(o))
		a.i("ADDQ AX, DX")
	}
	a.i("ADDQ windowArgs_next(DI), SI")
	a.i("XORQ CX, CX")
	a.i("DECQ R11")
	a.i("JNE tile")
	a.i("ADDQ $%d, R14", m.bytes())
	a.i("CMPQ R14, windowArgs_end(DI)")
	a.i("JNE block")
	a.i("VZEROUPPER")
	a.i("RET")
}
