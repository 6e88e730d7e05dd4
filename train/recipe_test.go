package train

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tips/dataset"
)

func synthetic(t testing.TB, changes ...string) *Recipe {
	t.Helper()
	r, err := OpenRecipe("../recipes/synthetic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		key, value, _ := strings.Cut(c, "=")
		if err := r.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestShippedRecipes: every one is read, names a network there is with the
// subnetworks it judges, no two of them the same once rounded, and comes back from a file as it was.
func TestShippedRecipes(t *testing.T) {
	files, err := filepath.Glob("../recipes/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d recipes, %v", len(files), err)
	}
	for _, name := range files {
		r, err := OpenRecipe(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(name), ".yaml"); r.Name != want || r.About == "" {
			t.Errorf("%s: name %q, about %q", name, r.Name, r.About)
		}
		n, err := r.OpenNetwork()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		judged, err := r.subnets(n)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, s := range judged {
			if j := slices.Index(judged, s); j < i {
				t.Errorf("%s: evaluate.subnets %s and %s are both %v", name, r.Evaluate.Subnets[j], r.Evaluate.Subnets[i], s)
			}
		}
		wantRoundTrip(t, r)
	}
}

func wantRoundTrip(t *testing.T, r *Recipe) {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := ReadRecipe(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("%s (-want +got):\n%s", r.Name, diff)
	}
	if d := r.difference(again); d != "" {
		t.Errorf("%s: %s", r.Name, d)
	}
}

// TestPaperRecipes holds the recipes of the paper's tables to its Appendix.
func TestPaperRecipes(t *testing.T) {
	for _, c := range []struct {
		name, network string
		epochs, batch int
		rate          float64
	}{
		{"cifar100-mobilenet_v2", "mobilenet_v2:width=1.4,data=cifar100", 200, 256, 0.08},
		{"cifar100-resnet34", "resnet34:data=cifar100", 200, 256, 0.08},
		{"tiny-imagenet-mobilenet_v2", "mobilenet_v2:width=1.4,data=tiny-imagenet", 200, 256, 0.08},
		{"tiny-imagenet-resnet34", "resnet34:data=tiny-imagenet", 200, 256, 0.08},
		{"imagenet-mobilenet_v2", "mobilenet_v2:width=1.4", 150, 512, 0.04},
		{"imagenet-resnet34", "resnet34", 90, 512, 0.04},
	} {
		r, err := OpenRecipe(filepath.Join("..", "recipes", c.name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Network != c.network || r.Epochs != c.epochs || r.Batch != c.batch || r.SGD.Rate != c.rate ||
			r.SGD.Momentum != 0.9 || r.SGD.Nesterov || r.Schedule.Decay != CosineDecay || r.Schedule.Warmup != 0 ||
			r.Method.Name != "tips" || r.Method.Loss != "paper" || r.Method.Smallest || r.Smoothing != 0 {
			t.Errorf("%s: %+v", c.name, r)
		}
		n, err := r.OpenNetwork()
		if err != nil {
			t.Fatal(err)
		}
		if e := n.Elastic(); e.MinRatio != 0.35 || e.Divisor != 8 {
			t.Errorf("%s: widths %+v", c.name, e)
		}
	}
}

const goodRecipe = `version: 2
name: x
network: resnet_small
data: synthetic
epochs: 3
sgd:
  rate: 0.1
`

func TestBadRecipes(t *testing.T) {
	if _, err := ReadRecipe(strings.NewReader(goodRecipe)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "version is missing"},
		{"version: 3\nnovelty: 1\n", "unknown version 3; this program reads versions 1 to 2"},
		{"version: one\n", `line 1, column 10: "one"; want a whole number`},
		{goodRecipe + "speed: 3\n", `line 8, column 1: unknown key "speed"; want one of version, name`},
		{goodRecipe + "  speed: 3\n", `line 8, column 3: unknown key "speed"; want one of rate, momentum`},
		{goodRecipe + "epochs: 4\n", "line 8, column 1: "},
		{goodRecipe + "Batch: 4\n", `unknown key "Batch"`},
		{goodRecipe + "batch: 4.5\n", `line 8, column 8: "4.5"; want a whole number`},
		{goodRecipe + "batch: many\n", `"many"; want a whole number`},
		{goodRecipe + "batch:\n", "a key without a value"},
		{goodRecipe + "method: tips\n", "line 8, column 9: "},
		{goodRecipe + "batch: 1\n", "batch: 1; want 2 to 1048576 images"},
		{goodRecipe + "method: {name: sgd}\n", "method.name: sgd; want one of tips, us-nets"},
		{goodRecipe + "schedule: {decay: linear}\n", "schedule.decay: linear; want cosine, step or constant"},
		{goodRecipe + "schedule: {drops: [4, 2]}\n", "schedule.drops"},
		{goodRecipe + "schedule: {drops: [4, 5.5]}\n", `"5.5"; want a whole number`},
		{goodRecipe + "schedule: {warmup: 4}\n", "schedule.warmup: 4; want 0 to epochs"},
		{goodRecipe + "label_smoothing: 1\n", "label_smoothing: 1; want"},
		{goodRecipe + "evaluate: {set: holdout}\n", "evaluate.set: holdout; want test, or holdout where holdout is above 0"},
		{goodRecipe + "evaluate: {subnets: []}\n", "evaluate.subnets"},
		{goodRecipe + "augment: {pad: -1}\n", "augment: "},
		{goodRecipe + "augment: {pads: 1}\n", `unknown key "pads"; want one of pad, flip`},
		{strings.Replace(goodRecipe, "0.1", ".inf", 1), "sgd.rate: +Inf; want a number above 0"},
		{strings.Replace(goodRecipe, "name: x", "name: x/y", 1), "name: x/y; want"},
		{goodRecipe + "---\nversion: 2\n", "goes on after its end"},
		{goodRecipe + "about: [\n", "line "},
		{"- version\n", ""},
		{strings.Repeat("#", maxRecipeBytes+1), "more than 65536 bytes"},
	} {
		_, err := ReadRecipe(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want one line with %q", c.text[:min(len(c.text), 200)], err, c.want)
		}
	}
}

// TestVersions: what a recipe of version 1 leaves unsaid means what it meant.
func TestVersions(t *testing.T) {
	old := strings.Replace(goodRecipe, "version: 2", "version: 1", 1)
	for _, c := range []struct {
		text     string
		smallest bool
	}{
		{goodRecipe, true},
		{goodRecipe + "method:\n  smallest: false\n", false},
		{old, false},
		{old + "method:\n  smallest: true\n", true},
	} {
		r, err := ReadRecipe(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Method.Smallest != c.smallest || r.Version != recipeVersion {
			t.Errorf("%s: version %d, smallest %v; want %d and %v", c.text, r.Version, r.Method.Smallest, recipeVersion, c.smallest)
		}
		wantRoundTrip(t, r)
	}
}

func TestSetKeys(t *testing.T) {
	r := synthetic(t, "sgd.rate=0.25", "evaluate.subnets=[full, 0.5, smallest]", "method.name=us-nets", "augment.pad=3", "schedule.drops=[1, 2]")
	if r.SGD.Rate != 0.25 || r.SGD.WeightDecay != 1e-4 || r.Method.Loss != "paper" || r.Augment == nil || r.Augment.Pad != 3 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"full", "0.5", "smallest"}, r.Evaluate.Subnets); diff != "" {
		t.Error(diff)
	}
	wantRoundTrip(t, r)
	was := *r
	for _, c := range []struct{ key, value, want string }{
		{"sgd.speed", "1", `unknown key "speed"; want one of rate`},
		{"sgd", "1", "sgd=1: "},
		{"", "1", `key ""`},
		{"sgd..rate", "1", "want one like sgd.rate"},
		{"sgd.rate", "", "a key without a value"},
		{"sgd.rate", "1\nepochs: 3", "several lines"},
		{"sgd.rate", "x", `"x"; want a number`},
		{"evaluate.subnets", "full", `evaluate.subnets=full: "full"; want a list, as in [full, smallest]`},
		{"schedule.drops", "3", `"3"; want a list, as in [60, 80]`},
		{"augment.mean", "0.5", `"0.5"; want a list, as in [0.5]`},
		{"method", "tips", `"tips"; want keys with values`},
		{"seed", "-1", "want a whole number, 0 or more"},
		{"epochs", "1e30", "want a whole number"},
	} {
		err := r.Set(c.key, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v; want %q", c.key, c.value, err, c.want)
		}
		if diff := cmp.Diff(was, *r); diff != "" {
			t.Fatalf("%s=%s was refused, and changed:\n%s", c.key, c.value, diff)
		}
	}
}

// TestDifference: what trains the same weights is the same recipe.
func TestDifference(t *testing.T) {
	base := synthetic(t)
	for _, same := range []string{"threads=3", "checkpoint.steps=9", "metrics.every=5", "name=other"} {
		if d := base.difference(synthetic(t, same)); d != "" {
			t.Errorf("%s: %s", same, d)
		}
	}
	// A setting counts with the method that has it.
	for setting, name := range map[string]string{
		"method.smallest=false": "tips", "method.factor=2": "tips", "method.analysis.subnets=3": "tips",
		"method.worst_up=true": "attentive-nas", "method.subnet=smallest": "static",
	} {
		if d := synthetic(t, "method.name="+name).difference(synthetic(t, "method.name="+name, setting)); d == "" {
			t.Errorf("%s: %s makes no difference", name, setting)
		}
		if d := synthetic(t, "method.name=us-nets").difference(synthetic(t, "method.name=us-nets", setting)); d != "" {
			t.Errorf("us-nets, which has no %s: %s", setting, d)
		}
	}
	for change, want := range map[string]string{
		"sgd.rate=0.2": "sgd.rate is 0.2 there and 0.05 here", "seed=5": "seed is 5 there and 1 here", "augment.pad=1": "augment.",
		"data=synthetic:seed=3": "data is synthetic:seed=3 there", "method.name=static": "method.name",
	} {
		if d := base.difference(synthetic(t, change)); !strings.Contains(d, want) {
			t.Errorf("%s: %q; want %q", change, d, want)
		}
	}
	a, b := synthetic(t), synthetic(t)
	a.Data, b.Data = "cifar10:/here", "cifar10:/there"
	if d := a.difference(b); d != "" {
		t.Errorf("the same data elsewhere: %s", d)
	}
	other := synthetic(t, "method.name=us-nets", "seed=5", "evaluate.every=7", "sgd.rate=0.2")
	if key, here, there := base.Differs(other, "method", "seed", "evaluate"); key != "sgd.rate" || here != "0.05" || there != "0.2" {
		t.Errorf("%s is %s and %s; want sgd.rate, 0.05 and 0.2", key, here, there)
	}
	if key, _, _ := base.Differs(other, "method", "seed", "evaluate", "sgd"); key != "" {
		t.Errorf("%s differs, which nobody asked for", key)
	}
}

// TestKeysAreDocumented: every key has a default or a help text, and a recipe
// that says nothing has the defaults that the page lists.
func TestKeysAreDocumented(t *testing.T) {
	keys := Keys()
	if len(keys) < 40 {
		t.Errorf("%d keys", len(keys))
	}
	r := defaultRecipe()
	r.Augment = &dataset.Pipeline{}
	flat := flatten(&r)
	for _, k := range keys {
		if k.Help == "" {
			t.Errorf("%s has no help", k.Name)
		}
		if k.Default != "" && flat[k.Name] != k.Default {
			t.Errorf("%s: default %q, a recipe has %q", k.Name, k.Default, flat[k.Name])
		}
	}
}

func FuzzRecipe(f *testing.F) {
	f.Add([]byte(goodRecipe))
	files, _ := filepath.Glob("../recipes/*.yaml")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadRecipe(bytes.NewReader(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %v", err)
			}
			return
		}
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := ReadRecipe(&b)
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, b.Bytes())
		}
		if d := r.difference(again); d != "" {
			t.Fatal(d)
		}
	})
}
