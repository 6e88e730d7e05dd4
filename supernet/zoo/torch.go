package zoo

import (
	"fmt"
	"strconv"
	"strings"

	"tips/supernet"
)

// TorchName is where torchvision's model of the same name keeps the parameters
// of an operation: its weight and bias below Op, its batch norm below Norm.
type TorchName struct{ Op, Norm string }

// TorchNames gives torchvision's names of all operations of a network of the
// zoo, in order. Other networks have none.
func TorchNames(n *supernet.Network) ([]TorchName, bool) {
	name, _, _ := strings.Cut(n.Name(), ":")
	var of func(op string) (TorchName, bool)
	switch name {
	case "mobilenet_v2":
		of = torchMobileNet
	case "efficientnet_b0":
		of = torchEfficientNet
	case "resnet18", "resnet34", "resnet50", "wide_resnet50_2", "resnext50_32x4d":
		of = torchResNet
	default:
		return nil, false
	}
	names := make([]TorchName, len(n.Ops()))
	for i, op := range n.Ops() {
		if !op.Kind.HasWeights() {
			continue
		}
		t, ok := of(op.Name)
		if !ok {
			return nil, false // someone else's network under a name of the zoo
		}
		names[i] = t
	}
	return names, true
}

// pair is the common case: a Sequential of convolution and batch norm.
func pair(format string, args ...any) (TorchName, bool) {
	prefix := fmt.Sprintf(format, args...)
	return TorchName{prefix + ".0", prefix + ".1"}, true
}

// blockPart splits "block3.expand" into 3 and "expand".
func blockPart(op string) (block int, part string, ok bool) {
	head, part, ok := strings.Cut(op, ".")
	if !ok {
		return 0, "", false
	}
	block, err := strconv.Atoi(strings.TrimPrefix(head, "block"))
	return block, part, err == nil
}

func torchMobileNet(op string) (TorchName, bool) {
	switch op {
	case "stem":
		return pair("features.0")
	case "head":
		return pair("features.18")
	case "classifier":
		return TorchName{Op: "classifier.1"}, true
	}
	block, part, ok := blockPart(op)
	if !ok {
		return TorchName{}, false
	}
	// The first block has no expansion, so all else comes one place earlier.
	shift := 0
	if block == 1 {
		shift = -1
	}
	conv := fmt.Sprintf("features.%d.conv.", block)
	switch part {
	case "expand":
		return pair("%s0", conv)
	case "depthwise":
		return pair("%s%d", conv, 1+shift)
	case "project":
		return TorchName{conv + strconv.Itoa(2+shift), conv + strconv.Itoa(3+shift)}, true
	}
	return TorchName{}, false
}

func torchEfficientNet(op string) (TorchName, bool) {
	switch op {
	case "stem":
		return pair("features.0")
	case "head":
		return pair("features.8")
	case "classifier":
		return TorchName{Op: "classifier.1"}, true
	}
	block, part, ok := blockPart(op)
	if !ok {
		return TorchName{}, false
	}
	stage, place := 0, block-1
	for _, row := range efficientNetB0Rows {
		stage++
		if place < row.repeats {
			break
		}
		place -= row.repeats
	}
	at := 0
	if block == 1 {
		at = -1
	}
	prefix := fmt.Sprintf("features.%d.%d.block.", stage, place)
	switch part {
	case "expand":
		return pair("%s0", prefix)
	case "depthwise":
		return pair("%s%d", prefix, at+1)
	case "reduce":
		return TorchName{Op: fmt.Sprintf("%s%d.fc1", prefix, at+2)}, true
	case "excite":
		return TorchName{Op: fmt.Sprintf("%s%d.fc2", prefix, at+2)}, true
	case "project":
		return pair("%s%d", prefix, at+3)
	}
	return TorchName{}, false
}

func torchResNet(op string) (TorchName, bool) {
	switch op {
	case "stem":
		return TorchName{"conv1", "bn1"}, true
	case "classifier":
		return TorchName{Op: "fc"}, true
	}
	head, part, ok := strings.Cut(op, ".block")
	if !ok {
		return TorchName{}, false
	}
	number, part, ok := strings.Cut(part, ".")
	if !ok {
		return TorchName{}, false
	}
	stage, err1 := strconv.Atoi(strings.TrimPrefix(head, "stage"))
	block, err2 := strconv.Atoi(number)
	if err1 != nil || err2 != nil {
		return TorchName{}, false
	}
	prefix := fmt.Sprintf("layer%d.%d.", stage, block-1)
	if part == "project" {
		return pair("%sdownsample", prefix)
	}
	if conv, ok := strings.CutPrefix(part, "conv"); ok {
		return TorchName{prefix + part, prefix + "bn" + conv}, true
	}
	return TorchName{}, false
}
