package nn

import (
	"fmt"
	"slices"
)

// span is a place in the arena, in floats.
type span struct{ at, size int }

func (p span) in(memory []float32) []float32 { return memory[p.at : p.at+p.size] }

// Spans that are no places.
var (
	none         = span{at: -1}
	callersInput = span{at: -2} // the input where the caller has it
	nowhere      = span{at: -3} // a map that only exists strip by strip
)

// arena gives out places for feature maps, lowest first, and takes them back.
type arena struct {
	base int    // where it begins
	used []span // in order
	size int    // largest end so far
}

// alignment keeps places apart by whole cache lines.
const alignment = 16

func (a *arena) take(size int) span {
	size = (size + alignment - 1) / alignment * alignment
	at, i := a.base, 0
	for ; i < len(a.used); i++ {
		if a.used[i].at-at >= size {
			break
		}
		at = a.used[i].at + a.used[i].size
	}
	s := span{at, size}
	a.used = slices.Insert(a.used, i, s)
	a.size = max(a.size, at+size)
	return s
}

func (a *arena) free(s span) {
	i := slices.Index(a.used, s)
	if i < 0 {
		panic(fmt.Sprintf("nn: %+v is given back and was never taken", s))
	}
	a.used = slices.Delete(a.used, i, i+1)
}
