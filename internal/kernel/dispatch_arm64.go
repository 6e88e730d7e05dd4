package kernel

// detect returns NEON, which every arm64 CPU that Go runs on has.
func detect() []Variant { return []Variant{NEON} }

// tile runs tileGeneric's loop nest.
func (v Variant) tile(rows, width int, p *tileArgs) {
	if v == NEON {
		tileNEON(rows, width, p)
	} else {
		tileGeneric(rows, width, p)
	}
}

// depthwise runs depthwiseGeneric's loop nest.
func (v Variant) depthwise(kernel, stride, outputs int, p *windowArgs) {
	if v == NEON {
		depthwiseNEON(kernel, stride, outputs, p)
	} else {
		depthwiseGeneric(kernel, stride, outputs, p)
	}
}

// grouped runs groupedGeneric's loop nest; NEON runs groups as matrix products.
func (v Variant) grouped(stride, outputs, lanes int, p *windowArgs) {
	groupedGeneric(stride, outputs, lanes, p)
}

// vectorMap runs mapGeneric's loop.
func (v Variant) vectorMap(op mapOp, p *mapArgs) {
	if v != NEON {
		mapGeneric(op, p)
		return
	}
	switch op {
	case mapClamp:
		clampNEON(p)
	case mapAdd:
		addNEON(p)
	case mapMul:
		mulNEON(p)
	case mapExp:
		expNEON(p)
	case mapSigmoid:
		sigmoidNEON(p)
	case mapSiLU:
		siluNEON(p)
	}
}

// reduce runs poolGeneric's loop nest.
func (v Variant) reduce(op poolOp, p *poolArgs) {
	if v != NEON {
		poolGeneric(op, p)
		return
	}
	switch op {
	case poolMax:
		maxPoolNEON(p)
	case poolSum:
		sumPoolNEON(p)
	case poolMean:
		meanNEON(p)
	}
}

// winogradInput runs winogradInputGeneric's loop.
func (v Variant) winogradInput(p *winogradInput) {
	if v == NEON {
		winogradInputNEON(p)
	} else {
		winogradInputGeneric(p)
	}
}

// winogradPanel runs winogradWeightsGeneric's loop for k rows of a panel.
func (v Variant) winogradPanel(p *winogradWeights, k uintptr) {
	if v == NEON {
		p.n = 4 * k
		winogradWeightsNEON(p)
	} else {
		p.n = k
		winogradWeightsGeneric(panelWidth, p)
	}
}

// winogradOutput runs winogradOutputGeneric's loop.
func (v Variant) winogradOutput(p *winogradOutput) {
	if v == NEON {
		winogradOutputNEON(p)
	} else {
		winogradOutputGeneric(p)
	}
}

// gradient runs gradientGeneric's loop nest.
func (v Variant) gradient(rows, width int, p *gradientArgs) {
	if v == NEON {
		gradientNEON(rows, width, p)
	} else {
		gradientGeneric(rows, width, p)
	}
}

// tapGradient runs tapGradientGeneric's loop nest.
func (v Variant) tapGradient(kernel int, p *tapGradientArgs) {
	if v == NEON {
		tapGradientNEON(kernel, p)
	} else {
		tapGradientGeneric(kernel, p)
	}
}

// pixels runs pixelsGeneric's loop nest.
func (v Variant) pixels(op pixelOp, act Activation, p *pixelArgs) {
	if v != NEON {
		pixelsGeneric(op, act, p)
		return
	}
	if !act.smooth() {
		act = 0
	}
	pixelsNEON(op, act, p)
}

// vector runs vectorsGeneric's loop.
func (v Variant) vector(op vectorOp, p *vectorArgs) {
	if v == NEON {
		vectorsNEON(op, p)
	} else {
		vectorsGeneric(op, p)
	}
}

// depthwiseBack runs depthwiseBackGeneric's loop nest.
func (v Variant) depthwiseBack(kernel, outputs int, p *windowArgs) {
	if v == NEON {
		depthwiseBackNEON(kernel, outputs, p)
	} else {
		depthwiseBackGeneric(kernel, outputs, p)
	}
}

// transposeBlocks runs transposeGeneric's loop.
func transposeBlocks(p *transposeArgs) { transposeGeneric(p) }

// squares runs squaresGeneric's loop.
func squares(p *vectorArgs) { squaresGeneric(p) }
