package supernet_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/supernet"
	"tips/supernet/zoo"
)

func TestFilesRoundTrip(t *testing.T) {
	nets := someNetworks(t)
	for _, n := range nets {
		var b bytes.Buffer
		if err := n.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := supernet.Read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n.Description(), again.Description()); diff != "" {
			t.Errorf("%s (-written +read):\n%s", n.Name(), diff)
		}
		if diff := cmp.Diff(n.Groups(), again.Groups()); diff != "" {
			t.Errorf("%s groups (-written +read):\n%s", n.Name(), diff)
		}
		var c bytes.Buffer
		if err := again.Write(&c); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), c.Bytes()) {
			t.Errorf("%s is written differently after reading", n.Name())
		}
	}
}

// TestExampleFile reads the description that the documentation explains.
func TestExampleFile(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "example.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := supernet.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Groups()) != 4 || len(n.Blocks()) != 1 {
		t.Errorf("%d groups, %d blocks; the documentation says 4 and 1", len(n.Groups()), len(n.Blocks()))
	}
}

const tiny = `{
  "format": "tips-network",
  "version": 1,
  "name": "tiny",
  "input": {"channels": 3, "height": 8, "width": 8},
  "operations": [
    {"name": "a", "kind": "conv", "inputs": ["input"], "channels": 8, "kernel": 1}
  ]
}`

func TestBadFiles(t *testing.T) {
	if _, err := supernet.Read(strings.NewReader(tiny)); err != nil {
		t.Fatal(err)
	}
	replace := func(old, with string) string {
		if !strings.Contains(tiny, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(tiny, old, with, 1)
	}
	for _, c := range []struct{ file, want string }{
		{"", "unexpected end"},
		{tiny[:100], "line 5, column 36: unexpected end"},
		{tiny + "x", "line 9, column 2"},
		{tiny + "{}", "after top-level value"},
		{"[]", "want object"},
		{replace(`"tips-network"`, `"onnx"`), `format "onnx"; want "tips-network"`},
		{replace(`"version": 1`, `"version": 2`), "unknown version 2; this program reads version 1"},
		{replace(`"name": "tiny"`, `"nam": "tiny"`), `unknown field "nam"`},
		{replace(`"name": "tiny"`, `"Name": "tiny"`), `line 4, column 8: unknown field "Name"`},
		{replace(`"name": "tiny"`, `"name": "tiny", "name": "tiny"`), `line 4, column 24: field "name" stands twice`},
		{replace(`"kernel": 1`, `"kernal": 1`), `operation 1 "a": unknown field "kernal"`},
		{replace(`"kernel": 1`, `"kernel": "1"`), `operation 1 "a": "kernel" is a string; want whole number`},
		{replace(`"kernel": 1`, `"kernel": 1.5`), `operation 1 "a": "kernel" is a number 1.5; want whole number`},
		{replace(`"kernel": 1`, `"kernel": 1, "kernel": 3`), `field "kernel" stands twice`},
		{replace(`["input"]`, `"input"`), `"inputs" is a string; want array`},
		{replace(`"conv"`, `"Conv"`), `operation "a": kind "Conv"`},
		{replace(`"height": 8`, `"height": 80000000`), "sides of 1 to"},
		{replace(`"channels": 3`, `"channels": 0`), "input channels 0"},
		{replace(`"tiny"`, `"a b"`), `network name "a b" holds ' '`},
		{replace(`"tiny"`, `""`), "network name is empty"},
	} {
		_, err := supernet.Read(strings.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q…: error %v; want %q in it", c.file, err, c.want)
		}
	}
	_, err := supernet.Read(strings.NewReader(replace(`"version": 1`, `"version": 7`)))
	if !errors.Is(err, supernet.ErrVersion) {
		t.Errorf("error %v does not wrap ErrVersion", err)
	}
	if _, err := supernet.Read(bytes.NewReader(make([]byte, 17<<20))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge file: error %v", err)
	}
}

// FuzzRead: no file makes the reader panic, and what it accepts is a network
// whose file reads back and whose subnetworks work.
func FuzzRead(f *testing.F) {
	f.Add([]byte(tiny))
	for _, reference := range []string{"mlp:depth=4", "resnet18:data=cifar10"} {
		n, err := zoo.New(reference)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := n.Write(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	example, err := os.ReadFile(filepath.Join("testdata", "example.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := supernet.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := n.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := supernet.Read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, b.Bytes())
		}
		if diff := cmp.Diff(n.Description(), again.Description()); diff != "" {
			t.Fatalf("(-read +read again):\n%s", diff)
		}
		v, err := n.View(n.Smallest(), n.Input())
		if err != nil {
			t.Fatalf("the smallest subnetwork is refused: %v", err)
		}
		if c := v.Costs(); c.MACs < 0 || c.Params < 0 || c.PeakBytes <= 0 {
			t.Fatalf("costs %+v", c)
		}
	})
}

// FuzzParseSubnet: any text is refused or gives a subnetwork whose form is its own.
func FuzzParseSubnet(f *testing.F) {
	n := build(f, residual)
	for _, text := range []string{"full", "smallest", "w32.64.48.64d1", "w16.24x2.64", "wd", "d1", "w1x999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := n.ParseSubnet(text)
		if err != nil {
			return
		}
		if err := n.Check(s); err != nil {
			t.Fatal(err)
		}
		if again, err := n.ParseSubnet(s.String()); err != nil || again != s {
			t.Fatalf("%q gives %v, which gives %v, %v", text, s, again, err)
		}
	})
}

// FuzzDecodeSubnet is FuzzParseSubnet for the binary form.
func FuzzDecodeSubnet(f *testing.F) {
	n := build(f, residual)
	code, _ := n.Smallest().MarshalBinary()
	f.Add(code)
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, code []byte) {
		s, err := n.DecodeSubnet(code)
		if err != nil {
			return
		}
		again, err := s.MarshalBinary()
		if err != nil || !bytes.Equal(code, again) {
			t.Fatalf("%x is written %x, %v", code, again, err)
		}
	})
}
