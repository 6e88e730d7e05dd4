package report

import (
	"fmt"
	"strings"

	"tips/plot"
	"tips/supernet"
	"tips/topology"
)

// Graph draws the graph of an analysed network.
func Graph(n *supernet.Network, a *topology.Analysis) plot.Diagram {
	d := plot.Diagram{
		Title: n.Name(),
		Subtitle: fmt.Sprintf("%d feature maps, %d operations; %s. The important path has %d nodes, TPS %.4f",
			len(a.Graph.Nodes()), len(a.Graph.Edges()), a.Options, len(a.Path.Nodes), a.TPS()),
		ValueName: "TAS",
		MarkName:  "important path",
	}
	for v, name := range a.Graph.Nodes() {
		d.Nodes = append(d.Nodes, plot.DiagramNode{
			Section: section(name), Value: a.TAS[v],
			Detail: fmt.Sprintf("node %d, written by %s: TAS %.6f", v+1, name, a.TAS[v]),
		})
	}
	important := a.Important()
	for i, e := range a.Graph.Edges() {
		d.Edges = append(d.Edges, plot.DiagramEdge{
			From: e.From, To: e.To, Label: edgeLabel(n, e), Marked: important[i],
			Detail: fmt.Sprintf("%s (%s), node %d to %d", e.Name, e.Kind, e.From+1, e.To+1),
		})
	}
	return d
}

// section is the part of a network that a name says it belongs to: all up to the
// last dot.
func section(name string) string {
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return name[:at]
	}
	return name
}

// edgeLabel says what an operation does in the few characters there are.
func edgeLabel(n *supernet.Network, e topology.Edge) string {
	i, ok := n.Index(e.Name)
	if !ok {
		return ""
	}
	op := n.Ops()[i]
	window := op.Window()
	switch op.Kind {
	case supernet.Conv:
		return window
	case supernet.Depthwise:
		return "dw " + window
	case supernet.Linear:
		return "fc"
	case supernet.MaxPool:
		return "max " + window
	case supernet.AvgPool:
		return "avg " + window
	case supernet.GlobalPool:
		return "mean"
	case supernet.Add:
		return "+"
	case supernet.Mul:
		return "×"
	}
	return ""
}
