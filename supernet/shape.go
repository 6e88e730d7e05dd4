package supernet

import "fmt"

// Shape is the size of one feature map, without the batch.
type Shape struct {
	Channels int `json:"channels"`
	Height   int `json:"height"`
	Width    int `json:"width"`
}

// Elements is the number of values in the map.
func (s Shape) Elements() int64 { return int64(s.Channels) * int64(s.Height) * int64(s.Width) }

// String is the shape as channels×height×width.
func (s Shape) String() string { return fmt.Sprintf("%d×%d×%d", s.Channels, s.Height, s.Width) }

func (s Shape) check() error {
	if s.Channels < 1 || s.Channels > maxChannels {
		return fmt.Errorf("channels %d; want 1 to %d", s.Channels, maxChannels)
	}
	if s.Height < 1 || s.Height > maxSide || s.Width < 1 || s.Width > maxSide {
		return fmt.Errorf("size %d×%d; want sides of 1 to %d", s.Height, s.Width, maxSide)
	}
	return nil
}

// outputShape is the map that op writes with the given number of channels, where
// its operands have the given shapes.
func outputShape(op Op, operands []Shape, channels int) (Shape, error) {
	in := operands[0]
	out := Shape{Channels: channels, Height: in.Height, Width: in.Width}
	switch {
	case op.Kind.hasWindow():
		out.Height = windows(in.Height, op)
		out.Width = windows(in.Width, op)
		if out.Height < 1 || out.Width < 1 {
			return Shape{}, fmt.Errorf("operation %q: kernel %d with padding %d does not fit its %d×%d input",
				op.Name, op.Kernel, op.Padding, in.Height, in.Width)
		}
		if out.Height > maxSide || out.Width > maxSide {
			return Shape{}, fmt.Errorf("operation %q: its %d×%d output is larger than %d", op.Name, out.Height, out.Width, maxSide)
		}
	case op.Kind == GlobalPool:
		out.Height, out.Width = 1, 1
	case op.Kind == Linear && (in.Height != 1 || in.Width != 1):
		return Shape{}, fmt.Errorf("operation %q: linear wants a 1×1 map and its input is %d×%d; put a globalpool before it",
			op.Name, in.Height, in.Width)
	}
	for j, s := range operands[1:] {
		same := s.Height == in.Height && s.Width == in.Width
		if !same && !(op.Kind == Mul && s.Height == 1 && s.Width == 1) {
			return Shape{}, fmt.Errorf("operation %q: input %q is %d×%d and input %q is %d×%d; %s wants them equal",
				op.Name, op.Inputs[0], in.Height, in.Width, op.Inputs[j+1], s.Height, s.Width, op.Kind)
		}
	}
	return out, nil
}

// windows counts the places of op's window along a side; below 1 if it fits nowhere.
func windows(side int, op Op) int {
	room := side + 2*op.Padding - op.Kernel
	if room < 0 {
		return 0
	}
	return room/op.Stride + 1
}
