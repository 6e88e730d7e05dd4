package zoo

import "tips/supernet"

// builder collects operations. Its methods return the name of what they added,
// which is what the next operation reads.
type builder struct {
	d supernet.Description
}

// images starts a network that classifies images.
func images(data Data) *builder {
	return &builder{supernet.Description{Input: supernet.Shape{Channels: data.Channels, Height: data.Size, Width: data.Size}}}
}

func (b *builder) add(op supernet.Op) string {
	b.d.Operations = append(b.d.Operations, op)
	return op.Name
}

// conv adds a convolution with batch norm, padded so that stride 1 keeps the size.
func (b *builder) conv(name, from string, channels, kernel, stride int, act supernet.Activation) string {
	return b.grouped(name, from, channels, kernel, stride, 1, act)
}

// grouped is conv in groups.
func (b *builder) grouped(name, from string, channels, kernel, stride, groups int, act supernet.Activation) string {
	return b.add(supernet.Op{
		Name: name, Kind: supernet.Conv, Inputs: []string{from},
		Channels: channels, Kernel: kernel, Stride: stride, Padding: kernel / 2, Groups: groups,
		Norm: true, Activation: act,
	})
}

// depthwise adds a depthwise convolution with batch norm, padded like conv.
func (b *builder) depthwise(name, from string, kernel, stride int, act supernet.Activation) string {
	return b.add(supernet.Op{
		Name: name, Kind: supernet.Depthwise, Inputs: []string{from},
		Kernel: kernel, Stride: stride, Padding: kernel / 2,
		Norm: true, Activation: act,
	})
}

// sum adds an addition.
func (b *builder) sum(name string, act supernet.Activation, from ...string) string {
	return b.add(supernet.Op{Name: name, Kind: supernet.Add, Inputs: from, Activation: act})
}

// linear adds a linear layer with bias.
func (b *builder) linear(name, from string, channels int, act supernet.Activation) string {
	return b.add(supernet.Op{Name: name, Kind: supernet.Linear, Inputs: []string{from}, Channels: channels, Bias: true, Activation: act})
}

// classify ends an image network: global pooling, then a linear layer.
func (b *builder) classify(from string, classes int) supernet.Description {
	pooled := b.add(supernet.Op{Name: "pool", Kind: supernet.GlobalPool, Inputs: []string{from}})
	b.linear("classifier", pooled, classes, supernet.NoActivation)
	return b.d
}

// divisible rounds a channel count as the MobileNet papers do.
func divisible(channels float64) int { return supernet.RoundWidth(channels, 8) }
