package dataset

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// subset shows some pictures of a source.
type subset struct {
	Source
	index []int32
}

// Subset is the source that consists of the pictures of s with the given indices,
// in that order. It copies the indices.
func Subset(s Source, index []int) Source {
	list := make([]int32, len(index))
	for k, i := range index {
		if i < 0 || i >= s.Len() {
			panic(fmt.Sprintf("dataset: index %d of a source of %d pictures", i, s.Len()))
		}
		list[k] = int32(i)
	}
	return &subset{s, list}
}

// Evenly takes n pictures of a source, evenly spread over it; all for 0.
func Evenly(s Source, n int) Source {
	if n == 0 || n >= s.Len() {
		return s
	}
	index := make([]int, n)
	for i := range index {
		index[i] = i * s.Len() / n
	}
	return Subset(s, index)
}

func (s *subset) Len() int                     { return len(s.index) }
func (s *subset) Label(i int) int              { return s.Source.Label(int(s.index[i])) }
func (s *subset) Image(i int) (Picture, error) { return s.Source.Image(int(s.index[i])) }

// Holdout splits n pictures off a source, for instance to judge networks by while
// others are trained. Every class gives its share of them, to within one picture;
// which pictures those are depends on the seed only. Both parts keep the order of
// s. Holdout panics unless n lies between 0 and s.Len().
func Holdout(s Source, n int, seed uint64) (rest, held Source) {
	total := s.Len()
	if n < 0 || n > total {
		panic(fmt.Sprintf("dataset: %d pictures held out of %d", n, total))
	}
	members := make([][]int, s.Classes())
	for i := range total {
		c := s.Label(i)
		members[c] = append(members[c], i)
	}
	rng := rand.New(rand.NewPCG(seed, 0x686f6c646f7574)) // "holdout"
	// Whole shares first; what is left goes to the largest remainders, in an order
	// of chance among equals so that low classes are not favoured.
	take := make([]int, len(members))
	left := n
	for c, list := range members {
		if total > 0 {
			take[c] = n * len(list) / total
		}
		left -= take[c]
	}
	order := rng.Perm(len(members))
	slices.SortStableFunc(order, func(a, b int) int {
		return n*len(members[b])%total - n*len(members[a])%total
	})
	for _, c := range order[:left] {
		take[c]++
	}
	var in, out []int
	for c, list := range members {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		in, out = append(in, list[:take[c]]...), append(out, list[take[c]:]...)
	}
	slices.Sort(in)
	slices.Sort(out)
	return Subset(s, out), Subset(s, in)
}
