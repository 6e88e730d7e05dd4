package judge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"tips/supernet"
	"tips/weights"
)

// The body of a record is
//
//	key         32 bytes: SHA-256 of the judge's identity
//	subnetwork  uvarint length, its binary form
//	images      uvarint, of them correct ones: uvarint
//	loss        float64
//	statistics  a byte, 1 if there are any; then float32 means and variances of all
//	            operations with batch norm that run, in order
//
// Whole numbers are in their shortest form, floating point is little endian.

// maxImages bounds what a verdict may be by.
const maxImages = 1 << 30

// record is a verdict as it is kept.
type record struct {
	correct, images int
	loss            float64
	statistics      *weights.Statistics // nil: there are none, or they are in the file
	stored          bool                // they are in the file
	at, length      int64               // of the record in the file
}

// calibrated tells whether there are statistics.
func (r record) calibrated() bool { return r.stored || r.statistics != nil }

func (c *cache) encode(s supernet.Subnet, v record) ([]byte, error) {
	code, err := s.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := bytes.Clone(c.key[:])
	b = binary.AppendUvarint(b, uint64(len(code)))
	b = append(b, code...)
	b = binary.AppendUvarint(b, uint64(v.images))
	b = binary.AppendUvarint(b, uint64(v.correct))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.loss))
	if v.statistics == nil {
		return append(b, 0), nil
	}
	b = append(b, 1)
	norms, err := norms(c.network, s)
	if err != nil {
		return nil, err
	}
	for _, n := range norms {
		mean, variance := v.statistics.Mean[n.op], v.statistics.Variance[n.op]
		if len(mean) != n.channels || len(variance) != n.channels {
			return nil, fmt.Errorf("statistics of %d and %d channels of operation %q; it has %d", len(mean), len(variance), c.network.Ops()[n.op].Name, n.channels)
		}
		for _, list := range [][]float32{mean, variance} {
			for _, f := range list {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
		}
	}
	return b, nil
}

// norm is an operation whose batch norm runs in a subnetwork, and its width there.
type norm struct{ op, channels int }

func norms(n *supernet.Network, s supernet.Subnet) ([]norm, error) {
	v, err := n.View(s, n.Input())
	if err != nil {
		return nil, err
	}
	var list []norm
	for i, op := range n.Ops() {
		if op.Norm && v.Ops[i].Runs {
			list = append(list, norm{i, v.Ops[i].Out.Channels})
		}
	}
	return list, nil
}

// decode reads a body that this judge wrote; of others it reads no more than that
// they are others'.
func (c *cache) decode(body []byte) (s supernet.Subnet, v record, ours bool, err error) {
	rest, ours := bytes.CutPrefix(body, c.key[:])
	if !ours {
		if len(body) < sha256.Size {
			return s, v, false, fmt.Errorf("a record of %d bytes", len(body))
		}
		return s, v, false, nil
	}
	number := func(most uint64) int {
		value, size := binary.Uvarint(rest)
		if err != nil || size <= 0 || size > 1 && rest[size-1] == 0 || value > most {
			err = cmp.Or(err, errors.New("a number that is none, or too large"))
			return 0
		}
		rest = rest[size:]
		return int(value)
	}
	code := number(uint64(len(rest)))
	if err != nil || code > len(rest) {
		return s, v, true, cmp.Or(err, errors.New("a subnetwork that is cut off"))
	}
	if s, err = c.network.DecodeSubnet(rest[:code]); err != nil {
		return s, v, true, err
	}
	rest = rest[code:]
	v.images = number(maxImages)
	v.correct = number(uint64(v.images))
	if err != nil {
		return s, v, true, err
	}
	if len(rest) < 9 || rest[8] > 1 {
		return s, v, true, errors.New("no loss, or nothing that says whether there are statistics")
	}
	v.loss = math.Float64frombits(binary.LittleEndian.Uint64(rest))
	if !(v.loss >= 0) || math.IsInf(v.loss, 0) || v.images == 0 {
		return s, v, true, fmt.Errorf("a loss of %v on %d images", v.loss, v.images)
	}
	has := rest[8] == 1
	rest = rest[9:]
	if has {
		v.stored = true
		if v.statistics, rest, err = c.readStatistics(s, rest); err != nil {
			return s, v, true, err
		}
	}
	if len(rest) > 0 {
		return s, v, true, fmt.Errorf("%d bytes after the end", len(rest))
	}
	return s, v, true, nil
}

func (c *cache) readStatistics(s supernet.Subnet, b []byte) (*weights.Statistics, []byte, error) {
	list, err := norms(c.network, s)
	if err != nil {
		return nil, nil, err
	}
	floats := 0
	for _, n := range list {
		floats += 2 * n.channels
	}
	if len(b) < 4*floats {
		return nil, nil, fmt.Errorf("statistics of %d bytes; want %d", len(b), 4*floats)
	}
	values := make([]float32, floats)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if v := float64(values[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil, errors.New("statistics that are not finite")
		}
	}
	ops := len(c.network.Ops())
	t := &weights.Statistics{Mean: make([][]float32, ops), Variance: make([][]float32, ops)}
	at := 0
	for _, n := range list {
		t.Mean[n.op] = values[at : at+n.channels : at+n.channels]
		at += n.channels
		t.Variance[n.op] = values[at : at+n.channels : at+n.channels]
		at += n.channels
		if slices.ContainsFunc(t.Variance[n.op], func(v float32) bool { return v < 0 }) {
			return nil, nil, errors.New("a variance below 0")
		}
	}
	return t, b[4*floats:], nil
}

// statistics reads those of a record once more. Another process may have written the
// file anew meanwhile, so that something else may stand there.
func (c *cache) statistics(s supernet.Subnet, r record) (*weights.Statistics, error) {
	body, err := readRecord(io.NewSectionReader(c.file, r.at, r.length), r.length)
	if err != nil || body == nil {
		return nil, errLost
	}
	found, v, ours, err := c.decode(body)
	if err != nil || !ours || found != s || v.correct != r.correct || v.images != r.images || v.statistics == nil {
		return nil, errLost
	}
	return v.statistics, nil
}

// latest is the records of this judge that were written last, in the order they were
// written, as many as some bytes hold.
func (c *cache) latest(bytes int64) []record {
	var list []record
	for _, r := range c.found {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(b.at, a.at) })
	for i, r := range list {
		if bytes -= r.length; bytes < 0 {
			list = list[:i]
			break
		}
	}
	slices.Reverse(list)
	return list
}
