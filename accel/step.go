//go:build xla

package accel

import (
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"tips/nn"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
)

// arrangement is what of a step is part of its program: how many lessons, what
// each learns from, and the size of the batch. Subnetworks and weights of losses
// are inputs.
type arrangement struct {
	batch   int
	lessons []lessonForm
	other   [method.Frozen + 1]int // by source, the networks that only teach
	depth   bool                   // whether subnetworks may leave out blocks
}

type lessonForm struct {
	soft       bool
	divergence method.Divergence
	teachers   []teacherForm
}

type teacherForm struct {
	source method.Source
	index  int // of the lesson, or among those of the source that only teach
}

// arrange finds the arrangement of a step, and the networks that only teach: one
// that teaches several lessons runs once.
func arrange(s train.Step, batch int, depth bool) (arrangement, [method.Frozen + 1][]supernet.Subnet, error) {
	a := arrangement{batch: batch, depth: depth}
	var others [method.Frozen + 1][]supernet.Subnet
	for i, l := range s.Lessons {
		form := lessonForm{soft: l.Soft != 0}
		if form.soft {
			form.divergence = l.Divergence
			if len(l.Teachers) == 0 {
				return a, others, fmt.Errorf("accel: lesson %d: a soft loss without a teacher", i)
			}
			for _, t := range l.Teachers {
				f := teacherForm{t.Source, t.Lesson}
				if t.Source == method.Live {
					if t.Lesson < 0 || t.Lesson >= i {
						return a, others, fmt.Errorf("accel: lesson %d: its teacher, lesson %d, has not run", i, t.Lesson)
					}
				} else {
					list := &others[t.Source]
					f.index = len(*list)
					for k, known := range *list {
						if known == t.Subnet {
							f.index = k
						}
					}
					if f.index == len(*list) {
						*list = append(*list, t.Subnet)
					}
				}
				form.teachers = append(form.teachers, f)
			}
		}
		a.lessons = append(a.lessons, form)
	}
	for source := range others {
		a.other[source] = len(others[source])
	}
	return a, others, nil
}

// fits tells whether a program of this arrangement can do a step, and which
// networks then teach. It may have more teachers than the step needs: two that were
// drawn may be equal by chance, and a program takes a minute to compile.
func (a arrangement) fits(s train.Step, batch int, depth bool) (others [method.Frozen + 1][]supernet.Subnet, ok bool) {
	if a.batch != batch || len(a.lessons) != len(s.Lessons) || depth && !a.depth {
		return others, false
	}
	var given [method.Frozen + 1][]bool
	for source := range others {
		others[source] = make([]supernet.Subnet, a.other[source])
		given[source] = make([]bool, a.other[source])
	}
	for i, l := range s.Lessons {
		form := a.lessons[i]
		if form.soft != (l.Soft != 0) {
			return others, false
		}
		if !form.soft {
			continue
		}
		if form.divergence != l.Divergence || len(form.teachers) != len(l.Teachers) {
			return others, false
		}
		for j, t := range l.Teachers {
			f := form.teachers[j]
			switch {
			case f.source != t.Source, f.source == method.Live && f.index != t.Lesson:
				return others, false
			case f.source == method.Live:
			case given[f.source][f.index] && others[f.source][f.index] != t.Subnet:
				return others, false
			default:
				others[f.source][f.index], given[f.source][f.index] = t.Subnet, true
			}
		}
	}
	return others, true
}

// networks is how many run in a step.
func (a arrangement) networks() int {
	return len(a.lessons) + a.other[method.Average] + a.other[method.Frozen]
}

// What a step is told, in one vector: an upload costs as much as a kernel or two.
//
//	rate, apply, label weights, soft weights, subnetworks, labels
//
// apply is 0 for a step that changes nothing.
func (a arrangement) controls(c *columns) int {
	return 2 + 2*len(a.lessons) + a.networks()*c.count + a.batch
}

// And what it tells: by lesson cross-entropy, divergence and images that were
// right, then the norm of the gradient.
func (a arrangement) reports() int { return 3*len(a.lessons) + 1 }

// stepProgram is a compiled step.
type stepProgram struct {
	arrangement
	run compute.Executable
}

// buildStep builds the program of a step.
//
//	images, control, weights, momentum, average, frozen → report, weights, momentum, average
//
// without what there is none of.
func (x *Executor) buildStep(a arrangement) (*stepProgram, error) {
	input := x.layout.network.Input()
	run, err := build(x.device.backend, "step", func(g *graph) []node {
		images := g.parameter("images", dtypes.Float32, a.batch, input.Height, input.Width, input.Channels)
		control := g.parameter("control", dtypes.Float32, a.controls(x.columns))
		weights := g.parameter("weights", dtypes.Float32, x.layout.size)
		momentum := g.parameter("momentum", dtypes.Float32, x.layout.size)
		var sources [method.Frozen + 1]node
		if x.settings.Average != 0 {
			sources[method.Average] = g.parameter("average", dtypes.Float32, x.layout.size)
		}
		if a.other[method.Frozen] > 0 {
			sources[method.Frozen] = g.parameter("frozen", dtypes.Float32, x.layout.size)
		}
		at := 0
		take := func(n int) node {
			at += n
			return g.cut(control, 0, at-n, at)
		}
		rate, apply := g.reshape(take(1)), g.reshape(take(1))
		lessons := len(a.lessons)
		label, soft := take(lessons), take(lessons)
		choices := func(nets int) node { return g.reshape(take(nets*x.columns.count), nets, x.columns.count) }

		learners := x.pass(g, weights, images, a.batch, lessons, choices(lessons), a.depth)
		student := newAnswers(g, learners.forward())
		var teachers [method.Frozen + 1]*answers
		for source := method.Average; source <= method.Frozen; source++ {
			if nets := a.other[source]; nets > 0 {
				p := x.pass(g, sources[source], images, a.batch, nets, choices(nets), a.depth)
				teachers[source] = newAnswers(g, p.forward())
			}
		}
		labels := take(a.batch)
		loss := x.lessonLosses(g, a, student, &teachers, labels, label, soft)

		gradient := learners.backward(loss.dlogits)
		norm := g.norm(gradient)
		report := g.join(0, loss.label, loss.soft, loss.correct, g.reshape(norm, 1))
		good := g.less(g.scalar(0.5, dtypes.Float32), apply)
		// A sum is finite only if all its terms are.
		good = g.and(good, g.finite(g.add(norm, g.add(g.sum(loss.label), g.sum(loss.soft)))))
		return append([]node{report}, x.update(g, rate, good, norm, weights, momentum, gradient, sources[method.Average])...)
	})
	if err != nil {
		return nil, err
	}
	return &stepProgram{a, run}, nil
}

// pass prepares the way through subnetworks.
func (x *Executor) pass(g *graph, params, images node, batch, nets int, choices node, depth bool) *pass {
	p := &pass{
		g: g, layout: x.layout, narrow: x.narrow, params: params, nets: nets, batch: batch,
		columns: x.columns, choices: choices, depth: depth,
	}
	p.input = g.convert(images, p.typeOf(x.layout.network.Input()))
	return p
}

// lossNodes are the losses of the lessons, [lessons], and the gradient of all
// logits, [lessons][batch][classes].
type lossNodes struct{ label, soft, correct, dlogits node }

func (x *Executor) lessonLosses(g *graph, a arrangement, student *answers, teachers *[method.Frozen + 1]*answers, labels, label, soft node) lossNodes {
	lessons, classes := len(a.lessons), student.logits.dims[2]
	each := 1 / float64(a.batch)
	targets := g.targets(labels, classes, x.settings.Smoothing)
	out := lossNodes{
		label:   g.times(g.sum(student.crossEntropy(targets), 1), each),
		correct: g.sum(student.correct(labels), 1),
	}
	weigh := func(weight, grad node) node { return g.mul(grad, g.spread(g.times(weight, each), grad.dims, 0)) }
	out.dlogits = weigh(label, g.sub(student.q, g.spread(targets, student.q.dims, 1, 2)))

	none := g.fit(g.scalar(0, dtypes.Float32), []int{1})
	losses, grads, any := make([]node, lessons), make([]node, lessons), false
	for i, form := range a.lessons {
		losses[i], grads[i] = none, g.fit(g.scalar(0, dtypes.Float32), []int{1, a.batch, classes})
		if !form.soft {
			continue
		}
		any = true
		var mean node
		for _, t := range form.teachers {
			from := student
			if t.source != method.Live {
				from = teachers[t.source]
			}
			p := from.softmax(t.index)
			if mean.is() {
				p = g.add(mean, p)
			}
			mean = p
		}
		mean = g.times(mean, 1/float64(len(form.teachers)))
		loss, grad := student.divergence(form.divergence, i, mean)
		losses[i] = g.reshape(g.times(g.sum(loss), each), 1)
		grads[i] = g.reshape(grad, 1, a.batch, classes)
	}
	out.soft = g.join(0, losses...)
	if any {
		out.dlogits = g.add(out.dlogits, weigh(soft, g.join(0, grads...)))
	}
	return out
}

// update is train.Update, on all parameters at once. Where the step is no good all
// stay as they were.
func (x *Executor) update(g *graph, rate, good, norm, w, m, gradient, average node) []node {
	u := x.settings.Update
	if u.ClipNorm > 0 {
		clip := g.scalar(u.ClipNorm, dtypes.Float32)
		gradient = g.mul(gradient, g.choose(g.less(clip, norm), g.div(clip, norm), g.scalar(1, dtypes.Float32)))
	}
	if u.WeightDecay != 0 {
		gradient = g.add(gradient, g.mul(x.decay(g), w))
	}
	momentum := g.add(g.times(m, u.Momentum), gradient)
	step := momentum
	if u.Nesterov {
		step = g.add(gradient, g.times(momentum, u.Momentum))
	}
	weights := g.sub(w, g.mul(step, rate))
	out := []node{g.choose(good, weights, w), g.choose(good, momentum, m)}
	if average.is() {
		next := g.add(average, g.times(g.sub(weights, average), 1-x.settings.Average))
		out = append(out, g.choose(good, next, average))
	}
	return out
}

// decay is how much each parameter decays: the same for all of a role, which are
// next to each other.
func (x *Executor) decay(g *graph) node {
	u, from := x.settings.Update, 0
	var parts []node
	for role, end := range x.layout.end {
		much := u.WeightDecay
		if nn.Role(role) == nn.RoleBias && !u.DecayBias || nn.Role(role) >= nn.RoleScale && !u.DecayNorm {
			much = 0
		}
		if end > from {
			parts = append(parts, g.fit(g.scalar(much, dtypes.Float32), []int{end - from}))
		}
		from = end
	}
	return g.join(0, parts...)
}

// step does a step, and gives what the program reports. Unless apply is set nothing
// changes.
func (x *Executor) step(s train.Step, images compute.Buffer, labels []int32, apply bool) (report []float32, err error) {
	depth := false
	for _, l := range s.Lessons {
		depth = depth || x.leavesOut(l.Subnet)
		for _, t := range l.Teachers {
			depth = depth || t.Source != method.Live && x.leavesOut(t.Subnet)
		}
	}
	x.stepped = len(labels)
	program, others, err := x.stepProgram(s, len(labels), depth)
	if err != nil {
		return nil, err
	}
	for source := method.Average; source <= method.Frozen; source++ {
		if program.other[source] > 0 && x.of(source) == nil {
			return nil, fmt.Errorf("accel: a teacher has the %v weights, and there are none", source)
		}
	}
	control := make([]float32, 0, program.controls(x.columns))
	control = append(control, float32(s.Rate), 0)
	if apply {
		control[1] = 1
	}
	for _, l := range s.Lessons {
		control = append(control, float32(l.Label))
	}
	var subnets []supernet.Subnet
	for _, l := range s.Lessons {
		control = append(control, float32(l.Soft))
		subnets = append(subnets, l.Subnet)
	}
	for _, list := range others {
		subnets = append(subnets, list...)
	}
	if control, err = x.appendRows(control, subnets); err != nil {
		return nil, err
	}
	control = appendLabels(control, labels)
	told, err := x.device.upload(control, len(control))
	if err != nil {
		return nil, err
	}
	defer func() { x.garbage = append(x.garbage, told) }()
	inputs := []compute.Buffer{images, told, x.weights, x.momentum}
	if x.average != nil {
		inputs = append(inputs, x.average)
	}
	if program.other[method.Frozen] > 0 {
		inputs = append(inputs, x.frozen)
	}
	outputs, err := x.device.execute(program.run, inputs, func() { x.meanwhile(s.Next) })
	if err != nil {
		return nil, err
	}
	report = make([]float32, program.reports())
	if err := outputs[0].ToFlatData(report); err != nil {
		return nil, errors.Join(err, finalize(outputs...))
	}
	x.garbage = append(x.garbage, outputs[0], x.weights, x.momentum)
	x.weights, x.momentum = outputs[1], outputs[2]
	if x.average != nil {
		x.garbage = append(x.garbage, x.average)
		x.average = outputs[3]
	}
	return report, nil
}

// stepProgram finds the program for a step, or compiles it.
func (x *Executor) stepProgram(s train.Step, batch int, depth bool) (*stepProgram, [method.Frozen + 1][]supernet.Subnet, error) {
	for _, p := range x.steps {
		if others, ok := p.fits(s, batch, depth); ok {
			return p, others, nil
		}
	}
	a, others, err := arrange(s, batch, depth)
	if err != nil {
		return nil, others, err
	}
	if a.other[method.Average] > 0 && x.settings.Average == 0 {
		return nil, others, fmt.Errorf("accel: a teacher has the %v weights, and there are none", method.Average)
	}
	p, err := x.buildStep(a)
	if err != nil {
		return nil, others, err
	}
	// Later ones are more general.
	x.steps = append([]*stepProgram{p}, x.steps...)
	return p, others, nil
}
