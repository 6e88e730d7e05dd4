package main

import "fmt"

// vectorOp is one loop over slices; see vectorsGeneric.
type vectorOp struct {
	name, comment string
	v             bool // has velocities
}

var vectorOps = []vectorOp{
	{"momentum", "d = g + decay*w, v = factor*v + d, w -= rate*v", true},
	{"nesterov", "d = g + decay*w, v = factor*v + d, w -= rate*(d + factor*v)", true},
	{"average", "w += factor*(g - w)", false},
	{"addScaled", "w += factor*g", false},
}

// pickVectors writes the switch among the loops of a variant.
func pickVectors(s *stubs, variant string) {
	var shapes []shape
	for _, op := range vectorOps {
		name := op.name + variant
		s.fn(name, "vectorArgs", fmt.Sprintf("// %s computes, for n floats, a multiple of 32,\n// %s.", name, op.comment))
		shapes = append(shapes, shape{"vector" + upper(op.name), name})
	}
	s.pick("vectors"+variant, "op vectorOp", "vectorArgs", "// vectors"+variant+" runs the loop over slices of this operation; see vectorsGeneric.", "op", shapes)
}

// vectors emits the loops over slices: as many vectors at once as make 32
// floats. Registers: DI arguments, SI w, BX g, DX v, CX floats left.
func (m isa) vectors(a *asm, s *stubs) {
	pickVectors(s, m.name)
	rate, decay, factor := m.r(13), m.r(14), m.r(15)
	for _, op := range vectorOps {
		a.text(op.name+m.name, "vectorArgs")
		a.i("MOVQ p+0(FP), DI")
		a.i("MOVQ vectorArgs_w(DI), SI")
		a.i("MOVQ vectorArgs_g(DI), BX")
		a.i("VBROADCASTSS vectorArgs_factor(DI), %s", factor)
		if op.v {
			a.i("MOVQ vectorArgs_v(DI), DX")
			a.i("VBROADCASTSS vectorArgs_rate(DI), %s", rate)
			a.i("VBROADCASTSS vectorArgs_decay(DI), %s", decay)
		}
		a.i("MOVQ vectorArgs_n(DI), CX")
		a.l("loop")
		chains := make([][]byte, 32/m.lanes)
		for i := range chains {
			var b asm
			w, g, v := m.r(3*i), m.r(3*i+1), m.r(3*i+2)
			mem := func(reg string) string { return fmt.Sprintf("%d(%s)", i*m.bytes(), reg) }
			b.i("VMOVUPS %s, %s", mem("SI"), w)
			b.i("VMOVUPS %s, %s", mem("BX"), g)
			switch op.name {
			case "momentum", "nesterov":
				b.i("VMOVUPS %s, %s", mem("DX"), v)
				b.i("VFMADD231PS %s, %s, %s", w, decay, g)
				b.i("VFMADD213PS %s, %s, %s", g, factor, v)
				b.i("VMOVUPS %s, %s", v, mem("DX"))
				if op.name == "nesterov" {
					b.i("VFMADD213PS %s, %s, %s", g, factor, v)
				}
				b.i("VFNMADD231PS %s, %s, %s", v, rate, w)
			case "average":
				b.i("VSUBPS %s, %s, %s", w, g, g)
				b.i("VFMADD231PS %s, %s, %s", g, factor, w)
			case "addScaled":
				b.i("VFMADD231PS %s, %s, %s", g, factor, w)
			}
			b.i("VMOVUPS %s, %s", w, mem("SI"))
			chains[i] = b.Bytes()
		}
		a.interleave(chains)
		a.i("ADDQ $128, SI")
		a.i("ADDQ $128, BX")
		if op.v {
			a.i("ADDQ $128, DX")
		}
		a.i("SUBQ $32, CX")
		a.i("JNE loop")
		a.i("VZEROUPPER")
		a.i("RET")
	}
}

// squares emits the sum of squares, in 32 sums of float64. AVX-512 uses it, too:
// it waits for memory most of the time.
func (m isa) squares(a *asm, s *stubs) {
	name := "squares" + m.name
	s.fn(name, "vectorArgs", fmt.Sprintf("// %s computes, for n floats, a multiple of 32, in float64\n// sums[i%%32] += g[i]*g[i].", name))
	a.text(name, "vectorArgs")
	a.i("MOVQ p+0(FP), DI")
	a.i("MOVQ vectorArgs_g(DI), BX")
	a.i("MOVQ vectorArgs_sums(DI), DX")
	a.i("MOVQ vectorArgs_n(DI), CX")
	for i := range 8 {
		a.i("VMOVUPD %d(DX), Y%d", 32*i, i)
	}
	a.l("loop")
	for i := range 8 {
		a.i("VCVTPS2PD %d(BX), Y%d", 16*i, 8+i)
		a.i("VFMADD231PD Y%d, Y%d, Y%d", 8+i, 8+i, i)
	}
	a.i("ADDQ $128, BX")
	a.i("SUBQ $32, CX")
	a.i("JNE loop")
	for i := range 8 {
		a.i("VMOVUPD Y%d, %d(DX)", i, 32*i)
	}
	a.i("VZEROUPPER")
	a.i("RET")
}
