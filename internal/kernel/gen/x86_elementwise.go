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
	// body computes x (and z) into x; the constants of exp are c(name).
	body func(a *asm, x, z string, t []string, c func(string) string)
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
	table := "exp" + m.name + "<>"
	size := m.bytes()
	if m.masked {
		size = 4
	}
	a.WriteString("\n")
	for i, c := range expConst {
		for j := 0; j < size; j += 4 {
			fmt.Fprintf(a, "DATA %s+%d(SB)/4, $0x%08x // %s\n", table, i*size+j, math.Float32bits(c.value), c.name)
		}
	}
	fmt.Fprintf(a, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", table, size*len(expConst))
	constant := func(name string) string {
		for i, c := range expConst {
			if c.name == name {
				if m.masked {
					return m.r(16 + i)
				}
				return fmt.Sprintf("%s+%d(SB)", table, i*size)
			}
		}
		panic("no constant " + name)
	}

	// exp replaces x, within [min, max], by its exponential. x must be a
	// register; t are temporaries.
	exp := func(a *asm, x string, t []string, c func(string) string) {
		n, r, p := t[0], t[1], t[2]
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
	limit := func(a *asm, x string, t []string, c func(string) string) {
		a.i("VMOVUPS %s, %s", c("max"), t[0])
		a.i("VMINPS %s, %s, %s", x, t[0], x)
		a.i("VMOVUPS %s, %s", c("min"), t[0])
		a.i("VMAXPS %s, %s, %s", x, t[0], x)
	}
	sigmoid := func(a *asm, x string, t []string, c func(string) string) {
		a.i("VXORPS %s, %s, %s", c("sign"), x, x)
		limit(a, x, t, c)
		exp(a, x, t, c)
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

	ops := []mapOp{
		{name: "clamp", comment: "y = min(max(x, lo), hi)",
			body: func(a *asm, x, _ string, _ []string, _ func(string) string) { m.clamp(a, x, m.r(14), m.r(15)) }},
		{name: "add", comment: "y = min(max(x + z, lo), hi)", z: true,
			body: func(a *asm, x, z string, _ []string, _ func(string) string) {
				a.i("VADDPS %s, %s, %s", z, x, x)
				m.clamp(a, x, m.r(14), m.r(15))
			}},
		{name: "mul", comment: "y = min(max(x · z, lo), hi)", z: true,
			body: func(a *asm, x, z string, _ []string, _ func(string) string) {
				a.i("VMULPS %s, %s, %s", z, x, x)
				m.clamp(a, x, m.r(14), m.r(15))
			}},
		{name: "exp", comment: "y = exp(x - lo)", exp: true,
			body: func(a *asm, x, _ string, t []string, c func(string) string) {
				a.i("VSUBPS %s, %s, %s", m.r(14), x, x)
				limit(a, x, t, c)
				exp(a, x, t, c)
			}},
		{name: "sigmoid", comment: "y = 1 / (1 + exp(-x))", exp: true,
			body: func(a *asm, x, _ string, t []string, c func(string) string) { sigmoid(a, x, t, c) }},
		{name: "silu", comment: "y = x / (1 + exp(-x))", exp: true,
			again: true,
			body:  func(a *asm, x, _ string, t []string, c func(string) string) { sigmoid(a, x, t, c) }},
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
		if op.exp && m.masked {
			for i := range expConst {
				a.i("VBROADCASTSS %s+%d(SB), %s", table, i*size, m.r(16+i))
			}
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
				op.body(&b, x, z, t, constant)
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
