package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// LatencyOptions say which latency calls should see.
type LatencyOptions struct {
	Target   time.Duration // from call to result, waiting included; required
	Quantile float64       // of the calls that should meet it; 0: 0.9
	Spare    float64       // part of the target that must be left to go up; 0: 0.15
	Samples  int           // calls to judge by; 0: 8
	Patience int           // looks that must be well to go up; 0: 3
	Every    time.Duration // between looks; 0: 100 ms
	Log      *slog.Logger  // nil: none
}

// LatencyController keeps the latency of calls near a target by feedback: it limits
// multiply-accumulates, to which latency is about in proportion.
type LatencyController struct {
	e       *Engine
	o       LatencyOptions
	g       *governor
	seen    uint64 // runs that have been judged
	samples []past
	climbed bool
}

// NewLatencyController makes a controller; it limits nothing before its first step.
func NewLatencyController(e *Engine, o LatencyOptions) (*LatencyController, error) {
	o.Quantile, o.Spare, o.Samples = or(o.Quantile, 0.9), or(o.Spare, 0.15), or(o.Samples, 8)
	o.Patience, o.Every = or(o.Patience, 3), or(o.Every, 100*time.Millisecond)
	if o.Target <= 0 || o.Every < 0 || !(o.Quantile > 0 && o.Quantile < 1) || !(o.Spare > 0 && o.Spare < 1) || o.Samples < 0 || o.Patience < 0 {
		return nil, fmt.Errorf("engine: latency target %v, quantile %v, spare %v; want a target above zero, and parts between 0 and 1", o.Target, o.Quantile, o.Spare)
	}
	_, runs := e.history.since(0, nil)
	return &LatencyController{e: e, o: o, g: byMACs(e, o.Patience), seen: runs}, nil
}

// Step judges the calls since the last move, if there are enough of them.
func (c *LatencyController) Step() (Move, error) {
	samples, runs := c.e.history.since(c.seen, c.samples[:0])
	c.samples = samples
	if len(samples) < c.o.Samples {
		return c.g.stay("too few calls to judge by")
	}
	c.seen = runs
	sortRuns(samples)
	is := quantile(samples, c.o.Quantile)
	scale := float64(c.o.Target) / float64(max(is, 1))
	why := fmt.Sprintf("%v at quantile %v, target %v", is, c.o.Quantile, c.o.Target)

	// What the target, and what less than it, would allow in proportion to what ran.
	now := 0.0
	for _, run := range samples {
		now += float64(run.macs) / float64(len(samples))
	}
	most := c.g.level
	if scale < 1 {
		most = min(c.g.rung(now*scale), c.g.level-1)
	}
	spare := c.g.rung(now * scale * (1 - c.o.Spare))
	m, err := c.g.move(most, spare, why)
	if m.Changed {
		up := scale >= 1
		// Who goes up and has to come down at once was wrong to: it waits longer the
		// next time, and forgets that when a step up has lasted.
		switch {
		case !up && c.climbed:
			c.g.patience = min(2*c.g.patience, 32*c.o.Patience)
		case up && c.climbed:
			c.g.patience = c.o.Patience
		}
		c.climbed = up
	}
	return m, err
}

// Run steps until the context ends.
func (c *LatencyController) Run(ctx context.Context) error {
	return run(ctx, c.o.Every, c.o.Log, "latency", c, c.g)
}
