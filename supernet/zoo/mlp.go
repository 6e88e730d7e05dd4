package zoo

import (
	"fmt"

	"tips/supernet"
)

// mlp is a perceptron of depth linear layers: one that reads the inputs, hidden
// ones of equal width, one that writes the classes. Every span hidden layers
// form a residual block, y = x + L…L(x); hidden layers that fill no block come
// last. The paper's Figure 4a uses a span of two.
func mlp(s *settings) (supernet.Description, error) {
	depth, width, span := s.int("depth", 8), s.int("width", 80), s.int("span", 2)
	inputs, classes := s.int("inputs", 784), s.int("classes", 10)
	if depth < 2 {
		return supernet.Description{}, fmt.Errorf("depth=%d; want 2 or more", depth)
	}
	const most = 5000
	if depth > most {
		return supernet.Description{}, fmt.Errorf("depth=%d; want at most %d", depth, most)
	}
	b := &builder{supernet.Description{Input: supernet.Shape{Channels: inputs, Height: 1, Width: 1}}}
	x := b.linear("stem", supernet.InputName, width, supernet.ReLU)
	hidden := depth - 2
	for block := 1; hidden > 0; block++ {
		shortcut := x
		residual := hidden >= span
		for layer := 1; layer <= span && hidden > 0; layer++ {
			act := supernet.ReLU
			if residual && layer == span {
				act = supernet.NoActivation // applied after the addition
			}
			x = b.linear(fmt.Sprintf("block%d.linear%d", block, layer), x, width, act)
			hidden--
		}
		if residual {
			x = b.sum(fmt.Sprintf("block%d.add", block), supernet.ReLU, x, shortcut)
		}
	}
	b.linear("classifier", x, classes, supernet.NoActivation)
	return b.d, nil
}
