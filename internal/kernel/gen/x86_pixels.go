package main

import "fmt"

// pixelOp is one loop over pixels with parameters of each channel; see
// pixelsGeneric.
type pixelOp struct {
	name, comment string
	act           string   // clamp, SiLU, Sigmoid or none
	d, y          bool     // has a second input, an output
	params        []string // fields of parameters, in registers in this order
	sums          []string // fields of sums
}

// pixelOps lists the loops.
func pixelOps() (ops []pixelOp) {
	for _, act := range []string{"", "SiLU", "Sigmoid"} {
		norm := []string{"scale", "shift"}
		ops = append(ops,
			pixelOp{name: "norm", comment: "y = activation(z*scale + shift)", act: act, y: true, params: norm},
			pixelOp{name: "normAdd", comment: "y = activation(z*scale + shift + d)", act: act, d: true, y: true, params: norm},
			pixelOp{name: "reduce", comment: "sum += g and dot += g*(z - a), where g = d * slope(z*scale + shift)", act: act, d: true, params: append(norm[:2:2], "a"), sums: []string{"sum", "dot"}},
			pixelOp{name: "apply", comment: "y = a*g + b*z + c, where g = d * slope(z*scale + shift)", act: act, d: true, y: true, params: append(norm[:2:2], "a", "b", "c")},
		)
	}
	return append(ops,
		pixelOp{name: "moments", comment: "sum += z - a and dot += (z - a)²", params: []string{"a"}, sums: []string{"sum", "dot"}},
		pixelOp{name: "dots", comment: "sum += z*d", d: true, sums: []string{"sum"}},
	)
}

// pickPixels writes the switch among the loops of a variant.
func pickPixels(s *stubs, variant string) {
	var shapes []shape
	for _, op := range pixelOps() {
		key := "pixel" + upper(op.name) + "<<8"
		if op.act != "" {
			key += " | pixelOp(" + op.act + ")"
		}
		shapes = append(shapes, shape{key, op.name + op.act + "Pixels" + variant})
	}
	s.pick("pixels"+variant, "op pixelOp, act Activation", "pixelArgs", "// pixels"+variant+" runs the loop over pixels of this operation; act is SiLU, Sigmoid or 0. See pixelsGeneric.", "op<<8 | pixelOp(act)", shapes)
}

func (op pixelOp) text() string {
	return fmt.Sprintf("computes, for each channel and over\n// nn images of ny rows of nx pixels, %s%s.", op.comment,
		map[string]string{"": "", "SiLU": ",\n// the activation being SiLU", "Sigmoid": ",\n// the activation being Sigmoid"}[op.act])
}

// pixels emits the loops over pixels. Registers:
//
//	DI arguments, R14 byte offset of the channel block, R13 and AX scratch
//	SI z, BX d, DX y, R8 R9 R10 their steps from pixel to pixel
//	CX pixels left, R11 rows left, R12 images left
//
// A block of channels is one or more vectors wide: its parameters and sums stay
// in registers while all pixels pass by.
func (m isa) pixels(a *asm, s *stubs) {
	pickPixels(s, m.name)
	for _, op := range pixelOps() {
		name := op.name + op.act + "Pixels" + m.name
		s.fn(name, "pixelArgs", "// "+name+" "+op.text())
		a.text(name, "pixelArgs")
		a.i("MOVQ p+0(FP), DI")
		a.i("MOVQ (pixelArgs_zwalk+walk_pixel)(DI), R8")
		if op.d {
			a.i("MOVQ (pixelArgs_dwalk+walk_pixel)(DI), R9")
		}
		if op.y {
			a.i("MOVQ (pixelArgs_ywalk+walk_pixel)(DI), R10")
		}
		if op.act != "" {
			m.loadExp(a)
		}
		a.i("XORQ R14, R14")
		wide := m.pixelWidth(op)
		m.pixelBlock(a, op, "wide", wide, false)
		// What is left is one narrower block; with AVX-512 its last vector may be half.
		a.i("TESTQ R13, R13")
		a.i("JEQ done")
		if m.masked {
			a.i("MOVL $0xffff, AX")
			a.i("TESTQ $32, R13")
			a.i("JEQ whole")
			a.i("MOVL $0xff, AX")
			a.l("whole")
			a.i("KMOVW AX, K1")
		}
		for nv := 1; nv <= wide && (m.masked || nv < wide); nv++ {
			m.pixelBlock(a, op, fmt.Sprintf("rest%d", nv), nv, m.masked)
		}
		a.l("done")
		a.i("VZEROUPPER")
		a.i("RET")
	}
}

// pixelWidth returns the vectors of a wide block: as many as the registers hold.
func (m isa) pixelWidth(op pixelOp) int {
	each := len(op.params) + len(op.sums) + 2 // and temporaries
	free := m.regs - 2
	if op.act != "" {
		each += 2
		free = m.regs
		if m.masked {
			free -= len(expConst)
		}
	}
	return min(4, free/each)
}

// pixelBlock emits the loop over blocks of nv vectors, or the rest of as many,
// the last of them perhaps partial. It leaves the bytes of channels that are left
// in R13.
func (m isa) pixelBlock(a *asm, op pixelOp, label string, nv int, masked bool) {
	rest := label != "wide"
	size := nv * m.bytes()
	last := func(j int) bool { return masked && j == nv-1 }
	// Registers: parameters, sums, temporaries from 0 on (beyond the constants of
	// exp where those are in the way), and the limits last.
	var free []string
	for i := range m.regs {
		if op.act != "" && m.masked && i >= 16 && i < 16+len(expConst) {
			continue
		}
		free = append(free, m.r(i))
	}
	lo, hi := free[len(free)-2], free[len(free)-1]
	take := func() (r string) { r, free = free[0], free[1:]; return r }
	params, sums := make([]map[string]string, nv), make([]map[string]string, nv)
	temps := make([][]string, nv)
	for j := range nv {
		params[j], sums[j] = map[string]string{}, map[string]string{}
		for _, p := range op.params {
			params[j][p] = take()
		}
		for _, p := range op.sums {
			sums[j][p] = take()
		}
	}
	for j := range nv {
		temps[j] = []string{take(), take()}
		if op.act != "" {
			temps[j] = append(temps[j], take(), take())
		}
	}

	a.l(label)
	if rest {
		a.i("CMPQ R13, $%d", size)
		a.i("JGT %sdone", label)
	} else {
		a.i("MOVQ pixelArgs_end(DI), R13")
		a.i("SUBQ R14, R13")
		a.i("CMPQ R13, $%d", size)
		a.i("JLT %sdone", label)
	}
	for _, p := range op.params {
		a.i("MOVQ pixelArgs_%s(DI), AX", p)
		for j := range nv {
			m.load(a, fmt.Sprintf("%d(AX)(R14*1)", j*m.bytes()), params[j][p], last(j))
		}
	}
	for _, p := range op.sums {
		for j := range nv {
			r := sums[j][p]
			if m.masked {
				a.i("VPXORD %s, %s, %s", r, r, r)
			} else {
				a.i("VXORPS %s, %s, %s", r, r, r)
			}
		}
	}
	if op.act == "" {
		a.i("VBROADCASTSS pixelArgs_lo(DI), %s", lo)
		a.i("VBROADCASTSS pixelArgs_hi(DI), %s", hi)
	}
	streams := [][2]string{{"z", "SI"}}
	if op.d {
		streams = append(streams, [2]string{"d", "BX"})
	}
	if op.y {
		streams = append(streams, [2]string{"y", "DX"})
	}
	for _, st := range streams {
		a.i("MOVQ pixelArgs_%s(DI), %s", st[0], st[1])
		a.i("ADDQ R14, %s", st[1])
	}
	a.i("MOVQ pixelArgs_nn(DI), R12")
	a.l("%simage", label)
	a.i("MOVQ pixelArgs_ny(DI), R11")
	a.l("%srow", label)
	a.i("MOVQ pixelArgs_nx(DI), CX")
	a.i("PCALIGN $32")
	a.l("%spixel", label)
	chains := make([][]byte, nv)
	for j := range nv {
		var b asm
		m.pixelBody(&b, op, j*m.bytes(), params[j], sums[j], temps[j], lo, hi, last(j))
		chains[j] = b.Bytes()
	}
	a.interleave(chains)
	for _, st := range streams {
		a.i("ADDQ %s, %s", map[string]string{"z": "R8", "d": "R9", "y": "R10"}[st[0]], st[1])
	}
	a.i("DECQ CX")
	a.i("JNE %spixel", label)
	for _, st := range streams {
		walk(a, "pixelArgs", st[0]+"walk", "row", st[1])
	}
	a.i("DECQ R11")
	a.i("JNE %srow", label)
	for _, st := range streams {
		walk(a, "pixelArgs", st[0]+"walk", "image", st[1])
	}
	a.i("DECQ R12")
	a.i("JNE %simage", label)
	for _, p := range op.sums {
		a.i("MOVQ pixelArgs_%s(DI), AX", p)
		for j := range nv {
			mem, t := fmt.Sprintf("%d(AX)(R14*1)", j*m.bytes()), temps[j][0]
			m.load(a, mem, t, last(j))
			a.i("VADDPS %s, %s, %s", sums[j][p], t, t)
			m.store(a, t, mem, last(j))
		}
	}
	if rest {
		a.i("JMP done")
	} else {
		a.i("ADDQ $%d, R14", size)
		a.i("JMP %s", label)
	}
	a.l("%sdone", label)
}

// pixelBody emits one vector of one pixel.
func (m isa) pixelBody(a *asm, op pixelOp, off int, p, sum map[string]string, t []string, lo, hi string, partial bool) {
	z, d, y := fmt.Sprintf("%d(SI)", off), fmt.Sprintf("%d(BX)", off), fmt.Sprintf("%d(DX)", off)
	u, v := t[0], t[1]
	load := func(mem, r string) { m.load(a, mem, r, partial) }
	norm := func(r string) {
		load(z, r)
		a.i("VFMADD213PS %s, %s, %s", p["shift"], p["scale"], r)
	}
	// slope leaves d times the slope of the activation in u.
	slope := func() {
		norm(u)
		switch {
		case op.act != "":
			m.sigmoid(a, u, t[1:])
			a.i("VMOVUPS %s, %s", m.expConstant("one"), v)
			a.i("VSUBPS %s, %s, %s", u, v, v) // 1 - s
			if op.act == "SiLU" {
				norm(t[2])
				a.i("VFMADD213PS %s, %s, %s", m.expConstant("one"), t[2], v)
			}
			a.i("VMULPS %s, %s, %s", v, u, u)
			load(d, v)
			a.i("VMULPS %s, %s, %s", v, u, u)
		case m.masked:
			// Not at most lo and not at least hi: so NaN, of either, is inside.
			k := fmt.Sprintf("K%d", 2+off/m.bytes())
			if partial {
				a.i("VCMPPS $6, %s, %s, K1, %s", lo, u, k)
			} else {
				a.i("VCMPPS $6, %s, %s, %s", lo, u, k)
			}
			a.i("VCMPPS $9, %s, %s, %s, %s", hi, u, k, k)
			a.i("VMOVUPS.Z %s, %s, %s", d, k, u)
		default:
			a.i("VCMPPS $2, %s, %s, %s", lo, u, v)
			a.i("VCMPPS $13, %s, %s, %s", hi, u, u)
			a.i("VORPS %s, %s, %s", v, u, v)
			a.i("VANDNPS %s, %s, %s", d, v, u)
		}
	}
	switch op.name {
	case "norm", "normAdd":
		norm(u)
		if op.d {
			load(d, v)
			a.i("VADDPS %s, %s, %s", v, u, u)
		}
		switch op.act {
		case "":
			m.clamp(a, u, lo, hi)
		case "Sigmoid":
			m.sigmoid(a, u, t[1:])
		case "SiLU":
			m.sigmoid(a, u, t[1:])
			norm(v)
			if op.d {
				load(d, t[2])
				a.i("VADDPS %s, %s, %s", t[2], v, v)
			}
			a.i("VMULPS %s, %s, %s", v, u, u)
		}
		m.store(a, u, y, partial)
	case "reduce":
		slope()
		a.i("VADDPS %s, %s, %s", u, sum["sum"], sum["sum"])
		load(z, v)
		a.i("VSUBPS %s, %s, %s", p["a"], v, v)
		a.i("VFMADD231PS %s, %s, %s", v, u, sum["dot"])
	case "apply":
		slope()
		load(z, v)
		a.i("VFMADD213PS %s, %s, %s", p["c"], p["b"], v)
		a.i("VFMADD231PS %s, %s, %s", u, p["a"], v)
		m.store(a, v, y, partial)
	case "moments":
		load(z, u)
		a.i("VSUBPS %s, %s, %s", p["a"], u, u)
		a.i("VADDPS %s, %s, %s", u, sum["sum"], sum["sum"])
		a.i("VFMADD231PS %s, %s, %s", u, u, sum["dot"])
	case "dots":
		load(z, u)
		load(d, v)
		a.i("VFMADD231PS %s, %s, %s", v, u, sum["sum"])
	}
}
