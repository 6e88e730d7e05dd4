package cost

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"tips/supernet"
)

// maxCSVBytes bounds a CSV file of costs.
const maxCSVBytes = 64 << 20

// perOperation is a cost by operation, from a CSV file.
type perOperation struct {
	name string
	ops  []opCost // as Network.Ops
	of   *supernet.Network
}

// opCost is what one operation costs: a rate, or a grid by channels.
type opCost struct {
	known bool
	per   string
	rate  float64
	grid  *grid
}

// grid is costs at some numbers of input and output channels.
type grid struct {
	in, out []int // rising
	cost    []float64
}

// ReadCSV reads the costs of a network's operations. The cost of a subnetwork is
// their sum over the operations that run. The file has the header
//
//	operation,in,out,cost,per
//
// and rows of two kinds. With in and out empty, the operation costs cost for every
// unit named by per: run, mac, param or byte, the last being a byte of what it
// writes. With in and out, it costs cost at that many input and output channels
// (of its first operand); such rows of one operation form a full grid, between
// whose points costs are interpolated, and beyond which they are an error. The
// operation * stands for all that have no rows of their own. Every operation must
// have a cost.
func ReadCSV(name string, r io.Reader, n *supernet.Network) (Cost, error) {
	if !validName(name) {
		return nil, fmt.Errorf("cost: name %q of a cost; want lower-case letters, digits, - and _", name)
	}
	p := &perOperation{name: name, ops: make([]opCost, len(n.Ops())), of: n}
	if err := p.read(r); err != nil {
		return nil, fmt.Errorf("cost: CSV of %s: %w", name, err)
	}
	return p, nil
}

func (p *perOperation) read(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxCSVBytes + 1}
	rows := csv.NewReader(limited)
	rows.FieldsPerRecord = 5
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("header: %w", csvError(err))
	}
	if want := []string{"operation", "in", "out", "cost", "per"}; !slices.Equal(header, want) {
		return fmt.Errorf("header %q; want operation,in,out,cost,per", header)
	}
	var others opCost
	points := map[int][]point{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return csvError(err)
		}
		line, _ := rows.FieldPos(0)
		if err := p.row(row, &others, points); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	if limited.N <= 0 {
		return fmt.Errorf("more than %d bytes", maxCSVBytes)
	}
	for i, op := range p.of.Ops() {
		o := &p.ops[i]
		if list := points[i]; list != nil {
			if o.grid, err = newGrid(list); err != nil {
				return fmt.Errorf("operation %q: %w", op.Name, err)
			}
			o.known = true
		}
		if !o.known {
			if !others.known {
				return fmt.Errorf("no cost of operation %q, nor of * for all others", op.Name)
			}
			*o = others
		}
	}
	return nil
}

func csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		if errors.Is(parse.Err, csv.ErrFieldCount) {
			return fmt.Errorf("line %d: want five fields", parse.Line)
		}
		return fmt.Errorf("line %d: %w", parse.Line, parse.Err)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("an empty file")
	}
	return err
}

type point struct {
	in, out int
	cost    float64
}

func (p *perOperation) row(row []string, others *opCost, points map[int][]point) error {
	o, i := others, -1
	if row[0] != "*" {
		var ok bool
		if i, ok = p.of.Index(row[0]); !ok {
			return fmt.Errorf("%s has no operation %q", p.of.Name(), row[0])
		}
		o = &p.ops[i]
	}
	cost, err := strconv.ParseFloat(row[3], 64)
	if err != nil || !(cost >= 0) || math.IsInf(cost, 0) {
		return fmt.Errorf("cost %q; want a number, 0 or more", row[3])
	}
	if row[1] == "" && row[2] == "" {
		if !slices.Contains([]string{"run", "mac", "param", "byte"}, row[4]) {
			return fmt.Errorf("per %q; want run, mac, param or byte", row[4])
		}
		if o.known || points[i] != nil {
			return fmt.Errorf("operation %q has a cost already", row[0])
		}
		*o = opCost{known: true, per: row[4], rate: cost}
		return nil
	}
	in, err1 := strconv.Atoi(row[1])
	out, err2 := strconv.Atoi(row[2])
	switch {
	case err1 != nil || err2 != nil || in < 1 || out < 1:
		return fmt.Errorf("channels %q and %q; want two whole numbers above 0, or nothing", row[1], row[2])
	case row[4] != "" && row[4] != "run":
		return fmt.Errorf("per %q with channels; want run, or nothing", row[4])
	case i < 0:
		return errors.New("channels for *; want an operation's name")
	case o.known:
		return fmt.Errorf("operation %q has a cost already", row[0])
	}
	points[i] = append(points[i], point{in, out, cost})
	return nil
}

// newGrid checks that points form a full grid.
func newGrid(list []point) (*grid, error) {
	g := &grid{}
	for _, p := range list {
		g.in, g.out = append(g.in, p.in), append(g.out, p.out)
	}
	slices.Sort(g.in)
	slices.Sort(g.out)
	g.in, g.out = slices.Compact(g.in), slices.Compact(g.out)
	if len(g.in)*len(g.out) != len(list) {
		return nil, fmt.Errorf("%d costs at %d numbers of input and %d of output channels; want one for each pair", len(list), len(g.in), len(g.out))
	}
	g.cost = make([]float64, len(list))
	seen := make([]bool, len(list))
	for _, p := range list {
		i, _ := slices.BinarySearch(g.in, p.in)
		j, _ := slices.BinarySearch(g.out, p.out)
		at := i*len(g.out) + j
		if seen[at] {
			return nil, fmt.Errorf("two costs at %d input and %d output channels", p.in, p.out)
		}
		g.cost[at], seen[at] = p.cost, true
	}
	return g, nil
}

// at interpolates bilinearly.
func (g *grid) at(in, out int) (cost float64, ok bool) {
	i, u, ok1 := between(g.in, in)
	j, v, ok2 := between(g.out, out)
	if !ok1 || !ok2 {
		return 0, false
	}
	w := len(g.out)
	i2, j2 := min(i+1, len(g.in)-1), min(j+1, w-1)
	low := g.cost[i*w+j]*(1-v) + g.cost[i*w+j2]*v
	high := g.cost[i2*w+j]*(1-v) + g.cost[i2*w+j2]*v
	return low*(1-u) + high*u, true
}

// between finds the number of a rising list that is at most x, and how far x is on
// the way to the next.
func between(list []int, x int) (i int, share float64, ok bool) {
	i, exact := slices.BinarySearch(list, x)
	if exact {
		return i, 0, true
	}
	if i == 0 || i == len(list) {
		return 0, 0, false
	}
	return i - 1, float64(x-list[i-1]) / float64(list[i]-list[i-1]), true
}

func (p *perOperation) Name() string { return p.name }

func (p *perOperation) Of(v *supernet.View) (float64, error) {
	if v.Network != p.of {
		return 0, fmt.Errorf("cost: %s is a cost of %s, not of %s", p.name, p.of.Name(), v.Network.Name())
	}
	costs := v.OpCosts()
	sum := 0.0
	for i := range v.Ops {
		o := &v.Ops[i]
		if !o.Runs {
			continue
		}
		c := &p.ops[i]
		if c.grid != nil {
			in, out := o.In[0].Channels, o.Out.Channels
			amount, ok := c.grid.at(in, out)
			if !ok {
				return 0, fmt.Errorf("cost: operation %q has %d input and %d output channels; the CSV of %s has %d to %d and %d to %d",
					p.of.Ops()[i].Name, in, out, p.name, c.grid.in[0], c.grid.in[len(c.grid.in)-1], c.grid.out[0], c.grid.out[len(c.grid.out)-1])
			}
			sum += amount
			continue
		}
		switch c.per {
		case "run":
			sum += c.rate
		case "mac":
			sum += c.rate * float64(costs[i].MACs)
		case "param":
			sum += c.rate * float64(costs[i].Params)
		case "byte":
			sum += c.rate * supernet.BytesPerValue * float64(o.Out.Elements())
		}
	}
	return sum, nil
}
