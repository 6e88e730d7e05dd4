package main

import "fmt"

// neonGradientRows is the most input channels of a tile of weight gradients.
const neonGradientRows = 6

// neonGradients emits the kernels of weight gradients, as isa.gradients does for
// x86.
func neonGradients(a *asm, s *stubs) {
	var shapes []shape
	for _, nv := range []int{2, 4} {
		for mr := 1; mr <= neonGradientRows; mr++ {
			name := fmt.Sprintf("gradient%dx%dNEON", mr, 4*nv)
			neonGradient(a, name, mr, nv)
			s.fn(name, "gradientArgs", gradientComment(name, mr, 4*nv))
			shapes = append(shapes, shape{fmt.Sprintf("%d<<8 | %d", 4*nv, mr), name})
		}
	}
	s.pick("gradientNEON", "rows, width int", "gradientArgs", "// gradientNEON runs the kernel of rows input by width output channels; see gradientGeneric for what it computes.", "width<<8 | rows", shapes)
}

// neonWalk adds a step of a walk to a register, through R14.
func neonWalk(a *asm, arg, field, step string, reg int) {
	a.i("MOVD (%s_%s+walk_%s)(R0), R14", arg, field, step)
	a.i("ADD R14, R%d", reg)
}

// neonGradient emits one kernel. Registers:
//
//	R0 arguments, R1 x of this tile, R2 g of this tile, R3 tiles left
//	R4 x, R5 y, R6 R7 their steps from pixel to pixel
//	R8 pixels left, R9 rows left, R10 images left, R14 R16 scratch
//	V0 to V3 output gradients, V4 four inputs, V5 to V7 single ones, V8 and up sums
func neonGradient(a *asm, name string, mr, nv int) {
	acc := func(i int) int { return 8 + i*nv }
	a.text(name, "gradientArgs")
	a.i("MOVD p+0(FP), R0")
	a.i("MOVD gradientArgs_x(R0), R1")
	a.i("MOVD gradientArgs_g(R0), R2")
	a.i("MOVD gradientArgs_tiles(R0), R3")
	a.i("MOVD (gradientArgs_xwalk+walk_pixel)(R0), R6")
	a.i("MOVD (gradientArgs_ywalk+walk_pixel)(R0), R7")
	a.l("tile")
	for i := range mr * nv {
		neonZero(a, 8+i)
	}
	a.i("MOVD R1, R4")
	a.i("MOVD gradientArgs_y(R0), R5")
	a.i("MOVD gradientArgs_nn(R0), R10")
	a.l("image")
	a.i("MOVD gradientArgs_ny(R0), R9")
	a.l("row")
	a.i("MOVD gradientArgs_nx(R0), R8")
	a.i("PCALIGN $16")
	a.l("pixel")
	a.i("VLD1 (R5), %s", neonList(0, nv))
	four := mr / 4 * 4
	if four > 0 {
		a.i("VLD1 (R4), [V4.S4]")
	}
	a.i("ADD $%d, R4, R16", 4*four)
	for i := four; i < mr; i++ {
		a.i("VLD1R.P 4(R16), [V%d.S4]", 5+i-four)
	}
	for i := range mr {
		for j := range nv {
			if i < four {
				fmlaLane(a, acc(i)+j, j, 4, i)
			} else {
				fmla(a, acc(i)+j, j, 5+i-four)
			}
		}
	}
	a.i("ADD R6, R4")
	a.i("ADD R7, R5")
	a.i("SUBS $1, R8, R8")
	a.i("BNE pixel")
	neonWalk(a, "gradientArgs", "xwalk", "row", 4)
	neonWalk(a, "gradientArgs", "ywalk", "row", 5)
	a.i("SUBS $1, R9, R9")
	a.i("BNE row")
	neonWalk(a, "gradientArgs", "xwalk", "image", 4)
	neonWalk(a, "gradientArgs", "ywalk", "image", 5)
	a.i("SUBS $1, R10, R10")
	a.i("BNE image")
	for i := range mr {
		a.i("VLD1 (R2), %s", neonList(0, nv))
		for j := range nv {
			fadd(a, acc(i)+j, acc(i)+j, j)
		}
		a.i("VST1 %s, (R2)", neonList(acc(i), nv))
		a.i("ADD $64, R2")
	}
	a.i("ADD $%d, R1", 4*mr)
	a.i("SUBS $1, R3, R3")
	a.i("BNE tile")
	a.i("RET")
}
