package method

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"tips/internal/gp"
	"tips/internal/parallel"
	"tips/sampling"
	"tips/supernet"
)

const (
	// costTolerance is how far from its target the cost of a proposed width may
	// be, as a share of the full network's.
	costTolerance = 0.02
	// lambdaSteps bounds the binary search for the weight of the cost.
	lambdaSteps = 10
	// ucbBeta is β of the confidence bounds.
	ucbBeta = 0.1
	// worstPoint is the reference that Tchebyshev's scalarisation measures from,
	// in standard deviations above the mean of what was tried: worse than anything.
	worstPoint = 5
	// tchebyshevSum is the weight of the sum that augments the maximum.
	tchebyshevSum = 1e-6
)

// How many subnetworks a proposal is chosen from.
const (
	poolAnywhere  = 150 // with a ratio for every group
	poolUniform   = 30  // with one ratio
	poolAtTarget  = 170 // scaled to cost what is asked for
	localRounds   = 4
	localMutants  = 40 // of the best, in each round
	scaleSteps    = 14 // to find the scale for a cost
	mutationScale = 0.15
)

// proposer proposes widths to Joslim by Bayesian optimisation. Loss and cost of a
// vector of ratios, one for each group, are two Gaussian processes over what was
// tried, standardised, with Matérn-5/2 kernels. A proposal minimises Tchebyshev's
// scalarisation of their optimistic confidence bounds f = mean − √β·deviation,
//
//	max((1−λ)(loss−z), λ(cost−z)) + 1e-6·((1−λ)(loss−z) + λ(cost−z)),
//
// z being a point worse than all. λ is not drawn: a target cost is drawn
// uniformly from that of the smallest to that of the full network, and λ found by
// bisection, in at most ten steps, such that the proposal costs what was asked
// for, within 0.02. Costs are MACs as a share of the full network's.
//
// The minimum is over a pool of random subnetworks, half of them scaled to cost
// about the target, and then, for the λ found, over neighbours of the best that
// still meet the target. Where bisection ends without meeting the target, because
// a cheaper subnetwork is predicted to have a lower loss than any at the target,
// the best at the target is proposed, for the last λ.
type proposer struct {
	network *supernet.Network
	cost    sampling.Cost
	lowest  float64 // cost of the smallest subnetwork
}

func newProposer(n *supernet.Network, input supernet.Shape) (*proposer, error) {
	cost, err := sampling.MACs(n, input)
	if err != nil {
		return nil, err
	}
	return &proposer{n, cost, cost(n.Smallest())}, nil
}

// target draws a target cost.
func (p *proposer) target(rng *rand.Rand) float64 { return p.lowest + (1-p.lowest)*rng.Float64() }

// outer is the outer optimiser of one review.
type outer struct {
	*proposer
	loss, price *gp.Process
	front       [][]float64              // ratios of the widths tried that none beats in both
	known       map[supernet.Subnet]bool // tried or proposed
}

// fit fits the processes to what was tried, all of which has a loss.
func (p *proposer) fit(tried []trial) (*outer, error) {
	o := &outer{proposer: p, known: map[supernet.Subnet]bool{}}
	points := make([][]float64, len(tried))
	losses, costs := make([]float64, len(tried)), make([]float64, len(tried))
	parallel.Do(len(tried), 0, func(i int) {
		points[i], losses[i], costs[i] = p.ratios(tried[i].sub), tried[i].loss, p.cost(tried[i].sub)
	})
	for _, t := range tried {
		o.known[t.sub] = true
	}
	fitted, err := gp.FitAll(points, gp.Standardise(losses), gp.Standardise(costs))
	if err != nil {
		return nil, err
	}
	o.loss, o.price = fitted[0], fitted[1]
	for _, i := range unbeaten(losses, costs) {
		o.front = append(o.front, points[i])
	}
	return o, nil
}

// unbeaten are the widths that none beats in both loss and cost.
func unbeaten(losses, costs []float64) []int {
	var front []int
	for i, l := range losses {
		beaten := false
		for j := 0; j < len(losses) && !beaten; j++ {
			beaten = losses[j] < l && costs[j] <= costs[i] || losses[j] <= l && costs[j] < costs[i]
		}
		if !beaten {
			front = append(front, i)
		}
	}
	return front
}

// ratios is a subnetwork as a vector: its widths as shares of the full ones.
func (p *proposer) ratios(s supernet.Subnet) []float64 {
	widths, _, err := p.network.Widths(s)
	if err != nil {
		panic("method: " + err.Error()) // tried widths are the network's
	}
	x := make([]float64, len(widths))
	for i, g := range p.network.Groups() {
		x[i] = float64(widths[i]) / float64(g.Channels)
	}
	return x
}

// candidate is a subnetwork with what the processes say about it.
type candidate struct {
	sub         supernet.Subnet
	cost        float64 // the true one
	loss, price float64 // confidence bounds, standardised
}

func (c candidate) meets(target float64) bool { return math.Abs(c.cost-target) <= costTolerance }

// scalar is what a proposal minimises.
func (c candidate) scalar(lambda float64) float64 {
	a, b := (1-lambda)*(c.loss-worstPoint), lambda*(c.price-worstPoint)
	return max(a, b) + tchebyshevSum*(a+b)
}

// proposal is a width to try, and how it was found.
type proposal struct {
	candidate
	lambda float64
	found  bool // bisection met the target
}

// propose proposes a width that costs about as much as the target, one that was
// not tried or proposed before.
func (o *outer) propose(target float64, rng *rand.Rand) proposal {
	pool := o.judge(o.pool(target, rng))
	if len(pool) == 0 { // a network of few widths, all of them tried
		return proposal{candidate: candidate{sub: sampling.Multiplier(o.network).Draw(rng)}}
	}
	p := search(pool, target)
	if p.meets(target) {
		p.candidate = o.improve(p, target, rng)
	}
	o.known[p.sub] = true
	return p
}

// search bisects λ. A small weight of the cost gives cheap subnetworks: the
// scalarisation minimises what is worth the least improvement over z.
func search(pool []candidate, target float64) proposal {
	low, high := 0.0, 1.0
	p := proposal{}
	for range lambdaSteps {
		p.lambda = (low + high) / 2
		p.candidate = best(pool, p.lambda)
		if p.meets(target) {
			p.found = true
			return p
		}
		if p.cost < target {
			low = p.lambda
		} else {
			high = p.lambda
		}
	}
	at := slices.DeleteFunc(slices.Clone(pool), func(c candidate) bool { return !c.meets(target) })
	if len(at) > 0 {
		p.candidate = best(at, p.lambda)
		return p
	}
	// Widths so coarse that none is at the target: the nearest.
	p.candidate = slices.MinFunc(pool, func(a, b candidate) int {
		return cmp.Compare(math.Abs(a.cost-target), math.Abs(b.cost-target))
	})
	return p
}

// best is the candidate with the lowest scalarisation, the first of equals.
func best(pool []candidate, lambda float64) candidate {
	least := pool[0]
	for _, c := range pool[1:] {
		if c.scalar(lambda) < least.scalar(lambda) {
			least = c
		}
	}
	return least
}

// improve looks for a better subnetwork near a proposal, at the same λ and
// target, until a round brings none.
func (o *outer) improve(p proposal, target float64, rng *rand.Rand) candidate {
	least := p.candidate
	for range localRounds {
		var near []supernet.Subnet
		x := o.ratios(least.sub)
		for range localMutants {
			s := sampling.Ratios(o.network, o.mutate(x, rng))
			if !o.known[s] && s != least.sub && math.Abs(o.cost(s)-target) <= costTolerance && !slices.Contains(near, s) {
				near = append(near, s)
			}
		}
		if len(near) == 0 {
			continue
		}
		if c := best(o.judge(near), p.lambda); c.scalar(p.lambda) < least.scalar(p.lambda) {
			least = c
			continue
		}
		break
	}
	return least
}

// judge asks the processes.
func (o *outer) judge(subs []supernet.Subnet) []candidate {
	points := make([][]float64, len(subs))
	list := make([]candidate, len(subs))
	parallel.Do(len(subs), 0, func(i int) {
		points[i] = o.ratios(subs[i])
		list[i] = candidate{sub: subs[i], cost: o.cost(subs[i])}
	})
	processes := []*gp.Process{o.loss, o.price}
	var bounds [2][]float64
	parallel.Do(len(processes), 0, func(k int) {
		mean, deviation := processes[k].Predict(points)
		for i := range mean {
			mean[i] -= math.Sqrt(ucbBeta) * deviation[i]
		}
		bounds[k] = mean
	})
	for i := range list {
		list[i].loss, list[i].price = bounds[0][i], bounds[1][i]
	}
	return list
}

// pool draws what a proposal is chosen from.
func (o *outer) pool(target float64, rng *rand.Rand) []supernet.Subnet {
	var pool []supernet.Subnet
	seen := map[supernet.Subnet]bool{}
	add := func(s supernet.Subnet) {
		if !seen[s] && !o.known[s] {
			seen[s] = true
			pool = append(pool, s)
		}
	}
	for range poolAnywhere {
		add(sampling.PerGroup(o.network).Draw(rng))
	}
	for range poolUniform {
		add(sampling.Multiplier(o.network).Draw(rng))
	}
	low := o.network.Elastic().MinRatio
	var shapes [poolAtTarget][]float64
	var targets [poolAtTarget]float64
	for i := range shapes {
		// Of widths that did well, changed a little, or of any, the share that costs
		// what is asked for.
		var x []float64
		if i%2 == 0 {
			x = o.mutate(o.front[rng.IntN(len(o.front))], rng)
		} else {
			x = make([]float64, len(o.network.Groups()))
			for g := range x {
				x[g] = low + (1-low)*rng.Float64()
			}
		}
		shapes[i], targets[i] = x, target+costTolerance*(rng.Float64()-0.5)
	}
	var scaled [poolAtTarget]supernet.Subnet
	parallel.Do(len(scaled), 0, func(i int) { scaled[i] = o.scaled(shapes[i], targets[i]) })
	for _, s := range scaled {
		add(s)
	}
	return pool
}

// mutate changes some of the ratios, one at least.
func (o *outer) mutate(x []float64, rng *rand.Rand) []float64 {
	low := o.network.Elastic().MinRatio
	y := slices.Clone(x)
	if len(y) == 0 {
		return y
	}
	chance := 3 / float64(len(y))
	sure := rng.IntN(len(y))
	for i := range y {
		if i == sure || rng.Float64() < chance {
			y[i] = min(1, max(low, y[i]+mutationScale*rng.NormFloat64()))
		}
	}
	return y
}

// scaled is the subnetwork of ratios that are x's times one factor, within what
// the network allows, for the factor that comes nearest to a cost.
func (o *outer) scaled(x []float64, target float64) supernet.Subnet {
	low := o.network.Elastic().MinRatio
	at := func(factor float64) supernet.Subnet {
		y := make([]float64, len(x))
		for i, r := range x {
			y[i] = min(1, max(low, factor*r))
		}
		return sampling.Ratios(o.network, y)
	}
	least, most := low, 1/low // all at their smallest, all full
	nearest, distance := supernet.Subnet{}, math.Inf(1)
	for range scaleSteps {
		factor := math.Sqrt(least * most)
		s := at(factor)
		cost := o.cost(s)
		if d := math.Abs(cost - target); d < distance {
			nearest, distance = s, d
		}
		if distance < costTolerance/8 {
			break
		}
		if cost < target {
			least = factor
		} else {
			most = factor
		}
	}
	return nearest
}
