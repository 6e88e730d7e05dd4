package frontier

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"tips/supernet"
	"tips/weights"
)

// A file is
//
//	magic     14 bytes
//	version   uvarint
//	header    uvarint length, bytes: what it belongs to, how it was made
//	choices   likewise: the binary form of every subnetwork, each after its length
//	costs     likewise: accuracy and costs of each
//	statistics likewise: of each a byte, 1 if there are any, then float32 means
//	          and variances of all operations with batch norm that run, in order
//	checksum  32 bytes: SHA-256 of all before it
//
// Whole numbers are uvarints in their shortest form, floating point is little
// endian. What lengths can be derived from the network are not stored. The version
// rises with every change of the form; its decoder joins decoders and the ones
// before it stay, with a file of each in testdata.
const magic = "tips-frontier\n"

const currentVersion = 1

// decoders read the bytes between version and checksum, by version.
var decoders = map[uint64]func(*decoder, *supernet.Network) *Frontier{
	1: decode1,
}

// Sizes are the bytes of a frontier file by what they hold.
type Sizes struct {
	Header     int `json:"header"`  // and checksum
	Choices    int `json:"choices"` // of widths and blocks
	Costs      int `json:"costs"`   // and accuracies
	Statistics int `json:"statistics"`
}

// Total is the size of the file.
func (s Sizes) Total() int { return s.Header + s.Choices + s.Costs + s.Statistics }

// Sizes counts the bytes of the file that the frontier makes.
func (f *Frontier) Sizes() (Sizes, error) {
	_, s, err := f.encode()
	return s, err
}

// Encode gives the frontier as the bytes of a file.
func (f *Frontier) Encode() ([]byte, error) {
	b, _, err := f.encode()
	return b, err
}

func (f *Frontier) encode() ([]byte, Sizes, error) {
	if err := f.Validate(); err != nil {
		return nil, Sizes{}, err
	}
	var header, choices, costs, statistics encoder
	header.header(f)
	for _, p := range f.Points {
		code, err := p.Subnet.MarshalBinary()
		if err != nil {
			return nil, Sizes{}, err
		}
		choices.bytes(code)
		costs.point(p)
		if p.Statistics == nil {
			statistics = append(statistics, 0)
			continue
		}
		statistics = append(statistics, 1)
		norms, err := f.norms(p.Subnet)
		if err != nil {
			return nil, Sizes{}, err
		}
		for _, n := range norms {
			statistics.floats(p.Statistics.Mean[n.op])
			statistics.floats(p.Statistics.Variance[n.op])
		}
	}
	file := encoder(magic)
	file.uvarint(currentVersion)
	for _, part := range []encoder{header, choices, costs, statistics} {
		file.bytes(part)
	}
	sum := sha256.Sum256(file)
	file = append(file, sum[:]...)
	if len(file) > maxFileBytes {
		return nil, Sizes{}, fmt.Errorf("frontier: a file of %d bytes; want at most %d", len(file), maxFileBytes)
	}
	s := Sizes{Choices: len(choices), Costs: len(costs), Statistics: len(statistics)}
	s.Header = len(file) - s.Total()
	return file, s, nil
}

// encoder appends to a file.
type encoder []byte

func (e *encoder) uvarint(v uint64) { *e = binary.AppendUvarint(*e, v) }

func (e *encoder) bytes(b []byte) {
	e.uvarint(uint64(len(b)))
	*e = append(*e, b...)
}

func (e *encoder) double(v float64) { *e = binary.LittleEndian.AppendUint64(*e, math.Float64bits(v)) }

func (e *encoder) floats(list []float32) {
	for _, v := range list {
		*e = binary.LittleEndian.AppendUint32(*e, math.Float32bits(v))
	}
}

func (e *encoder) header(f *Frontier) {
	network := f.Network.Hash()
	e.bytes([]byte(f.Network.Name()))
	*e = append(*e, network[:]...)
	*e = append(*e, f.Weights[:]...)
	for _, side := range []int{f.Input.Channels, f.Input.Height, f.Input.Width} {
		e.uvarint(uint64(side))
	}
	e.uvarint(uint64(len(f.By)))
	for _, k := range f.By {
		*e = append(*e, byte(k))
	}
	e.bytes([]byte(f.OwnName))
	e.bytes([]byte(f.CPU))
	e.uvarint(uint64(f.Threads))
	e.uvarint(uint64(f.Preprocess.Resize))
	for _, list := range [][]float32{f.Preprocess.Mean, f.Preprocess.Std} {
		e.uvarint(uint64(len(list)))
		e.floats(list)
	}
	e.uvarint(uint64(len(f.ClassNames)))
	for _, name := range f.ClassNames {
		e.bytes([]byte(name))
	}
	e.uvarint(uint64(len(f.Points)))
}

func (e *encoder) point(p Point) {
	e.uvarint(uint64(p.Images))
	if p.Images > 0 {
		e.uvarint(uint64(p.Correct))
	} else {
		e.double(p.Accuracy)
	}
	for _, v := range []int64{p.Costs.MACs, p.Costs.Params, p.Costs.WeightBytes, p.Costs.PeakBytes, int64(p.Costs.Latency)} {
		e.uvarint(uint64(v))
	}
	e.double(p.Costs.Energy)
	e.double(p.Costs.Own)
}

// Decode reads the bytes of a frontier file of a network. It is strict: whatever
// Encode would not write is an error, which wraps ErrCorrupt, ErrVersion or
// ErrMismatch.
func Decode(data []byte, n *supernet.Network) (*Frontier, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, maxFileBytes)
	}
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil, fmt.Errorf("%w: it does not begin as one does", ErrCorrupt)
	}
	// The version before the checksum: later ones may have another.
	version, size := binary.Uvarint(rest)
	if size <= 0 {
		return nil, fmt.Errorf("%w: no version", ErrCorrupt)
	}
	decode, known := decoders[version]
	if !known {
		return nil, fmt.Errorf("%w: %d; this program reads up to %d", ErrVersion, version, currentVersion)
	}
	if len(rest) < size+sha256.Size {
		return nil, fmt.Errorf("%w: %d bytes; it is cut off", ErrCorrupt, len(data))
	}
	end := len(data) - sha256.Size
	if sha256.Sum256(data[:end]) != [sha256.Size]byte(data[end:]) {
		return nil, fmt.Errorf("%w: the checksum is wrong: it is cut off or damaged", ErrCorrupt)
	}
	d := &decoder{data: rest[size : len(rest)-sha256.Size]}
	if size != len(binary.AppendUvarint(nil, version)) {
		d.fail("a number is not in its shortest form")
	}
	f := decode(d, n)
	if d.err != nil {
		return nil, d.err
	}
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return f, nil
}

func decode1(d *decoder, n *supernet.Network) *Frontier {
	header, choices, costs, statistics := d.part(), d.part(), d.part(), d.part()
	d.end("the last part")
	f, points := header.header1(n, len(choices.data))
	header.end("the header")
	for _, part := range []*decoder{header, choices, costs, statistics} {
		d.inherit(part)
	}
	for i := 0; i < points && d.err == nil; i++ {
		p := costs.point1()
		code := choices.bytes(len(choices.data))
		if choices.err == nil {
			var err error
			if p.Subnet, err = n.DecodeSubnet(code); err != nil {
				choices.fail("subnetwork %d: %v", i+1, err)
			}
		}
		d.inherit(choices)
		if d.err == nil {
			p.Statistics = statistics.statistics1(f, p.Subnet)
		}
		d.inherit(costs)
		d.inherit(statistics)
		f.Points = append(f.Points, p)
	}
	choices.end("the choices")
	costs.end("the costs")
	statistics.end("the statistics")
	for _, part := range []*decoder{choices, costs, statistics} {
		d.inherit(part)
	}
	return f
}

func (d *decoder) header1(n *supernet.Network, choices int) (f *Frontier, points int) {
	f = &Frontier{Network: n}
	name := d.text()
	network := supernet.Hash(d.take(len(supernet.Hash{})))
	f.Weights = supernet.Hash(d.take(len(supernet.Hash{})))
	if d.err == nil && network != n.Hash() {
		if name == n.Name() {
			name = "another " + name
		}
		d.err = fmt.Errorf("%w: it is of network %s, not of %s", ErrMismatch, name, n.Name())
	}
	f.Input.Channels = int(d.uvarint(math.MaxInt32))
	f.Input.Height = int(d.uvarint(math.MaxInt32))
	f.Input.Width = int(d.uvarint(math.MaxInt32))
	for range d.uvarint(uint64(kinds)) {
		f.By = append(f.By, Kind(d.take(1)[0]))
	}
	f.OwnName = d.text()
	f.CPU = d.text()
	f.Threads = int(d.uvarint(maxThreads))
	f.Preprocess.Resize = int(d.uvarint(maxResize))
	f.Preprocess.Mean = d.floats(int(d.uvarint(uint64(len(d.data) / 4))))
	f.Preprocess.Std = d.floats(int(d.uvarint(uint64(len(d.data) / 4))))
	for i := d.uvarint(uint64(min(maxClasses, len(d.data)))); i > 0 && d.err == nil; i-- {
		f.ClassNames = append(f.ClassNames, d.text())
	}
	return f, int(d.uvarint(uint64(min(maxPoints, choices))))
}

func (d *decoder) point1() Point {
	var p Point
	p.Images = int(d.uvarint(maxImages))
	if p.Images > 0 {
		p.Correct = int(d.uvarint(uint64(p.Images)))
		p.Accuracy = float64(p.Correct) / float64(p.Images)
	} else {
		p.Accuracy = d.double()
	}
	for _, v := range []*int64{&p.Costs.MACs, &p.Costs.Params, &p.Costs.WeightBytes, &p.Costs.PeakBytes} {
		*v = int64(d.uvarint(maxCount))
	}
	p.Costs.Latency = time.Duration(d.uvarint(maxCount))
	p.Costs.Energy = d.double()
	p.Costs.Own = d.double()
	return p
}

// statistics1 reads the statistics of one subnetwork, as many as it has channels.
func (d *decoder) statistics1(f *Frontier, s supernet.Subnet) *weights.Statistics {
	switch flag := d.take(1)[0]; {
	case flag > 1:
		d.fail("statistics begin with %d; want 0 or 1", flag)
		return nil
	case flag == 0 || d.err != nil:
		return nil
	}
	norms, err := f.norms(s)
	if err != nil {
		d.fail("%v", err)
		return nil
	}
	n := len(f.Network.Ops())
	t := &weights.Statistics{Mean: make([][]float32, n), Variance: make([][]float32, n)}
	for _, norm := range norms {
		t.Mean[norm.op] = d.floats(norm.channels)
		t.Variance[norm.op] = d.floats(norm.channels)
	}
	return t
}

// decoder takes bytes off the front of a part of a file. After the first error
// everything it gives is zero.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
	}
}

// inherit takes over the first error of a part.
func (d *decoder) inherit(part *decoder) {
	if d.err == nil {
		d.err = part.err
	}
}

func (d *decoder) end(what string) {
	if d.err == nil && len(d.data) > 0 {
		d.fail("%d bytes after %s", len(d.data), what)
	}
}

// take gives the next n bytes, zeros where there are fewer. n is never more than
// a hash or what the caller holds against the bytes there are.
func (d *decoder) take(n int) []byte {
	if d.err == nil && n > len(d.data) {
		d.fail("it ends %d bytes early", n-len(d.data))
	}
	if d.err != nil {
		return make([]byte, min(n, sha256.Size))
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) uvarint(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, size := binary.Uvarint(d.data)
	switch {
	case size <= 0:
		d.fail("a number is cut off")
		return 0
	case size > 1 && d.data[size-1] == 0:
		d.fail("a number is not in its shortest form")
		return 0
	case v > most:
		d.fail("%d where at most %d can be", v, most)
		return 0
	}
	d.data = d.data[size:]
	return v
}

// bytes reads a length and that many bytes.
func (d *decoder) bytes(most int) []byte {
	n := d.uvarint(uint64(most))
	if d.err != nil || n > uint64(len(d.data)) {
		d.fail("it ends early")
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) part() *decoder {
	b := d.bytes(len(d.data))
	return &decoder{data: b, err: d.err}
}

func (d *decoder) text() string { return string(d.bytes(maxText)) }

func (d *decoder) double() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(d.take(8)))
}

func (d *decoder) floats(n int) []float32 {
	if d.err == nil && n > len(d.data)/4 {
		d.fail("it ends early")
	}
	if d.err != nil || n == 0 {
		return nil
	}
	list := make([]float32, n)
	for i, raw := 0, d.take(4*n); i < n; i++ {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list
}
