package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A reader of ONNX models that knows nothing of the writer: field numbers are
// spelt out again, and a field it does not expect is an error.

type readModel struct {
	ir, opset int
	producer  string
	graph     readGraph
}

type readGraph struct {
	name            string
	nodes           []readNode
	tensors         map[string]readTensor
	inputs, outputs []readValue
}

type readNode struct {
	name, kind string
	inputs     []string
	outputs    []string
	ints       map[string][]int // an int attribute is one of length 1
	floats     map[string]float64
}

type readTensor struct {
	dims   []int
	kind   int // 1 float32, 7 int64
	floats []float64
	ints   []int
}

type readValue struct {
	name string
	kind int
	dims []string
}

// field is one field of a message; exactly one of number and bytes is set,
// according to its type.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

func fields(b []byte) []field {
	var list []field
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		must(n)
		b = b[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.value = uint64(v)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			panic(fmt.Sprintf("field %d has wire type %d", number, kind))
		}
		must(n)
		b = b[n:]
		list = append(list, f)
	}
	return list
}

func must(n int) {
	if n < 0 {
		panic(protowire.ParseError(n))
	}
}

func unexpected(what string, f field) { panic(fmt.Sprintf("%s has field %d", what, f.number)) }

// decode reads a model, or fails the test.
func decode(t failer, b []byte) (m readModel) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("the model cannot be read: %v", r)
		}
	}()
	for _, f := range fields(b) {
		switch f.number {
		case 1:
			m.ir = int(f.value)
		case 2:
			m.producer = string(f.bytes)
		case 7:
			m.graph = decodeGraph(f.bytes)
		case 8:
			for _, f := range fields(f.bytes) {
				if f.number != 2 {
					unexpected("opset", f)
				}
				m.opset = int(f.value)
			}
		default:
			unexpected("model", f)
		}
	}
	return m
}

func decodeGraph(b []byte) readGraph {
	g := readGraph{tensors: map[string]readTensor{}}
	for _, f := range fields(b) {
		switch f.number {
		case 1:
			g.nodes = append(g.nodes, decodeNode(f.bytes))
		case 2:
			g.name = string(f.bytes)
		case 5:
			name, t := decodeTensor(f.bytes)
			if _, twice := g.tensors[name]; twice {
				panic(fmt.Sprintf("initialiser %q stands twice", name))
			}
			g.tensors[name] = t
		case 11:
			g.inputs = append(g.inputs, decodeValue(f.bytes))
		case 12:
			g.outputs = append(g.outputs, decodeValue(f.bytes))
		default:
			unexpected("graph", f)
		}
	}
	return g
}

func decodeNode(b []byte) readNode {
	n := readNode{ints: map[string][]int{}, floats: map[string]float64{}}
	for _, f := range fields(b) {
		switch f.number {
		case 1:
			n.inputs = append(n.inputs, string(f.bytes))
		case 2:
			n.outputs = append(n.outputs, string(f.bytes))
		case 3:
			n.name = string(f.bytes)
		case 4:
			n.kind = string(f.bytes)
		case 5:
			decodeAttribute(n, f.bytes)
		default:
			unexpected("node", f)
		}
	}
	return n
}

func decodeAttribute(n readNode, b []byte) {
	var name string
	var ints []int
	var value float64
	has := map[protowire.Number]bool{}
	kind := uint64(0)
	for _, f := range fields(b) {
		has[f.number] = true
		switch f.number {
		case 1:
			name = string(f.bytes)
		case 2:
			value = float64(math.Float32frombits(uint32(f.value)))
		case 3, 8:
			ints = append(ints, int(f.value))
		case 20:
			kind = f.value
		default:
			unexpected("attribute", f)
		}
	}
	switch {
	case kind == 1 && has[2] && !has[3] && !has[8]:
		n.floats[name] = value
	case kind == 2 && has[3] && !has[2] && !has[8], kind == 7 && has[8] && !has[2] && !has[3]:
		n.ints[name] = ints
	default:
		panic(fmt.Sprintf("attribute %q of type %d", name, kind))
	}
}

func decodeTensor(b []byte) (name string, t readTensor) {
	var raw []byte
	for _, f := range fields(b) {
		switch f.number {
		case 1:
			t.dims = append(t.dims, int(f.value))
		case 2:
			t.kind = int(f.value)
		case 8:
			name = string(f.bytes)
		case 9:
			raw = f.bytes
		default:
			unexpected("tensor", f)
		}
	}
	elements := 1
	for _, d := range t.dims {
		elements *= d
	}
	switch {
	case t.kind == 1 && len(raw) == 4*elements:
		t.floats = make([]float64, elements)
		for i := range t.floats {
			t.floats[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	case t.kind == 7 && len(raw) == 8*elements:
		for i := range elements {
			t.ints = append(t.ints, int(binary.LittleEndian.Uint64(raw[8*i:])))
		}
	default:
		panic(fmt.Sprintf("initialiser %q: type %d, dims %v, %d bytes", name, t.kind, t.dims, len(raw)))
	}
	return name, t
}

func decodeValue(b []byte) readValue {
	var v readValue
	for _, f := range fields(b) {
		switch f.number {
		case 1:
			v.name = string(f.bytes)
		case 2:
			for _, f := range fields(f.bytes) { // TypeProto
				if f.number != 1 {
					unexpected("type", f)
				}
				for _, f := range fields(f.bytes) { // its Tensor
					switch f.number {
					case 1:
						v.kind = int(f.value)
					case 2:
						v.dims = decodeDims(f.bytes)
					default:
						unexpected("tensor type", f)
					}
				}
			}
		default:
			unexpected("value", f)
		}
	}
	return v
}

func decodeDims(b []byte) []string {
	var dims []string
	for _, f := range fields(b) {
		if f.number != 1 {
			unexpected("shape", f)
		}
		for _, f := range fields(f.bytes) {
			switch f.number {
			case 1:
				dims = append(dims, fmt.Sprint(f.value))
			case 2:
				dims = append(dims, string(f.bytes))
			default:
				unexpected("dimension", f)
			}
		}
	}
	return dims
}
