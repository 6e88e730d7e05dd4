package engine

import "fmt"

// Limit is a budget that stands until it is changed, beside what calls ask for
// themselves: for all calls but those that name a subnetwork. Controllers own one
// each; where several stand, all are kept.
type Limit struct{ e *Engine }

// NewLimit adds a limit, which limits nothing until it is set.
func (e *Engine) NewLimit() *Limit {
	l := &Limit{e}
	e.limits.Lock()
	defer e.limits.Unlock()
	e.limits.set[l] = Budget{}
	return l
}

// Set replaces the limit; the zero Budget takes it off. A limit on time is about
// computing alone.
func (l *Limit) Set(b Budget) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.Subnet != nil {
		return fmt.Errorf("engine: limit to subnetwork %s; want limits of costs, or Switch", b.Subnet)
	}
	l.e.limits.Lock()
	defer l.e.limits.Unlock()
	if _, there := l.e.limits.set[l]; !there {
		return fmt.Errorf("engine: the limit was released")
	}
	l.e.limits.set[l] = b
	l.e.combineLimits()
	return nil
}

// Release takes the limit off for good.
func (l *Limit) Release() {
	l.e.limits.Lock()
	defer l.e.limits.Unlock()
	delete(l.e.limits.set, l)
	l.e.combineLimits()
}

// combineLimits computes what all limits leave; their lock is held.
func (e *Engine) combineLimits() {
	var all Budget
	for _, b := range e.limits.set {
		all = all.and(b)
	}
	e.standing.Store(&all)
}
