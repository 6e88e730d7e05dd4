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
	first      int    // channels of the stem and the first stage; each further stage has twice those of the one before; 0 means 64
	bottleneck bool   // 1×1, 3×3, 1×1 instead of two 3×3
	width      int    // of a bottleneck's 3×3 in the first stage
	groups     int    // of a bottleneck's 3×3
}

// resNetSmall is a residual network that learns images of 28×28 or so on a CPU in
// minutes. It is no network of a paper: a quarter of ResNet18's width, two of its
// blocks less, and still ten width groups.
func resNetSmall(s *settings) (supernet.Description, error) {
	return resNet{blocks: [4]int{1, 2, 2, 1}, first: s.int("width", 16)}.build(s.data()), nil
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
	first := cmp.Or(net.first, 64)
	kernel, stride := 7, 2
	if data.isSmall() {
		kernel, stride = 3, 1
	}
	x := b.conv("stem", supernet.InputName, first, kernel, stride, supernet.ReLU)
	x = b.add(supernet.Op{Name: "maxpool", Kind: supernet.MaxPool, Inputs: []string{x}, Kernel: 3, Stride: 2, Padding: 1})
	channels := first
	for stage, count := range net.blocks {
		for i := range count {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			name := fmt.Sprintf("stage%d.block%d", stage+1, i+1)
			x, channels = net.block(b, name, x, channels, first<<stage, stride)
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
		x = b.conv(name+".conv1", from, base, 3, stride, supernet.ReLU)
		x = b.conv(name+".conv2", x, base, 3, 1, supernet.NoActivation)
	}
	shortcut := from
	if stride != 1 || in != out {
		shortcut = b.conv(name+".project", from, out, 1, stride, supernet.NoActivation)
	}
	return b.sum(name+".add", supernet.ReLU, x, shortcut), out
}
