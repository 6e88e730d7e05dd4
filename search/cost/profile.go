package cost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tips/internal/rank"
	"tips/nn"
	"tips/sampling"
	"tips/supernet"
	"tips/weights"
)

// ProfileOptions say what to measure. Network is needed; zero values of all other
// fields mean what their comments say.
type ProfileOptions struct {
	Network *supernet.Network
	Input   supernet.Shape // zero: the network's own
	Threads int            // 0: 1
	Depths  bool           // subnetworks of all depths too
	Subnets int            // that steps are measured in; 0: 60
	Runs    int            // of each, measured, at least; 0: 20
	Time    time.Duration  // to measure for, at least; 0: 20 s, so that what disturbs the machine now and then does so for all alike
	Checked int            // other subnetworks that the table is checked against; 0: 50
	Seed    uint64
	Meter   *Meter // measures energy too; nil: none

	Progress func(share float64) // is told how much is done, 0 to 1; may be nil
}

func (o *ProfileOptions) fill() error {
	if o.Input == (supernet.Shape{}) {
		o.Input = o.Network.Input()
	}
	if o.Time == 0 {
		o.Time = 20 * time.Second
	}
	for _, f := range []struct {
		value     *int
		otherwise int
		name      string
	}{{&o.Threads, 1, "threads"}, {&o.Subnets, 60, "subnetworks"}, {&o.Runs, 20, "runs"}, {&o.Checked, 50, "checked subnetworks"}} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
		if *f.value < 1 || *f.value > 1<<16 {
			return fmt.Errorf("cost: profile with %d %s; want 1 to %d", *f.value, f.name, 1<<16)
		}
	}
	return nil
}

// Check is a prediction beside a measurement.
type Check struct {
	Subnet    supernet.Subnet `json:"subnet"`
	MACs      int64           `json:"macs"`
	Predicted time.Duration   `json:"predicted_ns"`
	Measured  time.Duration   `json:"measured_ns"`
}

// Error is how far the prediction is off, as a share of the measurement.
func (c Check) Error() float64 {
	return abs(float64(c.Predicted-c.Measured)) / float64(c.Measured)
}

// Report is how good a table's predictions are, over subnetworks that it was not
// made from.
type Report struct {
	Checks   []Check `json:"checks"`
	Median   float64 `json:"median_error"` // of the relative errors
	P95      float64 `json:"p95_error"`
	MACsSpan float64 `json:"macs_span"`           // of the subnetworks: most by fewest
	Quiet    float64 `json:"quiet"`               // share of all runs that no other program disturbed
	Rank     float64 `json:"kendall"`             // Kendall's τ between predictions and measurements
	NoEnergy string  `json:"no_energy,omitempty"` // why energy could not be measured, though there is a meter
}

// Profile measures how long the steps of random subnetworks take inside whole
// runs, and checks what the table predicts for other subnetworks against whole
// runs of these. Steps are timed where they run because that is what decides
// which data are in which cache. Runs of all subnetworks take turns, those checked
// among them, so that a machine that changes its speed does so for all alike.
func Profile(ctx context.Context, o ProfileOptions) (*Table, *Report, error) {
	if err := o.fill(); err != nil {
		return nil, nil, err
	}
	p, err := newProfiler(o)
	if err != nil {
		return nil, nil, err
	}
	defer p.session.Close()
	if err := p.measure(ctx); err != nil {
		return nil, nil, err
	}
	t := p.table()
	report, err := p.check(t)
	if err == nil && p.Meter != nil {
		err = p.energy(ctx, t)
		if err != nil && ctx.Err() == nil { // a table without it is of use too
			report.NoEnergy, err = err.Error(), nil
		}
	}
	return t, report, err
}

type profiler struct {
	ProfileOptions
	session       *nn.Session
	programs      []*nn.Program // the checked ones last
	whole         []samples     // by program
	took          map[nn.Step]*samples
	ratio         samples // of whole runs to the sum of their steps
	input, output []float32
}

func newProfiler(o ProfileOptions) (*profiler, error) {
	p := &profiler{ProfileOptions: o, took: map[nn.Step]*samples{}}
	model := nn.NewModel(weights.Random(o.Network, o.Seed))
	rng := rand.New(rand.NewPCG(o.Seed, 0x70726f66))
	for _, count := range []int{o.Subnets, o.Checked} {
		subs, err := spread(o.Network, o.Depths, count, rng)
		if err != nil {
			return nil, err
		}
		for _, s := range subs {
			program, err := model.Program(s, o.Input, 1, nil)
			if err != nil {
				return nil, err
			}
			p.programs = append(p.programs, program)
		}
	}
	p.whole = make([]samples, len(p.programs))
	p.input, p.output = make([]float32, p.programs[0].InputLen()), make([]float32, p.programs[0].OutputLen())
	for i := range p.input {
		p.input[i] = float32(rng.NormFloat64())
	}
	p.session = nn.NewSession(o.Threads)
	return p, nil
}

// spread draws subnetworks of all sizes: the mean ratio goes evenly from the
// smallest to 1, and groups differ from it by up to a fifth of the range or, for
// every other subnetwork, as they like.
func spread(n *supernet.Network, depths bool, count int, rng *rand.Rand) ([]supernet.Subnet, error) {
	subs := make([]supernet.Subnet, count)
	low := n.Elastic().MinRatio
	for i := range subs {
		centre := low + (1-low)*(float64(i)+rng.Float64())/float64(count)
		ratios := make([]float64, len(n.Groups()))
		for g := range ratios {
			ratios[g] = centre + (1-low)*0.2*(2*rng.Float64()-1)
			if i%2 == 1 {
				// Anywhere, but centred in the mean.
				reach := min(centre-low, 1-centre)
				ratios[g] = centre + reach*(2*rng.Float64()-1)
			}
			ratios[g] = min(1, max(low, ratios[g]))
		}
		subs[i] = sampling.Ratios(n, ratios)
	}
	if !depths {
		return subs, nil
	}
	for i, s := range subs {
		widths, without, err := n.Widths(s)
		if err != nil {
			return nil, err
		}
		for _, stage := range sampling.Stages(n) {
			without = append(without, stage[len(stage)-rng.IntN(len(stage)+1):]...)
		}
		if subs[i], err = n.Subnet(widths, without); err != nil {
			return nil, err
		}
	}
	return subs, nil
}

const (
	// visit is how many runs of a subnetwork are measured in a row, after one that
	// is not and warms the caches.
	visit = 4
	// patience is how many times more runs are tried for as long as other programs
	// disturb them.
	patience = 3
)

func (p *profiler) measure(ctx context.Context) error {
	visits := (p.Runs + visit - 1) / visit
	began := time.Now()
	for v := 0; ; v++ {
		elapsed := time.Since(began)
		lacking := 0 // subnetworks without enough undisturbed runs
		for i := range p.programs {
			if p.whole[i].quiet() < p.Runs {
				lacking++
			}
		}
		if elapsed >= p.Time && v >= visits && (lacking == 0 || v >= patience*visits) {
			return nil
		}
		for i := range p.programs {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.visit(i)
			if p.Progress != nil {
				runs := (float64(v) + float64(i)/float64(len(p.programs))) / float64(visits)
				p.Progress(min(1, runs, time.Since(began).Seconds()/p.Time.Seconds()))
			}
		}
	}
}

// visit measures a few runs of a program: steps of those that the table is made
// of, whole runs of those that it is checked against.
func (p *profiler) visit(i int) {
	program := p.programs[i]
	var steps []nn.Step // of which times are taken
	if i < p.Subnets {
		steps = program.Steps()
	}
	took := make([]time.Duration, visit*len(steps))
	runs := several(visit, 0, func(r int) {
		if r >= 0 && len(steps) > 0 {
			p.session.Profile(program, p.output, p.input, took[r*len(steps):(r+1)*len(steps)])
		} else {
			p.session.Run(program, p.output, p.input)
		}
	})
	for r, run := range runs {
		p.whole[i].put(run.seconds, run.quiet)
		if len(steps) == 0 {
			continue
		}
		sum := 0.0
		for j, s := range steps {
			if p.took[s] == nil {
				p.took[s] = &samples{}
			}
			step := took[r*len(steps)+j].Seconds()
			p.took[s].put(step, run.quiet)
			sum += step
		}
		p.ratio.put(run.seconds/max(sum, 1e-9), run.quiet)
	}
}

func (p *profiler) table() *Table {
	t := &Table{Machine: ThisMachine(p.Threads), Network: p.Network.Name(), Input: p.Input, Overall: max(1, p.ratio.typical())}
	for s, took := range p.took {
		t.Steps = append(t.Steps, Timing{s, max(1, duration(took.typical())), took.count()})
	}
	t.sort()
	return t
}

// energyTime is how long a subnetwork runs for its energy to be measured: counters
// move about a thousand times a second.
const energyTime = 300 * time.Millisecond

// energy measures what whole runs take of some subnetworks.
func (p *profiler) energy(ctx context.Context, t *Table) error {
	var runs []energyRun
	const most = 20
	for i := range min(p.Subnets, most) {
		if err := ctx.Err(); err != nil {
			return err
		}
		program := p.programs[i*p.Subnets/min(p.Subnets, most)]
		joules, err := p.Meter.Measure(func() { p.session.Run(program, p.output, p.input) }, energyTime)
		if err != nil {
			return err
		}
		s, err := t.seconds(program.View())
		if err != nil {
			return err
		}
		runs = append(runs, energyRun{s, float64(program.View().Costs().MACs), joules})
	}
	t.Energy = fitEnergy(runs)
	return nil
}

func (p *profiler) check(t *Table) (*Report, error) {
	r := &Report{}
	var errors, predicted, measured []float64
	least, most := int64(0), int64(0)
	for i := p.Subnets; i < len(p.programs); i++ {
		v := p.programs[i].View()
		expected, err := t.Predict(v)
		if err != nil {
			return nil, err
		}
		c := Check{v.Subnet, v.Costs().MACs, expected, duration(p.whole[i].typical())}
		r.Checks = append(r.Checks, c)
		errors = append(errors, c.Error())
		predicted, measured = append(predicted, float64(c.Predicted)), append(measured, float64(c.Measured))
		if least == 0 || c.MACs < least {
			least = c.MACs
		}
		most = max(most, c.MACs)
	}
	slices.SortFunc(r.Checks, func(a, b Check) int { return int(a.Measured - b.Measured) })
	r.Median = median(errors)
	r.P95 = errors[min(len(errors)-1, len(errors)*95/100)]
	r.MACsSpan = float64(most) / float64(max(least, 1))
	quiet, all := 0, 0
	for i := range p.whole {
		quiet += p.whole[i].quiet()
		all += p.whole[i].count()
	}
	r.Quiet = float64(quiet) / float64(all)
	r.Rank = rank.Kendall(predicted, measured)
	return r, nil
}
