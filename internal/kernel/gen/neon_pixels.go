package main

import "fmt"

func fcmge(a *asm, d, n, m int) { neon3(a, "FCMGE", 0x6e20e400, d, n, m) }

// neonPixels emits the loops over pixels, as isa.pixels does for x86, for eight
// channels at a time. Registers:
//
//	R0 arguments, R12 byte offset of the channel block
//	R1 z, R2 d, R3 y, R4 R5 R6 their steps from pixel to pixel
//	R7 pixels left, R8 rows left, R9 images left, R14 R16 scratch
//	V0 to V5 scratch, V6 to V15 parameters and then sums, V16 and up the constants
//	of exp, V30 and V31 the limits
func neonPixels(a *asm, s *stubs) {
	pickPixels(s, "NEON")
	for _, op := range pixelOps() {
		name := op.name + op.act + "PixelsNEON"
		s.fn(name, "pixelArgs", "// "+name+" "+op.text())
		reg := map[string]int{}
		for i, p := range append(op.params[:len(op.params):len(op.params)], op.sums...) {
			reg[p] = 6 + 2*i
		}
		streams := []string{"z"}
		if op.d {
			streams = append(streams, "d")
		}
		if op.y {
			streams = append(streams, "y")
		}
		ptr := map[string]int{"z": 1, "d": 2, "y": 3}

		a.text(name, "pixelArgs")
		a.i("MOVD p+0(FP), R0")
		for _, st := range streams {
			a.i("MOVD (pixelArgs_%swalk+walk_pixel)(R0), R%d", st, 3+ptr[st])
		}
		if op.act != "" {
			neonLoadExp(a)
		} else {
			neonBroadcast(a, "pixelArgs_lo", 30)
			neonBroadcast(a, "pixelArgs_hi", 31)
		}
		a.i("MOVD $0, R12")
		a.l("block")
		for _, p := range op.params {
			a.i("MOVD pixelArgs_%s(R0), R16", p)
			a.i("ADD R12, R16")
			a.i("VLD1 (R16), %s", neonList(reg[p], 2))
		}
		for _, p := range op.sums {
			neonZero(a, reg[p])
			neonZero(a, reg[p]+1)
		}
		for _, st := range streams {
			a.i("MOVD pixelArgs_%s(R0), R%d", st, ptr[st])
			a.i("ADD R12, R%d", ptr[st])
		}
		a.i("MOVD pixelArgs_nn(R0), R9")
		a.l("image")
		a.i("MOVD pixelArgs_ny(R0), R8")
		a.l("row")
		a.i("MOVD pixelArgs_nx(R0), R7")
		a.i("PCALIGN $16")
		a.l("pixel")
		for half := range 2 {
			neonPixel(a, op, half, func(p string) int { return reg[p] + half })
		}
		for _, st := range streams {
			a.i("ADD R%d, R%d", 3+ptr[st], ptr[st])
		}
		a.i("SUBS $1, R7, R7")
		a.i("BNE pixel")
		for _, st := range streams {
			neonWalk(a, "pixelArgs", st+"walk", "row", ptr[st])
		}
		a.i("SUBS $1, R8, R8")
		a.i("BNE row")
		for _, st := range streams {
			neonWalk(a, "pixelArgs", st+"walk", "image", ptr[st])
		}
		a.i("SUBS $1, R9, R9")
		a.i("BNE image")
		for _, p := range op.sums {
			a.i("MOVD pixelArgs_%s(R0), R16", p)
			a.i("ADD R12, R16")
			a.i("VLD1 (R16), %s", neonList(0, 2))
			fadd(a, 0, 0, reg[p])
			fadd(a, 1, 1, reg[p]+1)
			a.i("VST1 %s, (R16)", neonList(0, 2))
		}
		a.i("ADD $32, R12")
		a.i("MOVD pixelArgs_end(R0), R14")
		a.i("CMP R14, R12")
		a.i("BNE block")
		a.i("RET")
	}
}

// neonPixel emits the first or second half of the channels of one pixel; p
// returns the register of a parameter or sum.
func neonPixel(a *asm, op pixelOp, half int, p func(string) int) {
	address := func(base int) string {
		if half == 0 {
			return fmt.Sprintf("R%d", base)
		}
		a.i("ADD $16, R%d, R16", base)
		return "R16"
	}
	load := func(base, v int) {
		from := address(base)
		a.i("VLD1 (%s), [V%d.S4]", from, v)
	}
	store := func(v int) {
		to := address(3)
		a.i("VST1 [V%d.S4], (%s)", v, to)
	}
	// norm computes z*scale + shift; z is in V1.
	norm := func(v int) {
		neonMove(a, v, p("shift"))
		fmla(a, v, 1, p("scale"))
	}
	one := neonConstant("one")
	slope := func() { // leaves d times the slope in V0
		norm(0)
		if op.act == "" {
			fcmge(a, 2, 30, 0)
			fcmge(a, 3, 0, 31)
			a.i("VORR V2.B16, V3.B16, V2.B16")
			load(2, 5)
			a.i("WORD $0x%08x // BIC V0.16B, V5.16B, V2.16B", 0x4e601c00|2<<16|5<<5)
			return
		}
		neonSigmoid(a)
		fsub(a, 2, one, 0)
		if op.act == "SiLU" {
			norm(3)
			neonMove(a, 4, one)
			fmla(a, 4, 2, 3)
			fmul(a, 0, 0, 4)
		} else {
			fmul(a, 0, 0, 2)
		}
		load(2, 5)
		fmul(a, 0, 0, 5)
	}
	load(1, 1)
	switch op.name {
	case "norm", "normAdd":
		norm(0)
		if op.d {
			load(2, 5)
			fadd(a, 0, 0, 5)
		}
		switch op.act {
		case "":
			neonClamp(a, 0, 30, 31)
		case "Sigmoid":
			neonSigmoid(a)
		case "SiLU":
			neonSigmoid(a)
			norm(3)
			if op.d {
				load(2, 5)
				fadd(a, 3, 3, 5)
			}
			fmul(a, 0, 0, 3)
		}
		store(0)
	case "reduce":
		slope()
		fadd(a, p("sum"), p("sum"), 0)
		fsub(a, 2, 1, p("a"))
		fmla(a, p("dot"), 0, 2)
	case "apply":
		slope()
		neonMove(a, 2, p("c"))
		fmla(a, 2, 1, p("b"))
		fmla(a, 2, 0, p("a"))
		store(2)
	case "moments":
		fsub(a, 0, 1, p("a"))
		fadd(a, p("sum"), p("sum"), 0)
		fmla(a, p("dot"), 0, 0)
	case "dots":
		load(2, 5)
		fmla(a, p("sum"), 1, 5)
	}
}

// neonVectors emits the loops over slices, as isa.vectors does for x86.
func neonVectors(a *asm, s *stubs) {
	pickVectors(s, "NEON")
	const w, g, v, rate, decay, factor = 0, 4, 16, 20, 21, 22
	for _, op := range vectorOps {
		a.text(op.name+"NEON", "vectorArgs")
		a.i("MOVD p+0(FP), R0")
		a.i("MOVD vectorArgs_w(R0), R1")
		a.i("MOVD vectorArgs_g(R0), R2")
		a.i("MOVD vectorArgs_v(R0), R3")
		a.i("MOVD vectorArgs_n(R0), R4")
		neonBroadcast(a, "vectorArgs_rate", rate)
		neonBroadcast(a, "vectorArgs_decay", decay)
		neonBroadcast(a, "vectorArgs_factor", factor)
		a.l("loop")
		a.i("VLD1 (R1), %s", neonList(w, 4))
		a.i("VLD1.P 64(R2), %s", neonList(g, 4))
		if op.v {
			a.i("VLD1 (R3), %s", neonList(v, 4))
		}
		for i := range 4 {
			switch op.name {
			case "momentum", "nesterov":
				fmla(a, g+i, w+i, decay)
				fmul(a, v+i, v+i, factor)
				fadd(a, v+i, v+i, g+i)
				if op.name == "nesterov" {
					fmla(a, g+i, v+i, factor)
					fmls(a, w+i, g+i, rate)
				} else {
					fmls(a, w+i, v+i, rate)
				}
			case "average":
				fsub(a, g+i, g+i, w+i)
				fmla(a, w+i, g+i, factor)
			case "addScaled":
				fmla(a, w+i, g+i, factor)
			}
		}
		a.i("VST1.P %s, 64(R1)", neonList(w, 4))
		if op.v {
			a.i("VST1.P %s, 64(R3)", neonList(v, 4))
		}
		a.i("SUBS $16, R4, R4")
		a.i("BNE loop")
		a.i("RET")
	}
}
