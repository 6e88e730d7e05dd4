//go:build !amd64 && !arm64

package kernel

// detect finds no assembly for this architecture.
func detect() []Variant { return nil }

func (v Variant) tile(rows, width int, p *tileArgs) { tileGeneric(rows, width, p) }

func (v Variant) depthwise(kernel, stride, outputs int, p *windowArgs) {
	depthwiseGeneric(kernel, stride, outputs, p)
}

func (v Variant) grouped(stride, outputs, lanes int, p *windowArgs) {
	groupedGeneric(stride, outputs, lanes, p)
}

func (v Variant) vectorMap(op mapOp, p *mapArgs) { mapGeneric(op, p) }

func (v Variant) reduce(op poolOp, p *poolArgs) { poolGeneric(op, p) }

func (v Variant) winogradInput(p *winogradInput) { winogradInputGeneric(p) }

func (v Variant) winogradPanel(p *winogradWeights, k uintptr) {
	p.n = k
	winogradWeightsGeneric(panelWidth, p)
}

func (v Variant) winogradOutput(p *winogradOutput) { winogradOutputGeneric(p) }

// gradient runs gradientGeneric's loop nest.
func (v Variant) gradient(rows, width int, p *gradientArgs) { gradientGeneric(rows, width, p) }

// tapGradient runs tapGradientGeneric's loop nest.
func (v Variant) tapGradient(kernel int, p *tapGradientArgs) { tapGradientGeneric(kernel, p) }

// pixels runs pixelsGeneric's loop nest.
func (v Variant) pixels(op pixelOp, act Activation, p *pixelArgs) { pixelsGeneric(op, act, p) }

// vector runs vectorsGeneric's loop.
func (v Variant) vector(op vectorOp, p *vectorArgs) { vectorsGeneric(op, p) }

// depthwiseBack runs depthwiseBackGeneric's loop nest.
func (v Variant) depthwiseBack(kernel, outputs int, p *windowArgs) {
	depthwiseBackGeneric(kernel, outputs, p)
}

// transposeBlocks runs transposeGeneric's loop.
func transposeBlocks(p *transposeArgs) { transposeGeneric(p) }

// squares runs squaresGeneric's loop.
func squares(p *vectorArgs) { squaresGeneric(p) }
