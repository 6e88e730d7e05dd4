// Package train teaches a network and its subnetworks at once: step 2 of the
// paper.
//
// A [Recipe] says all that a run depends on: the network, the data, the method,
// the optimiser, the seed. It is a YAML file, read strictly. [Run] carries it out
// and leaves a folder of results. What a run does is fixed by its recipe alone:
// order and augmentation of the data come from (seed, epoch, image), a method's
// draws from (seed, step), so that there is no random state to keep.
//
// Work is divided among three parties. A method (package train/method) plans each
// step: which networks, and what each learns from. An [Executor] does the
// arithmetic of a step as a whole; [CPU] is one, and its state can be taken out
// and put into another. The trainer in between owns the schedule, the data, the
// evaluations, the metrics and the checkpoints, and does everything that is not
// a step as a hook between two steps.
//
// A checkpoint is one file that is replaced whole. A run that was killed at any
// moment goes on from its last checkpoint, repeats what it had not saved, and on
// one thread ends with the same bits.
//
// The package prints nothing: an [Observer] is told what happens.
package train
