package judge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"tips/dataset"
	"tips/frontier"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// Options say whom to judge, and by what. Either Run is needed, or Data and weights
// (Set, or Weights with Network unless the file tells its network itself).
type Options struct {
	// Run is the folder of a training run: its recipe, network and weights. What the
	// fields below say replaces what it says.
	Run string

	Network *supernet.Network
	Set     *weights.Set // the weights themselves; not to be changed
	Weights string       // or a safetensors file
	Data    string       // as dataset.Open takes it
	Formats []dataset.Format

	// Test judges by the test images. Otherwise it is by those that the run kept back
	// from training, where there are any.
	Test        bool
	Images      int // to judge by, evenly chosen; 0: all
	Calibration int // training images to re-estimate statistics on; 0: as the run's recipe, or 2048
	// Batch is how many images are calibrated on at once; 0: as the run's recipe, or
	// 256, and fewer for networks whose feature maps are large.
	Batch int

	Threads int // 0: one a processor
	// Memory is how many bytes of decoded images are kept; 0: 512 MiB; less: none.
	Memory int64
	// Examiner does the arithmetic, with the weights that are judged; nil: the
	// processor. It is used by one goroutine at a time and stays the caller's.
	Examiner Examiner
	// Executor makes an examiner, as train.Options.Executor does, for the weights that
	// are judged; it is closed with the judge. nil: the examiner above.
	Executor func(train.Settings) (train.Executor, error)

	// Cache is a file that verdicts are kept in; "": none. It need not exist.
	Cache string
	// Fresh judges again what the file holds.
	Fresh bool
	// Counts leaves statistics out of verdicts and of the file, where only accuracies
	// are of interest: those of a mobilenet_v2 take 130 KB, the rest 100 bytes.
	Counts bool

	// Observe is told about every batch that is taken up: its images, once for every
	// subnetwork. Judging one takes Calibration + Images of them. nil: nobody.
	Observe func(images int)
}

const (
	usualCalibration = 2048
	usualBatch       = 256
	usualMemory      = 512 << 20
)

// Open opens weights and data.
func Open(o Options) (*Judge, error) {
	for _, f := range []struct {
		name  string
		value int
	}{{"images", o.Images}, {"calibration images", o.Calibration}, {"images in a batch", o.Batch}, {"threads", o.Threads}} {
		if f.value < 0 {
			return nil, fmt.Errorf("judge: %d %s; want 0 or more", f.value, f.name)
		}
	}
	j := &Judge{counts: o.Counts, observe: o.Observe, known: map[supernet.Subnet]record{}, going: map[supernet.Subnet]chan struct{}{}}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if err := j.openWeights(&o); err != nil {
		return nil, err
	}
	j.close = func() error { return nil }
	if o.Executor != nil {
		if err := j.openExecutor(&o); err != nil {
			return nil, err
		}
	}
	if err := j.openRest(o); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// openExecutor makes the examiner that the options ask for.
func (j *Judge) openExecutor(o *Options) error {
	x, err := o.Executor(train.Settings{Network: j.set.Network})
	if err != nil {
		return err
	}
	if err := x.Restore(train.NewState(j.set, false)); err != nil {
		return errors.Join(err, x.Close())
	}
	o.Examiner, j.close = x, x.Close
	return nil
}

// openRest opens data and cache.
func (j *Judge) openRest(o Options) error {
	if err := j.openData(&o); err != nil {
		return err
	}
	if o.Cache != "" {
		var err error
		if j.cache, err = openCache(o.Cache, j.Network(), j.identity); err != nil {
			return err
		}
		if !o.Fresh {
			j.known = j.cache.found
		}
	}
	if j.examiner = o.Examiner; j.examiner == nil {
		panel := train.NewPanel(j.set, o.Threads)
		j.examiner, j.close = panel, panel.Close
	} else {
		j.turn = make(chan struct{}, 1)
	}
	return nil
}

func (j *Judge) openWeights(o *Options) error {
	if o.Run != "" {
		var err error
		if j.recipe, err = train.OpenRecipe(filepath.Join(o.Run, train.RecipeFile)); err != nil {
			return fmt.Errorf("%w; want the folder of a training run", err)
		}
		if o.Network == nil && o.Set == nil {
			if o.Network, err = readNetwork(filepath.Join(o.Run, train.NetworkFile)); err != nil {
				return err
			}
		}
		if o.Weights == "" && o.Set == nil {
			o.Weights = filepath.Join(o.Run, train.WeightsFile)
			if _, err := os.Stat(o.Weights); errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("judge: %s is not there; a run has weights when it is over: go on with it by 'tips train', or give other weights", o.Weights)
			}
		}
		if o.Data == "" {
			o.Data = j.recipe.Data
		}
	}
	switch {
	case o.Data == "":
		return errors.New("judge: no data; want the folder of a training run, or data")
	case o.Set != nil && o.Weights != "":
		return errors.New("judge: two sets of weights; want one")
	case o.Set != nil:
		j.set = o.Set
		if o.Network != nil && o.Network.Hash() != j.set.Network.Hash() {
			return fmt.Errorf("judge: weights of network %s; want those of %s", j.set.Network.Name(), o.Network.Name())
		}
		return nil
	case o.Weights == "":
		return errors.New("judge: no weights; want the folder of a training run, or weights")
	}
	var err error
	j.set, err = weights.Open(o.Weights, o.Network)
	return err
}

func readNetwork(file string) (*supernet.Network, error) {
	f, err := os.Open(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("network %s: %w", file, err)
	}
	defer f.Close()
	n, err := supernet.Read(f)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", file, err)
	}
	return n, nil
}

// openData finds the images to calibrate on and those to judge by.
func (j *Judge) openData(o *Options) error {
	d, err := dataset.Open(o.Data, o.Formats...)
	if err != nil {
		return err
	}
	n := j.Network()
	full := n.Full()
	if classes := full.Shape(full.Output()).Elements(); classes != int64(d.Classes) {
		return fmt.Errorf("judge: network %s tells %d classes apart, and data %s has %d", n.Name(), classes, d.Name, d.Classes)
	}
	pipeline := d.Pipeline()
	holdout, seed := 0, uint64(1)
	calibration, batch := usualCalibration, usualBatch
	if r := j.recipe; r != nil {
		if r.Augment != nil {
			pipeline = r.Augment.Normalised(d)
		}
		holdout, seed, calibration, batch = r.Holdout, r.Seed, r.Evaluate.Calibration, r.Evaluate.Batch
	}
	pipeline = pipeline.Evaluation()
	if o.Calibration > 0 {
		calibration = o.Calibration
	}
	if batch = batchOf(n, batch); o.Batch > 0 {
		batch = o.Batch
	}
	in := n.Input()
	if in.Height == 1 && in.Width == 1 && in.Channels == d.Size*d.Size*d.Channels { // pixels are channels
		in = supernet.Shape{Channels: d.Channels, Height: d.Size, Width: d.Size}
	}
	learnt, judged := d.Train, d.Test
	j.on = "test"
	if holdout > 0 {
		if holdout >= d.Train.Len() {
			return fmt.Errorf("judge: the run kept %d training images back, and data %s has %d; want the data it was trained on", holdout, d.Name, d.Train.Len())
		}
		rest, held := dataset.Holdout(d.Train, holdout, seed)
		if learnt = rest; !o.Test {
			judged, j.on = held, "held-out"
		}
	}
	judged, learnt = dataset.Evenly(judged, o.Images), dataset.Evenly(learnt, calibration)
	loader := dataset.LoaderOptions{
		Batch: batch, Height: in.Height, Width: in.Width, Channels: in.Channels, Pipeline: pipeline, Seed: seed, Workers: o.Threads,
	}
	if j.test.loader, err = dataset.NewLoader(judged, loader); err != nil {
		return err
	}
	loader.Shuffle = true // sources may be sorted by class
	if j.calibration.loader, err = dataset.NewLoader(learnt, loader); err != nil {
		return err
	}
	j.testImages, j.calibrationImages = judged.Len(), learnt.Len()

	memory := o.Memory
	if memory == 0 {
		memory = usualMemory
	}
	j.calibration.keep = 4*in.Elements()*int64(j.testImages+j.calibrationImages) <= memory
	j.test.keep = j.calibration.keep
	// Enough batches for all threads, and few subnetworks under way when interrupted; but
	// images that are decoded each time are so for many.
	j.together = max(1, (2*o.Threads+j.calibration.loader.Batches()-1)/j.calibration.loader.Batches())
	if !j.calibration.keep || o.Examiner != nil {
		j.together = max(j.together, 8)
	}

	print, err := fingerprint(judged, learnt)
	if err != nil {
		return err
	}
	examiner := "processor"
	if o.Examiner != nil {
		examiner = fmt.Sprintf("%T", o.Examiner)
		if named, ok := o.Examiner.(fmt.Stringer); ok { // what else its answers depend on, such as how many digits it has
			examiner = named.String()
		}
	}
	hash := j.set.Hash()
	j.identity = strings.Join([]string{
		"judge 1", "network " + n.Hash().String(), "weights " + hash.String(), "images " + print, fmt.Sprintf("%d %s", j.testImages, j.on),
		fmt.Sprintf("calibrated on %d by %d", j.calibrationImages, batch), fmt.Sprintf("seed %d", seed), pipeline.String(), examiner,
	}, ", ")
	j.frontier = frontier.Frontier{
		Network: n, Weights: hash, Input: n.Input(), ClassNames: d.ClassNames,
		Preprocess: frontier.Preprocess{Resize: pipeline.Resize, Mean: pipeline.Mean, Std: pipeline.Std},
	}
	return nil
}
