package topology

import "math/rand/v2"

// Subnetworks are T subnetworks drawn from a graph for the analysis. Blocks are
// kept or left out with equal probability; what is in no block is always there.
type Subnetworks struct {
	t    int
	keep []bool // block b in subnetwork k at b·T + k; a block inside one that is left out is left out
	kept []int  // in how many subnetworks each block is
}

// Sample draws T subnetworks, at least one, such that every operation is in at
// least one: the T bits of a block are drawn again while they are all zero.
func Sample(g *Graph, t int, rng *rand.Rand) *Subnetworks {
	if t < 1 {
		panic("topology: a sample of no subnetworks")
	}
	s := &Subnetworks{t: t, keep: make([]bool, t*len(g.parents)), kept: make([]int, len(g.parents))}
	for b, parent := range g.parents {
		row := s.keep[b*t : (b+1)*t]
		for s.kept[b] == 0 {
			var bits uint64
			for k := range row {
				if k%64 == 0 {
					bits = rng.Uint64()
				}
				row[k] = bits&1 == 1 && s.keptIn(parent, k)
				bits >>= 1
				if row[k] {
					s.kept[b]++
				}
			}
		}
	}
	return s
}

// Len is the number of subnetworks.
func (s *Subnetworks) Len() int { return s.t }

// Has tells whether subnetwork k has the operation e.
func (s *Subnetworks) Has(e Edge, k int) bool { return s.keptIn(e.Block, k) }

// Count is the number of subnetworks that have the operation e.
func (s *Subnetworks) Count(e Edge) int {
	if e.Block < 0 {
		return s.t
	}
	return s.kept[e.Block]
}

func (s *Subnetworks) keptIn(block, k int) bool { return block < 0 || s.keep[block*s.t+k] }

// expectedShare is the expected share of T drawn subnetworks that hold a block,
// by how many blocks it stands in: index 0 for a block inside none. Redrawing
// makes it a little more than a half.
func expectedShare(t, depths int) []float64 {
	share := make([]float64, depths)
	// count[m] is the probability that the enclosing block is in m subnetworks.
	count := make([]float64, t+1)
	count[t] = 1
	for d := range share {
		inner := make([]float64, t+1)
		for m := 1; m <= t; m++ {
			if count[m] == 0 {
				continue
			}
			// Binomial(m, ½) given that it is not 0, by its recurrence.
			p := 1.0
			for range m {
				p /= 2
			}
			some := 1 - p
			for k := 1; k <= m; k++ {
				p *= float64(m-k+1) / float64(k)
				inner[k] += count[m] * p / some
			}
		}
		count = inner
		for k, p := range count {
			share[d] += p * float64(k) / float64(t)
		}
	}
	return share
}
