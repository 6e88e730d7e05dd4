package zoo

import (
	"fmt"

	"tips/supernet"
)

// inverted is a row of the layer tables of MobileNet-v2 and EfficientNet: a
// number of inverted residual blocks, the first of them with the stride.
type inverted struct {
	expand, kernel, channels, repeats, stride int
}

// invertedNet is what the two networks differ in.
type invertedNet struct {
	activation supernet.Activation
	squeeze    bool // squeeze-and-excite after every depthwise convolution
	width      float64
	rows       []inverted
}

// mobileNetV2 is Table 2 of Sandler et al., 2018.
func mobileNetV2(s *settings) (supernet.Description, error) {
	return invertedNet{
		activation: supernet.ReLU6,
		width:      s.float("width", 1),
		rows: []inverted{
			{1, 3, 16, 1, 1},
			{6, 3, 24, 2, 2},
			{6, 3, 32, 3, 2},
			{6, 3, 64, 4, 2},
			{6, 3, 96, 3, 1},
			{6, 3, 160, 3, 2},
			{6, 3, 320, 1, 1},
		},
	}.build(s.data()), nil
}

// efficientNetB0Rows is Table 1 of Tan and Le, 2019.
var efficientNetB0Rows = []inverted{
	{1, 3, 16, 1, 1},
	{6, 3, 24, 2, 2},
	{6, 5, 40, 2, 2},
	{6, 3, 80, 3, 2},
	{6, 5, 112, 3, 1},
	{6, 5, 192, 4, 2},
	{6, 3, 320, 1, 1},
}

func efficientNetB0(s *settings) (supernet.Description, error) {
	return invertedNet{
		activation: supernet.SiLU,
		squeeze:    true,
		width:      1,
		rows:       efficientNetB0Rows,
	}.build(s.data()), nil
}

func (net invertedNet) build(data Data) supernet.Description {
	stemStride := 2
	if data.Name != "imagenet" {
		stemStride = 1 // small images keep their size
	}
	b := images(data)
	channels := divisible(32 * net.width)
	x := b.conv("stem", supernet.InputName, channels, 3, stemStride, net.activation)
	block := 0
	for _, row := range net.rows {
		for i := range row.repeats {
			block++
			if i > 0 {
				row.stride = 1
			}
			out := divisible(float64(row.channels) * net.width)
			x = net.block(b, fmt.Sprintf("block%d", block), x, channels, out, row)
			channels = out
		}
	}
	// A width multiplier below 1 leaves the last convolution as it is.
	x = b.conv("head", x, divisible(1280*max(1, net.width)), 1, 1, net.activation)
	return b.classify(x, data.Classes)
}

// block adds one inverted residual block: expand, filter every channel, project.
func (net invertedNet) block(b *builder, name, from string, in, out int, row inverted) string {
	x := from
	if row.expand > 1 {
		x = b.conv(name+".expand", x, in*row.expand, 1, 1, net.activation)
	}
	x = b.depthwise(name+".depthwise", x, row.kernel, row.stride, net.activation)
	if net.squeeze {
		x = b.squeezeExcite(name, x, in*row.expand, in/4, net.activation)
	}
	x = b.conv(name+".project", x, out, 1, 1, supernet.NoActivation)
	if row.stride == 1 && in == out {
		x = b.sum(name+".add", supernet.NoActivation, x, from)
	}
	return x
}

// squeezeExcite scales the channels of a map by a small network of their means.
func (b *builder) squeezeExcite(name, from string, channels, squeezed int, act supernet.Activation) string {
	gate := b.add(supernet.Op{Name: name + ".squeeze", Kind: supernet.GlobalPool, Inputs: []string{from}})
	gate = b.linear(name+".reduce", gate, squeezed, act)
	gate = b.linear(name+".excite", gate, channels, supernet.Sigmoid)
	return b.add(supernet.Op{Name: name + ".scale", Kind: supernet.Mul, Inputs: []string{from, gate}})
}
