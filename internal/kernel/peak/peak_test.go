package peak

import "testing"

func BenchmarkFMA(b *testing.B) {
	for _, u := range Units() {
		b.Run(u.Name, func(b *testing.B) {
			const n = 10000
			for b.Loop() {
				u.Run(n)
			}
			b.ReportMetric(float64(u.FLOPs)*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
