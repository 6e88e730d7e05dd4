package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// ErrCorrupt is wrapped by errors about files that are damaged.
var ErrCorrupt = errors.New("damaged file")

// Bounds on what a file may ask for before its data is looked at.
const (
	maxHeader  = 100 << 20 // the format's own limit
	maxTensors = 1 << 20
)

// entry is one tensor as the header of a safetensors file describes it.
type entry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // where it begins and ends
}

// dtypes are the types that values can be read from, and their sizes. Other
// types may stand in a file as long as nobody needs them.
var dtypes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2}

// otherSizes are the sizes of the format's other types.
var otherSizes = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "F64": 8, "I64": 8, "U64": 8,
}

// file is an opened safetensors file whose header has been checked: every tensor
// lies where its shape and type say, and together they are all of the data.
type file struct {
	data     io.ReaderAt // at offset 0 of the tensors
	tensors  map[string]entry
	metadata map[string]string
}

// openFile reads and checks the header.
func openFile(r io.ReaderAt, size int64) (*file, error) {
	var length [8]byte
	if size < int64(len(length)) {
		return nil, fmt.Errorf("%w: %d bytes are no safetensors file", ErrCorrupt, size)
	}
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("%w: a header of %d bytes in a file of %d", ErrCorrupt, n, size)
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, 8); err != nil {
		return nil, err
	}
	f := &file{
		data:    io.NewSectionReader(r, 8+int64(n), size-8-int64(n)),
		tensors: map[string]entry{},
	}
	if err := f.parse(header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return f, f.check(size - 8 - int64(n))
}

// parse reads the header token by token at the top, because a tensor that stands
// twice must not go unnoticed.
func (f *file) parse(header []byte) error {
	dec := json.NewDecoder(bytes.NewReader(header))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("the header is no JSON object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name := t.(string) // keys are
		if name == "__metadata__" {
			if f.metadata != nil {
				return fmt.Errorf("metadata stands twice")
			}
			if err := dec.Decode(&f.metadata); err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			if f.metadata == nil {
				return fmt.Errorf("metadata is null; want an object")
			}
			continue
		}
		if _, twice := f.tensors[name]; twice {
			return fmt.Errorf("tensor %q stands twice", name)
		}
		if len(f.tensors) == maxTensors {
			return fmt.Errorf("more than %d tensors", maxTensors)
		}
		var e entry
		if err := dec.Decode(&e); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if len(e.Offsets) != 2 {
			return fmt.Errorf("tensor %q has %d offsets; want where it begins and where it ends", name, len(e.Offsets))
		}
		f.tensors[name] = e
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if rest := bytes.TrimRight(header[dec.InputOffset():], " \n\t\x00"); len(rest) > 0 {
		return fmt.Errorf("the header goes on after its end")
	}
	return nil
}

// check holds every tensor to its shape and type, and all together to the size
// of the data: no overlaps, no gaps, nothing missing.
func (f *file) check(size int64) error {
	names := slices.SortedFunc(maps.Keys(f.tensors), func(a, b string) int {
		x, y := f.tensors[a], f.tensors[b]
		return cmp.Or(cmp.Compare(x.Offsets[0], y.Offsets[0]), cmp.Compare(x.Offsets[1], y.Offsets[1]), strings.Compare(a, b))
	})
	at := int64(0)
	for _, name := range names {
		e := f.tensors[name]
		width, known := dtypes[e.DType]
		if !known {
			width, known = otherSizes[e.DType]
		}
		if !known {
			return fmt.Errorf("%w: tensor %q: unknown dtype %q", ErrCorrupt, name, e.DType)
		}
		want := width
		for _, d := range e.Shape {
			if d < 0 || d > 0 && want > math.MaxInt64/d {
				return fmt.Errorf("%w: tensor %q: shape %v", ErrCorrupt, name, e.Shape)
			}
			want *= d
		}
		switch {
		case e.Offsets[0] < at:
			return fmt.Errorf("%w: tensor %q starts at %d, inside the one before it", ErrCorrupt, name, e.Offsets[0])
		case e.Offsets[0] > at:
			return fmt.Errorf("%w: %d bytes before tensor %q belong to no tensor", ErrCorrupt, e.Offsets[0]-at, name)
		case e.Offsets[1]-e.Offsets[0] != want || e.Offsets[1] < e.Offsets[0]:
			return fmt.Errorf("%w: tensor %q: offsets %v for %d bytes of %s%v", ErrCorrupt, name, e.Offsets, want, e.DType, e.Shape)
		case e.Offsets[1] > size:
			return fmt.Errorf("%w: tensor %q ends at byte %d of %d: the file is cut off", ErrCorrupt, name, e.Offsets[1], size)
		}
		at = e.Offsets[1]
	}
	if at != size {
		return fmt.Errorf("%w: %d bytes after the last tensor", ErrCorrupt, size-at)
	}
	return nil
}

// read gives the values of a tensor as float32.
func (f *file) read(name string) ([]float32, error) {
	e := f.tensors[name]
	width, ok := dtypes[e.DType]
	if !ok {
		return nil, fmt.Errorf("tensor %q has dtype %s; want F32, F16 or BF16", name, e.DType)
	}
	raw := make([]byte, e.Offsets[1]-e.Offsets[0])
	if _, err := f.data.ReadAt(raw, e.Offsets[0]); err != nil && len(raw) > 0 {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	values := make([]float32, int64(len(raw))/width)
	switch e.DType {
	case "F32":
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case "F16":
		for i := range values {
			values[i] = fromHalf(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case "BF16":
		for i := range values {
			values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	}
	return values, nil
}

// fromHalf widens an IEEE 754 binary16.
func fromHalf(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero and subnormal: a multiple of 2⁻²⁴
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31: // infinity and NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// named is a tensor to be written.
type named struct {
	name   string
	shape  []int
	values []float32
}

// writeFile writes float32 tensors in the order given.
func writeFile(w io.Writer, tensors []named, metadata map[string]string) error {
	var header bytes.Buffer
	header.WriteByte('{')
	put := func(key string, value any) {
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		k, _ := json.Marshal(key)
		v, _ := json.Marshal(value) // strings and numbers
		header.Write(k)
		header.WriteByte(':')
		header.Write(v)
	}
	if len(metadata) > 0 {
		put("__metadata__", metadata)
	}
	at := int64(0)
	for _, t := range tensors {
		end := at + 4*int64(len(t.values))
		shape := make([]int64, len(t.shape))
		for i, d := range t.shape {
			shape[i] = int64(d)
		}
		put(t.name, entry{"F32", shape, []int64{at, end}})
		at = end
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 { // so that tensors are aligned
		header.WriteByte(' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(header.Len())); err != nil {
		return err
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return err
	}
	var block []byte
	for _, t := range tensors {
		for values := t.values; len(values) > 0; {
			n := min(len(values), 1<<16)
			block = block[:0]
			for _, v := range values[:n] {
				block = binary.LittleEndian.AppendUint32(block, math.Float32bits(v))
			}
			if _, err := w.Write(block); err != nil {
				return err
			}
			values = values[n:]
		}
	}
	return nil
}
