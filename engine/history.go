package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// history is the last runs, for controllers and for whoever watches.
type history struct {
	mu   sync.Mutex
	ring [512]past
	runs uint64
	late uint64
}

// past is one run.
type past struct {
	total time.Duration // waiting and running
	macs  int64
}

func (h *history) add(p past, late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.runs%uint64(len(h.ring))] = p
	h.runs++
	if late {
		h.late++
	}
}

// since appends the runs after the first n, as far as they are remembered, and
// tells how many there have been in all.
func (h *history) since(n uint64, to []past) ([]past, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.after(n, to), h.runs
}

// after is since, with the lock held.
func (h *history) after(n uint64, to []past) []past {
	if size := uint64(len(h.ring)); h.runs > size {
		n = max(n, h.runs-size)
	}
	for ; n < h.runs; n++ {
		to = append(to, h.ring[n%uint64(len(h.ring))])
	}
	return to
}

// Stats sum up what an engine has done.
type Stats struct {
	Runs uint64 // inferences
	Late uint64 // of them, later than their budget or their context's deadline
	// Quantiles of the time from call to result, over the last runs, up to 512.
	Median, P95, Max time.Duration
}

// Stats sums up the inferences so far.
func (e *Engine) Stats() Stats {
	h := &e.history
	h.mu.Lock()
	last, s := h.after(0, nil), Stats{Runs: h.runs, Late: h.late}
	h.mu.Unlock()
	if len(last) > 0 {
		sortRuns(last)
		s.Median, s.P95, s.Max = quantile(last, 0.5), quantile(last, 0.95), last[len(last)-1].total
	}
	return s
}

// sortRuns sorts by time.
func sortRuns(list []past) {
	slices.SortFunc(list, func(a, b past) int { return cmp.Compare(a.total, b.total) })
}

// quantile of sorted runs: the least time that a part of q is not above.
func quantile(sorted []past, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].total
}
