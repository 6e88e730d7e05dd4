package kernel

import (
	"fmt"
	"unsafe"
)

// PadChannels returns the floats a pixel of c channels takes: c rounded up to 8.
func PadChannels(c int) int { return (c + 7) &^ 7 }

// panelWidth is the number of output channels of a weight panel.
const panelWidth = 16

// Alloc returns n zeroed floats that start on a cache line, so that no vector
// of a pixel with a multiple of 16 channels straddles two of them. Kernels take
// any slice; an aligned one is faster.
func Alloc(n int) []float32 {
	const line = 64
	b := make([]float32, n+line/4-1)
	skip := 0
	if len(b) > 0 {
		skip = int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%line) / 4
	}
	return b[skip : skip+n : skip+n]
}

// ConvWeights are the packed weights of a convolution or linear layer, possibly
// shared by many subnetworks. They are only read after packing.
type ConvWeights struct {
	Cout, Cin, Taps int       // as packed: the largest subnetwork; Cin is that of a group
	Data            []float32 // [ceil(Cout/16)][Taps][Cin][16], pad channels zero
}

// PackedLen returns the floats that PackConv fills for these sizes.
func PackedLen(cout, cin, taps int) int {
	return (cout + panelWidth - 1) / panelWidth * taps * cin * panelWidth
}

// PackConv packs weights given as [cout][cin][taps], which is the order of
// PyTorch's and ONNX's convolution weights and, with one tap, of their linear
// weights. For a grouped convolution cin is the input channels of one group.
func PackConv(cout, cin, taps int, w []float32) *ConvWeights {
	if cout < 1 || cin < 1 || taps < 1 || len(w) != cout*cin*taps {
		panic(fmt.Sprintf("kernel: PackConv of %d weights as %d×%d×%d", len(w), cout, cin, taps))
	}
	p := &ConvWeights{Cout: cout, Cin: cin, Taps: taps, Data: Alloc(PackedLen(cout, cin, taps))}
	for o := range cout {
		panel := p.Data[o/panelWidth*p.panelLen():]
		for i := range cin {
			for t := range taps {
				panel[(t*cin+i)*panelWidth+o%panelWidth] = w[(o*cin+i)*taps+t]
			}
		}
	}
	return p
}

// Unpack is the reverse of PackConv: it writes [cout][cin][taps] to w.
func (p *ConvWeights) Unpack(w []float32) {
	if len(w) != p.Cout*p.Cin*p.Taps {
		panic(fmt.Sprintf("kernel: Unpack of %d×%d×%d weights to %d", p.Cout, p.Cin, p.Taps, len(w)))
	}
	for o := range p.Cout {
		panel := p.Data[o/panelWidth*p.panelLen():]
		for i := range p.Cin {
			for t := range p.Taps {
				w[(o*p.Cin+i)*p.Taps+t] = panel[(t*p.Cin+i)*panelWidth+o%panelWidth]
			}
		}
	}
}

// panelLen returns the floats of one panel.
func (p *ConvWeights) panelLen() int { return p.Taps * p.Cin * panelWidth }

// DepthwiseWeights are the packed weights of a depthwise convolution.
type DepthwiseWeights struct {
	Channels, Taps int       // as packed: the largest subnetwork
	Data           []float32 // [Taps][PadChannels(Channels)], pad channels zero
}

// PackDepthwise packs weights given as [channels][taps].
func PackDepthwise(channels, taps int, w []float32) *DepthwiseWeights {
	if channels < 1 || taps < 1 || len(w) != channels*taps {
		panic(fmt.Sprintf("kernel: PackDepthwise of %d weights as %d×%d", len(w), channels, taps))
	}
	ld := PadChannels(channels)
	p := &DepthwiseWeights{Channels: channels, Taps: taps, Data: Alloc(taps * ld)}
	for c := range channels {
		for t := range taps {
			p.Data[t*ld+c] = w[c*taps+t]
		}
	}
	return p
}

// Unpack is the reverse of PackDepthwise: it writes [channels][taps] to w.
func (p *DepthwiseWeights) Unpack(w []float32) {
	if len(w) != p.Channels*p.Taps {
		panic(fmt.Sprintf("kernel: Unpack of %d×%d weights to %d", p.Channels, p.Taps, len(w)))
	}
	ld := PadChannels(p.Channels)
	for c := range p.Channels {
		for t := range p.Taps {
			w[c*p.Taps+t] = p.Data[t*ld+c]
		}
	}
}
