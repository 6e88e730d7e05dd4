package engine

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// How fast the predictor learns. The machine changes within seconds, as it heats
// up or others use it; how a subnetwork differs from the rule hardly changes.
const (
	machineGain  = 0.2
	subnetGain   = 0.05
	spreadGain   = 0.1
	firstSpread  = 0.1
	leastSpread  = 0.02
	spreads      = 2            // of margin
	largestError = 2 * math.Ln2 // what one run may teach: more is an accident
)

// number is a float64 that many read and few write.
type number struct{ bits atomic.Uint64 }

func (n *number) load() float64   { return math.Float64frombits(n.bits.Load()) }
func (n *number) store(v float64) { n.bits.Store(math.Float64bits(v)) }

// predictor learns how long runs take. Everything is in logarithms: errors of a
// factor are what matters, above as below.
type predictor struct {
	mu      sync.Mutex // held to learn
	runs    int
	machine number // log of how much slower than the rule this machine is now
	spread  number // of errors
}

// habit is what is learnt about one subnetwork at one batch size.
type habit struct {
	off  number // log of how far it is off the rule
	runs int    // guarded by predictor.mu
}

func (p *predictor) init() { p.spread.store(firstSpread) }

// predict is how long a run is expected to take, for which the rule says base.
func (p *predictor) predict(base float64, h *habit) time.Duration {
	return duration(base * math.Exp(p.machine.load()+h.off.load()))
}

// margin is the factor by which runs exceed their prediction now and then.
func (p *predictor) margin() float64 { return math.Exp(spreads * p.spread.load()) }

// learn takes over what a run took.
func (p *predictor) learn(base float64, h *habit, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	machine, off, spread := p.machine.load(), h.off.load(), p.spread.load()
	wrong := math.Log(float64(max(took, 1))/base) - machine - off
	if p.runs == 0 { // all that is wrong is the machine
		p.runs++
		p.machine.store(machine + wrong)
		return
	}
	wrong = min(max(wrong, -largestError), largestError)
	p.runs++
	h.runs++
	p.machine.store(machine + wrong*max(machineGain, 1/float64(p.runs)))
	h.off.store(off + wrong*max(subnetGain, 0.5/float64(h.runs)))
	p.spread.store(max(leastSpread, spread+spreadGain*(math.Abs(wrong)-spread)))
}

// duration rounds nanoseconds, however many.
func duration(ns float64) time.Duration {
	if !(ns < math.MaxInt64/4) {
		return math.MaxInt64 / 4
	}
	return time.Duration(ns)
}
