package main

// peak emits the loop that measures what the FMA units can do: twelve (AVX2)
// or twenty-four (AVX-512) independent chains.
func (m isa) peak(a *asm) {
	name := "fma" + m.name
	chains := m.regs * 3 / 4
	a.WriteString("\n// func " + name + "(n int)\nTEXT ·" + name + "(SB), NOSPLIT, $0-8\n")
	a.i("MOVQ n+0(FP), CX")
	for i := range m.regs {
		m.zero(a, i)
	}
	a.l("loop")
	for i := range chains {
		a.i("VFMADD231PS %s, %s, %s", m.r(chains), m.r(chains+1), m.r(i))
	}
	a.i("DECQ CX")
	a.i("JNE loop")
	a.i("VZEROUPPER")
	a.i("RET")
}
