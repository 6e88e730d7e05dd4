package onnx

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of onnx.proto's fields and enumerations that are written here.
const (
	modelIRVersion, modelProducer, modelGraph, modelOpset = 1, 2, 7, 8

	opsetVersion = 2

	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12

	nodeInput, nodeOutput, nodeName, nodeType, nodeAttribute = 1, 2, 3, 4, 5

	attributeName, attributeFloat, attributeInt, attributeInts, attributeType = 1, 2, 3, 8, 20

	attributeIsFloat, attributeIsInt, attributeIsInts = 1, 2, 7

	tensorDims, tensorType, tensorName, tensorRaw = 1, 2, 8, 9

	valueName, valueType, typeTensor = 1, 2, 1

	tensorTypeElement, tensorTypeShape, shapeDim, dimValue, dimParam = 1, 2, 1, 1, 2

	typeFloat32, typeInt64 = 1, 7
)

// message is a protobuf message as it grows.
type message []byte

func (m *message) int(field protowire.Number, v int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) float(field protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(v))
}

func (m *message) string(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) message(field protowire.Number, v message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

// open starts a message of a known length whose content follows elsewhere.
func (m *message) open(field protowire.Number, length int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.BytesType), uint64(length))
}

// attribute is a parameter of a node: an int, a float32 or a []int.
type attribute struct {
	name  string
	value any
}

func (a attribute) encode() message {
	var m message
	m.string(attributeName, a.name)
	switch v := a.value.(type) {
	case int:
		m.int(attributeInt, v)
		m.int(attributeType, attributeIsInt)
	case float32:
		m.float(attributeFloat, v)
		m.int(attributeType, attributeIsFloat)
	case []int:
		for _, x := range v {
			m.int(attributeInts, x) // not packed: onnx.proto is proto2
		}
		m.int(attributeType, attributeIsInts)
	default:
		panic(fmt.Sprintf("onnx: attribute of type %T", v))
	}
	return m
}

// node is one operator of the graph. All that are used here have one output.
type node struct {
	name, kind string
	inputs     []string
	output     string
	attributes []attribute
}

func (n node) encode() message {
	var m message
	for _, in := range n.inputs {
		m.string(nodeInput, in)
	}
	m.string(nodeOutput, n.output)
	m.string(nodeName, n.name)
	m.string(nodeType, n.kind)
	for _, a := range n.attributes {
		m.message(nodeAttribute, a.encode())
	}
	return m
}

// value is an input or output of the model. Its batch dimension is open where
// dims[0] is 0.
type value struct {
	name string
	dims []int
}

func (v value) encode() message {
	var shape message
	for i, d := range v.dims {
		var dim message
		if i == 0 && d == 0 {
			dim.string(dimParam, batchName)
		} else {
			dim.int(dimValue, d)
		}
		shape.message(shapeDim, dim)
	}
	var tensor, kind, m message
	tensor.int(tensorTypeElement, typeFloat32)
	tensor.message(tensorTypeShape, shape)
	kind.message(typeTensor, tensor)
	m.string(valueName, v.name)
	m.message(valueType, kind)
	return m
}

// tensor is a constant of the graph: rows of float32 that lie stride apart in
// values, each multiplied by its factor if there are factors, or int64s.
type tensor struct {
	name string
	dims []int

	values       []float32
	rows, length int
	stride       int
	factors      []float64

	ints []int64
}

// size is the number of bytes of the values.
func (t tensor) size() int { return 4*t.rows*t.length + 8*len(t.ints) }

// head is the message up to its values.
func (t tensor) head() message {
	var m message
	for _, d := range t.dims {
		m.int(tensorDims, d)
	}
	kind := typeFloat32
	if t.ints != nil {
		kind = typeInt64
	}
	m.int(tensorType, kind)
	m.string(tensorName, t.name)
	m.open(tensorRaw, t.size())
	return m
}

// write writes the values.
func (t tensor) write(w *bufio.Writer) error {
	block := make([]byte, 0, 1<<14)
	for _, v := range t.ints {
		block = binary.LittleEndian.AppendUint64(block, uint64(v))
	}
	for r := range t.rows {
		for _, v := range t.values[r*t.stride:][:t.length] {
			if t.factors != nil {
				v = float32(float64(v) * t.factors[r])
			}
			block = binary.LittleEndian.AppendUint32(block, math.Float32bits(v))
			if len(block) < cap(block) {
				continue
			}
			if _, err := w.Write(block); err != nil {
				return err
			}
			block = block[:0]
		}
	}
	_, err := w.Write(block)
	return err
}
