// Package onnx writes networks as ONNX models, for runtimes and tools that know
// nothing of supernets.
//
// A subnetwork is written as a network of its own: only the operations that run,
// only the channels they use. What a runtime sees is a plain small network.
//
// # The model
//
// Opset 17, IR version 8. The input is called "input" and is [N, C, H, W], also
// where the map is one pixel, as that of a perceptron is: one rule for all
// networks. The output is called "output"; it is [N, C] where the last map is one
// pixel, as that of every classifier is, and [N, C, H, W] otherwise. Everything is
// float32. Feature maps and parameters have the names of their operations.
//
// Batch norm is folded into the convolution or linear layer before it, unless
// Options.KeepNorm asks for nodes of their own; where an operation without weights
// has one it stays a node.
//
// The same network gives the same bytes, and a subnetwork written with
// Options.Subnet the same bytes as the set that weights.Set.Extract makes of it.
package onnx
