package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tips/sampling"
	"tips/supernet"
	"tips/topology"
	"tips/train"
	"tips/train/method"
)

// DrawsOptions are the parameters of Draws.
type DrawsOptions struct {
	Recipe *train.Recipe // whose seed, and whose settings of tips, are drawn with
	Steps  int           // of each method; 0 means 2000
	At     []int64       // budgets in MACs; nil: some of the network's own
}

// drawnMethods are the methods that draw the same subnetworks whatever is learnt.
var drawnMethods = []string{"tips", "us-nets", "ds-net", "ofa", "alphanet"}

// undrawnMethods are the others, with the reason.
var undrawnMethods = []struct{ name, reason string }{
	{"joslim", "chooses widths by their losses"},
	{"attentive-nas", "keeps the best of three by their losses (its costs are spread as those of the two that alphanet draws)"},
	{"static", "draws nothing"},
}

// Draws shows which subnetworks the methods draw, by their MACs and widths, without
// training any. Steps are planned as a run of the recipe plans them.
func Draws(n *supernet.Network, o DrawsOptions) (Figure, error) {
	o.Steps = cmp.Or(o.Steps, 2000)
	if err := within("--steps", o.Steps, 1, 100_000); err != nil {
		return Figure{}, err
	}
	full, err := macsOf(n, supernet.Subnet{})
	if err != nil {
		return Figure{}, err
	}
	smallest, err := macsOf(n, n.Smallest())
	if err != nil {
		return Figure{}, err
	}
	if smallest == full {
		return Figure{}, usage{fmt.Errorf("all subnetworks of %s cost %s MACs; want a network whose widths can shrink", n.Name(), millions(full))}
	}
	if o.At == nil {
		if o.At, err = drawBudgets(n, smallest, full); err != nil {
			return Figure{}, err
		}
	}
	d := draws{DrawsOptions: o, network: n, smallest: smallest, full: full, trunk: trunkGroups(n), inner: innerGroups(n)}
	base := o.Recipe.Method
	base.Name, base.Loss = published, "paper"
	base = usual(base.Own())
	analysis, err := topology.Analyze(n, base.Analysis.Options())
	if err != nil {
		return Figure{}, err
	}
	for _, name := range drawnMethods {
		m := train.MethodRecipe{Name: name, Loss: "paper"}
		if name == base.Name {
			m = base
		}
		if err := d.add(m, analysis); err != nil {
			return Figure{}, err
		}
	}
	favouring, drawing, err := variantsOf(base, analysis)
	if err != nil {
		return Figure{}, err
	}
	for i, m := range slices.Concat(favouring, drawing) {
		own, err := topology.Analyze(n, m.Analysis.Options())
		if err != nil {
			return Figure{}, err
		}
		if m.Others && len(own.FavouredGroups(n)) == len(n.Groups()) {
			continue // there are no others
		}
		if err := d.add(m, own); err != nil {
			return Figure{}, err
		}
		if i < len(favouring) {
			d.favouring++
		}
	}
	return d.figure(), nil
}

// draws is what the figure is made of.
type draws struct {
	DrawsOptions
	network        *supernet.Network
	smallest, full int64   // MACs
	trunk, inner   []int   // groups
	drawn          []drawn // by drawnMethods, then by variants of tips,
	favouring      int     // the first so many of which favour otherwise
}

// drawn is what a method has drawn.
type drawn struct {
	method    string
	important int     // groups
	macs      sample  // of the subnetworks, the full network left out
	smallest  float64 // share of them that is the network's smallest
	// Mean width ratios of groups; NaN where there are none.
	onPath, offPath, trunk, inner float64
}

// add draws by a method. The analysis is that which says what is important.
//
// The steps are the last ones of a training four times as long: those of OFA, which
// has phases, are then all of its last phase, a third of the training. To the other
// methods a step is like any other.
func (d *draws) add(m train.MethodRecipe, a *topology.Analysis) error {
	recipe := *d.Recipe
	recipe.Method = m
	method, err := recipe.NewMethod(d.network, 4*d.Steps)
	if err != nil {
		return err
	}
	important := a.FavouredGroups(d.network)
	r := drawn{method: methodLabel(m), important: len(important)}
	ratios := make([]ratio, len(d.network.Groups()))
	smallest := 0
	for step := 3 * d.Steps; step < 4*d.Steps; step++ {
		plan, err := method.Step(context.Background(), step, recipe.StepRandom(step), nil)
		if err != nil {
			return err
		}
		for _, l := range plan.Lessons {
			if l.Subnet.IsFull() {
				continue
			}
			if l.Subnet == d.network.Smallest() {
				smallest++
			}
			v, err := d.network.View(l.Subnet, d.network.Input())
			if err != nil {
				return err
			}
			r.macs = append(r.macs, float64(v.Costs().MACs))
			for g, group := range d.network.Groups() {
				ratios[g].add(v, group)
			}
		}
	}
	if len(r.macs) == 0 {
		return usage{fmt.Errorf("--steps %d: %s draws the full network alone; want more steps", d.Steps, r.method)}
	}
	slices.Sort(r.macs)
	r.smallest = float64(smallest) / float64(len(r.macs))
	mean := func(in func(group int) bool) float64 {
		var all ratio
		for g, r := range ratios {
			if in(g) {
				all.sum += r.sum
				all.count += r.count
			}
		}
		return all.sum / float64(all.count) // NaN of nothing
	}
	r.onPath = mean(func(g int) bool { return slices.Contains(important, g) })
	r.offPath = mean(func(g int) bool { return !slices.Contains(important, g) })
	r.trunk = mean(func(g int) bool { return slices.Contains(d.trunk, g) })
	r.inner = mean(func(g int) bool { return slices.Contains(d.inner, g) })
	d.drawn = append(d.drawn, r)
	return nil
}

// macsOf counts the MACs of a subnetwork.
func macsOf(n *supernet.Network, s supernet.Subnet) (int64, error) {
	v, err := n.View(s, n.Input())
	if err != nil {
		return 0, err
	}
	return v.Costs().MACs, nil
}

// usual leaves out settings that are those that a method has anyway, so that equal
// ones are equal and have one label.
func usual(m train.MethodRecipe) train.MethodRecipe {
	if m.Factor == sampling.DefaultFactor {
		m.Factor = 0
	}
	if rule := topology.Rule(m.Analysis.Path); rule == topology.ByMean || rule == topology.ByLength {
		m.Analysis.Path = ""
	}
	return m
}

// variantsOf are settings of tips, each with one of them changed: of what is favoured, and
// of what base ratios are drawn.
func variantsOf(base train.MethodRecipe, a *topology.Analysis) (favouring, drawing []train.MethodRecipe, err error) {
	lengths, err := pathLengths(a.Graph)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := halfway(a.Graph, a.TAS, lengths)
	if err != nil {
		return nil, nil, err
	}
	list := []train.MethodRecipe{base}
	vary := func(change func(*train.MethodRecipe)) {
		m := base
		change(&m)
		if m = usual(m); !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	for _, factor := range []float64{1, 1.25, 1.5, 2} {
		vary(func(m *train.MethodRecipe) { m.Factor = factor })
	}
	for _, path := range []struct {
		rule  topology.Rule
		nodes int
	}{{topology.ByMean, 0}, {topology.ByLength, nodes}, {topology.ByTotal, 0}} {
		vary(func(m *train.MethodRecipe) { m.Analysis.Path, m.Analysis.PathNodes = string(path.rule), path.nodes })
	}
	vary(func(m *train.MethodRecipe) { m.Others = !m.Others })
	split := len(list)
	vary(func(m *train.MethodRecipe) { m.Together = !m.Together })
	vary(func(m *train.MethodRecipe) {
		if m.Highest == 0 {
			m.Highest = 1 / cmp.Or(m.Factor, sampling.DefaultFactor)
		} else {
			m.Highest = 0
		}
	})
	vary(func(m *train.MethodRecipe) {
		m.Smallest = !m.Smallest
		if m.Smallest { // is one less to draw
			m.Plain = min(m.Plain, method.Networks-2)
		}
	})
	vary(func(m *train.MethodRecipe) {
		if m.Plain == 0 {
			m.Plain = 1
		} else {
			m.Plain = 0
		}
	})
	return list[1:split], list[split:], nil
}

// drawBudgets are budgets for a network: where the paper's table for mobilenet_v2 on
// CIFAR-100 has its differences, and otherwise six between smallest and full.
func drawBudgets(n *supernet.Network, smallest, full int64) ([]int64, error) {
	paper, err := paperOf(n)
	if err != nil {
		return nil, err
	}
	if paper.network == paperTable1[0].network {
		return []int64{20e6, 25e6, 30e6, 35e6, 40e6, 45e6}, nil
	}
	const count = 6
	var list []int64
	for i := range int64(count) {
		list = append(list, smallest+(full-smallest)*(i+1)/(count+1))
	}
	return list, nil
}

// ratio is a mean of width ratios.
type ratio struct {
	sum   float64
	count int
}

// add counts a group of a subnetwork, unless only blocks left out would use it.
func (r *ratio) add(v *supernet.View, g supernet.Group) {
	for _, i := range g.Ops {
		if v.Ops[i].Runs {
			r.sum += float64(v.Shape(i).Channels) / float64(v.Network.Full().Shape(i).Channels)
			r.count++
			return
		}
	}
}

// trunkGroups are the groups that additions tie together.
func trunkGroups(n *supernet.Network) (trunk []int) {
	for g, group := range n.Groups() {
		if slices.ContainsFunc(group.Ops, func(i int) bool { return n.Ops()[i].Kind == supernet.Add }) {
			trunk = append(trunk, g)
		}
	}
	return trunk
}

// innerGroups are the groups within blocks that expand: those that no addition ties to
// others, and that are at least as wide as the groups that they are computed from and
// as those that are computed from them.
func innerGroups(n *supernet.Network) (inner []int) {
	trunk := trunkGroups(n)
	for g, group := range n.Groups() {
		// A neighbour of fixed width is the input, or the output: no block is there.
		wide := func(neighbour int) bool {
			if neighbour < 0 || n.GroupOf(neighbour) < 0 {
				return false
			}
			return n.GroupOf(neighbour) == g || n.Groups()[n.GroupOf(neighbour)].Channels <= group.Channels
		}
		is := !slices.Contains(trunk, g)
		for _, i := range group.Ops {
			for _, neighbour := range slices.Concat(n.Operands(i), n.Consumers(i)) {
				is = is && wide(neighbour)
			}
		}
		if is {
			inner = append(inner, g)
		}
	}
	return inner
}
