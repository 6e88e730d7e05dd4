package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"tips/internal/atomicfile"
	"tips/supernet"
	"tips/supernet/zoo"
)

// ErrNoNetwork is returned where neither the caller nor the file tells the network.
var ErrNoNetwork = errors.New("the file does not tell which network it is for; name one")

// networkKey is where the description of the network stands in a file's metadata.
const networkKey = "tips.network"

// Open reads a safetensors file. With a network, the file must hold just that
// network's tensors, by our names or, for networks of the zoo, by torchvision's;
// without one, the file must tell its network itself, as files that Save wrote do.
func Open(name string, n *supernet.Network) (*Set, error) {
	s, err := open(name, n)
	if err != nil {
		return nil, fmt.Errorf("weights %s: %w", name, err)
	}
	return s, nil
}

func open(name string, n *supernet.Network) (*Set, error) {
	f, err := os.Open(name)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, path.Err // Open names the file
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	return Read(f, info.Size(), n)
}

// Read is Open for what is no file on disk.
func Read(r io.ReaderAt, size int64, n *supernet.Network) (*Set, error) {
	f, err := openFile(r, size)
	if err != nil {
		return nil, err
	}
	if text, told := f.metadata[networkKey]; told {
		own, err := supernet.Read(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if n != nil && !sameNetwork(n, own) {
			return nil, fmt.Errorf("these are weights of %s, not of %s", own.Name(), n.Name())
		}
		if n == nil {
			n = own
		}
	}
	if n == nil {
		return nil, ErrNoNetwork
	}
	names := ownNames(n)
	if _, own := f.tensors[names.of(0, "weight")]; !own {
		if torch, ok := torchNames(n); ok {
			names = torch
		}
	}
	return f.readSet(n, names)
}

// sameNetwork tells whether two networks have the same parameters for the same
// computations; what may shrink is another matter.
func sameNetwork(a, b *supernet.Network) bool {
	x, y := a.Description(), b.Description()
	return slices.EqualFunc(x.Operations, y.Operations, func(p, q supernet.Op) bool {
		return p.Name == q.Name && p.Kind == q.Kind && slices.Equal(p.Inputs, q.Inputs) &&
			p.Channels == q.Channels && p.Kernel == q.Kernel && p.Stride == q.Stride && p.Padding == q.Padding &&
			p.Groups == q.Groups && p.Bias == q.Bias && p.Norm == q.Norm && p.Eps() == q.Eps() && p.Activation == q.Activation
	}) && x.Input.Channels == y.Input.Channels
}

// nameTable says what the tensors of each operation are called in a file.
type nameTable struct {
	op, norm []string // prefixes, by operation
}

func (t nameTable) of(i int, tensor string) string {
	if rest, ok := strings.CutPrefix(tensor, "norm."); ok {
		return t.norm[i] + "." + rest
	}
	return t.op[i] + "." + tensor
}

func ownNames(n *supernet.Network) nameTable {
	var t nameTable
	for _, op := range n.Ops() {
		t.op = append(t.op, op.Name)
		t.norm = append(t.norm, op.Name+".norm")
	}
	return t
}

func torchNames(n *supernet.Network) (nameTable, bool) {
	names, ok := zoo.TorchNames(n)
	if !ok {
		return nameTable{}, false
	}
	var t nameTable
	for _, name := range names {
		t.op = append(t.op, name.Op)
		t.norm = append(t.norm, name.Norm)
	}
	return t, true
}

// readSet reads all tensors of a network and refuses a file that holds others.
//
// Where batch norm is missing and the convolution has a bias instead, it was
// folded into the weights: batch norm then only adds that bias.
func (f *file) readSet(n *supernet.Network, names nameTable) (*Set, error) {
	// Nothing is allocated ahead of the file's own data: the network may come from
	// the file, and claim any size.
	s := &Set{Network: n, Ops: make([]Params, len(n.Ops()))}
	left := maps.Clone(f.tensors)
	for i, op := range n.Ops() {
		p := &s.Ops[i]
		folded := false
		if _, there := f.tensors[names.of(i, "norm.weight")]; op.Norm && !there {
			_, folded = f.tensors[names.of(i, "bias")]
		}
		for _, t := range tensorsOf(n, i) {
			name := names.of(i, t.name)
			if folded && strings.HasPrefix(t.name, "norm.") {
				if t.name != "norm.bias" {
					continue
				}
				name = names.of(i, "bias")
			}
			e, there := f.tensors[name]
			if !there {
				return nil, fmt.Errorf("tensor %q of operation %q is missing; is this %s?", name, op.Name, n.Name())
			}
			if !equalShape(e.Shape, t.shape) {
				return nil, fmt.Errorf("tensor %q has shape %v; operation %q of %s wants %v", name, e.Shape, op.Name, n.Name(), t.shape)
			}
			values, err := f.read(name)
			if err != nil {
				return nil, err
			}
			*t.field(p) = values
			delete(left, name)
		}
		if folded {
			channels := len(p.Shift)
			p.Scale, p.Mean, p.Variance = make([]float32, channels), make([]float32, channels), make([]float32, channels)
			fill(p.Scale, 1)
			fill(p.Variance, 1-float32(op.Eps())) // so that variance + ε is one
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		// PyTorch counts batches beside the statistics; nothing depends on it.
		if !strings.HasSuffix(name, ".num_batches_tracked") {
			return nil, fmt.Errorf("tensor %q belongs to no operation of %s", name, n.Name())
		}
	}
	return s, nil
}

// equalShape compares shapes, up to trailing ones: a 1×1 convolution and a linear
// layer are stored either way.
func equalShape(got []int64, want []int) bool {
	for len(got) > 1 && got[len(got)-1] == 1 && len(got) > len(want) {
		got = got[:len(got)-1]
	}
	return slices.EqualFunc(got, want, func(a int64, b int) bool { return a == int64(b) })
}

// Save writes the set to a file, whole or not at all. The description of the
// network travels with it.
func (s *Set) Save(name string) error { return atomicfile.Write(name, s.Write) }

// Write writes the set as safetensors.
func (s *Set) Write(w io.Writer) error {
	var description bytes.Buffer
	if err := s.Network.Write(&description); err != nil {
		return err
	}
	var tensors []named
	names := ownNames(s.Network)
	for i := range s.Network.Ops() {
		for _, t := range tensorsOf(s.Network, i) {
			tensors = append(tensors, named{names.of(i, t.name), t.shape, *t.field(&s.Ops[i])})
		}
	}
	if err := writeFile(w, tensors, map[string]string{networkKey: description.String()}); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}
