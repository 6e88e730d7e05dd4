package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Controller moves a limit of an engine while it runs. Step takes one look and
// moves the limit if there is reason to; Run steps again and again until its
// context ends, then takes the limit off, and the controller is done. One goroutine
// at a time may use one.
type Controller interface {
	Step() (Move, error)
	Run(ctx context.Context) error
}

// Move is what a step of a controller did. Levels are the limits that its ladder
// has, one for each different cost on the frontier: at level 0 only the cheapest
// subnetwork is allowed, at the highest level all are.
type Move struct {
	Level   int
	Levels  int // how many there are
	Changed bool
	Why     string // what was seen
}

// governor moves a limit along a ladder of budgets: down as soon as there is
// reason to, up one rung at a time when all has been well for a while.
type governor struct {
	limit    *Limit
	budgets  []Budget // cheapest first; the last is no limit
	costs    []int64  // of the rungs
	level    int
	patience int // steps that must be well before one up
	well     int // steps that have been
}

func newGovernor(e *Engine, patience int, cost func(*candidate) int64, budget func(int64) Budget) *governor {
	g := &governor{limit: e.NewLimit(), patience: patience}
	for _, c := range e.candidates {
		g.costs = append(g.costs, cost(c))
	}
	slices.Sort(g.costs)
	g.costs = slices.Compact(g.costs)
	for _, c := range g.costs {
		g.budgets = append(g.budgets, budget(c))
	}
	g.level = len(g.costs) - 1
	g.budgets[g.level] = Budget{}
	return g
}

// byMACs is a ladder of multiply-accumulates.
func byMACs(e *Engine, patience int) *governor {
	return newGovernor(e, patience, func(c *candidate) int64 { return c.costs.MACs }, func(v int64) Budget { return Budget{MACs: v} })
}

// rung is the highest level whose cost is at most v, or the lowest.
func (g *governor) rung(v float64) int {
	level := 0
	for level+1 < len(g.costs) && float64(g.costs[level+1]) <= v {
		level++
	}
	return level
}

// move goes down to level most if it is above; where it could go up and stay below
// level spare, it does so after some patience.
func (g *governor) move(most, spare int, why string) (Move, error) {
	to := g.level
	switch {
	case most < g.level:
		to, g.well = max(most, 0), 0
	case spare > g.level:
		if g.well++; g.well >= g.patience {
			to, g.well = g.level+1, 0
		}
	default:
		g.well = 0
	}
	m := Move{Level: to, Levels: len(g.costs), Changed: to != g.level, Why: why}
	if !m.Changed {
		return m, nil
	}
	g.level = to
	return m, g.limit.Set(g.budgets[to])
}

// stay is a look that tells nothing, neither that all is well nor that it is not.
func (g *governor) stay(why string) (Move, error) {
	return Move{Level: g.level, Levels: len(g.costs), Why: why}, nil
}

// run is the life of a controller.
func run(ctx context.Context, every time.Duration, log *slog.Logger, name string, c Controller, g *governor) error {
	defer g.limit.Release()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m, err := c.Step()
		if err != nil {
			return err
		}
		if m.Changed && log != nil {
			log.Info("budget moved", "controller", name, "level", m.Level, "levels", m.Levels, "why", m.Why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// or is v, or the default where it is zero.
func or[T int | float64 | time.Duration | string](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
