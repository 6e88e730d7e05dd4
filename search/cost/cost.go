// Package cost says what a subnetwork costs: multiply-accumulates, parameters and
// memory exactly, from its shapes; time and energy by a [Table] measured on this
// machine; and anything else by a [Cost] of one's own or a CSV file of costs by
// operation. Caps on any of them are a [Budget].
package cost

import (
	"fmt"
	"strings"
	"time"

	"tips/supernet"
)

// Cost is something that a subnetwork costs. It is safe for concurrent use: a
// search asks thousands of times, so Of should take microseconds.
type Cost interface {
	// Name is what budgets and tables call it: lower-case letters, digits, - and _.
	Name() string
	// Of is the cost of one input, finite and not negative: seconds of time, joules of
	// energy, bytes of memory.
	Of(*supernet.View) (float64, error)
}

// The names of the costs of this package.
const (
	MACsName    = "macs"
	ParamsName  = "params"
	WeightsName = "weights"
	MemoryName  = "memory"
	LatencyName = "latency"
	EnergyName  = "energy"
)

// Exact are the costs that follow from shapes alone.
func Exact() []Cost { return []Cost{MACs(), Params(), WeightBytes(), PeakBytes()} }

// MACs counts multiply-accumulates.
func MACs() Cost { return exact{MACsName, func(c supernet.Costs) int64 { return c.MACs }} }

// Params counts parameters.
func Params() Cost { return exact{ParamsName, func(c supernet.Costs) int64 { return c.Params }} }

// WeightBytes is the size of the parameters that a subnetwork uses.
func WeightBytes() Cost {
	return exact{WeightsName, func(c supernet.Costs) int64 { return c.WeightBytes }}
}

// PeakBytes is the most that feature maps take at a time, see supernet.Costs.
func PeakBytes() Cost {
	return exact{MemoryName, func(c supernet.Costs) int64 { return c.PeakBytes }}
}

type exact struct {
	name string
	of   func(supernet.Costs) int64
}

func (e exact) Name() string { return e.name }

func (e exact) Of(v *supernet.View) (float64, error) { return float64(e.of(v.Costs())), nil }

// Format writes an amount of the cost of that name with its unit: 30.00 M, 1.5 MiB,
// 20 ms, 0.3 J; a plain number where the cost is somebody's own.
func Format(name string, amount float64) string {
	switch name {
	case MACsName, ParamsName:
		return scaled(amount, 1000, "", " k", " M", " G", " T")
	case WeightsName, MemoryName:
		return scaled(amount, 1024, " B", " KiB", " MiB", " GiB")
	case LatencyName:
		return seconds(amount)
	case EnergyName:
		if amount < 1 {
			return fmt.Sprintf("%.4g mJ", 1000*amount)
		}
		return fmt.Sprintf("%.4g J", amount)
	}
	return fmt.Sprintf("%.6g", amount)
}

func scaled(amount, base float64, units ...string) string {
	u := 0
	for ; amount >= base && u < len(units)-1; u++ {
		amount /= base
	}
	if u == 0 {
		return fmt.Sprintf("%.0f%s", amount, units[0])
	}
	return fmt.Sprintf("%.4g%s", amount, units[u])
}

func seconds(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.4g µs", 1e6*s)
	case s < 1:
		return fmt.Sprintf("%.4g ms", 1e3*s)
	}
	return fmt.Sprintf("%.4g s", s)
}

// find is the cost of that name.
func find(name string, costs []Cost) (Cost, error) {
	names := make([]string, len(costs))
	for i, c := range costs {
		if names[i] = c.Name(); names[i] == name {
			return c, nil
		}
	}
	switch name {
	case LatencyName:
		return nil, fmt.Errorf("cost: no latency table of this machine; 'tips profile' makes one")
	case EnergyName:
		return nil, fmt.Errorf("cost: no measured energy: it takes a latency table made where the machine exposes energy counters")
	}
	return nil, fmt.Errorf("cost: unknown cost %q; want one of %s", name, strings.Join(names, ", "))
}

// Find is the cost of that name among several.
func Find(name string, costs ...Cost) (Cost, error) { return find(name, costs) }

// validName tells whether a budget can name the cost.
func validName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// duration is seconds as a duration.
func duration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
