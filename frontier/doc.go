// Package frontier holds what joins the offline half of the system to the online
// half: the subnetworks worth running, with what each costs, how accurate it is,
// and the batch-norm statistics calibrated for it.
//
// # Points and dominance
//
// A [Point] is a subnetwork with its [Costs] and its accuracy. A frontier is over
// one cost or several ([Frontier.By]). One point dominates another if it costs no
// more, by every cost of the frontier, and is at least as accurate. A frontier
// holds no point that another one dominates. With one cost, as usual, it is
// therefore a staircase: sorted by the cost, accuracies rise. With several it is a
// surface; points are sorted by the first cost, then the next, and accuracies may
// fall from one point to the next.
//
// Costs that the frontier is not over are recorded too, for budgets at run time
// and for tables, and obey no order.
//
// [Insert] is the step that search takes, with exact rules about ties, and
// [Hypervolume] measures how good a frontier is.
//
// # The file
//
// One file holds a frontier: a header that binds it to its network and to its
// weights by their hashes, the choices of widths and blocks, costs and accuracies,
// the statistics, and a checksum over all of it. Each of these parts is in one
// piece, and [Frontier.Sizes] tells their bytes apart. The first bytes name the
// version; a version, once written, stays readable. The same frontier gives the
// same bytes.
//
//	f, err := frontier.Open("net.frontier", set.Network)
//	if err == nil {
//		err = f.CheckWeights(set)
//	}
package frontier
