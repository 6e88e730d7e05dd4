package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// CPUOptions say how to watch the processor.
type CPUOptions struct {
	Spare    float64       // part of the capacity that must be left to go up; 0: 0.1
	Patience int           // looks that must be well to go up; 0: 5
	Every    time.Duration // between looks; 0: 500 ms
	Root     string        // where /proc and /sys are found; empty: "/"
	Log      *slog.Logger  // nil: none
}

// CPUController limits multiply-accumulates to what the processor has left: in
// proportion to the time that other processes leave to the engine's threads, and to
// the clock against its highest. So an inference takes about as long as it would on
// an idle, cool machine.
//
// Load is that of all processors that /proc/stat lists; what the process itself uses
// is not counted as load. The clock at the moment counts only while processors are
// busy, because idle ones slow down of themselves; a limit that the system has set
// on it, as when it is too hot, counts always. Where the system tells nothing about
// clocks, they are taken to be at their highest.
type CPUController struct {
	o        CPUOptions
	g        *governor
	need     float64 // processors that the engine can use
	last     cpuTimes
	capacity float64 // smoothed
}

// NewCPUController makes a controller; it limits nothing before its second step.
func NewCPUController(e *Engine, o CPUOptions) (*CPUController, error) {
	o.Spare, o.Patience = or(o.Spare, 0.1), or(o.Patience, 5)
	o.Every, o.Root = or(o.Every, 500*time.Millisecond), or(o.Root, "/")
	if !(o.Spare > 0 && o.Spare < 1) || o.Every < 0 || o.Patience < 0 {
		return nil, fmt.Errorf("engine: spare capacity %v; want between 0 and 1", o.Spare)
	}
	return &CPUController{o: o, g: byMACs(e, o.Patience), need: float64(e.options.Threads * e.options.MaxConcurrent), capacity: 1}, nil
}

// Step compares processor times with those of the last step.
func (c *CPUController) Step() (Move, error) {
	now, err := readCPU(c.o.Root)
	if err != nil {
		return Move{}, fmt.Errorf("engine: processor load: %w", err)
	}
	before := c.last
	c.last = now
	total := float64(now.total) - float64(before.total)
	if before.total == 0 || total <= 0 {
		return c.g.stay("the first look")
	}
	busy := (float64(now.busy) - float64(before.busy)) / total
	own := (float64(now.own) - float64(before.own)) / total
	others := min(max(busy-own, 0), 1)

	n := float64(now.processors)
	left := min(1, n*(1-others)/min(c.need, n))
	clock := now.clockLimit
	if busy >= 0.5 {
		clock = min(clock, now.clock)
	}
	c.capacity += 0.5 * (left*clock - c.capacity)

	full := float64(c.g.costs[len(c.g.costs)-1])
	why := fmt.Sprintf("%.0f %% of processors used by others, clock at %.0f %%: capacity %.0f %%", 100*others, 100*clock, 100*c.capacity)
	// A little less than all is still all: nobody is ever quite alone.
	most := c.g.rung(full * (c.capacity + c.o.Spare/2))
	spare := c.g.rung(full * (c.capacity + c.o.Spare/2 - c.o.Spare))
	if c.capacity > 1-c.o.Spare/2 {
		spare = most
	}
	return c.g.move(most, spare, why)
}

// Run steps until the context ends.
func (c *CPUController) Run(ctx context.Context) error {
	return run(ctx, c.o.Every, c.o.Log, "cpu", c, c.g)
}
