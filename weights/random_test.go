package weights

import (
	"math"
	"strings"
	"testing"

	"tips/supernet"
)

// TestRandomFollowsTorchvision compares the spread of every tensor with what
// torchvision's constructors draw: kaiming_normal_(mode="fan_out") for
// convolutions, and for the classifier normal_(0, 0.01) with no bias in
// MobileNet-v2, uniform_(±1/√out) with no bias in EfficientNet, and nn.Linear's
// uniform ±1/√in for weight and bias in the resnets.
func TestRandomFollowsTorchvision(t *testing.T) {
	for reference, linear := range map[string]struct {
		weight, bias func(in, out float64) float64 // standard deviations
	}{
		"mobilenet_v2:width=0.5":       {func(in, out float64) float64 { return 0.01 }, nil},
		"efficientnet_b0":              {func(in, out float64) float64 { return 1 / math.Sqrt(3*out) }, nil},
		"resnet18":                     {fanIn, fanIn},
		"resnext50_32x4d:data=cifar10": {fanIn, fanIn},
		"mlp:width=256":                {fanIn, fanIn},
	} {
		n := network(t, reference)
		s := Random(n, 3)
		for i, op := range n.Ops() {
			p := &s.Ops[i]
			shape := fullShape(n, i)
			in, out := float64(shape.in), float64(shape.out)
			var weight, bias float64
			switch op.Kind {
			case supernet.Conv, supernet.Depthwise:
				weight = math.Sqrt(2 / (float64(op.Kernel*op.Kernel) * out))
			case supernet.Linear:
				weight = linear.weight(in, out)
				if linear.bias != nil {
					bias = linear.bias(in, out)
				}
			}
			wantDeviation(t, reference+" "+op.Name+" weight", p.Weight, weight)
			wantDeviation(t, reference+" "+op.Name+" bias", p.Bias, bias)
			for c := range p.Scale {
				if p.Scale[c] != 1 || p.Shift[c] != 0 || p.Mean[c] != 0 || p.Variance[c] != 1 {
					t.Fatalf("%s %s: batch norm does something in channel %d", reference, op.Name, c)
				}
			}
		}
	}
}

func fanIn(in, _ float64) float64 { return 1 / math.Sqrt(3*in) }

// wantDeviation allows what a sample of that size may stray, five times.
func wantDeviation(t *testing.T, what string, x []float32, want float64) {
	t.Helper()
	if len(x) == 0 {
		return
	}
	var mean, square float64
	for _, v := range x {
		mean += float64(v) / float64(len(x))
		square += float64(v) * float64(v) / float64(len(x))
	}
	slack := 5 / math.Sqrt(float64(len(x)))
	if got := math.Sqrt(square); math.Abs(got-want) > want*slack || math.Abs(mean) > want*slack {
		if strings.HasSuffix(what, "bias") && want > 0 && len(x) < 100 {
			return // too few to judge
		}
		t.Errorf("%s: %d values of mean %.4g, deviation %.4g; want 0, %.4g", what, len(x), mean, got, want)
	}
}
