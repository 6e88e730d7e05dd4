package frontier

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"tips/supernet"
	"tips/weights"
)

// Costs are what one inference of a subnetwork costs.
type Costs struct {
	MACs        int64         `json:"macs"`
	Params      int64         `json:"params"`
	WeightBytes int64         `json:"weight_bytes"`
	PeakBytes   int64         `json:"peak_bytes"`              // of feature maps, see supernet.Costs
	Latency     time.Duration `json:"latency_ns,omitempty"`    // 0: unknown
	Energy      float64       `json:"energy_joules,omitempty"` // 0: unknown
	Own         float64       `json:"own,omitempty"`           // the user's own cost, see Frontier.OwnName; 0: unknown
}

// CostsOf takes over the exact costs of a view.
func CostsOf(c supernet.Costs) Costs {
	return Costs{MACs: c.MACs, Params: c.Params, WeightBytes: c.WeightBytes, PeakBytes: c.PeakBytes}
}

// Kind names one of the Costs.
type Kind uint8

// The kinds. Files hold these numbers: new ones go to the end.
const (
	MACs Kind = iota
	Params
	WeightBytes
	PeakBytes
	Latency
	Energy
	Own
	kinds // how many there are
)

var kindNames = [kinds]string{"macs", "params", "weights", "memory", "latency", "energy", "own"}

// String is the name of the kind as people type it.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText is String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKind is the reverse of Kind.String.
func ParseKind(name string) (Kind, error) {
	for k, known := range kindNames {
		if name == known {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("frontier: cost %.60q; want one of %v", name, kindNames)
}

// Of is the cost of a kind as a number: a count, bytes, seconds or joules. It is
// 0 where the cost is unknown.
func (c Costs) Of(k Kind) float64 {
	switch k {
	case MACs:
		return float64(c.MACs)
	case Params:
		return float64(c.Params)
	case WeightBytes:
		return float64(c.WeightBytes)
	case PeakBytes:
		return float64(c.PeakBytes)
	case Latency:
		return c.Latency.Seconds()
	case Energy:
		return c.Energy
	case Own:
		return c.Own
	}
	panic("frontier: no cost is of " + k.String())
}

// Known tells whether the cost of a kind is known.
func (c Costs) Known(k Kind) bool { return k < Latency || c.Of(k) > 0 }

// Compare orders two costs of one kind. Whole numbers are compared as such: a
// tie is a tie.
func (c Costs) Compare(d Costs, k Kind) int {
	switch k {
	case MACs:
		return cmp.Compare(c.MACs, d.MACs)
	case Params:
		return cmp.Compare(c.Params, d.Params)
	case WeightBytes:
		return cmp.Compare(c.WeightBytes, d.WeightBytes)
	case PeakBytes:
		return cmp.Compare(c.PeakBytes, d.PeakBytes)
	case Latency:
		return cmp.Compare(c.Latency, d.Latency)
	}
	return cmp.Compare(c.Of(k), d.Of(k))
}

func (c Costs) check() error {
	for _, k := range [...]struct {
		kind  Kind
		value int64
	}{{MACs, c.MACs}, {Params, c.Params}, {WeightBytes, c.WeightBytes}, {PeakBytes, c.PeakBytes}, {Latency, int64(c.Latency)}} {
		if k.value < 0 || k.value > maxCount {
			return fmt.Errorf("%s %d; want 0 to %d", k.kind, k.value, int64(maxCount))
		}
	}
	for _, k := range [...]Kind{Energy, Own} {
		if v := c.Of(k); !(v >= 0) || math.IsInf(v, 0) || math.Signbit(v) {
			return fmt.Errorf("%s %v; want a number that is not negative", k, v)
		}
	}
	return nil
}

// Point is a subnetwork and what is known about it.
type Point struct {
	Subnet supernet.Subnet
	// Accuracy is the part of images that are classified right, from 0 to 1. Where
	// Images is not 0 it is Correct of Images.
	Accuracy        float64
	Correct, Images int
	Costs           Costs
	// Statistics are batch-norm statistics calibrated for the subnetwork; nil if
	// nobody did, and those of the whole network are used.
	Statistics *weights.Statistics
}

// Judged makes a point of a subnetwork whose accuracy was counted.
func Judged(s supernet.Subnet, correct, images int, c Costs, t *weights.Statistics) Point {
	return Point{Subnet: s, Accuracy: float64(correct) / float64(images), Correct: correct, Images: images, Costs: c, Statistics: t}
}

// Error is the standard error of the accuracy as a binomial proportion; 0 where
// the number of images is unknown.
func (p Point) Error() float64 {
	if p.Images == 0 {
		return 0
	}
	return math.Sqrt(p.Accuracy * (1 - p.Accuracy) / float64(p.Images))
}

func (p Point) check() error {
	if !(p.Accuracy >= 0 && p.Accuracy <= 1) || math.Signbit(p.Accuracy) {
		return fmt.Errorf("accuracy %v; want 0 to 1", p.Accuracy)
	}
	if p.Images < 0 || p.Images > maxImages || p.Correct < 0 || p.Correct > p.Images {
		return fmt.Errorf("%d of %d images; want at most %d, and no more correct ones", p.Correct, p.Images, maxImages)
	}
	if p.Images > 0 && p.Accuracy != float64(p.Correct)/float64(p.Images) {
		return fmt.Errorf("accuracy %v; %d of %d images are %v", p.Accuracy, p.Correct, p.Images, float64(p.Correct)/float64(p.Images))
	}
	return p.Costs.check()
}
