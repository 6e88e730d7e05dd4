package kernel

import (
	"math/rand/v2"
	"testing"
)

// FuzzConv runs convolutions of any shape on every variant, each held to the
// float64 reference, and so within twice the bound of each other.
func FuzzConv(f *testing.F) {
	f.Add(uint64(1), uint16(7), uint16(7), uint16(16), uint16(24), uint8(3), uint8(1), uint8(1), uint8(1), uint8(0))
	f.Add(uint64(2), uint16(1), uint16(1), uint16(100), uint16(70), uint8(1), uint8(1), uint8(0), uint8(1), uint8(3))
	f.Add(uint64(3), uint16(5), uint16(15), uint16(4), uint16(4), uint8(3), uint8(2), uint8(1), uint8(6), uint8(1))
	f.Add(uint64(32), uint16(8), uint16(13), uint16(38), uint16(40), uint8(2), uint8(0), uint8(1), uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, h, w, cin, cout uint16, kernel, stride, pad, groups, act uint8) {
		tc := convCase{
			n: 1 + int(seed%2), h: 1 + int(h%20), w: 1 + int(w%40), kernel: 1 + int(kernel%7), stride: 1 + int(stride%4),
			groups: 1 + int(groups%5), act: Activation(act % 5), misalign: int(seed % 16),
		}
		tc.cin, tc.cout = tc.groups*(1+int(cin%40)), tc.groups*(1+int(cout%70))
		tc.pad = int(pad) % tc.kernel
		tc.residual = tc.groups == 1 && seed%3 == 0
		if tc.groups == 1 {
			tc.cinMax = tc.cin + int(seed%5)
		}
		tc.coutMax = tc.cout + int(seed%7)
		tc.alg = Algorithm(seed / 16 % 3)
		for tc.n*tc.h*tc.w*tc.cin*tc.cout/tc.groups*tc.kernel*tc.kernel > 1<<20 {
			tc.h = (tc.h + 1) / 2
			tc.w = (tc.w + 1) / 2
			tc.kernel, tc.pad = min(tc.kernel, 3), min(tc.pad, 1)
			if tc.h == 1 && tc.w == 1 {
				break
			}
		}
		for _, v := range Variants() {
			tc.run(t, rand.New(rand.NewPCG(seed, 0)), v)
		}
	})
}

// FuzzDepthwise does the same for depthwise convolutions.
func FuzzDepthwise(f *testing.F) {
	f.Add(uint64(1), uint16(7), uint16(7), uint16(16), uint8(3), uint8(1), uint8(1), uint8(0))
	f.Add(uint64(2), uint16(9), uint16(29), uint16(40), uint8(5), uint8(2), uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, h, w, c uint16, kernel, stride, pad, act uint8) {
		tc := depthwiseCase{
			n: 1 + int(seed%2), h: 1 + int(h%20), w: 1 + int(w%50), c: 1 + int(c%70),
			kernel: 1 + int(kernel%7), stride: 1 + int(stride%4), act: Activation(act % 5), misalign: int(seed % 16),
		}
		tc.pad, tc.cMax = int(pad)%tc.kernel, tc.c+int(seed%9)
		for _, v := range Variants() {
			tc.run(t, rand.New(rand.NewPCG(seed, 0)), v)
		}
	})
}

// FuzzGradients does the same for the gradients of convolutions.
func FuzzGradients(f *testing.F) {
	f.Add(uint64(1), uint16(7), uint16(7), uint16(16), uint16(24), uint8(3), uint8(1), uint8(1), uint8(1))
	f.Add(uint64(2), uint16(12), uint16(12), uint16(30), uint16(20), uint8(1), uint8(1), uint8(0), uint8(1))
	f.Add(uint64(3), uint16(5), uint16(15), uint16(16), uint16(16), uint8(3), uint8(2), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, h, w, cin, cout uint16, kernel, stride, pad, groups uint8) {
		g := gradientCase{
			n: 1 + int(seed%3), oh: 1 + int(h%13), ow: 1 + int(w%17), kernel: 1 + int(kernel%5), stride: 1 + int(stride%3), groups: 1 + int(groups%3),
			coutMore: int(seed % 7), tight: seed%5 == 0, loose: seed%2 == 0,
		}
		g.cin, g.cout = g.groups*(1+int(cin%60)), g.groups*(1+int(cout%70))
		if g.groups == 1 {
			g.cinMore = int(seed % 4)
		}
		for g.n*g.oh*g.ow*g.cin*g.cout/g.groups*g.kernel*g.kernel > 1<<19 {
			g.oh, g.ow, g.kernel = (g.oh+1)/2, (g.ow+1)/2, min(g.kernel, 3)
			if g.oh == 1 && g.ow == 1 {
				break
			}
		}
		i := inputGradientCase{
			n: g.n, h: g.oh + 2, w: g.ow + 2, cin: g.cin, cout: g.cout, kernel: g.kernel, stride: g.stride, pad: int(pad) % g.kernel, groups: g.groups,
			cinMore: g.cinMore, ldMore: 8 * int(seed%2), accumulate: seed%3 == 0, border: seed%4 < 2,
		}
		d := depthwiseGradientCase{
			n: g.n, h: g.oh, w: g.ow, c: g.cin, more: int(seed % 9), kernel: g.kernel, stride: g.stride, pad: i.pad, loose: g.loose, accumulate: i.accumulate,
		}
		for _, v := range Variants() {
			g.run(t, rand.New(rand.NewPCG(seed, 0)), v)
			i.run(t, rand.New(rand.NewPCG(seed, 1)), v)
			d.weights(t, rand.New(rand.NewPCG(seed, 2)), v)
			d.inputs(t, rand.New(rand.NewPCG(seed, 3)), v)
		}
	})
}
