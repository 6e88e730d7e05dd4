//go:build xla

package accel

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
)

// node is a value of a program under construction.
type node struct {
	v    compute.Value
	dims []int
	t    dtypes.DType
}

func (n node) is() bool { return n.v != nil }

func (n node) size() int {
	size := 1
	for _, d := range n.dims {
		size *= d
	}
	return size
}

// graph builds a program. What the compiler's library refuses is a mistake of this
// package and ends the construction: build turns the panic into an error.
type graph struct {
	b compute.Builder
	f compute.Function
	// sequential is set for a backend that adds one value after the other: long sums
	// are then taken in parts, so that they keep their digits.
	sequential bool
	// scalars by value, so that a program does not hold thousands of them.
	scalars map[scalarKey]node
}

type scalarKey struct {
	value float64
	t     dtypes.DType
}

type buildError struct{ error }

// build makes a program from what construct returns.
func build(backend compute.Backend, name string, construct func(*graph) []node) (program compute.Executable, err error) {
	b := backend.Builder(name)
	g := &graph{b: b, f: b.Main(), sequential: backend.Name() == gobackend.BackendName, scalars: map[scalarKey]node{}}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case buildError:
			err = fmt.Errorf("accel: program %s: %w", name, e.error)
		default:
			panic(e)
		}
	}()
	var outputs []compute.Value
	for _, n := range construct(g) {
		outputs = append(outputs, n.v)
	}
	if err := g.f.Return(outputs, nil); err != nil {
		return nil, fmt.Errorf("accel: program %s: %w", name, err)
	}
	program, err = b.Compile()
	if err != nil {
		return nil, fmt.Errorf("accel: program %s: %w", name, explain(err))
	}
	return program, nil
}

// is wraps the result of an operation.
func (g *graph) is(v compute.Value, err error) node {
	if err != nil {
		panic(buildError{err})
	}
	s, err := g.f.Shape(v)
	if err != nil {
		panic(buildError{err})
	}
	return node{v, slices.Clone(s.Dimensions), s.DType}
}

func (g *graph) parameter(name string, t dtypes.DType, dims ...int) node {
	return g.is(g.f.Parameter(name, shapes.Make(t, dims...), nil))
}

// scalar is a constant.
func (g *graph) scalar(x float64, t dtypes.DType) node {
	key := scalarKey{x, t}
	if n, ok := g.scalars[key]; ok {
		return n
	}
	n := g.is(g.f.Constant([]float32{float32(x)}))
	if t != dtypes.Float32 {
		n = g.convert(n, t)
	}
	g.scalars[key] = n
	return n
}

func (g *graph) convert(x node, t dtypes.DType) node {
	if x.t == t {
		return x
	}
	return g.is(g.f.ConvertDType(x.v, t))
}

// wide is x in float32, in which all is computed that is no product of matrices.
func (g *graph) wide(x node) node { return g.convert(x, dtypes.Float32) }

func (g *graph) reshape(x node, dims ...int) node {
	if slices.Equal(x.dims, dims) {
		return x
	}
	return g.is(g.f.Reshape(x.v, dims...))
}

// spread broadcasts x, whose axes become the given ones of dims.
func (g *graph) spread(x node, dims []int, axes ...int) node {
	if slices.Equal(x.dims, dims) {
		return x
	}
	return g.is(g.f.BroadcastInDim(x.v, shapes.Make(x.t, dims...), axes))
}

// fit broadcasts scalars, and axes of length one.
func (g *graph) fit(x node, dims []int) node {
	if slices.Equal(x.dims, dims) {
		return x
	}
	axes := make([]int, len(x.dims))
	for i := range axes {
		axes[i] = i
	}
	return g.spread(x, dims, axes...)
}

// both gives two operands one shape.
func (g *graph) both(x, y node) (node, node) {
	dims := slices.Clone(x.dims)
	if len(y.dims) > len(dims) {
		dims = slices.Clone(y.dims)
	}
	if len(x.dims) == len(y.dims) {
		for i, d := range y.dims {
			dims[i] = max(dims[i], d)
		}
	}
	return g.fit(x, dims), g.fit(y, dims)
}

// pair applies an operation to two nodes of one shape.
func (g *graph) pair(op func(x, y compute.Value) (compute.Value, error), x, y node) node {
	x, y = g.both(x, y)
	return g.is(op(x.v, y.v))
}

func (g *graph) add(x, y node) node   { return g.pair(g.f.Add, x, y) }
func (g *graph) sub(x, y node) node   { return g.pair(g.f.Sub, x, y) }
func (g *graph) mul(x, y node) node   { return g.pair(g.f.Mul, x, y) }
func (g *graph) div(x, y node) node   { return g.pair(g.f.Div, x, y) }
func (g *graph) max(x, y node) node   { return g.pair(g.f.Max, x, y) }
func (g *graph) min(x, y node) node   { return g.pair(g.f.Min, x, y) }
func (g *graph) less(x, y node) node  { return g.pair(g.f.LessThan, x, y) }
func (g *graph) equal(x, y node) node { return g.pair(g.f.Equal, x, y) }
func (g *graph) and(x, y node) node   { return g.pair(g.f.LogicalAnd, x, y) }

// choose takes x where the condition holds, and y elsewhere.
func (g *graph) choose(condition, x, y node) node {
	x, y = g.both(x, y)
	return g.is(g.f.Where(g.fit(condition, x.dims).v, x.v, y.v))
}

func (g *graph) addTo(x node, a float64) node { return g.add(x, g.scalar(a, x.t)) }
func (g *graph) times(x node, a float64) node { return g.mul(x, g.scalar(a, x.t)) }

func (g *graph) exp(x node) node     { return g.is(g.f.Exp(x.v)) }
func (g *graph) log(x node) node     { return g.is(g.f.Log(x.v)) }
func (g *graph) sqrt(x node) node    { return g.is(g.f.Sqrt(x.v)) }
func (g *graph) sigmoid(x node) node { return g.is(g.f.Logistic(x.v)) }

// finite tells which values are neither infinite nor no number at all: x−x of
// those is not 0.
func (g *graph) finite(x node) node { return g.equal(g.sub(x, x), g.scalar(0, x.t)) }

func (g *graph) sum(x node, axes ...int) node {
	if len(axes) == 0 {
		for i := range x.dims {
			axes = append(axes, i)
		}
	}
	return g.is(g.f.ReduceSum(x.v, axes...))
}

func (g *graph) largest(x node, axes ...int) node { return g.is(g.f.ReduceMax(x.v, axes...)) }

// iota counts along an axis.
func (g *graph) iota(axis int, dims ...int) node {
	return g.is(g.f.Iota(shapes.Make(dtypes.Float32, dims...), axis))
}

// cut is x from from to to along an axis, and whole along the others.
func (g *graph) cut(x node, axis, from, to int) node {
	if from == 0 && to == x.dims[axis] {
		return x
	}
	starts, limits := make([]int, len(x.dims)), slices.Clone(x.dims)
	starts[axis], limits[axis] = from, to
	return g.is(g.f.Slice(x.v, starts, limits, nil))
}

// window is every stride-th pixel of x, a map of images, from the given ones on,
// h rows of w.
func (g *graph) window(x node, top, left, stride, h, w int) node {
	starts := []int{0, top, left, 0}
	limits := []int{x.dims[0], top + (h-1)*stride + 1, left + (w-1)*stride + 1, x.dims[3]}
	if slices.Equal(limits, x.dims) && top == 0 && left == 0 && stride == 1 {
		return x
	}
	return g.is(g.f.Slice(x.v, starts, limits, []int{1, stride, stride, 1}))
}

// place is the reverse of window: x at every stride-th pixel of a map of h rows of
// w pixels, and zero elsewhere.
func (g *graph) place(x node, top, left, stride, h, w int) node {
	rows, columns := (x.dims[1]-1)*stride+1, (x.dims[2]-1)*stride+1
	return g.pad(x, 0, [2]int{top, h - top - rows}, [2]int{left, w - left - columns}, stride-1)
}

// pad puts pixels around a map of images, and between its pixels.
func (g *graph) pad(x node, value float64, rows, columns [2]int, between int) node {
	if rows == [2]int{} && columns == [2]int{} && between == 0 {
		return x
	}
	return g.is(g.f.Pad(x.v, g.scalar(value, x.t).v, compute.PadAxis{},
		compute.PadAxis{Start: rows[0], End: rows[1], Interior: between},
		compute.PadAxis{Start: columns[0], End: columns[1], Interior: between}, compute.PadAxis{}))
}

func (g *graph) join(axis int, parts ...node) node {
	if len(parts) == 1 {
		return parts[0]
	}
	values := make([]compute.Value, len(parts))
	for i, p := range parts {
		values[i] = p.v
	}
	return g.is(g.f.Concatenate(axis, values...))
}

// product is a product of matrices, summed over the given axes of both. It is
// added up in float32 and given in type t.
func (g *graph) product(x node, xAxis int, y node, yAxis int, t dtypes.DType) node {
	return g.is(g.f.DotGeneral(x.v, []int{xAxis}, nil, y.v, []int{yAxis}, nil,
		compute.DotGeneralConfig{AccumulatorDType: dtypes.Float32, OutputDType: t}))
}

// flat is x as a vector.
func (g *graph) flat(x node) node { return g.reshape(x, x.size()) }

// norm is the Euclidean norm of a vector.
func (g *graph) norm(x node) node {
	squares := g.mul(x, x)
	if g.sequential {
		const part = 2048
		squares = g.is(g.f.Pad(squares.v, g.scalar(0, x.t).v, compute.PadAxis{End: part - x.dims[0]%part}))
		squares = g.sum(g.reshape(squares, squares.dims[0]/part, part), 1)
	}
	return g.sqrt(g.sum(squares))
}
