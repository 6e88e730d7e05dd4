package kernel

import "tips/internal/cpuid"

// detect returns the assembly variants this CPU can run, best last.
func detect() (v []Variant) {
	has := cpuid.Detect()
	if has.AVX2 {
		v = append(v, AVX2)
	}
	if has.AVX512 {
		v = append(v, AVX512)
	}
	return v
}

// tile runs tileGeneric's loop nest.
func (v Variant) tile(rows, width int, p *tileArgs) {
	switch {
	case v == AVX512 && width >= 16:
		tileAVX512(rows, width, p)
	case v == AVX512 || v == AVX2:
		tileAVX2(rows, width, p)
	default:
		tileGeneric(rows, width, p)
	}
}

// depthwise runs depthwiseGeneric's loop nest.
func (v Variant) depthwise(kernel, stride, outputs int, p *windowArgs) {
	switch v {
	case AVX512:
		depthwiseAVX512(kernel, stride, outputs, p)
	case AVX2:
		depthwiseAVX2(kernel, stride, outputs, p)
	default:
		depthwiseGeneric(kernel, stride, outputs, p)
	}
}

// grouped runs groupedGeneric's loop nest.
func (v Variant) grouped(stride, outputs, lanes int, p *windowArgs) {
	switch v {
	case AVX512:
		groupedAVX512(stride, outputs, p)
	case AVX2:
		groupedAVX2(stride, outputs, p)
	default:
		groupedGeneric(stride, outputs, lanes, p)
	}
}

// vectorMap runs mapGeneric's loop.
func (v Variant) vectorMap(op mapOp, p *mapArgs) {
	switch v {
	case AVX512:
		switch op {
		case mapClamp:
			clampAVX512(p)
		case mapAdd:
			addAVX512(p)
		case mapMul:
			mulAVX512(p)
		case mapExp:
			expAVX512(p)
		case mapSigmoid:
			sigmoidAVX512(p)
		case mapSiLU:
			siluAVX512(p)
		}
	case AVX2:
		switch op {
		case mapClamp:
			clampAVX2(p)
		case mapAdd:
			addAVX2(p)
		case mapMul:
			mulAVX2(p)
		case mapExp:
			expAVX2(p)
		case mapSigmoid:
			sigmoidAVX2(p)
		case mapSiLU:
			siluAVX2(p)
		}
	default:
		mapGeneric(op, p)
	}
}

// reduce runs poolGeneric's loop nest.
func (v Variant) reduce(op poolOp, p *poolArgs) {
	switch v {
	case AVX512:
		switch op {
		case poolMax:
			maxPoolAVX512(p)
		case poolSum:
			sumPoolAVX512(p)
		case poolMean:
			meanAVX512(p)
		}
	case AVX2:
		switch op {
		case poolMax:
			maxPoolAVX2(p)
		case poolSum:
			sumPoolAVX2(p)
		case poolMean:
			meanAVX2(p)
		}
	default:
		poolGeneric(op, p)
	}
}

// winogradInput runs winogradInputGeneric's loop.
func (v Variant) winogradInput(p *winogradInput) {
	switch v {
	case AVX512:
		end := p.end
		p.end -= (end - p.off) % 64
		if p.end > p.off {
			winogradInputAVX512(p)
			p.off = p.end
		}
		p.end = end
		if p.off < end {
			winogradInputAVX2(p)
		}
	case AVX2:
		winogradInputAVX2(p)
	default:
		winogradInputGeneric(p)
	}
}

// winogradPanel runs winogradWeightsGeneric's loop for k rows of a panel.
func (v Variant) winogradPanel(p *winogradWeights, k uintptr) {
	switch v {
	case AVX512:
		p.n = k
		winogradWeightsAVX512(p)
	case AVX2:
		p.n = 2 * k
		winogradWeightsAVX2(p)
	default:
		p.n = k
		winogradWeightsGeneric(panelWidth, p)
	}
}

// winogradOutput runs winogradOutputGeneric's loop.
func (v Variant) winogradOutput(p *winogradOutput) {
	switch v {
	case AVX512:
		p.off = 0
		end := p.end
		p.end -= end % 64
		if p.end > 0 {
			winogradOutputAVX512(p)
			p.off = p.end
		}
		p.end = end
		if p.off < end {
			winogradOutputAVX2(p)
		}
	case AVX2:
		winogradOutputAVX2(p)
	default:
		winogradOutputGeneric(p)
	}
}

// gradient runs gradientGeneric's loop nest.
func (v Variant) gradient(rows, width int, p *gradientArgs) {
	switch {
	case v == AVX512 && width >= 16:
		gradientAVX512(rows, width, p)
	case v == AVX512 || v == AVX2:
		gradientAVX2(rows, width, p)
	default:
		gradientGeneric(rows, width, p)
	}
}

// tapGradient runs tapGradientGeneric's loop nest.
func (v Variant) tapGradient(kernel int, p *tapGradientArgs) {
	switch v {
	case AVX512:
		tapGradientAVX512(kernel, p)
	case AVX2:
		tapGradientAVX2(kernel, p)
	default:
		tapGradientGeneric(kernel, p)
	}
}

// depthwiseBack runs depthwiseBackGeneric's loop nest.
func (v Variant) depthwiseBack(kernel, outputs int, p *windowArgs) {
	switch v {
	case AVX512:
		depthwiseBackAVX512(kernel, outputs, p)
	case AVX2:
		depthwiseBackAVX2(kernel, outputs, p)
	default:
		depthwiseBackGeneric(kernel, outputs, p)
	}
}

// pixels runs pixelsGeneric's loop nest.
func (v Variant) pixels(op pixelOp, act Activation, p *pixelArgs) {
	if v == Generic {
		pixelsGeneric(op, act, p)
		return
	}
	if !act.smooth() {
		act = 0
		if v == AVX512 && p.end%64 != 0 && op != pixelMoments {
			v = AVX2 // its vectors do not straddle cache lines
		}
	}
	if v == AVX512 {
		pixelsAVX512(op, act, p)
	} else {
		pixelsAVX2(op, act, p)
	}
}

// vector runs vectorsGeneric's loop.
func (v Variant) vector(op vectorOp, p *vectorArgs) {
	switch v {
	case AVX512:
		vectorsAVX512(op, p)
	case AVX2:
		vectorsAVX2(op, p)
	default:
		vectorsGeneric(op, p)
	}
}

// transposeBlocks runs transposeGeneric's loop.
func transposeBlocks(p *transposeArgs) {
	if Best() == Generic {
		transposeGeneric(p)
	} else {
		transposeAVX2(p)
	}
}

// squares runs squaresGeneric's loop.
func squares(p *vectorArgs) {
	if Best() == Generic {
		squaresGeneric(p)
	} else {
		squaresAVX2(p)
	}
}
