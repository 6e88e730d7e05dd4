package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"path/filepath"

	"tips/bench/torchnet"
	"tips/dataset"
	"tips/internal/atomicfile"
	"tips/train"
	"tips/train/method"
	"tips/weights"
)

// exercise is training to be done on both sides: some steps from the same weights,
// each on a batch and with subnetworks of its own.
type exercise struct {
	set    *weights.Set
	update train.Update
	steps  []train.Step
}

// newExercise draws what is to be learnt: in every step the whole network learns
// from the labels, and three random subnetworks from the labels and from it.
func newExercise(set *weights.Set, update train.Update, batch, steps int, rate float64, seed uint64) (*exercise, error) {
	n := set.Network
	full := n.Full()
	classes := full.Shape(full.Output()).Channels
	e := &exercise{set: set, update: update}
	rng := rand.New(rand.NewPCG(seed, 0x6c6162656c73))
	for k := range steps {
		subs, err := randomSubnets(n, 3, seed+uint64(k))
		if err != nil {
			return nil, err
		}
		b := &dataset.Batch{Images: randomImages(n.Input(), batch, seed+uint64(k)), N: batch}
		for range batch {
			b.Labels = append(b.Labels, int32(rng.IntN(classes)))
		}
		lessons := []method.Lesson{{Label: 1}}
		for _, sub := range subs {
			lessons = append(lessons, method.Lesson{Subnet: sub, Label: 1, Soft: 1, Teachers: []method.Teacher{{Source: method.Live, Lesson: 0}}})
		}
		e.steps = append(e.steps, train.Step{Batch: b, Lessons: lessons, Rate: rate})
	}
	return e, nil
}

// executor is our side, with the weights that the exercise starts from.
func (e *exercise) executor(update train.Update, threads int) (*train.CPU, error) {
	c := train.NewCPU(train.Settings{Network: e.set.Network, Update: update}, threads)
	if err := c.Restore(train.NewState(e.set, false)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// The files of an exercise in a folder.
const (
	programFile = "program.json"
	weightsFile = "weights.safetensors"
	imagesFile  = "images.f32"
)

// write leaves an exercise in a folder, as torch_step.py reads it.
func (e *exercise) write(dir string) error {
	p, err := e.program()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, programFile), func(w io.Writer) error { return json.NewEncoder(w).Encode(p) }); err != nil {
		return err
	}
	if err := e.set.Save(filepath.Join(dir, weightsFile)); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, imagesFile), func(w io.Writer) error {
		for _, step := range e.steps {
			x := make([]float32, len(step.Batch.Images))
			channelsFirst(x, step.Batch.Images, e.set.Network.Input())
			if err := binary.Write(w, binary.LittleEndian, x); err != nil {
				return err
			}
		}
		return nil
	})
}

// program is an exercise as operations to run, so that who runs it needs none of
// the rules by which subnetworks are made.
type program struct {
	Batch        int           `json:"batch"`
	Channels     int           `json:"channels"`
	Height       int           `json:"height"`
	Width        int           `json:"width"`
	Momentum     float64       `json:"momentum"`
	Nesterov     bool          `json:"nesterov"`
	Decay        float64       `json:"decay"`
	WithoutDecay []string      `json:"without_decay"` // names of tensors
	Steps        []programStep `json:"steps"`
}

type programStep struct {
	Rate     float64          `json:"rate"`
	Labels   []int32          `json:"labels"`
	Networks []programNetwork `json:"networks"`
}

type programNetwork struct {
	Label   float64       `json:"label"`
	Soft    float64       `json:"soft"`
	Teacher int           `json:"teacher"` // number of the network that soft labels come from
	Ops     []torchnet.Op `json:"ops"`
	Output  int           `json:"output"` // number of the operation that writes it
}

func (e *exercise) program() (*program, error) {
	input := e.set.Network.Input()
	p := &program{
		Batch: e.steps[0].Batch.N, Channels: input.Channels, Height: input.Height, Width: input.Width,
		Momentum: e.update.Momentum, Nesterov: e.update.Nesterov, Decay: e.update.WeightDecay, WithoutDecay: []string{},
	}
	for _, op := range e.set.Network.Ops() {
		if op.Bias && !e.update.DecayBias {
			p.WithoutDecay = append(p.WithoutDecay, op.Name+".bias")
		}
		if op.Norm && !e.update.DecayNorm {
			p.WithoutDecay = append(p.WithoutDecay, op.Name+".norm.weight", op.Name+".norm.bias")
		}
	}
	for _, step := range e.steps {
		to := programStep{Rate: step.Rate, Labels: step.Batch.Labels}
		for _, l := range step.Lessons {
			ops, output, err := torchnet.Ops(e.set.Network, l.Subnet)
			if err != nil {
				return nil, err
			}
			to.Networks = append(to.Networks, programNetwork{l.Label, l.Soft, 0, ops, output})
		}
		p.Steps = append(p.Steps, to)
	}
	return p, nil
}
