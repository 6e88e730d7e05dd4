package onnx

import (
	"bufio"
	"fmt"
	"io"

	"tips/supernet"
	"tips/weights"
)

// What the files declare. Opset 17 is the first with all operators as used here
// and IR version 8 goes with it; newer ones would shut out older readers.
const (
	irVersion = 8
	opset     = 17
	producer  = "tips"

	inputName  = "input"
	outputName = "output"
	batchName  = "batch" // of a batch dimension that is left open
)

// Options say what of a network is written, and how. The zero value is the whole
// network at its own input size, for any batch size, with batch norm folded.
type Options struct {
	// Subnet is the subnetwork to write. The zero value is the whole network.
	Subnet supernet.Subnet
	// Statistics are the batch-norm statistics of the subnetwork. nil takes the
	// first channels of the set's own.
	Statistics *weights.Statistics
	// Input is the input size. The zero value is the network's own.
	Input supernet.Shape
	// Batch is the number of inputs that the model takes at once. 0 leaves it open.
	Batch int
	// KeepNorm writes batch norm as nodes of their own, as a model that is to be
	// trained further needs it. By default they are folded into weights.
	KeepNorm bool
}

// Export writes a network, or one subnetwork of it, as an ONNX model. Memory is
// that of the graph without its weights, which are written as they are read.
func Export(w io.Writer, set *weights.Set, o Options) error {
	if o.Input == (supernet.Shape{}) {
		o.Input = set.Network.Input()
	}
	if o.Statistics == nil {
		o.Statistics = set.Statistics()
	}
	if o.Batch < 0 {
		return fmt.Errorf("onnx: batch of %d; want 1 or more, or 0 to leave it open", o.Batch)
	}
	view, err := set.Network.View(o.Subnet, o.Input)
	if err != nil {
		return err
	}
	g, err := newGraph(set, view, o)
	if err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	if err := g.write(out); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	return out.Flush()
}
