package main

// A Winograd transform is a product with a small constant matrix from both
// sides: a one-dimensional transform of every column of a tile, then of every
// row. These are the three one-dimensional ones, on registers, for any vector
// unit that can do what vecOps lists. See winograd.go of package kernel for the
// matrices, and for the constants they take from memory.
type vecOps struct {
	mov       func(d, s int)    // d = s
	add, sub  func(d, x, y int) // d = x ± y
	mul       func(d, x, y int) // y of this and of those below may be a constant
	fma, fnma func(d, x, y int) // d ± x·y
}

// Constants, in the order of winogradConst.
const (
	winoA = iota
	winoB
	winoA2
	winoB2
	winoSum
	winoProduct
	winoOut0
	winoOutA
	winoOutA1
	winoOutA2
	winoOutA3
	winoOutB
	winoOutB1
	winoOutB2
	winoOutB3
)

// winoConstBytes is the size of a constant in memory: a vector of AVX2.
const winoConstBytes = 32

// winoInputConst, and the two below, are the constants of a transform in the
// order of its registers.
var (
	winoInputConst  = []int{winoA, winoB, winoA2, winoB2, winoSum, winoProduct}
	winoOutputConst = []int{winoOut0, winoOutA, winoOutA1, winoOutA2, winoOutA3, winoOutB, winoOutB1, winoOutB2, winoOutB3}
	winoWeightConst = []int{winoA, winoB, winoA2, winoB2}
)

// winoInput transforms six inputs r to six values, whose registers it returns;
// t are four temporaries.
func winoInput(v vecOps, r, t, c []int) []int {
	a, b, a2, b2, sum, product := c[0], c[1], c[2], c[3], c[4], c[5]
	v.mul(r[0], r[0], product)
	v.mov(t[0], r[4])
	v.mov(t[1], r[3])
	v.add(r[0], r[0], r[4])
	v.fnma(r[5], r[3], sum)
	v.fnma(t[0], r[2], b2)
	v.fnma(t[1], r[1], b2)
	v.fnma(r[4], r[2], a2)
	v.fnma(r[3], r[1], a2)
	v.fnma(r[0], r[2], sum)
	v.fma(r[5], r[1], product)
	v.mov(t[2], t[0])
	v.mov(t[3], r[4])
	v.fma(t[2], t[1], a)
	v.fnma(t[0], t[1], a)
	v.fma(t[3], r[3], b)
	v.fnma(r[4], r[3], b)
	return []int{r[0], t[2], t[0], t[3], r[4], r[5]}
}

// winoOutput transforms six sums r to four outputs; t are two temporaries.
func winoOutput(v vecOps, r, t, c []int) []int {
	v.sub(t[0], r[1], r[2])
	v.add(r[1], r[1], r[2])
	v.sub(t[1], r[3], r[4])
	v.add(r[3], r[3], r[4])
	v.mul(r[0], r[0], c[0])
	v.mul(r[2], t[0], c[2])
	v.mul(r[4], r[1], c[3])
	v.fma(r[5], t[0], c[4])
	v.fma(r[0], r[1], c[1])
	v.fma(r[2], t[1], c[6])
	v.fma(r[4], r[3], c[7])
	v.fma(r[5], t[1], c[8])
	v.fma(r[0], r[3], c[5])
	return []int{r[0], r[2], r[4], r[5]}
}

// winoWeights transforms three weights g to six values: four in d, between g[0]
// and g[2] themselves.
func winoWeights(v vecOps, g, d, c []int) []int {
	a, b, a2, b2 := c[0], c[1], c[2], c[3]
	v.mov(d[0], g[0])
	v.mov(d[2], g[0])
	v.fma(d[0], g[2], a2)
	v.fma(d[2], g[2], b2)
	v.mov(d[1], d[0])
	v.mov(d[3], d[2])
	v.fma(d[0], g[1], a)
	v.fnma(d[1], g[1], a)
	v.fma(d[2], g[1], b)
	v.fnma(d[3], g[1], b)
	return []int{g[0], d[0], d[1], d[2], d[3], g[2]}
}

// from returns n registers from i on.
func from(i, n int) []int {
	r := make([]int, n)
	for j := range r {
		r[j] = i + j
	}
	return r
}

// Comments of the kernels.
const (
	winoInputComment   = "// %s computes v = Bᵀ·x·B for a tile x of 6×6 pixels, for the channels in [off, end)."
	winoWeightsComment = "// %s computes u = G·w·Gᵀ for 3×3 taps w, for the n vectors that follow each other."
	winoOutputComment  = "// %s computes s = Aᵀ·m·A and y[i][j] = min(max(s[i][j]*scale + bias + res[i][j], lo), hi)\n// for i < ny and j < nx, for the channels in [off, end)."
)
