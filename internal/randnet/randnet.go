// Package randnet draws networks and subnetworks at random for tests. Networks are
// always valid, with residual blocks in each other, gates, projections, grouped and
// depthwise convolutions, and additions of additions, so that what holds for them
// holds for more than the zoo.
package randnet

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"tips/supernet"
)

// Draw draws the description of a network that classifies small images.
func Draw(t *rapid.T) supernet.Description {
	g := &generator{t: t, d: supernet.Description{
		Name:  "random",
		Input: supernet.Shape{Channels: 3, Height: g0(t, "height", 6, 13), Width: g0(t, "width", 6, 13)},
		Elastic: supernet.Elastic{
			MinRatio: rapid.Float64Range(0.1, 1).Draw(t, "min"),
			Divisor:  rapid.SampledFrom([]int{1, 4, 8}).Draw(t, "divisor"),
		},
	}}
	x := point{supernet.InputName, 3}
	if !g.chance("bare input", 4) {
		x = g.conv(x, 16, 1)
	}
	x = g.sequence(x, 3)
	pool := g.add(supernet.Op{Kind: supernet.GlobalPool, Inputs: []string{x.name}})
	g.add(supernet.Op{Kind: supernet.Linear, Inputs: []string{pool}, Channels: 10, Bias: true})
	return g.d
}

// Subnet draws a subnetwork of any network: every width with equal probability,
// and each block left out once in three times.
func Subnet(n *supernet.Network, rng *rand.Rand) supernet.Subnet {
	var widths, without []int
	for _, g := range n.Groups() {
		all := g.Widths()
		widths = append(widths, all[rng.IntN(len(all))])
	}
	for b := range n.Blocks() {
		if rng.IntN(3) == 0 {
			without = append(without, b)
		}
	}
	s, err := n.Subnet(widths, without)
	if err != nil {
		panic("randnet: " + err.Error()) // all widths are the groups' own
	}
	return s
}

// point is a feature map to go on from. All maps have one size but for those
// inside gates.
type point struct {
	name     string
	channels int
}

type generator struct {
	t *rapid.T
	d supernet.Description
}

func g0(t *rapid.T, label string, low, high int) int { return rapid.IntRange(low, high).Draw(t, label) }

func (g *generator) int(label string, low, high int) int { return g0(g.t, label, low, high) }

// chance is true once in n times.
func (g *generator) chance(label string, n int) bool { return g.int(label, 1, n) == 1 }

func (g *generator) add(op supernet.Op) string {
	op.Name = fmt.Sprint("op", len(g.d.Operations))
	op.Norm = op.Norm || g.chance("norm", 5)
	if op.Activation == supernet.NoActivation && g.chance("activation", 3) {
		op.Activation = rapid.SampledFrom([]supernet.Activation{supernet.ReLU, supernet.ReLU6, supernet.SiLU}).Draw(g.t, "which")
	}
	op.Fixed = g.chance("fixed", 20)
	g.d.Operations = append(g.d.Operations, op)
	return op.Name
}

func (g *generator) conv(x point, channels, groups int) point {
	k := rapid.SampledFrom([]int{1, 1, 3, 5}).Draw(g.t, "kernel")
	name := g.add(supernet.Op{Kind: supernet.Conv, Inputs: []string{x.name}, Channels: channels, Kernel: k, Padding: k / 2, Groups: groups, Norm: true, Bias: g.chance("bias", 4)})
	return point{name, channels}
}

func (g *generator) width() int { return rapid.SampledFrom([]int{8, 16, 24, 40}).Draw(g.t, "width") }

// sequence adds a few elements one after the other; depth bounds how far blocks
// stand in each other.
func (g *generator) sequence(x point, depth int) point {
	for range g.int("length", 1, 3) {
		x = g.element(x, depth)
	}
	return x
}

func (g *generator) element(x point, depth int) point {
	kind := g.int("element", 0, 8)
	if depth == 0 {
		kind = g.int("plain element", 0, 3)
	}
	switch kind {
	case 0:
		return g.conv(x, g.width(), 1)
	case 1:
		k := rapid.SampledFrom([]int{3, 5}).Draw(g.t, "kernel")
		return point{g.add(supernet.Op{Kind: supernet.Depthwise, Inputs: []string{x.name}, Kernel: k, Padding: k / 2, Norm: true}), x.channels}
	case 2:
		if x.channels%4 != 0 {
			return g.conv(x, g.width(), 1)
		}
		return g.conv(x, g.width(), rapid.SampledFrom([]int{2, 4}).Draw(g.t, "groups"))
	case 3:
		pool := rapid.SampledFrom([]supernet.Kind{supernet.MaxPool, supernet.AvgPool}).Draw(g.t, "pool")
		return point{g.add(supernet.Op{Kind: pool, Inputs: []string{x.name}, Kernel: 3, Padding: 1}), x.channels}
	case 4:
		return g.gate(x)
	case 5, 6: // a residual block
		y := g.ending(g.sequence(x, depth-1), x.channels, depth)
		return g.sum(x.channels, y, x)
	case 7: // a projection
		out := g.width()
		y := g.ending(g.sequence(x, depth-1), out, depth)
		return g.sum(out, y, g.conv(x, out, 1))
	default: // two branches at once
		y := g.ending(g.sequence(x, depth-1), x.channels, depth)
		z := g.ending(x, x.channels, depth)
		return g.sum(x.channels, y, z, x)
	}
}

// ending gives a branch the width it must have, by its last operation: a
// convolution, a gate, or a block of its own.
func (g *generator) ending(x point, channels, depth int) point {
	x = g.conv(x, channels, 1)
	switch g.int("ending", 0, 3) {
	case 0:
		return g.gate(x)
	case 1:
		if depth > 0 {
			return g.sum(channels, g.conv(x, channels, 1), x)
		}
	}
	return x
}

// gate scales channels by a small network of their means.
func (g *generator) gate(x point) point {
	mean := g.add(supernet.Op{Kind: supernet.GlobalPool, Inputs: []string{x.name}})
	squeezed := g.add(supernet.Op{Kind: supernet.Linear, Inputs: []string{mean}, Channels: 8, Bias: true})
	gate := g.add(supernet.Op{Kind: supernet.Linear, Inputs: []string{squeezed}, Channels: x.channels, Activation: supernet.Sigmoid})
	return point{g.add(supernet.Op{Kind: supernet.Mul, Inputs: []string{x.name, gate}}), x.channels}
}

func (g *generator) sum(channels int, xs ...point) point {
	var names []string
	for _, x := range xs {
		names = append(names, x.name)
	}
	return point{g.add(supernet.Op{Kind: supernet.Add, Inputs: names, Required: g.chance("required", 10)}), channels}
}
