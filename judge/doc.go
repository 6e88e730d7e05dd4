// Package judge says how accurate subnetworks are.
//
// A trained network has one set of batch-norm statistics at most, those of the
// whole; every subnetwork needs its own. To judge one is therefore to re-estimate
// its statistics on training images, which takes most of the time, and then to count
// how many other images it gets right with them. The statistics are part of the
// verdict: whoever ships the subnetwork ships them.
//
//	j, err := judge.Open(judge.Options{Run: "runs/quick-tips-1", Cache: "runs/quick-tips-1/judged.cache"})
//	defer j.Close()
//	v, err := j.Judge(ctx, sub)           // one
//	err = j.All(ctx, list, func(i int, v judge.Verdict) { … }) // many, in parallel
//
// A [Judge] is a search.Judge, and [Judge.Frontier] is the frame of a frontier of its
// verdicts.
//
// # What verdicts depend on
//
// The weights, the images judged by, the training images calibrated on and their
// order and batches, how images are prepared, and what does the arithmetic: all this
// is the judge's [Judge.Identity]. Not among it is the number of threads: verdicts
// are the same to the bit on any, see train.Panel.
//
// # The cache
//
// Verdicts are kept in memory and, with Options.Cache, in a file, by subnetwork and
// identity. One file serves any number of judges, also of other networks and in other
// processes at the same time. It only grows, record by record, each with a checksum:
// what a kill leaves behind half written is cut off by the next judge, and all before
// it counts. So judging many subnetworks is resumed by doing it again.
package judge
