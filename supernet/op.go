package supernet

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what an operation computes, before batch norm and activation.
type Kind string

// The kinds of operations.
const (
	Conv       Kind = "conv"       // k×k convolution, optionally grouped
	Depthwise  Kind = "depthwise"  // k×k convolution of every channel by itself
	Linear     Kind = "linear"     // matrix product on a 1×1 map
	MaxPool    Kind = "maxpool"    // largest value of each k×k window
	AvgPool    Kind = "avgpool"    // mean of each k×k window, padding counted as zeros
	GlobalPool Kind = "globalpool" // mean of the whole map, giving a 1×1 map
	Add        Kind = "add"        // sum of two or more maps of one shape
	Mul        Kind = "mul"        // first map times the second; a 1×1 second map scales channels
)

var kinds = []Kind{Conv, Depthwise, Linear, MaxPool, AvgPool, GlobalPool, Add, Mul}

// HasWeights tells whether operations of this kind hold a weight tensor.
func (k Kind) HasWeights() bool { return k == Conv || k == Depthwise || k == Linear }

// Joins tells whether operations of this kind read several maps.
func (k Kind) Joins() bool { return k == Add || k == Mul }

// hasWindow tells whether kernel, stride and padding mean something.
func (k Kind) hasWindow() bool {
	return k == Conv || k == Depthwise || k == MaxPool || k == AvgPool
}

// setsWidth tells whether the number of output channels is the operation's own
// choice, rather than that of what it reads.
func (k Kind) setsWidth() bool { return k == Conv || k == Linear }

// Activation is the function applied to an operation's output, after batch norm.
type Activation string

// The activations.
const (
	NoActivation Activation = ""
	ReLU         Activation = "relu"
	ReLU6        Activation = "relu6"
	SiLU         Activation = "silu"
	Sigmoid      Activation = "sigmoid"
)

var activations = []Activation{NoActivation, ReLU, ReLU6, SiLU, Sigmoid}

// InputName is how operations refer to the network's input among their inputs.
const InputName = "input"

// DefaultNormEps is the ε of batch norm where an operation names none.
const DefaultNormEps = 1e-5

// Op is one operation as a description states it. The zero value of a field
// means what its comment says, so that short descriptions are complete.
type Op struct {
	Name   string   `json:"name"`
	Kind   Kind     `json:"kind"`
	Inputs []string `json:"inputs"` // names of operations, or InputName

	Channels int `json:"channels,omitempty"` // output channels; conv and linear only
	Kernel   int `json:"kernel,omitempty"`   // side of the window; conv, depthwise and pools
	Stride   int `json:"stride,omitempty"`   // 0 means 1
	Padding  int `json:"padding,omitempty"`  // on all four sides
	Groups   int `json:"groups,omitempty"`   // conv only; 0 means 1

	Bias       bool       `json:"bias,omitempty"`       // a learnt offset per output channel
	Norm       bool       `json:"norm,omitempty"`       // batch norm on the output
	NormEps    float64    `json:"norm_eps,omitempty"`   // 0 means DefaultNormEps
	Activation Activation `json:"activation,omitempty"` // after batch norm

	Fixed    bool `json:"fixed,omitempty"`    // the width written here never shrinks
	Required bool `json:"required,omitempty"` // add only: the block it closes is never left out
}

// Eps is the ε of the operation's batch norm.
func (o Op) Eps() float64 {
	if o.NormEps == 0 {
		return DefaultNormEps
	}
	return o.NormEps
}

// Window is the operation's window as people write it, as in 3×3/2; empty where it
// has none.
func (o Op) Window() string {
	switch {
	case o.Kernel == 0:
		return ""
	case o.Stride > 1:
		return fmt.Sprintf("%d×%[1]d/%d", o.Kernel, o.Stride)
	}
	return fmt.Sprintf("%d×%[1]d", o.Kernel)
}

// Bounds on what a description may ask for. They are far above any network in
// use and low enough that no product of them overflows or exhausts memory.
const (
	maxOps      = 1 << 14
	maxOperands = 1 << 18 // of all operations together
	maxName     = 200
	maxChannels = 1 << 20
	maxWindow   = 1 << 12 // kernel, stride and padding
	maxSide     = 1 << 16 // of a feature map
	maxTotal    = 1 << 60 // MACs, parameters or bytes of a network
)

// normalise fills in the defaults of o and refuses values that no network can
// have. What depends on other operations is checked where they are known.
func (o Op) normalise() (Op, error) {
	fail := func(format string, args ...any) (Op, error) {
		return Op{}, fmt.Errorf("operation %q: %s", o.Name, fmt.Sprintf(format, args...))
	}
	if err := checkName(o.Name); err != nil {
		return Op{}, fmt.Errorf("operation name %w", err)
	}
	if o.Name == InputName {
		return fail("the name %q stands for the network's input; choose another", InputName)
	}
	if !slices.Contains(kinds, o.Kind) {
		return fail("kind %q; want %s", o.Kind, oneOf(kinds))
	}
	if !slices.Contains(activations, o.Activation) {
		return fail("activation %q; want %s", o.Activation, oneOf(activations[1:]))
	}
	switch n := len(o.Inputs); {
	case n == 0:
		return fail("inputs are missing; name an operation or %q", InputName)
	case o.Kind == Mul && n != 2:
		return fail("%d inputs; mul takes 2", n)
	case o.Kind == Add && n < 2:
		return fail("%d input; add takes 2 or more", n)
	case !o.Kind.Joins() && n != 1:
		return fail("%d inputs; %s takes 1", n, o.Kind)
	}

	switch {
	case o.Kind.setsWidth() && (o.Channels < 1 || o.Channels > maxChannels):
		return fail("channels %d; want 1 to %d", o.Channels, maxChannels)
	case !o.Kind.setsWidth() && o.Channels != 0:
		return fail("channels %d; %s writes as many channels as it reads, leave it out", o.Channels, o.Kind)
	}

	if o.Kind.hasWindow() {
		if o.Stride == 0 {
			o.Stride = 1
		}
		switch {
		case o.Kernel < 1 || o.Kernel > maxWindow:
			return fail("kernel %d; want 1 to %d", o.Kernel, maxWindow)
		case o.Stride < 1 || o.Stride > maxWindow:
			return fail("stride %d; want 1 to %d", o.Stride, maxWindow)
		case o.Padding < 0 || o.Padding > maxWindow:
			return fail("padding %d; want 0 to %d", o.Padding, maxWindow)
		case o.Padding >= o.Kernel:
			return fail("padding %d is not smaller than kernel %d: whole windows would hold nothing", o.Padding, o.Kernel)
		case !o.Kind.HasWeights() && 2*o.Padding > o.Kernel:
			return fail("padding %d is more than half of kernel %d, which no framework pools with", o.Padding, o.Kernel)
		}
	} else if o.Kernel != 0 || o.Stride != 0 || o.Padding != 0 {
		return fail("kernel, stride and padding have no meaning for %s; leave them out", o.Kind)
	}

	if o.Kind == Conv {
		if o.Groups == 0 {
			o.Groups = 1
		}
		if o.Groups < 1 || o.Channels%o.Groups != 0 {
			return fail("groups %d do not divide channels %d", o.Groups, o.Channels)
		}
	} else if o.Groups != 0 {
		return fail("groups have no meaning for %s; leave them out", o.Kind)
	}

	switch {
	case o.Bias && !o.Kind.HasWeights():
		return fail("bias has no meaning for %s; leave it out", o.Kind)
	case o.NormEps != 0 && !o.Norm:
		return fail("norm_eps %v without norm", o.NormEps)
	case !(o.NormEps >= 0 && o.NormEps < 1): // so written that NaN fails too
		return fail("norm_eps %v; want a small positive number", o.NormEps)
	case o.Required && o.Kind != Add:
		return fail("required has a meaning for add only")
	}
	return o, nil
}

// checkName refuses names that could not be printed, typed or stored as they are.
func checkName(s string) error {
	if s == "" {
		return fmt.Errorf("is empty")
	}
	if len(s) > maxName {
		return fmt.Errorf("%.20q… has %d bytes; want at most %d", s, len(s), maxName)
	}
	for _, r := range s {
		if r <= ' ' || r > '~' || strings.ContainsRune(`"'<>&`, r) {
			return fmt.Errorf("%q holds %q; want printable ASCII without spaces, quotes or <>&", s, r)
		}
	}
	return nil
}

// oneOf lists values for an error message.
func oneOf[S ~string](values []S) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = string(v)
	}
	return strings.Join(parts, ", ")
}
