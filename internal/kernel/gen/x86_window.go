package main

import "fmt"

// windows emits the kernels that slide a small window over whole vectors of
// channels: depthwise convolution (each channel sees itself) and grouped
// convolution with groups inside a vector (each channel sees its group).
//
// A tile is a run of outputs along one image row, all in registers. Every
// input vector is read once for a row of taps and used by each output whose
// window it falls into.
func (m isa) windows(a *asm, s *stubs) {
	var depthwise, grouped []shape
	for _, kernel := range []int{3, 5} {
		for _, stride := range []int{1, 2} {
			for n := 1; n <= m.window; n++ {
				name := fmt.Sprintf("depthwise%ds%dx%d%s", kernel, stride, n, m.name)
				m.windowKernel(a, name, kernel, stride, n, false)
				s.fn(name, "windowArgs", windowComment(name, kernel, stride, n, false))
				depthwise = append(depthwise, shape{fmt.Sprintf("%d<<8 | %d<<4 | %d", kernel, stride, n), name})
			}
		}
	}
	for _, stride := range []int{1, 2} {
		for n := 1; n <= m.window; n++ {
			name := fmt.Sprintf("grouped3s%dx%d%s", stride, n, m.name)
			m.windowKernel(a, name, 3, stride, n, true)
			s.fn(name, "windowArgs", windowComment(name, 3, stride, n, true))
			grouped = append(grouped, shape{fmt.Sprintf("%d<<4 | %d", stride, n), name})
		}
	}
	s.pick("depthwise"+m.name, "kernel, stride, outputs int", "windowArgs", "// depthwise"+m.name+" runs the depthwise kernel of this shape; see depthwiseGeneric.", "kernel<<8 | stride<<4 | outputs", depthwise)
	s.pick("grouped"+m.name, "stride, outputs int", "windowArgs", "// grouped"+m.name+" runs the 3×3 grouped kernel of this shape; see groupedGeneric.", "stride<<4 | outputs", grouped)
}

// windowKernel emits one kernel. Registers:
//
//	DI arguments, SI first column of this tile, DX its output, R11 tiles left
//	AX column, R9 bytes between columns, R15 three times that
//	BX tap row in the input, R12 its weights, R10 bytes between taps, R13 rows left
//	CX, R8 columns of this tile left of and right of the image
//	R14 byte offset of the channel block (depthwise), channels of the group left (grouped)
//
// Vectors: the outputs, then a row of weights, two temporaries, and for
// grouped the permutation that spreads channel i of each group and the ones
// that move it on to channel i+1.
func (m isa) windowKernel(a *asm, name string, kernel, stride, n int, grouped bool) {
	acc := func(o int) string { return m.r(o) }
	w := func(k int) string { return m.r(n + k) }
	tmp := func(j int) string { return m.r(n + kernel + j%2) }
	index, ones := m.r(n+kernel+2), m.r(n+kernel+3)
	columns := (n-1)*stride + kernel
	clip := (kernel - 1) / 2

	a.text(name, "windowArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ windowArgs_pix(DI), R9")
	a.i("LEAQ (R9)(R9*2), R15")
	a.i("MOVQ windowArgs_wtap(DI), R10")
	if grouped {
		a.i("MOVL $1, AX")
		a.i("MOVQ AX, X0")
		a.i("VPBROADCASTD X0, %s", ones)
	} else {
		a.i("XORQ R14, R14")
		a.l("block")
	}
	a.i("MOVQ windowArgs_x(DI), SI")
	a.i("ADDQ windowArgs_off(DI), SI")
	a.i("MOVQ windowArgs_y(DI), DX")
	if !grouped {
		a.i("ADDQ R14, SI")
		a.i("ADDQ R14, DX")
	}
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
	if !grouped {
		a.i("ADDQ R14, R12")
	}
	a.i("MOVQ windowArgs_ny(DI), R13")
	a.i("PCALIGN $32")
	a.l("row")
	if grouped {
		a.i("MOVQ windowArgs_index(DI), AX")
		a.i("VMOVUPS (AX), %s", index)
		a.i("MOVQ windowArgs_group(DI), R14")
		a.l("channel")
	}
	x86TapRow(a, kernel, w)
	a.i("MOVQ BX, AX")
	for j := range columns {
		if j > 0 && j%4 == 0 {
			a.i("LEAQ (AX)(R9*4), AX")
		}
		skip := false
		if j < clip {
			a.i("CMPQ CX, $%d", j)
			a.i("JGT skip%d", j)
			skip = true
		}
		if columns-j <= clip {
			a.i("CMPQ R8, $%d", columns-j)
			a.i("JGE skip%d", j)
			skip = true
		}
		mem := "(AX)" + []string{"", "(R9*1)", "(R9*2)", "(R15*1)"}[j%4]
		var users [][2]int // output, tap
		for k := range kernel {
			if o := j - k; o >= 0 && o%stride == 0 && o/stride < n {
				users = append(users, [2]int{o / stride, k})
			}
		}
		switch {
		case grouped && len(users) > 0:
			a.i("VPERMPS %s, %s, %s", mem, index, tmp(j))
		case len(users) == 1:
			a.i("VFMADD231PS %s, %s, %s", mem, w(users[0][1]), acc(users[0][0]))
			users = nil
		case len(users) > 1:
			a.i("VMOVUPS %s, %s", mem, tmp(j))
		}
		for _, u := range users {
			a.i("VFMADD231PS %s, %s, %s", tmp(j), w(u[1]), acc(u[0]))
		}
		if skip {
			a.l("skip%d", j)
		}
	}
	if grouped {
		a.i("ADDQ $64, R12")
		a.i("VPADDD %s, %s, %s", ones, index, index)
		a.i("DECQ R14")
		a.i("JNE channel")
	}
	a.i("ADDQ windowArgs_row(DI), BX")
	a.i("ADDQ windowArgs_wrow(DI), R12")
	a.i("DECQ R13")
	a.i("JNE row")

	at := "(AX)"
	if !grouped {
		at = "(AX)(R14*1)"
	}
	a.i("MOVQ windowArgs_scale(DI), AX")
	a.i("VMOVUPS %s, %s", at, w(0))
	a.i("MOVQ windowArgs_bias(DI), AX")
	a.i("VMOVUPS %s, %s", at, w(1))
	a.i("VBROADCASTSS windowArgs_lo(DI), %s", w(2))
	a.i("VBROADCASTSS windowArgs_hi(DI), %s", tmp(0))
	a.i("MOVQ windowArgs_ypix(DI), AX")
	for o := range n {
		a.i("VFMADD213PS %s, %s, %s", w(1), w(0), acc(o))
		m.clamp(a, acc(o), w(2), tmp(0))
		a.i("VMOVUPS %s, (DX)", acc(o))
		a.i("ADDQ AX, DX")
	}
	a.i("ADDQ windowArgs_next(DI), SI")
	a.i("XORQ CX, CX")
	a.i("DECQ R11")
	a.i("JNE tile")
	if !grouped {
		a.i("ADDQ $%d, R14", m.bytes())
		a.i("CMPQ R14, windowArgs_end(DI)")
		a.i("JNE block")
	}
	a.i("VZEROUPPER")
	a.i("RET")
}

// x86TapRow loads a row of taps, which are R10 bytes apart from R12 on, into the
// registers that w names.
func x86TapRow(a *asm, kernel int, w func(int) string) {
	for k := range kernel {
		switch k {
		case 0, 1, 2:
			a.i("VMOVUPS (R12)%s, %s", []string{"", "(R10*1)", "(R10*2)"}[k], w(k))
		case 3:
			a.i("LEAQ (R12)(R10*2), AX")
			a.i("VMOVUPS (AX)(R10*1), %s", w(k))
		case 4:
			a.i("VMOVUPS (R12)(R10*4), %s", w(k))
		}
	}
}
