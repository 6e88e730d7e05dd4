package main

import "fmt"

// transpose emits the transposition of 16×16 blocks of weights, in pieces of 8×8.
// AVX-512 uses it, too: it waits for memory most of the time.
// Registers: DI arguments, SI source, DX destination, R8 step of the source, CX
// blocks left.
func (m isa) transpose(a *asm, s *stubs) {
	name := "transpose" + m.name
	s.fn(name, "transposeArgs", fmt.Sprintf("// %s computes, for b < n and i, j < 16, dst[b][j][i] = src[b][i][j].", name))
	a.text(name, "transposeArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ transposeArgs_src(DI), SI")
	a.i("MOVQ transposeArgs_dst(DI), DX")
	a.i("MOVQ transposeArgs_step(DI), R8")
	a.i("MOVQ transposeArgs_n(DI), CX")
	a.l("block")
	for _, at := range [][2]int{{0, 0}, {0, 8}, {8, 0}, {8, 8}} {
		i, j := at[0], at[1]
		for k := range 8 { // rows k%4 and k%4+4, the first or last four of their floats
			off := (i+k%4)*64 + (j+k/4*4)*4
			a.i("VMOVUPS %d(SI), X%d", off, k)
			a.i("VINSERTF128 $1, %d(SI), Y%d, Y%d", off+4*64, k, k)
		}
		for k := 0; k < 8; k += 4 {
			a.i("VUNPCKLPS Y%d, Y%d, Y8", k+1, k)
			a.i("VUNPCKHPS Y%d, Y%d, Y9", k+1, k)
			a.i("VUNPCKLPS Y%d, Y%d, Y10", k+3, k+2)
			a.i("VUNPCKHPS Y%d, Y%d, Y11", k+3, k+2)
			for l, shuffle := range []string{"$0x44, Y10, Y8", "$0xee, Y10, Y8", "$0x44, Y11, Y9", "$0xee, Y11, Y9"} {
				a.i("VSHUFPS %s, Y%d", shuffle, 12+l)
				a.i("VMOVUPS Y%d, %d(DX)", 12+l, (j+k+l)*64+i*4)
			}
		}
	}
	a.i("ADDQ R8, SI")
	a.i("ADDQ $1024, DX")
	a.i("DECQ CX")
	a.i("JNE block")
	a.i("VZEROUPPER")
	a.i("RET")
}
