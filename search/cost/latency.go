package cost

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"tips/nn"
	"tips/supernet"
)

// Machine is where and how times were taken. Times of another machine, of another
// number of threads or of other kernels say nothing here.
type Machine struct {
	CPU     string `json:"cpu"`
	Kernels string `json:"kernels"` // as nn.Variant names them
	Threads int    `json:"threads"`
}

// ThisMachine is the machine that the program runs on.
func ThisMachine(threads int) Machine {
	return Machine{CPU: CPU(), Kernels: nn.Variant(), Threads: threads}
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %s kernels, %d threads", m.CPU, m.Kernels, m.Threads)
}

// Table is how long the steps of networks take on one machine, measured inside
// whole runs, warm; it predicts how long a subnetwork takes. See Profile.
//
// The time of a subnetwork is the sum over the steps that the engine would carry
// it out in. A step that was measured takes its median; of any other the time is
// interpolated among measured steps that differ from it in channels alone.
type Table struct {
	Machine Machine
	Network string // that was profiled
	Input   supernet.Shape
	Steps   []Timing // by step; no two of one step
	Overall float64  // how much longer whole runs take than their steps together: a factor
	Energy  *Energy  // nil where the machine has no counters

	once   sync.Once
	known  map[nn.Step]float64 // seconds
	models models
}

// Timing is how long one step takes.
type Timing struct {
	Step   nn.Step
	Median time.Duration
	Count  int // of measurements
}

func (t *Table) prepare() {
	t.once.Do(func() {
		t.known = make(map[nn.Step]float64, len(t.Steps))
		for _, s := range t.Steps {
			t.known[s.Step] = s.Median.Seconds()
		}
		t.models = fitModels(t.Steps)
	})
}

// Predict is how long a run of a subnetwork takes.
func (t *Table) Predict(v *supernet.View) (time.Duration, error) {
	s, err := t.seconds(v)
	return duration(s), err
}

func (t *Table) seconds(v *supernet.View) (float64, error) {
	t.prepare()
	steps, err := nn.Plan(v, 1)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, s := range steps {
		took, ok := t.known[s]
		if !ok {
			if took, ok = t.models.predict(s); !ok {
				return 0, fmt.Errorf("cost: the latency table of %s knows no step like %s; profile %s itself", t.Network, s, v.Network.Name())
			}
		}
		sum += took
	}
	return sum * t.Overall, nil
}

// Latency is the table as a cost, in seconds.
func (t *Table) Latency() Cost { return latency{t} }

type latency struct{ table *Table }

func (latency) Name() string { return LatencyName }

func (l latency) Of(v *supernet.View) (float64, error) { return l.table.seconds(v) }

// Costs are the costs that the table knows: latency, and energy where that was
// measured.
func (t *Table) Costs() []Cost {
	list := []Cost{t.Latency()}
	if t.Energy != nil {
		list = append(list, energyCost{t})
	}
	return list
}

// Covers tells whether the table was made on this machine, with that many
// threads; the error says what differs.
func (t *Table) Covers(m Machine) error {
	if t.Machine != m {
		return fmt.Errorf("cost: the latency table was made on %s; this is %s", t.Machine, m)
	}
	return nil
}

// A model is how the time of a family of steps, which differ in channels alone,
// depends on these: a sum of features with weights that are not negative, so that
// no step takes less than nothing however far it is from those measured.
type model []float64

type models struct {
	family map[nn.Step]model     // by the step without its channels
	kind   map[nn.StepKind]model // of all steps of a kind
}

// family is the step without its channels.
func family(s nn.Step) nn.Step {
	s.In.Channels, s.Out.Channels, s.Wide = 0, 0, 0
	s.Groups = min(s.Groups, 2)
	return s
}

func fitModels(list []Timing) models {
	families := map[nn.Step][]Timing{}
	kinds := map[nn.StepKind][]Timing{}
	for _, t := range list {
		f := family(t.Step)
		families[f] = append(families[f], t)
		kinds[t.Step.Kind] = append(kinds[t.Step.Kind], t)
	}
	m := models{map[nn.Step]model{}, map[nn.StepKind]model{}}
	for f, members := range families {
		if len(members) >= 2*len(features(f)) {
			m.family[f] = fit(members, features)
		}
	}
	for k, members := range kinds {
		m.kind[k] = fit(members, rough)
	}
	return m
}

func (m models) predict(s nn.Step) (seconds float64, ok bool) {
	if w, ok := m.family[family(s)]; ok {
		return dot(w, features(s)), true
	}
	if w, ok := m.kind[s.Kind]; ok {
		return dot(w, rough(s)), true
	}
	return 0, false
}

// padded is the number of channels that kernels compute.
func padded(channels int) float64 { return float64((channels + 7) / 8 * 8) }

// features of a step within its family: what its work and its traffic are
// proportional to.
func features(s nn.Step) []float64 {
	in, out, wide := padded(s.In.Channels), padded(s.Out.Channels), padded(s.Wide)
	switch s.Kind {
	case nn.ConvStep:
		return []float64{1, in * out / float64(max(s.Groups, 1)), in, out}
	case nn.StripsStep:
		return []float64{1, in * wide, wide, wide * out, in + out}
	}
	return []float64{1, out}
}

// rough are features of steps of all sizes of a kind.
func rough(s nn.Step) []float64 {
	in := float64(s.In.Height*s.In.Width) * padded(s.In.Channels)
	pixels := float64(s.Out.Height * s.Out.Width)
	out := pixels * padded(s.Out.Channels)
	window := float64(max(s.Kernel*s.Kernel, 1))
	batch := float64(s.Batch)
	switch s.Kind {
	case nn.ConvStep:
		return []float64{1, batch * out * window * padded(s.In.Channels) / float64(max(s.Groups, 1)), batch * in * window, batch * out, padded(s.In.Channels) * padded(s.Out.Channels) * window}
	case nn.StripsStep:
		wide := float64(s.In.Height*s.In.Width) * padded(s.Wide)
		return []float64{1, batch * wide * padded(s.In.Channels), batch * pixels * padded(s.Wide) * padded(s.Out.Channels), batch * wide, batch * (in + out)}
	}
	return []float64{1, batch * out * window, batch * (in + out)}
}

// fit finds the weights of features under which measured steps have the least
// relative error.
func fit(list []Timing, features func(nn.Step) []float64) model {
	rows, values := make([][]float64, len(list)), make([]float64, len(list))
	for i, t := range list {
		rows[i], values[i] = features(t.Step), max(t.Median.Seconds(), 1e-9)
	}
	return leastSquares(rows, values)
}

// leastSquares finds weights w ≥ 0 that minimise the squared relative error of
// Σ w·row, by coordinate descent on the normal equations.
func leastSquares(rows [][]float64, values []float64) []float64 {
	n := len(rows[0])
	gram, right := make([]float64, n*n), make([]float64, n)
	scale := make([]float64, n) // so that features are alike in size
	for _, row := range rows {
		for j, x := range row {
			scale[j] = max(scale[j], x)
		}
	}
	for i, row := range rows {
		scaled := make([]float64, n)
		for j, x := range row {
			if scale[j] > 0 {
				scaled[j] = x / scale[j] / values[i]
			}
		}
		for j, x := range scaled {
			right[j] += x
			for k, y := range scaled {
				gram[j*n+k] += x * y
			}
		}
	}
	w := make([]float64, n)
	for range 2000 {
		for j := range w {
			diagonal := gram[j*n+j]
			if diagonal == 0 {
				continue
			}
			gradient := right[j]
			for k, v := range w {
				gradient -= gram[j*n+k] * v
			}
			w[j] = max(0, w[j]+gradient/diagonal)
		}
	}
	for j := range w {
		if scale[j] > 0 {
			w[j] /= scale[j]
		}
	}
	return w
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// median sorts a list and gives its middle.
func median[T time.Duration | float64](list []T) T {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

func abs(x float64) float64 { return max(x, -x) }
