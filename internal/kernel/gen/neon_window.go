package main

import "fmt"

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
				s.fn(name, "windowArgs", windowComment(name, kernel, stride, n, false))
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
	neonWindowStart(a, name, kernel, n)
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

// neonWindowStart begins a kernel of n outputs and leads into its loops over
// blocks of channels, tiles and rows of taps, up to the first column of a row.
func neonWindowStart(a *asm, name string, kernel, n int) {
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
}
