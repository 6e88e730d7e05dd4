package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"tips/plot"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/topology"
)

// Fig4aOptions are the parameters of Figure 4a. Zero values are the paper's.
type Fig4aOptions struct {
	Depths    []int // layers of the perceptrons; nil means 80, 100, 120 and 140
	PathNodes int   // 0 means 50
	Paths     int   // for each depth and draw; 0 means 200
	Draws     int   // of T subnetworks, with weights of their own; 0 means 10
	Seed      uint64
}

func (o Fig4aOptions) withDefaults() Fig4aOptions {
	if o.Depths == nil {
		o.Depths = []int{80, 100, 120, 140}
	}
	o.PathNodes, o.Paths, o.Draws = cmp.Or(o.PathNodes, 50), cmp.Or(o.Paths, 200), cmp.Or(o.Draws, 10)
	return o
}

// What the paper fixes: neurons of a layer, and T.
const (
	fig4aWidth   = 80
	fig4aSubnets = topology.DefaultSubnets
)

// check refuses what makes no figure, or takes forever.
func (o Fig4aOptions) check() error {
	const mostDepth = 2000
	if err := within("paths", o.Paths, 3, 100_000); err != nil {
		return err
	}
	if err := within("draws", o.Draws, 1, 1000); err != nil {
		return err
	}
	if err := within("path nodes", o.PathNodes, 2, mostDepth); err != nil {
		return err
	}
	if len(o.Depths) == 0 {
		return usage{fmt.Errorf("no depths")}
	}
	for _, d := range o.Depths {
		// A path visits layers and the input, once each.
		if err := within("depth", d, max(4, o.PathNodes-1), mostDepth); err != nil {
			return err
		}
	}
	return nil
}

// Fig4a puts Proposition 1 to the test: in perceptrons with residual connections
// over two layers, paths of equal length with a higher TPS have Jacobians with a
// higher mean singular value.
//
// The Jacobian of a path is taken layer by layer: for every node on it and every
// drawn subnetwork, that of the node's output with respect to all inputs that it
// has there, [W I] where a layer and a residual connection meet. Its singular
// values are averaged, over nodes and subnetworks too; a node without inputs in a
// subnetwork counts 0. Weights have zero mean and the variance ε of the
// proposition, the largest it allows.
func Fig4a(o Fig4aOptions) (Figure, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return Figure{}, err
	}
	f := Figure{
		Name: "fig4a",
		Caption: fmt.Sprintf("Mean singular value of a path's Jacobians against its TPS: perceptrons of %d neurons a layer, residual connections over two layers, T = %d, %d random paths of %d nodes for each of %d draws",
			fig4aWidth, fig4aSubnets, o.Paths, o.PathNodes, o.Draws),
		Header: []string{"layers", "draw", "path", "first_node", "last_node", "tps", "mean_singular_value", "average_degree", "variance"},
		Chart: plot.Chart{
			Title:  fmt.Sprintf("Figure 4a: paths of %d nodes (first draw of subnetworks)", o.PathNodes),
			XLabel: "TPS", YLabel: "mean singular value",
		},
		Remarks: []string{
			"Paths join any two nodes: of the paper's perceptrons only that of 80 layers has a path of 50 nodes from input to output.",
			"The proposition bounds the mean singular value by 1 for weights alone; an identity beside a layer can push it over. It also",
			"assumes an average degree far above the width, which half-empty subnetworks do not have (see average_degree in the CSV).",
			"The claim is judged by the median draw: how well the order is kept depends on which 8 subnetworks were drawn.",
		},
	}
	for _, depth := range o.Depths {
		var all fig4aResult
		var correlations []float64
		for draw := range o.Draws {
			r, err := fig4aDepth(o, depth, o.Seed+uint64(draw))
			if err != nil {
				return Figure{}, err
			}
			for i := range r.tps {
				f.Rows = append(f.Rows, []string{
					strconv.Itoa(depth), strconv.Itoa(draw + 1), strconv.Itoa(i + 1), strconv.Itoa(r.first[i] + 1), strconv.Itoa(r.last[i] + 1),
					number(r.tps[i]), number(r.sigma[i]), number(r.degree[i]), number(r.variance),
				})
			}
			if draw == 0 {
				f.Chart.Series = append(f.Chart.Series, plot.Series{Name: fmt.Sprintf("%d layers", depth), X: r.tps, Y: r.sigma, Scatter: true})
			}
			correlations = append(correlations, spearman(r.tps, r.sigma))
			all.tps = append(all.tps, r.tps...)
			all.sigma = append(all.sigma, r.sigma...)
		}
		slices.Sort(correlations)
		median := stat.Quantile(0.5, stat.LinInterp, correlations, nil)
		high := 0
		for _, c := range correlations {
			if c >= 0.9 {
				high++
			}
		}
		above := 0
		for _, s := range all.sigma {
			if s > 1 {
				above++
			}
		}
		f.Findings = append(f.Findings, Finding{
			Claim: fmt.Sprintf("%d layers: paths with a higher TPS have a higher mean singular value (Spearman ≥ 0.9)", depth),
			Measured: fmt.Sprintf("Spearman %.3f in the median draw, %.3f to %.3f, at least 0.9 in %d of %d; paths of all draws together %.3f; %.1f %% of the paths have a mean above 1",
				median, correlations[0], correlations[len(correlations)-1], high, len(correlations), spearman(all.tps, all.sigma), 100*float64(above)/float64(len(all.sigma))),
			Holds: median >= 0.9,
		})
	}
	return f, nil
}

// fig4aResult holds the paths of one depth and draw.
type fig4aResult struct {
	tps, sigma, degree []float64
	first, last        []int
	variance           float64
}

func fig4aDepth(o Fig4aOptions, depth int, seed uint64) (fig4aResult, error) {
	net, err := zoo.New(fmt.Sprintf("mlp:depth=%d,width=%d,span=2", depth, fig4aWidth))
	if err != nil {
		return fig4aResult{}, err
	}
	g, err := topology.FromNetwork(net)
	if err != nil {
		return fig4aResult{}, err
	}
	rng := rand.New(rand.NewPCG(seed, uint64(depth)))
	subnets := topology.Sample(g, fig4aSubnets, rng)
	chain := topology.Chain{Lambda: topology.DefaultLambda, Kappa: topology.DefaultKappa}
	tas := chain.Scores(topology.Strengths(g, subnets), fig4aSubnets)
	sampler, err := newPathSampler(g, o.PathNodes, false)
	if err != nil {
		return fig4aResult{}, err
	}
	paths := make([][]int, o.Paths)
	for i := range paths {
		paths[i] = sampler.draw(rng)
	}

	// The variance that Proposition 1 allows, from the largest average degree.
	j := layerJacobians{network: net, graph: g, subnets: subnets}
	r := fig4aResult{}
	largest := 0.0
	for _, p := range paths {
		we := j.averageDegree(p)
		r.degree = append(r.degree, we)
		largest = max(largest, we)
	}
	wr := float64(fig4aWidth)
	r.variance = 1 / (largest + wr + 2*math.Sqrt(largest*wr))
	if err := j.drawWeights(r.variance, rng); err != nil {
		return fig4aResult{}, err
	}
	for _, p := range paths {
		r.tps = append(r.tps, tps(p, tas))
		r.sigma = append(r.sigma, j.meanSingularValue(p))
		r.first = append(r.first, p[0])
		r.last = append(r.last, p[len(p)-1])
	}
	return r, nil
}

// layerJacobians knows the Jacobian of every feature map of a perceptron with
// respect to all its inputs in a subnetwork: W where a layer writes it, beside I
// where a residual connection does.
type layerJacobians struct {
	network  *supernet.Network
	graph    *topology.Graph
	subnets  *topology.Subnetworks
	singular [][]float64 // of W, by operation; nil for additions
}

// inputs tells what node v has in subnetwork k: the layer that writes it, or -1,
// and the number of residual connections.
func (j *layerJacobians) inputs(v, k int) (layer, residuals int) {
	layer = -1
	for _, e := range into(j.graph, v) {
		if !j.subnets.Has(e, k) {
			continue
		}
		if e.Kind == supernet.Add {
			residuals++
		} else {
			layer, _ = j.network.Index(e.Name)
		}
	}
	return layer, residuals
}

// averageDegree is w_e of a path: the links that end in its neurons, a neuron.
func (j *layerJacobians) averageDegree(path []int) float64 {
	total := 0.0
	for _, v := range path {
		for k := range j.subnets.Len() {
			layer, residuals := j.inputs(v, k)
			total += float64(residuals)
			if layer >= 0 {
				total += float64(j.fanIn(layer))
			}
		}
	}
	return total / float64(len(path)*j.subnets.Len())
}

func (j *layerJacobians) fanIn(layer int) int {
	if from := j.network.Operands(layer)[0]; from != supernet.FromInput {
		return j.network.Ops()[layerBefore(j.network, from)].Channels
	}
	return j.network.Input().Channels
}

// layerBefore follows additions back to a layer, whose width is theirs.
func layerBefore(n *supernet.Network, i int) int {
	for n.Ops()[i].Kind == supernet.Add {
		i = n.Operands(i)[0]
	}
	return i
}

// drawWeights draws the weights of every layer and keeps their singular values.
func (j *layerJacobians) drawWeights(variance float64, rng *rand.Rand) error {
	sd := math.Sqrt(variance)
	j.singular = make([][]float64, len(j.network.Ops()))
	for i, op := range j.network.Ops() {
		if op.Kind != supernet.Linear {
			continue
		}
		w := mat.NewDense(op.Channels, j.fanIn(i), nil)
		w.Apply(func(int, int, float64) float64 { return sd * rng.NormFloat64() }, w)
		var svd mat.SVD
		if !svd.Factorize(w, mat.SVDNone) {
			return fmt.Errorf("reproduce: no singular values for %s", op.Name)
		}
		j.singular[i] = svd.Values(nil)
	}
	return nil
}

// meanSingularValue averages over the nodes of a path, the subnetworks, and the
// singular values of each Jacobian. Those of [W I] are √(σ²+1), because
// [W I][W I]ᵀ = WWᵀ + I.
func (j *layerJacobians) meanSingularValue(path []int) float64 {
	total := 0.0
	for _, v := range path {
		for k := range j.subnets.Len() {
			layer, residuals := j.inputs(v, k)
			total += meanCombined(j.valuesOf(layer), residuals)
		}
	}
	return total / float64(len(path)*j.subnets.Len())
}

func (j *layerJacobians) valuesOf(layer int) []float64 {
	if layer < 0 {
		return nil
	}
	return j.singular[layer]
}

// meanCombined is the mean singular value of W beside a number of identities.
// Where those stand, W has as many rows as columns or fewer, so that it has a
// singular value for every row.
func meanCombined(singular []float64, identities int) float64 {
	if len(singular) == 0 {
		return math.Sqrt(float64(identities)) // identities alone, or nothing
	}
	total := 0.0
	for _, s := range singular {
		total += math.Sqrt(s*s + float64(identities))
	}
	return total / float64(len(singular))
}
