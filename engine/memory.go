package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// MemoryOptions say when memory is short.
type MemoryOptions struct {
	High     float64       // part of the control group's limit that is too much; 0: 0.9
	Low      float64       // part below which all is well; 0: 0.8
	Stall    float64       // part of the time that tasks wait for memory that is too much; 0: 0.1
	Patience int           // looks that must be well to go up; 0: 10
	Every    time.Duration // between looks; 0: 500 ms
	Root     string        // where /proc and /sys are found; empty: "/"
	Log      *slog.Logger  // nil: none
}

// MemoryController limits the memory of feature maps while the memory of the control
// group (version 2: memory.current without what can be dropped, against memory.high
// and memory.max) is nearly used up, or tasks have to wait for memory (pressure stall
// information of the control group, or else of the machine). When it limits more
// than before it gives back what idle sessions hold.
type MemoryController struct {
	e *Engine
	o MemoryOptions
	g *governor

	stalled time.Duration // in all, when last looked
	looked  time.Time
}

// NewMemoryController makes a controller; it limits nothing before its first step.
func NewMemoryController(e *Engine, o MemoryOptions) (*MemoryController, error) {
	o.High, o.Low, o.Stall = or(o.High, 0.9), or(o.Low, 0.8), or(o.Stall, 0.1)
	o.Patience, o.Every, o.Root = or(o.Patience, 10), or(o.Every, 500*time.Millisecond), or(o.Root, "/")
	if !(o.High > 0 && o.Low > 0 && o.Low <= o.High) || !(o.Stall > 0) || o.Every < 0 || o.Patience < 0 {
		return nil, fmt.Errorf("engine: memory high %v, low %v, stall %v; want parts above 0, and low not above high", o.High, o.Low, o.Stall)
	}
	g := newGovernor(e, o.Patience, func(c *candidate) int64 { return c.costs.PeakBytes }, func(v int64) Budget { return Budget{Memory: v} })
	return &MemoryController{e: e, o: o, g: g}, nil
}

// Step looks at the pressure. It fails only where the system tells nothing of it.
func (c *MemoryController) Step() (Move, error) { return c.step(time.Now()) }

func (c *MemoryController) step(now time.Time) (Move, error) {
	reading, err := readMemory(c.o.Root)
	if err != nil {
		return Move{}, fmt.Errorf("engine: memory pressure: %w", err)
	}
	used := reading.used
	// The time stalled between two looks tells more than averages over ten seconds,
	// which have to do for the first one.
	stall := reading.stall10
	if since := now.Sub(c.looked); !c.looked.IsZero() && since > 0 {
		stall = float64(reading.stalled-c.stalled) / float64(since)
	}
	c.stalled, c.looked = reading.stalled, now

	before := c.g.level
	most, spare := before, before
	switch {
	case used >= c.o.High || stall >= c.o.Stall:
		most = min(before/2, before-1)
	case used < c.o.Low && stall < c.o.Stall/4:
		spare = len(c.g.costs) - 1
	}
	m, err := c.g.move(most, spare, fmt.Sprintf("%.0f %% of memory used, %.1f %% of the time stalled", 100*used, 100*stall))
	if m.Level < before {
		c.e.Trim()
		debug.FreeOSMemory()
	}
	return m, err
}

// Run steps until the context ends.
func (c *MemoryController) Run(ctx context.Context) error {
	return run(ctx, c.o.Every, c.o.Log, "memory", c, c.g)
}
