package cost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tips/supernet"
)

// ErrNoCounters is wrapped by errors about machines that do not say how much
// energy they take.
var ErrNoCounters = errors.New("this machine exposes no energy counters")

// PowercapRoot is where Linux shows energy counters.
const PowercapRoot = "/sys/class/powercap"

// Meter reads the energy counters of the processors and their memory (RAPL). One
// goroutine at a time may use it.
type Meter struct{ zones []zone }

// zone is one counter. It wraps around.
type zone struct {
	name, file string
	wrap       uint64 // the largest value, in µJ
	last       uint64
}

// OpenMeter finds the counters below root, PowercapRoot outside tests: processor
// packages and their memory. Zones inside a package and the platform's own are in
// these already or overlap them.
func OpenMeter(root string) (*Meter, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "intel-rapl:*"))
	if err != nil {
		return nil, fmt.Errorf("cost: energy counters: %w", err)
	}
	m := &Meter{}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "name"))
		if err != nil {
			continue
		}
		name := strings.TrimSpace(string(text))
		if !strings.HasPrefix(name, "package-") && name != "dram" {
			continue
		}
		z := zone{name: name, file: filepath.Join(dir, "energy_uj")}
		if z.wrap, err = readCounter(filepath.Join(dir, "max_energy_range_uj")); err == nil {
			z.last, err = readCounter(z.file)
		}
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("cost: energy counter %s may be read by root only: %w", z.file, err)
		}
		if err != nil {
			return nil, fmt.Errorf("cost: energy counter: %w", err)
		}
		m.zones = append(m.zones, z)
	}
	if len(m.zones) == 0 {
		return nil, fmt.Errorf("cost: %w: no readable intel-rapl zone of a processor in %s", ErrNoCounters, root)
	}
	return m, nil
}

func readCounter(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s holds %q; want a whole number", file, strings.TrimSpace(string(text)))
	}
	return v, nil
}

// Zones names the counters.
func (m *Meter) Zones() []string {
	names := make([]string, len(m.zones))
	for i, z := range m.zones {
		names[i] = z.name
	}
	return names
}

// since is the energy in joules since the last call.
func (m *Meter) since() (joules float64, err error) {
	for i := range m.zones {
		z := &m.zones[i]
		now, err := readCounter(z.file)
		if err != nil {
			return 0, fmt.Errorf("cost: energy counter: %w", err)
		}
		spent := now - z.last
		if now < z.last {
			spent = z.wrap - z.last + now
		}
		z.last = now
		joules += float64(spent) * 1e-6
	}
	return joules, nil
}

// Measure is the energy of one run in joules: all that the processors took while
// run was called over and over for at least that long, by the number of calls. It
// is what the machine takes, what it would take idle included.
func (m *Meter) Measure(run func(), least time.Duration) (joules float64, err error) {
	run() // warm
	if _, err := m.since(); err != nil {
		return 0, err
	}
	calls := 0
	for began := time.Now(); calls == 0 || time.Since(began) < least; calls++ {
		run()
	}
	if joules, err = m.since(); err == nil && joules == 0 {
		err = fmt.Errorf("cost: energy counters did not move in %v", least)
	}
	return joules / float64(calls), err
}

// Energy is how much a run takes, fitted to whole runs measured by the machine's
// counters: so much for every second, and so much for every multiply-accumulate.
type Energy struct {
	PerSecond float64 `json:"joules_per_second"`
	PerMAC    float64 `json:"joules_per_mac"`
	Error     float64 `json:"median_error"` // relative, over the subnetworks that were measured
}

// energyRun is one measured subnetwork.
type energyRun struct{ seconds, macs, joules float64 }

func fitEnergy(runs []energyRun) *Energy {
	rows, values := make([][]float64, len(runs)), make([]float64, len(runs))
	for i, r := range runs {
		rows[i], values[i] = []float64{r.seconds, r.macs}, r.joules
	}
	w := leastSquares(rows, values)
	e := &Energy{PerSecond: w[0], PerMAC: w[1]}
	off := make([]float64, len(runs))
	for i, r := range runs {
		off[i] = abs(e.of(r.seconds, r.macs)-r.joules) / max(r.joules, 1e-12)
	}
	e.Error = median(off)
	return e
}

func (e *Energy) of(seconds, macs float64) float64 { return e.PerSecond*seconds + e.PerMAC*macs }

// energyCost is the table's energy as a cost, in joules.
type energyCost struct{ table *Table }

func (energyCost) Name() string { return EnergyName }

func (e energyCost) Of(v *supernet.View) (float64, error) {
	s, err := e.table.seconds(v)
	return e.table.Energy.of(s, float64(v.Costs().MACs)), err
}
