package kernel

import (
	"fmt"
	"math"
	"unsafe"
)

// mapOp is an elementwise loop; see mapGeneric.
type mapOp uint8

const (
	mapClamp mapOp = iota
	mapAdd
	mapMul
	mapExp
	mapSigmoid
	mapSiLU
)

// mapArgs is what an elementwise kernel is called with: rows of n floats, n a
// positive multiple of 8. Strides are in bytes and may be 0 for z.
type mapArgs struct {
	x, z, y       unsafe.Pointer
	ldx, ldz, ldy uintptr
	rows, n       uintptr
	lo, hi        float32
}

// mapGeneric is the loop that every elementwise kernel computes.
func mapGeneric(op mapOp, p *mapArgs) {
	for r := range p.rows {
		for i := range p.n {
			x := *at(p.x, r*p.ldx+4*i)
			var v float32
			switch op {
			case mapClamp:
				v = clamp(x, p.lo, p.hi)
			case mapAdd:
				v = clamp(x+*at(p.z, r*p.ldz+4*i), p.lo, p.hi)
			case mapMul:
				v = clamp(float32(x**at(p.z, r*p.ldz+4*i)), p.lo, p.hi)
			case mapExp:
				v = expRange(x - p.lo)
			case mapSigmoid:
				v = 1 / (1 + expRange(-x))
			case mapSiLU:
				v = x * (1 / (1 + expRange(-x)))
			}
			*at(p.y, r*p.ldy+4*i) = v
		}
	}
}

// expRange is exp of x limited to ±80, so that neither it nor its reciprocal
// overflows or becomes denormal.
func expRange(x float32) float32 {
	return float32(math.Exp(float64(clamp(x, -80, 80))))
}

// maxMap is the most floats an elementwise kernel is given at once; the slowest
// take about a nanosecond each.
const maxMap = 1 << 14

// rows runs op over n floats of each row, in calls of bounded length.
func (v Variant) rows(op mapOp, p mapArgs) {
	total := p.rows
	step := max(1, maxMap/p.n)
	if p.ldx == 4*p.n && p.ldy == 4*p.n && p.ldz == 4*p.n {
		// One long row: fewer loops, no partial vectors within.
		n := p.n * p.rows
		p.rows, p.ldx, p.ldy, p.ldz = 1, 0, 0, 0
		for i := uintptr(0); i < n; i += maxMap {
			q := p
			q.n = min(maxMap, n-i)
			q.x, q.y = unsafe.Add(p.x, 4*i), unsafe.Add(p.y, 4*i)
			if p.z != nil {
				q.z = unsafe.Add(p.z, 4*i)
			}
			v.vectorMap(op, &q)
		}
		return
	}
	for r := uintptr(0); r < total; r += step {
		q := p
		q.rows = min(step, total-r)
		q.x, q.y = unsafe.Add(p.x, r*p.ldx), unsafe.Add(p.y, r*p.ldy)
		if p.z != nil {
			q.z = unsafe.Add(p.z, r*p.ldz)
		}
		v.vectorMap(op, &q)
	}
}

// activate applies a smooth activation in place to rows of n floats.
func (v Variant) activate(a Activation, y []float32, ld, rows, n int) {
	op := mapSiLU
	if a == Sigmoid {
		op = mapSigmoid
	}
	p := unsafe.Pointer(&y[:(rows-1)*ld+n][0])
	s := uintptr(4 * ld)
	v.rows(op, mapArgs{x: p, y: p, ldx: s, ldy: s, ldz: s, rows: uintptr(rows), n: uintptr(n)})
}

// Map is an elementwise operation on N pixel rows of C channels:
//
//	y = activation(x)            Op Identity
//	y = activation(x + z)        Op Sum
//	y = activation(x * z)        Op Product
//
// Z has a row for each Period rows of X, 1 when 0: with Period the pixels of an
// image it is a value per image and channel, as squeeze-and-excite multiplies
// by. Y may be X or Z when the rows of Z have period 1.
type Map struct {
	Variant    Variant
	Op         MapOp
	N, C       int
	X, Z, Y    []float32 // rows of PadChannels(C)
	Period     int
	Activation Activation

	v      Variant
	period int
}

// MapOp is how Map combines its inputs.
type MapOp uint8

const (
	// Identity takes x alone.
	Identity MapOp = iota
	// Sum is x + z.
	Sum
	// Product is x·z.
	Product
)

// mapBlock is the floats of one part of a Map.
const mapBlock = 1 << 15

type mapTask Map

// Run computes the operation on the pool.
func (m *Map) Run(p *Pool) {
	m.v = m.Variant.resolve()
	m.period = max(m.Period, 1)
	m.Activation.check()
	ld := PadChannels(m.C)
	if m.N < 0 || m.C < 1 || len(m.X) < m.N*ld || len(m.Y) < m.N*ld {
		panic(fmt.Sprintf("kernel: Map of %d rows of %d channels on %d inputs and %d outputs", m.N, m.C, len(m.X), len(m.Y)))
	}
	if z := (m.N + m.period - 1) / m.period * ld; m.Op != Identity && len(m.Z) < z {
		panic(fmt.Sprintf("kernel: Map needs %d second inputs, has %d", z, len(m.Z)))
	}
	block := m.rowsPerPart()
	p.Run((m.N+block-1)/block, (*mapTask)(m))
}

func (m *Map) rowsPerPart() int { return max(1, mapBlock/PadChannels(m.C)) }

func (t *mapTask) Part(part, _ int) {
	m := (*Map)(t)
	ld, block := PadChannels(m.C), (*Map)(t).rowsPerPart()
	for r, end := part*block, min(m.N, (part+1)*block); r < end; {
		n := end - r
		args := mapArgs{ldx: uintptr(4 * ld), ldy: uintptr(4 * ld), ldz: uintptr(4 * ld), n: uintptr(ld)}
		args.x, args.y = unsafe.Pointer(&m.X[r*ld]), unsafe.Pointer(&m.Y[r*ld])
		op := mapClamp
		if m.Op != Identity {
			if m.period > 1 { // one row of z for the rest of its period
				n = min(n, m.period-r%m.period)
				args.ldz = 0
			}
			args.z = unsafe.Pointer(&m.Z[r/m.period*ld])
			op = mapAdd
			if m.Op == Product {
				op = mapMul
			}
		}
		args.rows = uintptr(n)
		args.lo, args.hi = m.Activation.limits()
		switch {
		case !m.Activation.smooth():
			m.v.rows(op, args)
		case m.Op == Identity && m.Activation == SiLU:
			m.v.rows(mapSiLU, args)
		case m.Op == Identity:
			m.v.rows(mapSigmoid, args)
		default:
			m.v.rows(op, args)
			m.v.activate(m.Activation, m.Y[r*ld:], ld, n, ld)
		}
		r += n
	}
}

// Softmax writes the softmax of each of n rows of c values to y, which may be
// x: exp(x - max) over its sum. Rows are PadChannels(c) apart; pad values of x
// are not read, those of y become arbitrary. A row with a NaN becomes NaN.
func Softmax(v Variant, n, c int, y, x []float32) {
	v = v.resolve()
	ld := PadChannels(c)
	if n < 0 || c < 1 || len(x) < n*ld || len(y) < n*ld {
		panic(fmt.Sprintf("kernel: Softmax of %d rows of %d on %d inputs and %d outputs", n, c, len(x), len(y)))
	}
	for r := range n {
		in, out := x[r*ld:(r+1)*ld], y[r*ld:(r+1)*ld]
		top := in[0]
		for _, a := range in[:c] {
			if a > top || a != a {
				top = a
			}
		}
		copy(out[:c], in[:c])
		for i := c; i < ld; i++ {
			out[i] = top
		}
		args := mapArgs{x: unsafe.Pointer(&out[0]), y: unsafe.Pointer(&out[0]), rows: 1, n: uintptr(ld), lo: top}
		args.ldx, args.ldy, args.ldz = uintptr(4*ld), uintptr(4*ld), uintptr(4*ld)
		v.rows(mapExp, args)
		var sum float64
		for _, a := range out[:c] {
			sum += float64(a)
		}
		scale := float32(1 / sum)
		for i := range out {
			out[i] *= scale
		}
	}
}
