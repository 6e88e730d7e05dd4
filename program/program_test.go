package program

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tips/engine"
	"tips/engine/input"
	"tips/frontier"
	"tips/supernet/zoo"
	"tips/weights"
)

// newNet gives weights, and a frontier of three of their subnetworks.
func newNet(t testing.TB) (*weights.Set, *frontier.Frontier) {
	t.Helper()
	n, err := zoo.New("mobilenet_v2:data=cifar10,size=16,width=0.35")
	if err != nil {
		t.Fatal(err)
	}
	set := weights.Random(n, 1)
	set.RandomNorm(2)
	f := &frontier.Frontier{
		Network: n, Weights: set.Hash(), Input: n.Input(), By: []frontier.Kind{frontier.MACs},
		Preprocess: frontier.Preprocess{Mean: []float32{0.5, 0.4, 0.3}, Std: []float32{0.2, 0.3, 0.25}},
		ClassNames: []string{"aeroplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "lorry"},
	}
	for i, ratio := range []float64{0.35, 0.6, 1} {
		s, err := n.Uniform(ratio)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(s, f.Input)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := set.Extract(s)
		if err != nil {
			t.Fatal(err)
		}
		alone.RandomNorm(uint64(10 + i))
		own := &weights.Statistics{Mean: make([][]float32, len(n.Ops())), Variance: make([][]float32, len(n.Ops()))}
		for j, op := range alone.Network.Ops() {
			from, _ := n.Index(op.Name)
			own.Mean[from], own.Variance[from] = alone.Ops[j].Mean, alone.Ops[j].Variance
		}
		f.Points = append(f.Points, frontier.Judged(s, 80+5*i, 100, frontier.CostsOf(v.Costs()), own))
	}
	return set, f
}

func writePicture(t testing.TB, name string) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 37, 29))
	for y := range 29 {
		for x := range 37 {
			img.SetNRGBA(x, y, color.NRGBA{uint8(7 * x), uint8(9 * y), uint8(x * y), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expected is what the program must print of a picture but for its times.
func expected(t testing.TB, set *weights.Set, f *frontier.Frontier, picture, budget string) string {
	t.Helper()
	e, err := engine.New(set, f, engine.Options{Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pictures, err := input.New(f)
	if err != nil {
		t.Fatal(err)
	}
	x, err := pictures.File(picture)
	if err != nil {
		t.Fatal(err)
	}
	var b engine.Budget
	if budget != "" {
		if b, err = engine.ParseBudget(budget, f.Network); err != nil {
			t.Fatal(err)
		}
	}
	r, err := e.Infer(context.Background(), x, b)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintln(&text, picture)
	for _, c := range e.Top(r.Output, 5) {
		fmt.Fprintf(&text, "  %6.2f %%  %s\n", 100*c.Probability, c.Name)
	}
	fmt.Fprintf(&text, "  %s, ", r.Subnet)
	return text.String()
}

// offline is an environment in which nothing can be fetched, and nothing that a
// user has set gets in the way.
func offline(more ...string) []string {
	return append(os.Environ(), append([]string{"GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0"}, more...)...)
}

func build(t testing.TB, dir, binary string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", binary)
	cmd.Dir, cmd.Env = dir, offline(env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %v: %v\n%s", env, err, out)
	}
}

// TestBuilds: the folder builds offline for this machine and others, and the
// program answers as the engine does, with all subnetworks or with one alone; an
// emulator runs that for arm64, where there is one.
func TestBuilds(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not at hand to build programs")
	}
	if testing.Short() {
		t.Skip("builds the packages for several platforms")
	}
	set, f := newNet(t)
	dir := t.TempDir()
	picture := filepath.Join(dir, "x.png")
	writePicture(t, picture)

	whole := filepath.Join(dir, "all of them")
	sizes, err := Write(whole, set, f)
	if err != nil {
		t.Fatal(err)
	}
	if sizes.Weights < 4*f.Network.Full().Costs().Params || sizes.Frontier == 0 || sizes.Source < 1<<20 {
		t.Errorf("sizes %+v", sizes)
	}
	// One of them alone has weights of its own, and is "full".
	alone, own, err := f.Extract(set, f.Points[0])
	if err != nil {
		t.Fatal(err)
	}
	small, err := Write(filepath.Join(dir, "one"), alone, own)
	if err != nil {
		t.Fatal(err)
	}
	if small.Weights > sizes.Weights/2 || small.Source != sizes.Source && small.Source < 1<<20 {
		t.Errorf("sizes %+v of one, %+v of all", small, sizes)
	}

	binary := filepath.Join(dir, "program")
	build(t, whole, binary)
	answers := func(want string, command ...string) {
		t.Helper()
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%v: %v\n%swant\n%s…", command[1:], err, out, want)
		}
	}
	answers(expected(t, set, f, picture, ""), binary, picture)
	middle := fmt.Sprint(f.Points[1].Costs.MACs)
	answers(expected(t, set, f, picture, middle), binary, "--budget", middle, picture)

	for want, args := range map[string][]string{"usage: all-of-them": nil, "all-of-them: engine: budget \"0\"": {"--budget", "0", picture}, "no image that can be read": {filepath.Join(whole, "go.mod")}} {
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}

	arm := filepath.Join(dir, "program.arm64")
	build(t, whole, arm, "GOOS=linux", "GOARCH=arm64")
	if emulator, err := exec.LookPath("qemu-aarch64"); err == nil && runtime.GOOS == "linux" {
		// Sums in another order could change the last digit that is printed; they do not here.
		answers(expected(t, set, f, picture, "smallest"), emulator, arm, "--budget", "smallest", picture)
	} else {
		t.Log("qemu-aarch64 is not at hand to run the program for arm64")
	}

	// The other folder differs in these two files; to build it here saves time.
	for _, name := range []string{WeightsFile, FrontierFile} {
		if err := os.Rename(filepath.Join(dir, "one", name), filepath.Join(whole, name)); err != nil {
			t.Fatal(err)
		}
	}
	one := filepath.Join(dir, "one.bin")
	build(t, whole, one)
	first := strings.Replace(expected(t, set, f, picture, "smallest"), f.Points[0].Subnet.String(), "full", 1)
	answers(first, one, picture)
}

// TestFolder: what is in the folder, and what a folder must be.
func TestFolder(t *testing.T) {
	set, f := newNet(t)
	dir := t.TempDir()
	target := filepath.Join(dir, "deep", "classify")
	if err := os.MkdirAll(target, 0o755); err != nil { // empty
		t.Fatal(err)
	}
	if _, err := Write(target, set, f); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "go.mod", "README.md", WeightsFile, FrontierFile, "tips/go.mod", "tips/LICENSE", "tips/engine/engine.go", "tips/internal/kernel/zz_neon_arm64.s"} {
		if _, err := os.Stat(filepath.Join(target, name)); err != nil {
			t.Error(err)
		}
	}
	if tests, _ := filepath.Glob(filepath.Join(target, "tips", "*", "*_test.go")); len(tests) > 0 {
		t.Errorf("tests %v", tests)
	}
	text, err := os.ReadFile(filepath.Join(target, "README.md"))
	if err != nil || !strings.Contains(string(text), f.Points[0].Subnet.String()) || strings.Contains(string(text), "NAME") {
		t.Errorf("%v, the page is\n%s", err, text)
	}
	e, err := engine.Open(filepath.Join(target, WeightsFile), filepath.Join(target, FrontierFile), engine.Options{Measure: -1})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	other := set.Clone()
	other.Ops[0].Weight[0]++
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		set  *weights.Set
		want string
	}{
		{target, set, "the folder holds README.md; want a new or an empty one"},
		{file, set, "not a directory"},
		{here, set, "the current folder"},
		{filepath.Join(file, "below"), set, "not a directory"},
		{filepath.Join(dir, "new"), other, "does not belong here"},
	} {
		if _, err := Write(c.dir, c.set, f); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("%s: %v; want %q", c.dir, err, c.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestModuleName(t *testing.T) {
	for folder, want := range map[string]string{
		"classify": "anytime/classify", "My Program 2.0": "anytime/my-program-2-0", "Größe": "anytime/gre", "..": "anytime/classify", "tips": "anytime/tips",
	} {
		if got := moduleName(folder); got != want {
			t.Errorf("%q: %q; want %q", folder, got, want)
		}
	}
}
