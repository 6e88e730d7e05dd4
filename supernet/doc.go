// Package supernet holds a network as data: what it computes, how each of its
// parts may shrink, and what every choice costs. Analysis, samplers, both
// executors, search, import and export all read this one description; none of
// them keeps its own idea of the network, and none of them writes to it.
//
// # Words
//
//   - A supernet is the whole network, at full width and depth. A [Network] is a
//     checked, immutable supernet; a [Description] is the plain form of it that
//     people and files hold.
//   - An operation ([Op]) reads one or more feature maps and writes one. Batch
//     norm and activation belong to the operation that feeds them, so a
//     convolution with both is one operation.
//   - A feature map has a [Shape]: channels, height, width.
//   - A width [Group] is a set of operations whose outputs must shrink together.
//     The groups follow from the graph: the operands of an addition have equal
//     widths, a depthwise convolution writes as many channels as it reads, a
//     grouped convolution keeps whole groups, and what the network reads and
//     finally writes has a fixed width. A group that holds a residual trunk is
//     called a trunk group.
//   - A [Block] is a residual branch that can be left out, so that the addition
//     that closes it passes its shortcut on.
//   - A [Subnet] is one choice of a width for every group and of the blocks to
//     leave out. It names channels, not weights: an operation of width c uses its
//     first c channels.
//   - A [View] is what a Subnet looks like at one input size: which operations
//     run, on which shapes. Costs are read off a View.
//   - MACs are multiply-accumulates of convolutions and linear layers, the number
//     that the literature prints as FLOPs.
//
// # From a description to a cost
//
//	net, err := supernet.New(description)  // or zoo.New("mobilenet_v2"), or Read(file)
//	sub, err := net.Uniform(0.5)           // every group at half width
//	view, err := net.View(sub, net.Input())
//	fmt.Println(view.Costs().MACs)
//
// A Network is safe for use by any number of goroutines. Slices it returns are
// its own: read them, do not write to them.
package supernet
