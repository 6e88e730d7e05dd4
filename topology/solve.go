package topology

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Bounds on elimination, so that it refuses what would take minutes or more
// memory than there is.
const (
	maxStates = 1 << 21
	maxFill   = 1 << 25 // rates created
	maxWork   = 1 << 31 // rates moved to make room for others
)

// Solve computes the TAS of any chain, directed or not, by sparse elimination.
//
// In the unknowns y = π/rowsum, πP = π says that y is stationary for the
// continuous-time chain whose rates are the entries of H̃ off the diagonal. Two
// kinds of entries would make that matrix dense, and each is replaced by a state
// that one passes through in no time: the coupling of the T copies of a map by a
// hub to and from each copy, the uniform part κU by one teleport state. Removing
// such a state by elimination restores the entries it stands for, so y is exact.
//
// States are eliminated by the method of Grassmann, Taksar and Heyman, which
// only adds, multiplies and divides positive numbers: every π is accurate to a
// few units in the last place, however slowly the chain mixes. States with the
// fewest neighbours go first, which keeps a network's chain sparse; time and
// memory grow with the number of maps alive at once, and a graph too entangled
// for that is refused. Products are kept from being fused with sums, as in
// Scores.
func (c Chain) Solve(g *Graph, s *Subnetworks) ([]float64, error) {
	n, t := len(g.nodes), s.t
	states := n * t
	if states > maxStates {
		return nil, fmt.Errorf("topology: %d feature maps in %d subnetworks are too many for the sparse solver; want at most %d together", n, t, maxStates)
	}
	hubs := 0
	if t > 1 {
		hubs = n
	}
	m := newRates(states + hubs)
	state := func(v, k int) int { return v*t + k }

	rowsum := make([]float64, states) // of H̃, the diagonal included
	outside := float64((1-c.Kappa)*c.Lambda*float64(t-1)) + float64(c.Kappa*float64(states))
	for v := range n {
		for k := range t {
			rowsum[state(v, k)] = float64((1-c.Kappa)*g.loop(v)) + outside
		}
	}
	for _, e := range g.edges {
		for k := range t {
			if !s.Has(e, k) {
				continue
			}
			from, to := state(e.From, k), state(e.To, k)
			rate := float64((1 - c.Kappa) * e.Weight)
			m.add(from, to, rate)
			rowsum[from] += rate
			if !c.Directed {
				m.add(to, from, rate)
				rowsum[to] += rate
			}
		}
	}
	for v := range hubs {
		for k := range t {
			// λT into the hub and 1/T out to each copy: λ between any two.
			m.add(state(v, k), states+v, float64((1-c.Kappa)*c.Lambda*float64(t)))
			m.add(states+v, state(v, k), 1/float64(t))
		}
	}
	for i := range states {
		// κ times the number of states into the teleport state, evenly out again.
		m.toLast[i] = float64(c.Kappa * float64(states))
		m.fromLast[i] = 1 / float64(states)
	}

	y, err := m.stationary()
	if err != nil {
		return nil, err
	}
	scores := make([]float64, n)
	total := 0.0
	for i := range states {
		p := float64(y[i] * rowsum[i])
		scores[i/t] += p
		total += p
	}
	for v := range scores {
		scores[v] /= total
	}
	return scores, nil
}

// rates is the generator of a continuous-time Markov chain: rows of rates in
// column order, and one more state, the last, that may be joined to all others.
type rates struct {
	rows     [][]rate
	columns  [][]int // which rows have a rate into each state, in order
	toLast   []float64
	fromLast []float64
	fill     int
	work     int
}

type rate struct {
	to    int
	value float64
}

func newRates(n int) *rates {
	return &rates{rows: make([][]rate, n), columns: make([][]int, n), toLast: make([]float64, n), fromLast: make([]float64, n)}
}

// add raises the rate from i to j; a rate that was not there before is fill.
func (m *rates) add(i, j int, value float64) {
	at := m.find(i, j)
	if at < len(m.rows[i]) && m.rows[i][at].to == j {
		m.rows[i][at].value += value
		return
	}
	m.work += len(m.rows[i]) + len(m.columns[j])
	m.rows[i] = slices.Insert(m.rows[i], at, rate{j, value})
	at, _ = slices.BinarySearch(m.columns[j], i)
	m.columns[j] = slices.Insert(m.columns[j], at, i)
	m.fill++
}

// stationary is the stationary distribution, up to a factor: the last state has
// 1. Elimination uses up m.
func (m *rates) stationary() ([]float64, error) {
	n := len(m.rows)
	order := make([]int, 0, n)
	inflow := make([][]rate, n)      // y of an eliminated state in terms of those after it
	lastInflow := make([]float64, n) // and of the last
	queue := m.degrees()
	for queue.Len() > 0 {
		next := heap.Pop(queue).(degree)
		e := next.state
		if inflow[e] != nil || next.degree != m.degree(e) {
			continue // eliminated, or queued again with what is true now
		}
		order = append(order, e)
		row, readers := m.rows[e], m.columns[e]
		out := m.toLast[e]
		for _, r := range row {
			out += r.value
			m.columns[r.to] = remove(m.columns[r.to], e)
		}
		if !(out > 0) {
			return nil, fmt.Errorf("topology: the chain never leaves state %d", e)
		}
		lastInflow[e] = m.fromLast[e] / out
		for _, r := range row {
			m.fromLast[r.to] += float64(lastInflow[e] * r.value)
		}
		inflow[e] = make([]rate, len(readers))
		for j, i := range readers {
			at := m.find(i, e)
			share := m.rows[i][at].value / out
			m.rows[i] = slices.Delete(m.rows[i], at, at+1)
			inflow[e][j] = rate{i, share}
			m.toLast[i] += float64(share * m.toLast[e])
			for _, r := range row {
				if r.to != i {
					m.add(i, r.to, float64(share*r.value))
				}
			}
		}
		if m.work += len(readers) * len(row); m.fill > maxFill || m.work > maxWork {
			return nil, fmt.Errorf("topology: a graph of %d states is too entangled for the sparse solver", n)
		}
		m.rows[e], m.columns[e] = nil, nil
		for _, i := range readers {
			heap.Push(queue, degree{m.degree(i), i})
		}
		for _, r := range row {
			heap.Push(queue, degree{m.degree(r.to), r.to})
		}
	}
	y := make([]float64, n)
	for _, e := range slices.Backward(order) {
		y[e] = lastInflow[e]
		for _, in := range inflow[e] {
			y[e] += float64(y[in.to] * in.value)
		}
	}
	return y, nil
}

// find is the place of column j in row i, or where it would stand.
func (m *rates) find(i, j int) int {
	at, _ := slices.BinarySearchFunc(m.rows[i], j, func(r rate, j int) int { return cmp.Compare(r.to, j) })
	return at
}

func remove(sorted []int, x int) []int {
	at, _ := slices.BinarySearch(sorted, x)
	return slices.Delete(sorted, at, at+1)
}

// degree is how many states a state is joined to, either way; ties go to the
// lower state, so that the order of elimination is the same every time.
type degree struct{ degree, state int }

func (m *rates) degree(i int) int { return len(m.rows[i]) + len(m.columns[i]) }

type degreeQueue []degree

func (m *rates) degrees() *degreeQueue {
	q := make(degreeQueue, len(m.rows))
	for i := range q {
		q[i] = degree{m.degree(i), i}
	}
	heap.Init(&q)
	return &q
}

func (q degreeQueue) Len() int { return len(q) }
func (q degreeQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].degree, q[j].degree), cmp.Compare(q[i].state, q[j].state)) < 0
}
func (q degreeQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *degreeQueue) Push(x any)   { *q = append(*q, x.(degree)) }
func (q *degreeQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
