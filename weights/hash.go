package weights

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"tips/supernet"
)

// Hash is a hash of all values, batch-norm statistics included, by operation and
// tensor. It does not depend on the file they came from: names, number formats
// and the order of tensors there play no role.
func (s *Set) Hash() supernet.Hash {
	h := sha256.New()
	block := make([]byte, 0, 1<<16)
	for i := range s.Network.Ops() {
		for _, t := range tensorsOf(s.Network, i) {
			values := *t.field(&s.Ops[i])
			block = append(block[:0], s.Network.Ops()[i].Name...)
			block = append(block, 0)
			block = append(block, t.name...)
			block = append(block, 0)
			block = binary.LittleEndian.AppendUint64(block, uint64(len(values)))
			h.Write(block)
			for len(values) > 0 {
				n := min(len(values), cap(block)/4)
				block = block[:0]
				for _, v := range values[:n] {
					block = binary.LittleEndian.AppendUint32(block, math.Float32bits(v))
				}
				h.Write(block)
				values = values[n:]
			}
		}
	}
	return supernet.Hash(h.Sum(nil))
}
