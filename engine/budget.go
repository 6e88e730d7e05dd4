package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tips/supernet"
)

// Budget is what one inference may cost. The zero value sets no limit: the default
// subnetwork runs. Several limits hold together.
type Budget struct {
	// MACs limits the multiply-accumulates for one input; 0: no limit.
	MACs int64
	// Time limits the time from the call to its result, waiting included; 0: no
	// limit.
	Time time.Duration
	// Memory limits the bytes of feature maps, for all inputs of the call; 0: no
	// limit. Weights are not counted: they are there for all subnetworks.
	Memory int64
	// Subnet names the subnetwork to run, whatever limits stand. It need not be on
	// the frontier; if it is not, batch norm uses the statistics of the whole
	// network. Other limits must then be zero.
	Subnet *supernet.Subnet
}

func (b Budget) check() error {
	if b.MACs < 0 || b.Time < 0 || b.Memory < 0 {
		return fmt.Errorf("engine: budget %s; want limits above zero", b)
	}
	if b.Subnet != nil && b.limited() {
		return fmt.Errorf("engine: budget %s; want a subnetwork or limits, not both", b)
	}
	return nil
}

// limited tells whether there is a limit.
func (b Budget) limited() bool { return b.MACs != 0 || b.Time != 0 || b.Memory != 0 }

// and is the budget that keeps both.
func (b Budget) and(c Budget) Budget {
	return Budget{MACs: least(b.MACs, c.MACs), Time: least(b.Time, c.Time), Memory: least(b.Memory, c.Memory)}
}

// least is the smaller of two limits, of which 0 is none.
func least[T int64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// String is the budget as ParseBudget takes it; empty if there is none.
func (b Budget) String() string {
	var parts []string
	if b.Subnet != nil {
		parts = append(parts, b.Subnet.String())
	}
	if b.MACs != 0 {
		parts = append(parts, strconv.FormatInt(b.MACs, 10))
	}
	if b.Time != 0 {
		parts = append(parts, b.Time.String())
	}
	if b.Memory != 0 {
		parts = append(parts, strconv.FormatInt(b.Memory, 10)+"B")
	}
	return strings.Join(parts, ",")
}

// units of memory; those of multiply-accumulates are the same letters without B.
var units = []struct {
	suffix string
	size   float64
	memory bool
}{
	{"KiB", 1 << 10, true}, {"MiB", 1 << 20, true}, {"GiB", 1 << 30, true},
	{"kB", 1e3, true}, {"KB", 1e3, true}, {"MB", 1e6, true}, {"GB", 1e9, true}, {"B", 1, true},
	{"k", 1e3, false}, {"K", 1e3, false}, {"M", 1e6, false}, {"G", 1e9, false}, {"", 1, false},
}

// ParseBudget reads a budget as people type it: a time as in 20ms, a number of
// multiply-accumulates as in 30M, memory as in 4MiB or 4MB, a subnetwork as
// Network.ParseSubnet takes it, or several limits with commas between them.
func ParseBudget(text string, n *supernet.Network) (Budget, error) {
	var b Budget
	for part := range strings.SplitSeq(text, ",") {
		var one Budget
		if part != "" && strings.ContainsRune("fswd", rune(part[0])) {
			s, err := n.ParseSubnet(part)
			if err != nil {
				return Budget{}, fmt.Errorf("engine: budget: %w", err)
			}
			one.Subnet = &s
		} else if limit, ok := parseLimit(part); ok {
			one = limit
		} else {
			return Budget{}, fmt.Errorf("engine: budget %.60q; want more than zero of time (20ms), multiply-accumulates (30M) or memory (4MiB), or a subnetwork", part)
		}
		if one.Subnet != nil && b.Subnet != nil || one.MACs != 0 && b.MACs != 0 || one.Time != 0 && b.Time != 0 || one.Memory != 0 && b.Memory != 0 {
			return Budget{}, fmt.Errorf("engine: budget %.60q; want each limit once", text)
		}
		subnet := b.Subnet
		if one.Subnet != nil {
			subnet = one.Subnet
		}
		b = b.and(one)
		b.Subnet = subnet
	}
	if err := b.check(); err != nil {
		return Budget{}, err
	}
	return b, nil
}

func parseLimit(text string) (Budget, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return Budget{Time: d}, d > 0
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		v = math.Floor(v * u.size)
		if err != nil || !(v >= 1 && v < 1<<60) {
			return Budget{}, false
		}
		if u.memory {
			return Budget{Memory: int64(v)}, true
		}
		return Budget{MACs: int64(v)}, true
	}
	return Budget{}, false
}
