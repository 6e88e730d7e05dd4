// Package nn runs subnetworks of one set of weights on the CPU.
//
// A [Model] is the packed weights of a network: made once, never changed, shared
// by everybody. A [Program] is one subnetwork at one input size and batch size,
// planned down to the place of every feature map: it points into the model's
// weights, copies none of them, and never changes either. A [Session] is what a
// goroutine needs to run programs: threads and scratch memory, of whatever size the
// largest program run so far took.
//
//	model := nn.NewModel(set)
//	small, err := model.Program(net.Smallest(), net.Input(), 1, nil)
//	session := nn.NewSession(2)
//	defer session.Close()
//	session.Run(small, output, image)
//
// To switch to another subnetwork is to run another program: nothing is loaded,
// packed or copied. Any number of sessions can run any programs of one model at
// once.
//
// Results depend neither on the number of threads nor on the other images of a
// batch, and a subnetwork's are those of the same network extracted into weights
// of its own, bit for bit.
package nn
