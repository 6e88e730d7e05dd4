// Package engine runs an anytime network: it loads weights and a frontier once,
// and picks for every inference the most accurate subnetwork that its budget
// allows. It knows nothing of training or search.
//
//	e, err := engine.Open("net.safetensors", "net.frontier", engine.Options{})
//	defer e.Close()
//	r, err := e.Infer(ctx, input, engine.Budget{Time: 20 * time.Millisecond})
//
// # What runs
//
// A [Budget] limits multiply-accumulates, time or memory, or names a subnetwork.
// Of those that fit, the most accurate one runs. Calls without a budget run the
// default, which is the most accurate of all until [Engine.Switch] sets another: one
// atomic store, while any number of goroutines infer. A deadline of the context is
// a limit on time, whatever else is asked; a call that had to wait for its turn has
// less of it left. [Limit] is a budget that stands until it is changed and holds for
// all calls but those that name a subnetwork; controllers move it.
//
// [Result] says which subnetwork ran, how long it took, and whether the budget was
// kept. If nothing fits, what comes closest runs, or with Options.Strict nothing does
// and the error wraps ErrInfeasible.
//
// # Time
//
// How long a subnetwork will take is predicted: by the latency that the frontier
// holds, or in proportion to its multiply-accumulates, times how fast this machine
// is at the moment, times how far this subnetwork is off the rule. The two factors
// are learnt from every run; a spread of the errors is learnt along with them and
// left as a margin. A few runs when the engine is opened give them a start.
//
// # Goroutines and memory
//
// An Engine is safe for use by any number of goroutines. At most
// Options.MaxConcurrent of them compute at a time, the others wait, as long as
// their contexts let them. Programs are planned once and shared. What each of the
// computing ones needs, feature maps and threads, is kept for the next call;
// [Engine.Trim] gives it back.
//
// # Controllers
//
// [LatencyController], [MemoryController] and [CPUController] each own a Limit and move it: by
// the latencies that calls see, by the memory pressure of the control group or the
// machine, by how much of the processor is left. Several can run at once.
//
//	c := engine.NewMemoryController(e, engine.MemoryOptions{})
//	go c.Run(ctx)
package engine
