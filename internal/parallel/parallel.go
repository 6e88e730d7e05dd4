// Package parallel does many things on several cores.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls do for 0 to n−1, on as many goroutines as threads says, 0 for all cores, and
// returns when all have ended. Which of them runs when, and where, is open: calls must not depend on
// each other.
func Do(n, threads int, do func(i int)) {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads = min(threads, n); threads <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
