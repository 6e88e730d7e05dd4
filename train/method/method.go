// Package method holds the training methods that are compared: which
// subnetworks a step of training draws, and what each learns from. A method is a
// plan and nothing else: it holds no weights and runs no network, so that every
// executor can carry it out, and tests can check its rules by drawing steps.
//
// docs/methods.md tells where each method comes from and how it reads here.
package method

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"tips/supernet"
	"tips/topology"
)

// Lesson is one network of a step and what it learns from. Its loss is
// Label·CE(labels) + Soft·divergence(mean softmax of the teachers), averaged over
// the batch; the losses of a step's lessons are added up.
type Lesson struct {
	Subnet     supernet.Subnet
	Label      float64    // weight of the cross-entropy with the labels; label smoothing is the trainer's
	Soft       float64    // weight of the divergence from the mean of the teachers' softmax, detached, at temperature 1
	Teachers   []Teacher  // none where Soft is 0
	Divergence Divergence // of the soft part
}

// Teacher is a network whose softmax a lesson learns from. No gradient flows
// through it.
type Teacher struct {
	Source Source
	Lesson int             // Live only: the number of an earlier lesson of this step
	Subnet supernet.Subnet // the network; for Live, that of the lesson
}

// Source says which weights a teacher has. All run with batch statistics, on the
// step's batch.
type Source int

// The sources.
const (
	Live    Source = iota // the network of an earlier lesson of this step, as it is now: its logits are at hand
	Average               // the moving average of the weights, see Method.EMA
	Frozen                // the weights that the action Freeze kept
)

func (s Source) String() string {
	switch s {
	case Live:
		return "live"
	case Average:
		return "average"
	case Frozen:
		return "frozen"
	}
	return fmt.Sprintf("Source(%d)", int(s))
}

// Action is something to be done to the weights before a step.
type Action int

// The actions.
const (
	// Freeze keeps the weights, as they are now, as the Frozen teacher.
	Freeze Action = iota
	// SortChannels reorders channels by weights.ChannelOrder, in the weights and in
	// everything that is shaped like them: momentum and moving average. The Frozen
	// teacher may stay as it is: sorting changes no whole network's function.
	SortChannels
)

func (a Action) String() string {
	switch a {
	case Freeze:
		return "freeze"
	case SortChannels:
		return "sort channels"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// Step is what one step of training does: the actions, in order, then the
// lessons on one batch, then one update of the weights.
type Step struct {
	Before  []Action
	Lessons []Lesson
}

// Judge measures subnetworks on one fixed batch: forward only, cross-entropy
// with the labels, batch statistics.
type Judge interface {
	Losses(ctx context.Context, subs []supernet.Subnet) ([]float64, error)
}

// Method is one way of training an anytime network. One goroutine at a time may
// use it.
//
// Random choices come from the generator that the trainer passes in, which it
// makes from its seed and the number of the step; a method keeps no random state.
type Method interface {
	Name() string
	// Step plans step number step, counted from 0. batch judges on the step's own
	// batch; only AttentiveNAS asks it.
	Step(ctx context.Context, step int, rng *rand.Rand, batch Judge) (Step, error)
	// Interval is τ: Review is due before every step whose number is a multiple of
	// it. 0 means never.
	Interval() int
	// Review looks at the training so far, before step number step, and decides
	// what the next τ steps train. With an error, such as that of a context that was
	// cancelled, nothing has changed.
	Review(ctx context.Context, step int, rng *rand.Rand, validation Judge) error
	// State is what a method has to remember between steps, as JSON; nil where
	// that is nothing. Restore takes it back, strictly.
	State() ([]byte, error)
	Restore([]byte) error
	// EMA is the decay, a step, of the moving average that Average teachers are
	// run with; 0 where the method needs none.
	EMA() float64
}

// Bounded is a method that may never train the network's smallest subnetwork, which
// all methods are compared at; if its own smallest is another, that is reported beside it.
type Bounded interface {
	OwnSmallest() supernet.Subnet
}

// Loss says which losses the lessons of a method have.
type Loss string

// The losses.
const (
	// Paper gives every method the loss of TIPS, as the paper's comparison does:
	// label CE, and soft CE to the full network as it is now. OFA and static keep
	// their own.
	Paper Loss = "paper"
	// Own gives every method the loss it was published with.
	Own Loss = "own"
)

// Networks is the number of networks that a step trains, OFA and static aside:
// the full one and three others.
const Networks = 4

// Config is what a method is made from.
type Config struct {
	Network *supernet.Network
	Input   supernet.Shape // for costs; the zero value means the network's own
	Loss    Loss           // "" means Paper
	Steps   int            // of the whole training; ofa and joslim need it
	Options Options
}

// Options are the settings of single methods. Zero values are the published
// ones; a method ignores what is not its own.
type Options struct {
	// TIPS.
	Topology topology.Options // how important operations are found
	Factor   float64          // how much wider important groups are drawn; 0 means 1.5, 1 favours none
	Together bool             // one base ratio for a whole subnetwork instead of one for every group
	Highest  float64          // the most that a base ratio is; 0 means 1
	Smallest bool             // the network's smallest subnetwork in the place of one that is drawn
	Plain    int              // how many of the subnetworks drawn for a step favour no group
	Others   bool             // favour the groups that are not important instead: a control

	// AttentiveNAS: train the worst of the candidates instead of the best.
	WorstUp bool

	// Static: the subnetwork that is trained. The zero value is the full network.
	Subnet supernet.Subnet
}

// maker makes a method from a checked configuration.
type maker struct {
	name string
	make func(Config) (Method, error)
}

func makers() []maker {
	return []maker{
		{"tips", newTIPS},
		{"us-nets", newUSNets},
		{"joslim", newJoslim},
		{"ds-net", newDSNet},
		{"ofa", newOFA},
		{"attentive-nas", newAttentiveNAS},
		{"alphanet", newAlphaNet},
		{"static", newStatic},
	}
}

// Names lists the methods.
func Names() []string {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
	}
	return names
}

// New makes a method by its name.
func New(name string, c Config) (Method, error) {
	if c.Network == nil {
		return nil, fmt.Errorf("method: %s without a network", name)
	}
	if c.Input == (supernet.Shape{}) {
		c.Input = c.Network.Input()
	}
	if c.Loss == "" {
		c.Loss = Paper
	}
	if c.Loss != Paper && c.Loss != Own {
		return nil, fmt.Errorf("method: loss %q; want %s or %s", c.Loss, Paper, Own)
	}
	if c.Steps < 0 {
		return nil, fmt.Errorf("method: %d steps; want 0 or more", c.Steps)
	}
	for _, m := range makers() {
		if m.name == name {
			made, err := m.make(c)
			if err != nil {
				return nil, fmt.Errorf("method: %s: %w", name, err)
			}
			return made, nil
		}
	}
	return nil, fmt.Errorf("method: unknown method %q; want one of %s", name, strings.Join(Names(), ", "))
}

// stateless is what methods have in common that need nothing but the number of
// the step.
type stateless struct{ name string }

func (s stateless) Name() string           { return s.name }
func (s stateless) Interval() int          { return 0 }
func (s stateless) State() ([]byte, error) { return nil, nil }
func (s stateless) EMA() float64           { return 0 }

func (s stateless) Review(context.Context, int, *rand.Rand, Judge) error { return nil }

func (s stateless) Restore(state []byte) error {
	if len(state) != 0 {
		return fmt.Errorf("method: %s: a state of %d bytes; this method has none", s.name, len(state))
	}
	return nil
}

// judge asks for losses, and checks that there is one for each.
func judge(ctx context.Context, j Judge, subs []supernet.Subnet) ([]float64, error) {
	if j == nil {
		return nil, fmt.Errorf("nobody to judge %d subnetworks", len(subs))
	}
	losses, err := j.Losses(ctx, subs)
	if err != nil {
		return nil, err
	}
	if len(losses) != len(subs) {
		return nil, fmt.Errorf("%d losses for %d subnetworks", len(losses), len(subs))
	}
	for i, l := range losses {
		if math.IsNaN(l) || math.IsInf(l, 0) {
			return nil, fmt.Errorf("the loss of subnetwork %s is %v; training has diverged", subs[i], l)
		}
	}
	return losses, nil
}
