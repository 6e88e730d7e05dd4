// Package kernel computes the operations of a convolutional network in
// float32 on the CPU: convolutions (dense, grouped, depthwise), linear layers,
// pooling and elementwise operations, in assembly where the CPU allows it.
//
// # Layouts
//
// Activations are NHWC: image, row, column, channel. A pixel takes [PadChannels]
// floats, its channels rounded up to 8. The up to 7 pad channels of an output
// are written with arbitrary values; those of an input are never read into a
// channel that counts.
//
// Weights are packed once by [PackConv] into panels of 16 output channels,
//
//	[ceil(CoutMax/16)][taps][CinMax][16]
//
// and depthwise weights by [PackDepthwise] into [taps][CMax]. A subnetwork that
// keeps the first cout output and the first cin input channels reads the first
// panels, and the first cin rows of each tap: it runs in place, nothing is
// copied or packed again, and its results are bit for bit those of weights
// packed at that size.
//
// # One call, one struct
//
// An operation is a struct that names its shapes, buffers and weights, and
// whose Run method does the work on a [Pool] of threads. The struct holds the
// state of a running call, so one goroutine at a time may use it; the slices it
// reads (weights, scales) may be shared by any number of them. Kept and run
// again, a struct makes no allocation. Shapes that do not fit the slices are a
// programmer's mistake and panic before any assembly runs.
//
// Every convolution ends in the same epilogue, per output channel c,
//
//	y = activation(sum*scale[c] + bias[c] + residual)
//
// so that batch-norm statistics of a subnetwork are two slices and never folded
// into the shared weights.
//
// # Variants
//
// A [Variant] is an implementation: plain Go (always there, and what the tests
// hold the others against), AVX2 with FMA, AVX-512, NEON. The zero Variant means
// the best the CPU can run. Within a variant an output is always computed by the
// same operations in the same order, whichever tile it falls in and however many
// threads run, so results do not depend on either. Between variants they differ
// by rounding.
//
// # How a convolution runs
//
// Everything dense is one loop nest, a tile: a few pixels by a few panels, all
// in registers, summed over tap rows, taps and input channels in that order
// (see tileGeneric). Pixels are broadcast straight from the activations, so
// nothing is packed; only a convolution with padding first copies a strip of
// its input, small enough for the second-level cache, with zeros around it.
// Depthwise and narrow grouped convolutions work on vectors of channels
// instead, sliding a window along a row.
//
// A dense 3×3 convolution of stride 1 is computed from a quarter of the
// products by Winograd's algorithm where that is faster (see [Algorithm] and
// winograd.go): inputs and weights of a block are transformed in scratch memory,
// multiplied by the same tiles, and transformed back. The packed weights are
// those of the direct sum, so nothing is stored twice, and a subnetwork still
// runs in place. The choice depends on the output size and the channels that
// run, so a strip of an image may round otherwise than the image as a whole.
//
// # Training
//
// The operations of training run on one thread, each on a chunk of images that
// fits its cache; dividing the batch is the caller's. Maps are kept as they are
// before their batch norm: [Normalise] applies it, with its activation, into an
// image with a border of zeros, on which a convolution needs no padding;
// [Moments] makes the statistics of its outputs. Backwards, [NormGradient] leads
// through batch norm and activation, [ConvGradient] and [DepthwiseGradient] add
// up the gradients of weights, in the layout of the weights, and
// [ConvInputGradient] and [DepthwiseInputGradient] lead on to the inputs, with
// the weights that [ConvWeights.Transpose] and [DepthwiseWeights.Flip] turn round
// once a step. [Strides] say where the pixels of all of these lie.
package kernel

//go:generate go run ./gen -out .
