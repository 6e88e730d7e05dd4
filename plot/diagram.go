package plot

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// Diagram is a network drawn as a graph: nodes in rows from left to right, an
// edge between neighbours as a line, any other as an arc above.
type Diagram struct {
	Title, Subtitle string
	ValueName       string // what the colour of a node stands for
	MarkName        string // what marked edges are
	Nodes           []DiagramNode
	Edges           []DiagramEdge
}

// DiagramNode is a node of a Diagram. Nodes are in topological order.
type DiagramNode struct {
	Section string  // neighbours of one section share a box with its name below
	Detail  string  // shown when pointed at
	Value   float64 // gives the colour
}

// DiagramEdge is an edge of a Diagram, From before To.
type DiagramEdge struct {
	From, To int
	Label    string // a few characters
	Detail   string // shown when pointed at
	Marked   bool   // stands out
}

// Measures of the drawing, in pixels.
const (
	pitch     = 88.0 // between nodes
	radius    = 15.0
	margin    = 46.0
	arcBase   = 30.0 // height of an arc over two places
	arcStep   = 9.0  // and for each further place
	arcMost   = 96.0
	boxDepth  = 30.0 // from the line of nodes to the lower side of a box
	rowGap    = 70.0 // below the line of nodes, for names and the way to the next row
	headSpace = 112.0
	labelRoom = 30.0 // at the right, for the operation that leads to the next row
)

// The colours: a marked edge is told from the others by hue, lightness and
// thickness, so that it stands out in print too.
const (
	markColour = "#d1410c"
	edgeColour = "#7a8691"
	textColour = "#1d2329"
	mildColour = "#5b6670"
)

// row is a run of nodes on one line.
type row struct {
	first, end int
	y          float64 // of the line of nodes
}

// WriteSVG draws the diagram. The picture is complete in itself: no script, no
// font and no style from elsewhere.
func (d Diagram) WriteSVG(w io.Writer) error {
	if len(d.Nodes) == 0 {
		return fmt.Errorf("plot: a diagram without nodes")
	}
	for _, e := range d.Edges {
		if e.From < 0 || e.From >= e.To || e.To >= len(d.Nodes) {
			return fmt.Errorf("plot: edge from node %d to %d of %d", e.From, e.To, len(d.Nodes))
		}
	}
	rows := d.layOut()
	c := &canvas{diagram: d, rows: rows, rowOf: make([]int, len(d.Nodes)), leaving: map[int]int{}, parallel: map[[2]int]int{}}
	longest := 0
	for i, r := range rows {
		longest = max(longest, r.end-r.first)
		for v := r.first; v < r.end; v++ {
			c.rowOf[v] = i
		}
	}
	width := max(2*margin+labelRoom+pitch*float64(longest-1), 760)
	height := rows[len(rows)-1].y + rowGap

	fmt.Fprintf(&c.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" font-family="Helvetica, Arial, sans-serif">`+"\n",
		px(width), px(height))
	c.line(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	c.header(width)
	c.boxes()
	for _, marked := range []bool{false, true} { // marked ones on top
		for _, e := range d.Edges {
			if e.Marked == marked {
				c.edge(e)
			}
		}
	}
	c.nodes()
	c.line(`</svg>`)
	_, err := w.Write(c.out.Bytes())
	return err
}

// layOut breaks the nodes into rows of similar length.
func (d Diagram) layOut() []row {
	n := len(d.Nodes)
	crossing := make([]int, n+1) // edges over the gap before node v, those of neighbours aside
	for _, e := range d.Edges {
		if e.To-e.From > 1 {
			crossing[e.From+1]++
			crossing[e.To+1]--
		}
	}
	for v := 1; v <= n; v++ {
		crossing[v] += crossing[v-1]
	}
	// About as wide as a page is high, by the number of nodes.
	most := min(max(int(math.Round(1.7*math.Sqrt(float64(n)))), 8), 18)
	var rows []row
	y := headSpace
	for first := 0; first < n; {
		end := d.rowEnd(first, most, crossing)
		y += d.arcSpace(first, end)
		rows = append(rows, row{first, end, y})
		y += rowGap
		first = end
	}
	return rows
}

// rowEnd chooses where the row that starts at first ends: where it cuts few arcs,
// best between two sections, and not far from what a row holds.
func (d Diagram) rowEnd(first, most int, crossing []int) int {
	n := len(d.Nodes)
	const few = 4 // too few for a row of their own
	if first+most+few >= n {
		return n
	}
	between := func(v int) bool { return d.Nodes[v].Section != d.Nodes[v-1].Section }
	// The lowest penalty, and of equals the longest row that is not too long.
	best, lowest := first+most, math.Inf(1)
	for v := first + most/2 + 1; v < min(first+most+most/2, n); v++ {
		penalty := float64(2 * crossing[v])
		if !between(v) {
			penalty += 3
		}
		if v > first+most {
			penalty += 0.5 + float64(v-first-most)/float64(most)
		} else {
			penalty += float64(first+most-v) / float64(4*most)
		}
		if n-v <= few {
			penalty += 2
		}
		if penalty < lowest {
			best, lowest = v, penalty
		}
	}
	return best
}

// arcSpace is the height that the arcs within a row need.
func (d Diagram) arcSpace(first, end int) float64 {
	space := radius + 8
	seen := map[[2]int]bool{}
	for _, e := range d.Edges {
		pair := [2]int{e.From, e.To}
		if e.From >= first && e.To < end && (e.To-e.From > 1 || seen[pair]) {
			space = max(space, arcHeight(e)+18)
		}
		seen[pair] = true
	}
	return space
}

func arcHeight(e DiagramEdge) float64 {
	return min(arcBase+arcStep*float64(max(e.To-e.From-2, 0)), arcMost)
}

// canvas holds what drawing needs to know.
type canvas struct {
	diagram Diagram
	rows    []row
	rowOf   []int
	leaving map[int]int // how many edges go from a node to another row so far

	parallel map[[2]int]int // how many edges join two nodes so far
	out      bytes.Buffer
}

func (c *canvas) line(format string, args ...any) { fmt.Fprintf(&c.out, format+"\n", args...) }

func (c *canvas) at(v int) (x, y float64) {
	r := c.rows[c.rowOf[v]]
	return margin + pitch*float64(v-r.first), r.y
}

func (c *canvas) text(x, y float64, size float64, colour, anchor, text string, more string) {
	c.line(`<text x="%s" y="%s" font-size="%s" fill="%s" text-anchor="%s"%s>%s</text>`,
		px(x), px(y), px(size), colour, anchor, more, html.EscapeString(text))
}

// header writes the title and the legend.
func (c *canvas) header(width float64) {
	d := c.diagram
	c.text(margin-radius, 34, 19, textColour, "start", d.Title, ` font-weight="bold"`)
	c.text(margin-radius, 56, 13, mildColour, "start", d.Subtitle, "")

	low, high := d.valueRange()
	y := 80.0
	x := margin - radius
	c.line(`<defs><linearGradient id="values">`)
	for i := range 9 {
		share := float64(i) / 8
		c.line(`<stop offset="%s" stop-color="%s"/>`, px(share), sequential(share))
	}
	c.line(`</linearGradient></defs>`)
	c.text(x, y+10, 12, textColour, "start", d.ValueName, "")
	x += 8*float64(len(d.ValueName)) + 10
	c.text(x+44, y+10, 11, mildColour, "end", strconv.FormatFloat(low, 'g', 3, 64), "")
	c.line(`<rect x="%s" y="%s" width="130" height="12" fill="url(#values)" stroke="%s" stroke-width="0.5"/>`, px(x+50), px(y), mildColour)
	c.text(x+186, y+10, 11, mildColour, "start", strconv.FormatFloat(high, 'g', 3, 64), "")
	x += 260
	c.line(`<path d="M%s %s h36" stroke="%s" stroke-width="4.5"/>`, px(x), px(y+6), markColour)
	c.text(x+44, y+10, 12, textColour, "start", d.MarkName, "")
	x += 60 + 7*float64(len(d.MarkName))
	c.line(`<path d="M%s %s h36" stroke="%s" stroke-width="1.6"/>`, px(x), px(y+6), edgeColour)
	c.text(x+44, y+10, 12, textColour, "start", "other operation", "")
}

// boxes draws what belongs to one section as one.
func (c *canvas) boxes() {
	nodes := c.diagram.Nodes
	for _, r := range c.rows {
		for first := r.first; first < r.end; {
			end := first + 1
			for end < r.end && nodes[end].Section == nodes[first].Section {
				end++
			}
			x, y := c.at(first)
			right, _ := c.at(end - 1)
			if end-first > 1 {
				c.line(`<rect x="%s" y="%s" width="%s" height="%s" rx="12" fill="#eef2f5"/>`,
					px(x-radius-9), px(y-radius-7), px(right-x+2*radius+18), px(radius+7+boxDepth))
			}
			below := y + boxDepth + 13
			if end-first == 1 {
				below -= 4 // there is no box to clear
			}
			c.text((x+right)/2, below, 11, mildColour, "middle", fitted(nodes[first].Section, right-x+pitch), "")
			first = end
		}
	}
}

// fitted cuts a name to about the width there is, keeping its end, which tells
// more.
func fitted(name string, width float64) string {
	const perLetter = 7.2
	if most := int(width / perLetter); len(name) > most {
		return "…" + name[len(name)-most+1:]
	}
	return name
}

// rowRise is how far above its line of nodes the row of a node reaches.
func (c *canvas) rowRise(v int) float64 {
	r := c.rows[c.rowOf[v]]
	return c.diagram.arcSpace(r.first, r.end)
}

// edge draws one operation.
func (c *canvas) edge(e DiagramEdge) {
	x1, y1 := c.at(e.From)
	x2, y2 := c.at(e.To)
	// Operations between the same two maps are drawn over each other, not on top.
	pair := [2]int{e.From, e.To}
	again := c.parallel[pair] > 0
	c.parallel[pair]++
	var path string
	var labelX, labelY float64
	switch {
	case y1 == y2 && e.To == e.From+1 && !again:
		path = fmt.Sprintf("M%s %s H%s", px(x1+radius), px(y1), px(x2-radius-1))
		labelX, labelY = (x1+x2)/2, y1-6
	case y1 == y2:
		h := arcHeight(e)
		if again {
			h = arcHeight(e) * (0.6 + 0.4*float64(c.parallel[pair]))
		}
		bend := min((x2-x1)/2, 46)
		path = fmt.Sprintf("M%s %s C%s %s %s %s %s %s H%s C%s %s %s %s %s %s",
			px(x1+5), px(y1-radius+1), px(x1+10), px(y1-h+6), px(x1+bend/2), px(y1-h), px(x1+bend), px(y1-h),
			px(x2-bend),
			px(x2-bend/2), px(y2-h), px(x2-10), px(y2-h+6), px(x2-5), px(y2-radius))
		labelX, labelY = (x1+x2)/2, y1-h-5
	default:
		// Out at the right and back between the rows; then in at the left of the
		// first node, or from above.
		beside := float64(c.leaving[e.From]) // edges that took this way before
		c.leaving[e.From]++
		turn := y1 + rowGap - 11 - 7*beside
		path = fmt.Sprintf("M%s %s h%s q8 0 8 8 V%s q0 8 -8 8", px(x1+radius), px(y1), px(12-5*beside), px(turn-8))
		switch {
		case c.rowOf[e.To] > c.rowOf[e.From]+1:
			// Over whole rows: down at the left margin, then in from above.
			gutter := 6 + 3*math.Mod(float64(e.From), 4)
			over := y2 - c.rowRise(e.To) + 4
			path += fmt.Sprintf(" H%s q-6 0 -6 6 V%s q0 6 6 6 H%s q8 0 8 8 V%s", px(gutter+6), px(over-6), px(x2-14), px(y2-radius))
		case e.To == c.rows[c.rowOf[e.To]].first:
			path += fmt.Sprintf(" H%s q-8 0 -8 8 V%s q0 8 8 8 H%s", px(x2-radius-10), px(y2-8), px(x2-radius-1))
		default:
			path += fmt.Sprintf(" H%s q-8 0 -8 8 V%s", px(x2+2), px(y2-radius))
		}
		labelX, labelY = x1+radius+26, y1+radius+4+13*beside
	}
	colour, thickness := edgeColour, 1.6
	if e.Marked {
		colour, thickness = markColour, 4.5
	}
	c.line(`<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linecap="round"><title>%s</title></path>`,
		path, colour, px(thickness), html.EscapeString(e.Detail))
	if e.Label != "" {
		anchor := "middle"
		if y1 != y2 {
			anchor = "start"
		}
		c.text(labelX, labelY, 10, textColour, anchor, e.Label, ` stroke="#ffffff" stroke-width="3" paint-order="stroke"`)
	}
}

// nodes draws the feature maps over everything else.
func (c *canvas) nodes() {
	onMarked := make(map[int]bool)
	for _, e := range c.diagram.Edges {
		if e.Marked {
			onMarked[e.From], onMarked[e.To] = true, true
		}
	}
	low, high := c.diagram.valueRange()
	for v, node := range c.diagram.Nodes {
		x, y := c.at(v)
		share := 0.5
		if high > low {
			share = (node.Value - low) / (high - low)
		}
		border, thickness := edgeColour, 1.2
		if onMarked[v] {
			border, thickness = markColour, 3.0
		}
		text := textColour
		if share > 0.55 {
			text = "#ffffff"
		}
		c.line(`<g><title>%s</title><circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="%s"/>`,
			html.EscapeString(node.Detail), px(x), px(y), px(radius), sequential(share), border, px(thickness))
		c.text(x, y+4, 11, text, "middle", strconv.Itoa(v+1), "")
		c.line(`</g>`)
	}
}

func (d Diagram) valueRange() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, n := range d.Nodes {
		low, high = min(low, n.Value), max(high, n.Value)
	}
	return low, high
}

// sequential maps 0 to 1 onto colours from light to dark blue whose lightness
// falls evenly, so that they order themselves in grey as well.
func sequential(share float64) string {
	stops := [][3]float64{{239, 246, 252}, {189, 215, 238}, {115, 169, 214}, {47, 111, 178}, {10, 49, 110}}
	at := min(max(share, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	f := at - float64(i)
	mix := func(k int) int { return int(math.Round(stops[i][k]*(1-f) + stops[i+1][k]*f)) }
	return fmt.Sprintf("#%02x%02x%02x", mix(0), mix(1), mix(2))
}

// px writes a coordinate as shortly as it is needed.
func px(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }
