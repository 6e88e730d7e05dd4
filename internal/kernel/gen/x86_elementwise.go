package main

import (
	"fmt"
	"math"
)

// expConst are the constants of exp, in the order they are used: the limits of
// its argument, 1/ln 2, ln 2 in two parts, the polynomial, and one. The
// polynomial is Cephes' expf.
var expConst = []struct {
	name  string
	value float32
}{
	{"one", 1},
	{"log2e", math.Log2E},
	{"ln2hi", 0.693359375},
	{"ln2lo", -2.12194440e-4},
	{"p0", 1.9875691500e-4},
	{"p1", 1.3981999507e-3},
	{"p2", 8.3334519073e-3},
	{"p3", 4.1665795894e-2},
	{"p4", 1.6666665459e-1},
	{"p5", 5.0000001201e-1},
	{"max", 80},
	{"min", -80},
	{"sign", float32(math.Copysign(0, -1))},
}

// mapOp is one elementwise loop.
type mapOp struct {
	name, comment string
	z             bool // has a second input
	exp           bool // uses the constants of exp
	again         bool // multiplies the result by x
	// body computes x (and z) into x.
	body func(a *asm, x, z string, t []string)
}

// elementwise emits the loops over rows of vectors. Their registers:
//
//	DI arguments, SI x, DX y, BX z, R11 rows left, CX vectors left in the row
//	AX offset in the row
//
// Each of the vectors in flight has four registers from 0 on: x, then z and
// temporaries. The limits are the last two of the first sixteen, the constants
// of exp the upper sixteen.
func (m isa) elementwise(a *asm, s *stubs) {
	// AVX-512 keeps the constants in registers, AVX2 reads them from memory.
	table, size := m.expTable()
	a.WriteString("\n")
	for i, c := range expConst {
		for j := 0; j < size; j += 4 {
			fmt.Fprintf(a, "DATA %s+%d(SB)/4, $0x%08x // %s\n", table, i*size+j, math.Float32bits(c.value), c.name)
		}
	}
	fmt.Fprintf(a, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", table, size*len(expConst))
	ops := []mapOp{
		{name: "clamp", comment: "y = min(max(x, lo), hi)",
			body: func(a *asm, x, _ string, _ []string) { m.clamp(a, x, m.r(14), m.r(15)) }},
		{name: "add", comment: "y = min(max(x + z, lo), hi)", z: true,
			body: func(a *asm, x, z string, _ []string) {
				a.i("VADDPS %s, %s, %s", z, x, x)
				m.clamp(a, x, m.r(14), m.r(15))
			}},
		{name: "mul", comment: "y = min(max(x · z, lo), hi)", z: true,
			body: func(a *asm, x, z string, _ []string) {
				a.i("VMULPS %s, %s, %s", z, x, x)
				m.clamp(a, x, m.r(14), m.r(15))
			}},
		{name: "exp", comment: "y = exp(x - lo)", exp: true,
			body: func(a *asm, x, _ string, t []string) {
				a.i("VSUBPS %s, %s, %s", m.r(14), x, x)
				m.limit(a, x, t)
				m.exp(a, x, t)
			}},
		{name: "sigmoid", comment: "y = 1 / (1 + exp(-x))", exp: true,
			body: func(a *asm, x, _ string, t []string) { m.sigmoid(a, x, t) }},
		{name: "silu", comment: "y = x / (1 + exp(-x))", exp: true,
			again: true,
			body:  func(a *asm, x, _ string, t []string) { m.sigmoid(a, x, t) }},
	}
	for _, op := range ops {
		name := op.name + m.name
		s.fn(name, "mapArgs", fmt.Sprintf("// %s computes %s\n// over rows of n channels, a multiple of 8.", name, op.comment))
		a.text(name, "mapArgs")
		a.i("MOVQ p+0(FP), DI")
		a.i("MOVQ mapArgs_x(DI), SI")
		a.i("MOVQ mapArgs_y(DI), DX")
		if op.z {
			a.i("MOVQ mapArgs_z(DI), BX")
		}
		a.i("MOVQ mapArgs_rows(DI), R11")
		a.i("VBROADCASTSS mapArgs_lo(DI), %s", m.r(14))
		a.i("VBROADCASTSS mapArgs_hi(DI), %s", m.r(15))
		if op.exp {
			m.loadExp(a)
		}
		if m.masked {
			a.i("MOVL $0xff, AX")
			a.i("KMOVW AX, K1")
		}
		// vectors emits n vectors side by side: one alone is a chain of dependent
		// instructions that would leave the units idle most of the time.
		vectors := func(n int, partial bool) {
			chains := make([][]byte, n)
			for i := range n {
				var b asm
				x, z := m.r(4*i), m.r(4*i+1)
				t := []string{m.r(4*i + 1), m.r(4*i + 2), m.r(4*i + 3)}
				mem := func(base string) string { return fmt.Sprintf("%d(%s)(AX*1)", i*m.bytes(), base) }
				m.load(&b, mem("SI"), x, partial)
				if op.z {
					m.load(&b, mem("BX"), z, partial)
				}
				op.body(&b, x, z, t)
				if op.again {
					m.load(&b, mem("SI"), z, partial)
					b.i("VMULPS %s, %s, %s", z, x, x)
				}
				m.store(&b, x, mem("DX"), partial)
				chains[i] = b.Bytes()
			}
			a.interleave(chains)
		}
		a.l("row")
		a.i("XORQ AX, AX")
		a.i("MOVQ mapArgs_n(DI), CX")
		loop := func(label string, n int, next string) {
			a.i("SUBQ $%d, CX", n*m.lanes)
			a.i("JLT %s", next)
			a.i("PCALIGN $32")
			a.l(label)
			vectors(n, false)
			a.i("ADDQ $%d, AX", n*m.bytes())
			a.i("SUBQ $%d, CX", n*m.lanes)
			a.i("JGE %s", label)
			a.l(next)
			a.i("ADDQ $%d, CX", n*m.lanes)
		}
		loop("many", m.chains, "few")
		loop("vector", 1, "half")
		if m.masked {
			a.i("JEQ next")
			vectors(1, true)
			a.l("next")
		}
		a.i("ADDQ mapArgs_ldx(DI), SI")
		a.i("ADDQ mapArgs_ldy(DI), DX")
		if op.z {
			a.i("ADDQ mapArgs_ldz(DI), BX")
		}
		a.i("DECQ R11")
		a.i("JNE row")
		a.i("VZEROUPPER")
		a.i("RET")
	}
}

// expTable returns the name of the table of constants and the size of each.
// AVX-512 keeps the constants in registers, AVX2 reads vectors of them.
func (m isa) expTable() (name string, size int) {
	if m.masked {
		return "exp" + m.name + "<>", 4
	}
	return "exp" + m.name + "<>", m.bytes()
}

// loadExp loads the constants of exp into the registers they are kept in.
func (m isa) loadExp(a *asm) {
	if !m.masked {
		return
	}
	table, size := m.expTable()
	for i := range expConst {
		a.i("VBROADCASTSS %s+%d(SB), %s", table, i*size, m.r(16+i))
	}
}

// expConstant returns the operand of a constant of exp.
func (m isa) expConstant(name string) string {
	for i, c := range expConst {
		if c.name == name {
			if m.masked {
				return m.r(16 + i)
			}
			table, size := m.expTable()
			return fmt.Sprintf("%s+%d(SB)", table, i*size)
		}
	}
	panic("no constant " + name)
}

// exp replaces x, within [min, max], by its exponential. x must be a register;
// t are temporaries.
func (m isa) exp(a *asm, x string, t []string) {
	n, r, p, c := t[0], t[1], t[2], m.expConstant
	a.i("VMULPS %s, %s, %s", c("log2e"), x, n)
	a.i("VCVTPS2DQ %s, %s", n, n) // rounds to nearest
	a.i("VCVTDQ2PS %s, %s", n, r)
	a.i("VFNMADD231PS %s, %s, %s", c("ln2hi"), r, x)
	a.i("VFNMADD231PS %s, %s, %s", c("ln2lo"), r, x)
	a.i("VMOVUPS %s, %s", c("p0"), p)
	for _, k := range []string{"p1", "p2", "p3", "p4", "p5"} {
		a.i("VFMADD213PS %s, %s, %s", c(k), x, p)
	}
	a.i("VMULPS %s, %s, %s", x, x, r)
	a.i("VFMADD213PS %s, %s, %s", x, r, p)
	a.i("VADDPS %s, %s, %s", c("one"), p, p)
	a.i("VPSLLD $23, %s, %s", n, n)
	a.i("VPADDD %s, %s, %s", n, p, x)
}

// limit clamps x to the range of exp, keeping NaN.
func (m isa) limit(a *asm, x string, t []string) {
	a.i("VMOVUPS %s, %s", m.expConstant("max"), t[0])
	a.i("VMINPS %s, %s, %s", x, t[0], x)
	a.i("VMOVUPS %s, %s", m.expConstant("min"), t[0])
	a.i("VMAXPS %s, %s, %s", x, t[0], x)
}

// sigmoid replaces x by 1/(1+exp(-x)).
func (m isa) sigmoid(a *asm, x string, t []string) {
	c := m.expConstant
	a.i("VXORPS %s, %s, %s", c("sign"), x, x)
	m.limit(a, x, t)
	m.exp(a, x, t)
	a.i("VADDPS %s, %s, %s", c("one"), x, x)
	if !m.masked {
		a.i("VMOVUPS %s, %s", c("one"), t[0])
		a.i("VDIVPS %s, %s, %s", x, t[0], x)
		return
	}
	// A 512-bit division takes as long as sixteen other instructions: refine the
	// 14-bit reciprocal by one Newton step instead.
	a.i("VRCP14PS %s, %s", x, t[0])
	a.i("VFNMADD213PS %s, %s, %s", c("one"), t[0], x)
	a.i("VFMADD213PS %s, %s, %s", t[0], t[0], x)
}
