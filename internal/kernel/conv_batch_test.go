package kernel

import "testing"

// TestConvBatch: images computed together, because their weights are large, have
// the bits they have alone.
func TestConvBatch(t *testing.T) {
	forVariants(t, func(t *testing.T, v Variant) {
		r := newRand(t, 45)
		for _, tc := range []convCase{
			{n: 5, h: 4, w: 5, cin: 130, cout: 136, kernel: 3, act: ReLU}, {n: 3, h: 6, w: 6, cin: 128, cout: 120, kernel: 3, stride: 2, act: SiLU, residual: true, misalign: 3},
		} {
			if v == Generic && testing.Short() {
				continue
			}
			tc.alg = Direct
			c, y, raw := tc.build(r)
			c.Variant = v
			prepare(c, 1)
			c.Run(nil)
			if c.plan.batch < 2 {
				t.Fatalf("%v: %d images at once", tc, c.plan.batch)
			}
			y.checkGuards(t)
			tc.verify(t, c, raw)
			one := *c
			one.N = 1
			image, out := len(c.X)/tc.n, len(c.Y)/tc.n
			for n := range tc.n {
				one.X = c.X[n*image : (n+1)*image]
				one.Y = newBuffer(out, 0).data
				if tc.residual {
					one.Residual = c.Residual[n*out : (n+1)*out]
				}
				one.Run(nil)
				ld := PadChannels(tc.cout)
				equalBits(t, tc.String(), c.Y[n*out:], one.Y, out/ld, tc.cout, ld, ld)
			}
		}
	})
}
