// Package nn runs subnetworks of one set of weights on the CPU, and trains them.
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
// To learn, [Parameters] hold the weights so that they can be changed, and their
// gradients in the same form; a [Learner] runs a subnetwork forwards with the
// statistics of its batch, and back:
//
//	learner := nn.NewLearner(2)
//	logits, err := learner.Forward(params, sub, images, batch)
//	// dlogits: the gradient of the loss with respect to the logits
//	learner.Backward(gradients, dlogits)
//
// Gradients of several subnetworks add up. Its work, too, is in proportion to the
// subnetwork, not to the network.
//
// Results of a program depend neither on the number of threads nor on the other images of a
// batch, and a subnetwork's are those of the same network extracted into weights
// of its own, bit for bit.
package nn
