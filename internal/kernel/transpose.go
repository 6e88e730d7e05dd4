package kernel

import (
	"fmt"
	"unsafe"
)

// NewTransposed returns the weights of the input gradient of a convolution of
// the given number of groups, 1 if dense; see [ConvWeights.Transpose].
func NewTransposed(src *ConvWeights, groups int) *ConvWeights {
	groups = max(groups, 1)
	dst := &ConvWeights{Cout: src.Cin * groups, Cin: src.Cout / groups, Taps: src.Taps}
	dst.Data = Alloc(PackedLen(dst.Cout, dst.Cin, dst.Taps))
	dst.Transpose(src, groups)
	return dst
}

// Panels returns the number of panels of 16 output channels.
func (p *ConvWeights) Panels() int { return evenly(p.Cout, panelWidth) }

// Transpose sets dst to the weights that lead from the outputs of a convolution
// back to its inputs: input and output channels exchanged (within each group)
// and the taps in reverse order. The input gradient of a convolution of stride
// 1 is the convolution of the output gradient with them, padded by kernel-1-pad.
// A subnetwork of src that has its first channels uses the first channels of
// dst.
func (dst *ConvWeights) Transpose(src *ConvWeights, groups int) {
	dst.TransposePanels(src, groups, 0, dst.Panels())
}

// TransposePanels does the part of Transpose that writes panels from to to of
// dst: several threads may share the work.
func (dst *ConvWeights) TransposePanels(src *ConvWeights, groups, from, to int) {
	groups = max(groups, 1)
	if src.Cout%groups != 0 || dst.Cout != src.Cin*groups || dst.Cin != src.Cout/groups || dst.Taps != src.Taps {
		panic(fmt.Sprintf("kernel: Transpose of weights of %d×%d×%d taps in %d groups to %d×%d×%d", src.Cout, src.Cin, src.Taps, groups, dst.Cout, dst.Cin, dst.Taps))
	}
	if from < 0 || to > dst.Panels() || len(src.Data) < PackedLen(src.Cout, src.Cin, src.Taps) || len(dst.Data) < PackedLen(dst.Cout, dst.Cin, dst.Taps) {
		panic(fmt.Sprintf("kernel: Transpose of panels %d to %d of %d, %d weights to %d", from, to, dst.Panels(), len(src.Data), len(dst.Data)))
	}
	for q := from; q < to; q++ {
		for t := range dst.Taps {
			rows := dst.Data[q*dst.panelLen()+t*dst.Cin*panelWidth:][:dst.Cin*panelWidth]
			tap := (src.Taps - 1 - t) * src.Cin * panelWidth
			if groups == 1 {
				transposeTap(rows, src, tap, q*panelWidth, min(panelWidth, dst.Cout-q*panelWidth))
				continue
			}
			for l := range min(panelWidth, dst.Cout-q*panelWidth) {
				g, i := (q*panelWidth+l)/src.Cin, (q*panelWidth+l)%src.Cin
				for r := range dst.Cin {
					o := g*dst.Cin + r
					rows[r*panelWidth+l] = src.Data[o/panelWidth*src.panelLen()+tap+i*panelWidth+o%panelWidth]
				}
			}
		}
	}
}

// transposeArgs is what the transposition of blocks is called with.
type transposeArgs struct {
	src, dst unsafe.Pointer
	step     uintptr // bytes between blocks of src; those of dst follow each other
	n        uintptr
}

// transposeGeneric is the loop that every kernel computes: for b < n and
// i, j < 16, dst[b][j][i] = src[b][i][j].
func transposeGeneric(p *transposeArgs) {
	const block = panelWidth * panelWidth
	for b := range p.n {
		d, s := (*[block]float32)(unsafe.Add(p.dst, 4*block*b)), (*[block]float32)(unsafe.Add(p.src, p.step*b))
		for i := range panelWidth {
			for j := range panelWidth {
				d[j*panelWidth+i] = s[i*panelWidth+j]
			}
		}
	}
}

// transposeTap writes the rows of one tap of a panel: input channels from first
// on of src, lanes of them, for every output channel of src.
func transposeTap(rows []float32, src *ConvWeights, tap, first, lanes int) {
	o := 0
	if blocks := src.Cout / panelWidth; lanes == panelWidth && blocks > 0 {
		o = blocks * panelWidth
		args := transposeArgs{step: uintptr(4 * src.panelLen()), n: uintptr(blocks)}
		args.dst, args.src = pointer(rows, 0), pointer(src.Data, tap+first*panelWidth)
		transposeBlocks(&args)
	}
	for ; o < src.Cout; o += panelWidth {
		in := src.Data[o/panelWidth*src.panelLen()+tap+first*panelWidth:]
		for l := range lanes {
			for j := range min(panelWidth, src.Cout-o) {
				rows[(o+j)*panelWidth+l] = in[l*panelWidth+j]
			}
		}
	}
}

// NewFlipped returns the weights of the input gradient of a depthwise
// convolution; see [DepthwiseWeights.Flip].
func NewFlipped(src *DepthwiseWeights) *DepthwiseWeights {
	dst := &DepthwiseWeights{Channels: src.Channels, Taps: src.Taps, Data: Alloc(src.Taps * PadChannels(src.Channels))}
	dst.Flip(src)
	return dst
}

// Flip sets dst to src with its taps in reverse order.
func (dst *DepthwiseWeights) Flip(src *DepthwiseWeights) {
	ld := PadChannels(src.Channels)
	if dst.Channels != src.Channels || dst.Taps != src.Taps || len(dst.Data) < dst.Taps*ld || len(src.Data) < dst.Taps*ld {
		panic(fmt.Sprintf("kernel: Flip of %d×%d weights to %d×%d", src.Channels, src.Taps, dst.Channels, dst.Taps))
	}
	for t := range dst.Taps {
		copy(dst.Data[t*ld:(t+1)*ld], src.Data[(dst.Taps-1-t)*ld:])
	}
}
