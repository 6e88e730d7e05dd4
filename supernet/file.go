package supernet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// The header of a description file. Version rises when files of the old form
// would be read wrongly.
const (
	fileFormat  = "tips-network"
	fileVersion = 1
)

// maxFileBytes bounds what Read takes: the largest network in use describes
// itself in well under a hundredth of it.
const maxFileBytes = 16 << 20

// ErrVersion is wrapped by errors about files of a version unknown here.
var ErrVersion = errors.New("unknown version")

// Read reads a description file and checks it. The reader is strict: unknown,
// repeated and wrongly spelt fields are errors, as is anything after the end.
func Read(r io.Reader) (*Network, error) {
	d, err := readDescription(r)
	if err != nil {
		return nil, fmt.Errorf("supernet: network description: %w", err)
	}
	return New(d)
}

func readDescription(r io.Reader) (Description, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return Description{}, err
	}
	if len(data) > maxFileBytes {
		return Description{}, fmt.Errorf("more than %d bytes", maxFileBytes)
	}
	// The header alone first, so that a file of another version is named as such
	// and not by the first field that this version does not know.
	var header struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return Description{}, explain(data, err)
	}
	if header.Format != fileFormat {
		return Description{}, fmt.Errorf("format %q; want %q", shorten(header.Format), fileFormat)
	}
	if header.Version != fileVersion {
		return Description{}, fmt.Errorf("%w %d; this program reads version %d", ErrVersion, header.Version, fileVersion)
	}

	var f struct {
		Format     string            `json:"format"`
		Version    int               `json:"version"`
		Name       string            `json:"name"`
		Input      Shape             `json:"input"`
		Elastic    Elastic           `json:"elastic"`
		Operations []json.RawMessage `json:"operations"`
	}
	if err := checkKeys(data); err != nil {
		return Description{}, err
	}
	if err := decodeKnown(data, &f); err != nil {
		return Description{}, explain(data, err)
	}
	if len(f.Operations) > maxOps {
		return Description{}, fmt.Errorf("%d operations; want at most %d", len(f.Operations), maxOps)
	}
	d := Description{Name: f.Name, Input: f.Input, Elastic: f.Elastic, Operations: make([]Op, len(f.Operations))}
	for i, raw := range f.Operations {
		if err := decodeKnown(raw, &d.Operations[i]); err != nil {
			var named struct {
				Name string `json:"name"`
			}
			_ = json.Unmarshal(raw, &named) // for the message only: an unnamed one is known by its number
			return Description{}, fmt.Errorf("operation %d %q: %w", i+1, shorten(named.Name), explain(nil, err))
		}
	}
	return d, nil
}

// Write writes the network as a description file that Read takes, one operation
// a line.
func (n *Network) Write(w io.Writer) error {
	var b bytes.Buffer
	value := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			panic("supernet: " + err.Error()) // strings and finite numbers only
		}
		return data
	}
	fmt.Fprintf(&b, "{\n  \"format\": %q,\n  \"version\": %d,\n", fileFormat, fileVersion)
	fmt.Fprintf(&b, "  \"name\": %s,\n  \"input\": %s,\n  \"elastic\": %s,\n  \"operations\": [",
		value(n.name), value(n.input), value(n.elastic))
	for i, op := range n.ops {
		fmt.Fprintf(&b, "%s\n    %s", ","[:btoi(i > 0)], value(op))
	}
	b.WriteString("\n  ]\n}\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("supernet: %w", err)
	}
	return nil
}

// decodeKnown is json.Unmarshal that refuses unknown fields.
func decodeKnown(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// checkKeys refuses keys that stand twice in an object and keys with capital
// letters, which encoding/json would both take.
func checkKeys(data []byte) error {
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // the next token is a value and not a key
	}
	var open []level
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return explain(data, err)
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			if top := &open[len(open)-1]; top.keys != nil {
				if !top.value {
					key := token.(string) // the tokeniser has checked that keys are strings
					if key != strings.ToLower(key) {
						return fmt.Errorf("%s: unknown field %q", position(data, dec.InputOffset()), shorten(key))
					}
					if top.keys[key] {
						return fmt.Errorf("%s: field %q stands twice", position(data, dec.InputOffset()), shorten(key))
					}
					top.keys[key] = true
					top.value = true
					continue
				}
				top.value = false
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

// explain says what encoding/json found wrong in the words of the file, with
// the place where data is the whole file.
func explain(data []byte, err error) error {
	at := func(offset int64) string {
		if data == nil {
			return ""
		}
		return position(data, offset) + ": "
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s%w", at(syntax.Offset), err)
	case errors.As(err, &mismatch):
		return fmt.Errorf("%s%q is a %s; want %s", at(mismatch.Offset), mismatch.Field, mismatch.Value, wanted(mismatch.Type))
	}
	if text, found := strings.CutPrefix(err.Error(), "json: "); found {
		return errors.New(text)
	}
	return err
}

// wanted names a Go type as JSON does.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Float64:
		return "number"
	case reflect.Int:
		return "whole number"
	}
	return t.Kind().String()
}

// position names the line and column of an offset as editors do.
func position(data []byte, offset int64) string {
	before := data[:min(int(offset), len(data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}
