package main

import "fmt"

// neonDepthwiseGradients emits the kernels of depthwise gradients, as
// isa.depthwiseGradients does for x86.
func neonDepthwiseGradients(a *asm, s *stubs) {
	var weights, inputs []shape
	for _, kernel := range []int{3, 5} {
		name := fmt.Sprintf("tapGradient%dNEON", kernel)
		neonTapGradient(a, name, kernel)
		s.fn(name, "tapGradientArgs", tapGradientComment(name, kernel))
		weights = append(weights, shape{fmt.Sprint(kernel), name})
		for n := 1; n <= neonOutputs; n++ {
			name := fmt.Sprintf("depthwiseBack%dx%dNEON", kernel, n)
			neonDepthwiseBack(a, name, kernel, n)
			s.fn(name, "windowArgs", backComment(name, kernel, n))
			inputs = append(inputs, shape{fmt.Sprintf("%d<<8 | %d", kernel, n), name})
		}
	}
	s.pick("tapGradientNEON", "kernel int", "tapGradientArgs", "// tapGradientNEON runs the kernel of depthwise weight gradients; see tapGradientGeneric.", "kernel", weights)
	s.pick("depthwiseBackNEON", "kernel, outputs int", "windowArgs", "// depthwiseBackNEON runs the kernel of depthwise input gradients of this shape; see depthwiseBackGeneric.", "kernel<<8 | outputs", inputs)
}

// neonTapGradient emits a kernel of weight gradients: all taps of eight channels
// of a kernel of 3, of four of one of 5. Registers:
//
//	R0 arguments, R12 byte offset of the channel block
//	R1 x at the first tap, R2 y, R3 R4 their steps from pixel to pixel
//	R5 bytes between taps, R6 between rows of taps
//	R7 pixels left, R8 rows left, R9 images left, R10 row of taps, R14 R16 scratch
//	V0 and V1 y, V2 to V5 x, V7 and up sums
func neonTapGradient(a *asm, name string, kernel int) {
	nv := 2
	if kernel == 5 {
		nv = 1
	}
	a.text(name, "tapGradientArgs")
	a.i("MOVD p+0(FP), R0")
	a.i("MOVD (tapGradientArgs_xwalk+walk_pixel)(R0), R3")
	a.i("MOVD (tapGradientArgs_ywalk+walk_pixel)(R0), R4")
	a.i("MOVD tapGradientArgs_pix(R0), R5")
	a.i("MOVD tapGradientArgs_row(R0), R6")
	a.i("MOVD $0, R12")
	a.l("block")
	for i := range kernel * kernel * nv {
		neonZero(a, 7+i)
	}
	a.i("MOVD tapGradientArgs_x(R0), R1")
	a.i("ADD R12, R1")
	a.i("MOVD tapGradientArgs_y(R0), R2")
	a.i("ADD R12, R2")
	a.i("MOVD tapGradientArgs_nn(R0), R9")
	a.l("image")
	a.i("MOVD tapGradientArgs_ny(R0), R8")
	a.l("row")
	a.i("MOVD tapGradientArgs_nx(R0), R7")
	a.i("PCALIGN $16")
	a.l("pixel")
	a.i("VLD1 (R2), %s", neonList(0, nv))
	a.i("MOVD R1, R10")
	for i := range kernel {
		a.i("MOVD R10, R16")
		for j := range kernel {
			x := 2 + j%2*2
			a.i("VLD1 (R16), %s", neonList(x, nv))
			if j < kernel-1 {
				a.i("ADD R5, R16")
			}
			for v := range nv {
				fmla(a, 7+(i*kernel+j)*nv+v, x+v, v)
			}
		}
		if i < kernel-1 {
			a.i("ADD R6, R10")
		}
	}
	a.i("ADD R3, R1")
	a.i("ADD R4, R2")
	a.i("SUBS $1, R7, R7")
	a.i("BNE pixel")
	neonWalk(a, "tapGradientArgs", "xwalk", "row", 1)
	neonWalk(a, "tapGradientArgs", "ywalk", "row", 2)
	a.i("SUBS $1, R8, R8")
	a.i("BNE row")
	neonWalk(a, "tapGradientArgs", "xwalk", "image", 1)
	neonWalk(a, "tapGradientArgs", "ywalk", "image", 2)
	a.i("SUBS $1, R9, R9")
	a.i("BNE image")
	a.i("MOVD tapGradientArgs_g(R0), R16")
	a.i("ADD R12, R16")
	a.i("MOVD tapGradientArgs_gtap(R0), R14")
	for i := range kernel * kernel {
		a.i("VLD1 (R16), %s", neonList(0, nv))
		for v := range nv {
			fadd(a, v, v, 7+i*nv+v)
		}
		a.i("VST1 %s, (R16)", neonList(0, nv))
		a.i("ADD R14, R16")
	}
	a.i("ADD $%d, R12", 16*nv)
	a.i("MOVD tapGradientArgs_end(R0), R14")
	a.i("CMP R14, R12")
	a.i("BNE block")
	a.i("RET")
}

// neonDepthwiseBack emits a kernel of input gradients. Registers as in
// neonDepthwise.
func neonDepthwiseBack(a *asm, name string, kernel, n int) {
	columns := backColumns(kernel, n)
	neonWindowStart(a, name, kernel, n)
	for j := range columns {
		skip := false
		if j == 0 && kernel == 5 { // left of the image in the first tile
			a.i("CBNZ R10, skip%d", j)
			skip = true
		}
		if j == columns-1 { // may be right of it in the last
			a.i("CBNZ R11, skip%d", j)
			skip = true
		}
		a.i("VLD1 (R8), [V%d.S4]", 5+j%2)
		for o := range n {
			if k := backTap(kernel, o, j); k >= 0 && k < kernel {
				fmla(a, 16+o, 5+j%2, k)
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
	a.i("MOVD windowArgs_ypix(R0), R14")
	for o := range n {
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
