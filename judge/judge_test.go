package judge_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tips/dataset"
	"tips/internal/randnet"
	"tips/internal/reference"
	"tips/judge"
	"tips/search"
	"tips/supernet"
	"tips/supernet/zoo"
	"tips/train"
	"tips/weights"
)

var _ search.Judge = (*judge.Judge)(nil)

const (
	someNetwork = "resnet_small:width=16,data=fashion-mnist,size=8,divisor=8"
	someData    = "synthetic:train=100,test=60,size=8"
)

// someWeights are random, batch norm included.
func someWeights(t testing.TB, model string, seed uint64) *weights.Set {
	t.Helper()
	n, err := zoo.New(model)
	if err != nil {
		t.Fatal(err)
	}
	s := weights.Random(n, seed)
	s.RandomNorm(seed)
	return s
}

func open(t testing.TB, o judge.Options) *judge.Judge {
	t.Helper()
	j, err := judge.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// someSubnets are different ones, the whole network and the smallest among them.
func someSubnets(n *supernet.Network, count int) []supernet.Subnet {
	list := []supernet.Subnet{{}, n.Smallest()}
	for rng := rand.New(rand.NewPCG(1, 2)); len(list) < count; {
		if s := randnet.Subnet(n, rng); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// all judges a list.
func all(t testing.TB, j *judge.Judge, list []supernet.Subnet) []judge.Verdict {
	t.Helper()
	verdicts := make([]judge.Verdict, len(list))
	if err := j.All(context.Background(), list, func(i int, v judge.Verdict) { verdicts[i] = v }); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// same compares verdicts to the bit, whether they were known aside.
func same(a, b judge.Verdict) bool {
	a.Known = b.Known
	return reflect.DeepEqual(a, b)
}

// TestThreads: verdicts are the same to the bit on any number of threads, one by one
// or all at once, from memory or decoded each time, and those of train.CPU on one
// thread.
func TestThreads(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	list := someSubnets(set.Network, 5)
	options := judge.Options{Set: set, Data: someData, Batch: 16, Threads: 1}
	want := all(t, open(t, options), list)
	for _, o := range []judge.Options{{Threads: 2}, {Threads: 5}, {Threads: 3, Memory: -1}} {
		o.Set, o.Data, o.Batch = options.Set, options.Data, options.Batch
		j := open(t, o)
		var group sync.WaitGroup
		for i, s := range list[:2] {
			group.Go(func() {
				if v, err := j.Judge(t.Context(), s); err != nil || !same(v, want[i]) {
					t.Errorf("%d threads: %s is judged another way (%v)", o.Threads, s, err)
				}
			})
		}
		group.Wait()
		for i, v := range all(t, j, list) {
			if !same(v, want[i]) {
				t.Errorf("%d threads, memory %d: %s gets %d right, loss %v; want %d, %v, and the same statistics", o.Threads, o.Memory, v.Subnet, v.Correct, v.Loss, want[i].Correct, want[i].Loss)
			}
		}
	}

	cpu := train.NewCPU(train.Settings{Network: set.Network}, 1)
	defer cpu.Close()
	if err := cpu.Restore(train.NewState(set, false)); err != nil {
		t.Fatal(err)
	}
	o := options
	o.Examiner = cpu
	for i, v := range all(t, open(t, o), list) {
		if v.Correct != want[i].Correct || math.Abs(v.Loss-want[i].Loss) > 1e-12 || !reflect.DeepEqual(v.Statistics, want[i].Statistics) {
			t.Errorf("%s: the executor of training gets %d right, loss %v; want %d, %v, and the same statistics", v.Subnet, v.Correct, v.Loss, want[i].Correct, want[i].Loss)
		}
	}
}

// batches are what a judge with these options goes through, by hand.
func batches(t testing.TB, o judge.Options, size int) (learnt, judged []*dataset.Batch) {
	t.Helper()
	d, err := dataset.Open(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		source  dataset.Source
		shuffle bool
		to      *[]*dataset.Batch
	}{{dataset.Evenly(d.Train, o.Calibration), true, &learnt}, {dataset.Evenly(d.Test, o.Images), false, &judged}} {
		l, err := dataset.NewLoader(part.source, dataset.LoaderOptions{
			Batch: o.Batch, Height: size, Width: size, Channels: 1, Seed: 1, Shuffle: part.shuffle, Pipeline: d.Pipeline().Evaluation(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for b, err := range l.Epoch(t.Context(), 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			*part.to = append(*part.to, &dataset.Batch{N: b.N, Images: slices.Clone(b.Images), Labels: slices.Clone(b.Labels)})
		}
	}
	return learnt, judged
}

// planes turns rows of pixels of channels into channels of rows, as the reference
// takes images.
func planes(b *dataset.Batch, in supernet.Shape) [][]float64 {
	size := int(in.Elements())
	list := make([][]float64, b.N)
	for n := range list {
		list[n] = make([]float64, size)
		for p := range in.Height * in.Width {
			for c := range in.Channels {
				list[n][c*in.Height*in.Width+p] = float64(b.Images[n*size+p*in.Channels+c])
			}
		}
	}
	return list
}

// TestReference: statistics are the cumulative average of what plain float64
// arithmetic finds for each batch, and so are answers.
func TestReference(t *testing.T) {
	set := someWeights(t, someNetwork, 3)
	n := set.Network
	o := judge.Options{Set: set, Data: someData, Batch: 12, Calibration: 30, Images: 20, Threads: 2}
	learnt, judged := batches(t, o, 8)
	for _, v := range all(t, open(t, o), someSubnets(n, 3)) {
		view, err := n.View(v.Subnet, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		mean, variance := make([][]float64, len(n.Ops())), make([][]float64, len(n.Ops()))
		images := 0
		for _, b := range learnt {
			images += b.N
			means, variances := reference.Moments(set, view, planes(b, n.Input()))
			for i := range means {
				values := float64(b.N * view.Ops[i].Out.Height * view.Ops[i].Out.Width)
				for c := range means[i] {
					if mean[i] == nil {
						mean[i], variance[i] = make([]float64, len(means[i])), make([]float64, len(means[i]))
					}
					mean[i][c] += means[i][c] * float64(b.N)
					variance[i][c] += variances[i][c] * values / (values - 1) * float64(b.N)
				}
			}
		}
		worst := 0.0
		t64 := &weights.Statistics{Mean: make([][]float32, len(mean)), Variance: make([][]float32, len(mean))}
		for i := range mean {
			if len(mean[i]) != len(v.Statistics.Mean[i]) {
				t.Fatalf("%s: operation %d has statistics of %d channels; want %d", v.Subnet, i, len(v.Statistics.Mean[i]), len(mean[i]))
			}
			for c := range mean[i] {
				m, s := mean[i][c]/float64(images), variance[i][c]/float64(images)
				worst = max(worst, math.Abs(m-float64(v.Statistics.Mean[i][c]))/math.Sqrt(s), math.Abs(s/float64(v.Statistics.Variance[i][c])-1))
				t64.Mean[i], t64.Variance[i] = append(t64.Mean[i], float32(m)), append(t64.Variance[i], float32(s))
			}
		}
		if worst > 1e-4 {
			t.Errorf("%s: statistics are off by %.2g", v.Subnet, worst)
		}
		correct, loss := 0, 0.0
		for _, b := range judged {
			for k, x := range planes(b, n.Input()) {
				logits := reference.Run(set, view, t64, x)
				sum := 0.0
				for _, l := range logits {
					sum += math.Exp(l)
				}
				loss += math.Log(sum) - logits[b.Labels[k]]
				if slices.Max(logits) == logits[b.Labels[k]] {
					correct++
				}
			}
		}
		if loss /= 20; correct != v.Correct || v.Images != 20 || math.Abs(loss-v.Loss) > 1e-4*loss {
			t.Errorf("%s: %d of %d right, loss %v; want %d of 20, %v", v.Subnet, v.Correct, v.Images, v.Loss, correct, loss)
		}
	}
}

// counting is an examiner that counts, and stops when told to.
type counting struct {
	judge.Examiner
	subnets atomic.Int64
	stopAt  int64
	stop    context.CancelFunc
}

func (c *counting) Evaluate(ctx context.Context, e train.Examination) ([]train.Score, error) {
	if c.stop != nil && c.subnets.Load() >= c.stopAt {
		c.stop()
		return nil, ctx.Err()
	}
	c.subnets.Add(int64(len(e.Subnets)))
	return c.Examiner.Evaluate(ctx, e)
}

func newCounting(t testing.TB, set *weights.Set) *counting {
	p := train.NewPanel(set, 2)
	t.Cleanup(func() { p.Close() })
	return &counting{Examiner: p}
}

// TestResume: what was judged before an interruption is not judged again, by
// another judge of the same; and by no other is it taken for its own.
func TestResume(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	list := someSubnets(set.Network, 30)
	list = append(list, list[3], list[0])
	examiner := newCounting(t, set)
	file := filepath.Join(t.TempDir(), "judged.cache")
	o := judge.Options{Set: set, Data: someData, Batch: 16, Calibration: 16, Images: 10, Examiner: examiner}
	want := all(t, open(t, o), list)
	if got := examiner.subnets.Swap(0); got != 30 {
		t.Fatalf("%d subnetworks judged; want 30, and those that are there twice once", got)
	}
	o.Cache = file
	ctx, cancel := context.WithCancel(t.Context())
	examiner.stop, examiner.stopAt = cancel, 10
	j := open(t, o)
	got := 0
	if err := j.All(ctx, list, func(i int, v judge.Verdict) { got++ }); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	first := examiner.subnets.Load()
	if first < 10 || first >= 30 {
		t.Fatalf("%d judged before the interruption; want some", first)
	}
	j.Close()

	examiner.stop = nil
	verdicts := all(t, open(t, o), list)
	if n := examiner.subnets.Load(); n != 30 {
		t.Errorf("%d judged in all; want 30, none twice", n)
	}
	for i := range verdicts {
		if !same(verdicts[i], want[i]) {
			t.Errorf("%s: %+v is not what was judged at once", verdicts[i].Subnet, verdicts[i])
		}
	}
	examiner.subnets.Store(0)
	for name, other := range map[string]func(o *judge.Options){
		"other images":      func(o *judge.Options) { o.Images = 11 },
		"other calibration": func(o *judge.Options) { o.Calibration = 17 },
		"other data":        func(o *judge.Options) { o.Data += ",seed=2" },
		"other weights":     func(o *judge.Options) { o.Set = someWeights(t, someNetwork, 2) },
		"fresh":             func(o *judge.Options) { o.Fresh = true },
		"another network": func(o *judge.Options) {
			o.Set = someWeights(t, "resnet_small:width=24,data=fashion-mnist,size=8,divisor=8", 1)
		},
	} {
		o := o
		other(&o)
		if name == "another network" || name == "other weights" {
			o.Examiner = nil
		}
		if v := all(t, open(t, o), list[:1])[0]; v.Known {
			t.Errorf("%s: the verdict was in the cache", name)
		}
	}
	counts := o
	counts.Counts = true
	if v := all(t, open(t, counts), list[:1])[0]; !v.Known || v.Statistics != nil {
		t.Errorf("counts alone: known %v, statistics %v", v.Known, v.Statistics)
	}
}

// TestCounts: verdicts without statistics take little room, and a judge that needs
// them judges again.
func TestCounts(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	file := filepath.Join(t.TempDir(), "judged.cache")
	o := judge.Options{Set: set, Data: someData, Images: 10, Cache: file, Counts: true}
	j := open(t, o)
	list := someSubnets(set.Network, 4)
	few := all(t, j, list)
	j.Close()
	info, err := os.Stat(file)
	if err != nil || info.Size() > 4*200 {
		t.Errorf("%v bytes (%v); want a few hundred", info.Size(), err)
	}
	o.Counts = false
	for i, v := range all(t, open(t, o), list) {
		if v.Known || v.Statistics == nil || v.Correct != few[i].Correct || v.Loss != few[i].Loss {
			t.Errorf("%s: %+v; want it judged again, alike", v.Subnet, v)
		}
	}
}

// TestTogether: two judges with one cache file, as two processes would have it.
func TestTogether(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	o := judge.Options{Set: set, Data: someData, Images: 10, Calibration: 32, Cache: filepath.Join(t.TempDir(), "judged.cache")}
	a, b := open(t, o), open(t, o)
	list := someSubnets(set.Network, 24)
	want := make([]judge.Verdict, len(list))
	var group sync.WaitGroup
	group.Go(func() {
		for i, v := range all(t, a, list[:16]) {
			want[i] = v
		}
	})
	group.Go(func() { all(t, b, list[8:]) })
	group.Wait()
	for i, v := range all(t, open(t, o), list) {
		if !v.Known || want[i].Images > 0 && !same(v, want[i]) {
			t.Errorf("%s: %+v; want what the two have judged", v.Subnet, v)
		}
	}
	// What b wrote while a was open is a's too, once a has written.
	if _, err := a.Judge(t.Context(), list[20]); err != nil {
		t.Error(err)
	}
}

// TestConcurrent: many goroutines that ask for the same are answered by one
// examination.
func TestConcurrent(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	examiner := newCounting(t, set)
	j := open(t, judge.Options{Set: set, Data: someData, Images: 10, Calibration: 32, Examiner: examiner})
	list := someSubnets(set.Network, 4)
	var group sync.WaitGroup
	for k := range 16 {
		group.Go(func() {
			if k%4 == 0 {
				all(t, j, list)
				return
			}
			if _, err := j.Judge(t.Context(), list[k%4]); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := examiner.subnets.Load(); n != 4 {
		t.Errorf("%d examinations; want 4", n)
	}
}

// held is an examiner that begins when it is told to, and says what it is asked.
type held struct {
	judge.Examiner
	begin chan struct{}
	asked chan int // subnetworks
}

func (h *held) Evaluate(ctx context.Context, e train.Examination) ([]train.Score, error) {
	h.asked <- len(e.Subnets)
	select {
	case <-h.begin:
		return h.Examiner.Evaluate(ctx, e)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestQueue: calls that wait for an examiner are examined at once, also when the one
// whose turn it was gives up; one that gives up, waiting or examined with others, is
// gone at once.
func TestQueue(t *testing.T) {
	set := someWeights(t, "mlp:depth=6,width=32,inputs=64,min=0.25,divisor=4", 1)
	o := judge.Options{Set: set, Data: someData, Images: 10, Calibration: 32}
	list := someSubnets(set.Network, 10)
	want := all(t, open(t, o), list)

	// run gives f a judge whose examiner is held, and a function that asks it for a
	// subnetwork and returns how to give up and how to wait for the end of that.
	type asker func(i int, fails bool) (giveUp, ended func())
	run := func(name string, f func(t *testing.T, h *held, j *judge.Judge, ask asker)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // who comes first is not left to the scheduler
				panel := train.NewPanel(set, 1)
				defer panel.Close()
				h := &held{Examiner: panel, begin: make(chan struct{}), asked: make(chan int, 100)}
				o := o
				o.Examiner = h
				j := open(t, o)
				f(t, h, j, func(i int, fails bool) (giveUp, ended func()) {
					ctx, cancel := context.WithCancel(t.Context())
					var group sync.WaitGroup
					group.Go(func() {
						v, err := j.Judge(ctx, list[i])
						if fails && !errors.Is(err, context.Canceled) || !fails && (err != nil || !same(v, want[i])) {
							t.Errorf("subnetwork %d: %v", i, err)
						}
					})
					synctest.Wait()
					return cancel, group.Wait
				})
			})
		})
	}
	run("comes while one is examined", func(t *testing.T, h *held, j *judge.Judge, ask asker) {
		stop, stopped := ask(0, true)
		if n := <-h.asked; n != 1 {
			t.Fatalf("%d subnetworks were examined first; want the one there was", n)
		}
		leave, left := ask(9, true)
		var others []func()
		for i := range 6 {
			_, ended := ask(1+i, false)
			others = append(others, ended)
		}
		leave()
		left()
		stop()
		stopped()
		if n := <-h.asked; n != 6 {
			t.Errorf("%d subnetworks were examined at once; want the 6 that waited", n)
		}
		close(h.begin)
		for _, ended := range others {
			ended()
		}
		if j.Known(list[0]) || j.Known(list[9]) || !j.Known(list[1]) {
			t.Error("what was given up is known, or what was judged is not")
		}
	})
	run("the first gives up", func(t *testing.T, h *held, j *judge.Judge, ask asker) {
		stop, stopped := ask(0, true)
		_, seventh := ask(7, false)
		_, eighth := ask(8, false)
		if n := <-h.asked; n != 3 {
			t.Errorf("%d subnetworks were examined at once; want the 3 there are", n)
		}
		stop()
		stopped()
		if n := <-h.asked; n != 2 {
			t.Errorf("%d subnetworks were examined at once; want the 2 that are left", n)
		}
		close(h.begin)
		seventh()
		eighth()
		_, ended := ask(0, false)
		ended()
	})
	run("another gives up", func(t *testing.T, h *held, j *judge.Judge, ask asker) {
		_, first := ask(0, false)
		leave, left := ask(7, true)
		if n := <-h.asked; n != 2 {
			t.Errorf("%d subnetworks were examined at once; want both", n)
		}
		leave()
		left() // though the examination goes on
		if j.Known(list[7]) {
			t.Error("a verdict before the examination")
		}
		close(h.begin)
		first()
		if !j.Known(list[7]) {
			t.Error("what was judged for somebody who had left is not known")
		}
	})
}

// TestBad: what cannot be judged is refused in one line.
func TestBad(t *testing.T) {
	set := someWeights(t, someNetwork, 1)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file := filepath.Join(dir, "weights.safetensors")
	if err := set.Save(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    judge.Options
		want string
	}{
		{judge.Options{}, "no data"},
		{judge.Options{Data: someData}, "no weights"},
		{judge.Options{Run: dir}, "want the folder of a training run"},
		{judge.Options{Data: someData, Weights: filepath.Join(dir, "nobody")}, "nobody: no such file"},
		{judge.Options{Data: someData, Weights: write("cut", string(data[:len(data)/2]))}, "weights"},
		{judge.Options{Data: someData, Weights: file, Network: someWeights(t, "mlp", 1).Network}, "weights"},
		{judge.Options{Data: someData, Set: set, Network: someWeights(t, "mlp", 1).Network}, "want those of mlp"},
		{judge.Options{Data: someData, Set: set, Weights: file}, "want one"},
		{judge.Options{Data: "synthetic:classes=7", Set: set}, "10 classes apart"},
		{judge.Options{Data: "nothing", Set: set}, "names no format"},
		{judge.Options{Data: someData, Set: set, Images: -1}, "-1 images; want 0 or more"},
		{judge.Options{Data: someData, Set: set, Cache: write("other", "something else")}, "damaged cache of verdicts: it does not begin as one does"},
		{judge.Options{Data: someData, Set: set, Cache: write("later", "tips-judged\n\x02")}, "unknown version of a cache of verdicts: 2"},
		{judge.Options{Data: someData, Set: set, Cache: dir}, "not a regular file"},
		{judge.Options{Data: someData, Set: set, Cache: filepath.Join(dir, "nowhere", "cache")}, "no such file"},
	} {
		_, err := judge.Open(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v; want %q", c.o, err, c.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "other")); err != nil || string(text) != "something else" {
		t.Errorf("a file that is no cache became %q (%v)", text, err)
	}

	j := open(t, judge.Options{Data: someData, Set: set, Images: 10})
	other := someWeights(t, "mlp", 1).Network.Smallest()
	if _, err := j.Judge(t.Context(), other); err == nil {
		t.Error("a subnetwork of another network is judged")
	}
	if err := j.All(t.Context(), []supernet.Subnet{{}, other}, func(int, judge.Verdict) {}); err == nil {
		t.Error("a list with a subnetwork of another network is judged")
	}
	set.Ops[0].Weight[0] = float32(math.NaN())
	j = open(t, judge.Options{Data: someData, Set: set, Images: 10})
	if _, err := j.Judge(t.Context(), supernet.Subnet{}); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("weights that are not finite: %v", err)
	}
}
