package parallel

import (
	"sync/atomic"
	"testing"
)

// TestDo: every number once, whatever the threads.
func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 1000} {
		for _, threads := range []int{-1, 0, 1, 2, 3, 16} {
			calls := make([]atomic.Int32, n)
			Do(n, threads, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Fatalf("%d things on %d threads: %d was done %d times", n, threads, i, got)
				}
			}
		}
	}
}
