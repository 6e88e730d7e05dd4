package zoo

import (
	"cmp"
	"fmt"

	"tips/supernet"
)

// resNet is what the residual networks of He et al., 2016, and their relatives
// differ in.
type resNet struct {
	blocks     [4]int // per stage
	stages     [4]int // channels of each; all 0 means 64, 128, 256, 512
	inside     int    // channels between the two 3×3 of the first stage's blocks; 0 means those of the stage
	bottleneck bool   // 1×1, 3×3, 1×1 instead of two 3×3
	width      int    // of a bottleneck's 3×3 in the first stage
	groups     int    // of a bottleneck's 3×3
}

// resNetSmall is a residual network that learns images of 28×28 or so on a CPU in
// minutes. It is no network of a paper. Its trunk has one width throughout, and
// blocks are half as wide again inside: in steps of half the trunk, the trunk is
// halved and the inside of blocks goes down to a third. A method that favours the
// trunk, as TIPS does in residual networks, so comes to train the smallest
// subnetwork's widths as well. That one costs a fifth of the whole.
func resNetSmall(s *settings) (supernet.Description, error) {
	w := s.int("width", 32)
	return resNet{blocks: [4]int{0, 2, 2, 2}, stages: [4]int{w, w, w, w}, inside: w + w/2}.build(s.data()), nil
}

func resNet18(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{2, 2, 2, 2}}.build(s.data()), nil
}

func resNet34(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{3, 4, 6, 3}}.build(s.data()), nil
}

func resNet50(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{3, 4, 6, 3}, bottleneck: true, width: 64, groups: 1}.build(s.data()), nil
}

// wideResNet50 is the WRN-50-2 of Zagoruyko and Komodakis, 2016.
func wideResNet50(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{3, 4, 6, 3}, bottleneck: true, width: 128, groups: 1}.build(s.data()), nil
}

// resNeXt50 is the ResNeXt-50 32×4d of Xie et al., 2017.
func resNeXt50(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{3, 4, 6, 3}, bottleneck: true, width: 128, groups: 32}.build(s.data()), nil
}

func (net resNet) build(data Data) supernet.Description {
	b := images(data)
	if net.stages[0] == 0 {
		net.stages = [4]int{64, 128, 256, 512}
	}
	kernel, stride := 7, 2
	if data.isSmall() {
		kernel, stride = 3, 1
	}
	x := b.conv("stem", supernet.InputName, net.stages[0], kernel, stride, supernet.ReLU)
	x = b.add(supernet.Op{Name: "maxpool", Kind: supernet.MaxPool, Inputs: []string{x}, Kernel: 3, Stride: 2, Padding: 1})
	channels := net.stages[0]
	for stage, count := range net.blocks {
		for i := range count {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			name := fmt.Sprintf("stage%d.block%d", stage+1, i+1)
			x, channels = net.block(b, name, x, channels, net.stages[stage], stride)
		}
	}
	return b.classify(x, data.Classes)
}

// block adds one residual block and returns its output and the width of that.
func (net resNet) block(b *builder, name, from string, in, base, stride int) (string, int) {
	var x string
	out := base
	if net.bottleneck {
		out = 4 * base
		inner := net.width * base / 64
		x = b.conv(name+".conv1", from, inner, 1, 1, supernet.ReLU)
		// The stride stands in the 3×3, as in torchvision ("ResNet v1.5").
		x = b.grouped(name+".conv2", x, inner, 3, stride, net.groups, supernet.ReLU)
		x = b.conv(name+".conv3", x, out, 1, 1, supernet.NoActivation)
	} else {
		inner := cmp.Or(net.inside*base/net.stages[0], base)
		x = b.conv(name+".conv1", from, inner, 3, stride, supernet.ReLU)
		x = b.conv(name+".conv2", x, base, 3, 1, supernet.NoActivation)
	}
	shortcut := from
	if stride != 1 || in != out {
		shortcut = b.conv(name+".project", from, out, 1, stride, supernet.NoActivation)
	}
	return b.sum(name+".add", supernet.ReLU, x, shortcut), out
}
