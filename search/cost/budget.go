package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tips/supernet"
)

// Cap is the most that a cost may be.
type Cap struct {
	Cost Cost
	Most float64
}

// String is the cap as ParseBudget reads it, up to rounding: "macs ≤ 30 M".
func (c Cap) String() string { return c.Cost.Name() + " ≤ " + Format(c.Cost.Name(), c.Most) }

// Budget is caps that all hold. The zero value allows everything.
type Budget []Cap

// String lists the caps.
func (b Budget) String() string {
	if len(b) == 0 {
		return "none"
	}
	list := make([]string, len(b))
	for i, c := range b {
		list[i] = c.String()
	}
	return strings.Join(list, ", ")
}

// Excess is by how much a subnetwork breaks the budget: the largest ratio of a cost
// to its cap, at most 1 where it is within all of them, and the number of that cap.
func (b Budget) Excess(v *supernet.View) (worst float64, which int, err error) {
	for i, c := range b {
		amount, err := c.Cost.Of(v)
		if err != nil {
			return 0, i, err
		}
		if ratio := amount / c.Most; ratio > worst || i == 0 {
			worst, which = ratio, i
		}
	}
	return worst, which, nil
}

// Cap is the lowest cap on the cost of that name.
func (b Budget) Cap(name string) (most float64, ok bool) {
	most = math.Inf(1)
	for _, c := range b {
		if c.Cost.Name() == name {
			most, ok = min(most, c.Most), true
		}
	}
	return most, ok
}

// ParseBudget reads caps, as in "macs<=30M,latency<=20ms,memory<=1.5MiB", on costs
// among those given. Numbers take the units of their cost: k, M, G and T are
// thousands; KiB, MiB and GiB are 1024s, kB, MB and GB thousands, of bytes; µs, ms
// and s are times; mJ and J energies.
func ParseBudget(text string, costs ...Cost) (Budget, error) {
	var b Budget
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(strings.ReplaceAll(part, "≤", "<="), "<=")
		if !ok {
			return nil, fmt.Errorf("cost: budget %q; want COST<=AMOUNT, as in macs<=30M,latency<=20ms", strings.TrimSpace(part))
		}
		c, err := find(strings.TrimSpace(name), costs)
		if err != nil {
			return nil, err
		}
		most, err := parseAmount(c.Name(), strings.TrimSpace(amount))
		if err != nil {
			return nil, err
		}
		b = append(b, Cap{c, most})
	}
	return b, nil
}

// units of amounts, by the name of the cost.
func units(name string) map[string]float64 {
	thousands := map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
	switch name {
	case WeightsName, MemoryName:
		return map[string]float64{"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	case LatencyName:
		return map[string]float64{"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1}
	case EnergyName:
		return map[string]float64{"uJ": 1e-6, "µJ": 1e-6, "mJ": 1e-3, "J": 1}
	}
	return thousands
}

func parseAmount(name, text string) (float64, error) {
	known := units(name)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	value, err := strconv.ParseFloat(text[:end], 64)
	unit, ok := known[strings.TrimSpace(text[end:])]
	if err != nil || !ok {
		want := map[string]string{WeightsName: "bytes, as in 1.5MiB", MemoryName: "bytes, as in 1.5MiB", LatencyName: "a time, as in 20ms", EnergyName: "an energy, as in 0.5J"}[name]
		if want == "" {
			want = "a number, as in 30M"
		}
		return 0, fmt.Errorf("cost: budget of %q for %s; want %s", text, name, want)
	}
	if value *= unit; !(value > 0) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("cost: budget of %q for %s; want more than 0", text, name)
	}
	return value, nil
}
