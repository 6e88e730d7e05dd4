// Package search finds the subnetworks that are worth running (step 3 of the
// paper): those that no other one beats in both cost and accuracy, within caps on
// any costs.
//
//	result, err := search.Run(ctx, search.Options{Network: net, Judge: judge, Budget: budget, Evaluations: 200})
//
// A [Judge] tells the accuracy of a subnetwork; that takes a second or so, and
// everything else is cheap next to it. What is searched are the widths of the
// network's groups and, where the training method trained them too, its depths.
//
// # Strategies
//
// [Random] is Algorithm 1 of the paper: subnetworks drawn by a stated sampler, each
// judged, and inserted into the frontier by frontier.Insert, which mends the misprint
// of the paper and is exact about ties.
//
// [Evolution] breeds the subnetworks judged so far: children of two parents take the
// width of each group from one or the other, some widths are changed, and the next
// parents are chosen by non-dominated sorting and crowding (NSGA-II).
//
// [Guided] evolution breeds thousands of children and judges few: a predictor, fitted
// to all subnetworks judged so far, says how accurate each may be and how sure that
// is, and those are judged that are expected to add the most to the frontier.
//
// All of them can be given subnetworks to begin with, Options.Start: those that a
// training method has tried, say.
//
// # Caps, interruptions
//
// A cap is a cap: no subnetwork above one is ever judged. Where none is below all
// caps the error says which is the cheapest and what it costs.
//
// A search can be interrupted at any time, and returns the frontier so far. With
// Options.State it writes down every answer of the judge, and a search with the same
// options goes on from there, to the same result as one that nobody interrupted:
// all that is left to chance comes from the seed and the answers. One with other
// options takes the answers that are there, and keeps what earlier ones have found.
package search
