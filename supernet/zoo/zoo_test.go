package zoo

import (
	"math"
	"strings"
	"testing"

	"tips/supernet"
)

// published are the counts of the torchvision models of the same name, and of
// the paper's own variants as the specification gives them.
var published = []struct {
	reference string
	macs      float64 // within 0.5 %
	params    int64   // exactly; 0 where nobody published them
}{
	{"mobilenet_v2", 300.8e6, 3504872},
	{"resnet18", 1.814e9, 11689512},
	{"resnet34", 3.664e9, 21797672},
	{"resnet50", 4.089e9, 25557032},
	{"wide_resnet50_2", 11.40e9, 68883240},
	{"resnext50_32x4d", 4.23e9, 25028904},
	{"efficientnet_b0", 0.386e9, 5288548},
	{"mobilenet_v2:width=1.4", 582e6, 0},
	{"mobilenet_v2:width=0.35", 59.2e6, 1677128},
	{"mobilenet_v2:width=1.4,data=cifar100", 47.6e6, 0},
	{"resnet34:data=cifar100", 291e6, 0},
	{"mobilenet_v2:width=1.4,data=tiny-imagenet", 190e6, 0},
	{"resnet34:data=tiny-imagenet", 300e6, 0},
}

func TestPublishedCosts(t *testing.T) {
	for _, p := range published {
		n, err := New(p.reference)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.View(supernet.Subnet{}, n.Input())
		if err != nil {
			t.Fatal(err)
		}
		c := v.Costs()
		if off := math.Abs(float64(c.MACs)/p.macs - 1); off > 0.005 {
			t.Errorf("%s: %d MACs, published %.4g: off by %.2f %%", p.reference, c.MACs, p.macs, 100*off)
		}
		if p.params != 0 && c.Params != p.params {
			t.Errorf("%s: %d parameters, published %d", p.reference, c.Params, p.params)
		}
	}
}

// TestEveryModel holds every model, for every data set, to what all networks of
// the zoo promise.
func TestEveryModel(t *testing.T) {
	for _, m := range Models() {
		references := []string{m.Name}
		if m.TakesData() {
			references = nil
			for _, d := range DataSets() {
				references = append(references, m.Name+":data="+d.Name)
			}
		}
		for _, reference := range references {
			t.Run(reference, func(t *testing.T) {
				n, err := New(reference)
				if err != nil {
					t.Fatal(err)
				}
				if n.Name() != reference {
					t.Errorf("name %q; a file could not tell how to build it again", n.Name())
				}
				full, err := n.View(supernet.Subnet{}, n.Input())
				if err != nil {
					t.Fatal(err)
				}
				small, err := n.View(n.Smallest(), n.Input())
				if err != nil {
					t.Fatal(err)
				}
				f, s := full.Costs(), small.Costs()
				if !(s.MACs < f.MACs && s.Params < f.Params && s.PeakBytes < f.PeakBytes) {
					t.Errorf("smallest costs %+v, full %+v", s, f)
				}
				if out := small.Shape(small.Output()); out != full.Shape(full.Output()) {
					t.Errorf("the smallest subnetwork writes %v, the full one %v", out, full.Shape(full.Output()))
				}
				if len(n.Groups()) == 0 || len(n.Blocks()) == 0 {
					t.Errorf("%d groups, %d blocks", len(n.Groups()), len(n.Blocks()))
				}
			})
		}
	}
}

// TestMobileNetWidths checks the trunk of the smallest subnetwork against the
// channel counts of the published 0.35 network: the same rounding.
func TestMobileNetWidths(t *testing.T) {
	whole, err := New("mobilenet_v2")
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := New("mobilenet_v2:width=0.35")
	if err != nil {
		t.Fatal(err)
	}
	v, err := whole.View(whole.Smallest(), whole.Input())
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range whole.Ops() {
		if op.Name != "stem" && !strings.HasSuffix(op.Name, ".project") {
			continue
		}
		at, _ := narrow.Index(op.Name)
		if got, want := v.Ops[i].Out.Channels, narrow.Ops()[at].Channels; got != want {
			t.Errorf("%s: %d channels at ratio 0.35, the 0.35 network has %d", op.Name, got, want)
		}
	}
}

func TestMLPShape(t *testing.T) {
	for _, c := range []struct {
		reference      string
		linear, blocks int
	}{
		{"mlp:depth=80", 80, 39},
		{"mlp:depth=9,span=3", 9, 2},
		{"mlp:depth=2", 2, 0},
		{"mlp:depth=6,span=9", 6, 0},
		{"mlp:depth=6,span=1", 6, 4},
	} {
		n, err := New(c.reference)
		if err != nil {
			t.Fatal(err)
		}
		linear := 0
		for _, op := range n.Ops() {
			if op.Kind == supernet.Linear {
				linear++
			}
		}
		if linear != c.linear || len(n.Blocks()) != c.blocks {
			t.Errorf("%s: %d linear layers, %d blocks; want %d, %d", c.reference, linear, len(n.Blocks()), c.linear, c.blocks)
		}
	}
}

func TestBadReferences(t *testing.T) {
	for reference, want := range map[string]string{
		"":                                "unknown model",
		"alexnet":                         `unknown model "alexnet"; want one of mlp, mobilenet_v2`,
		"mobilenet_v2:":                   "is not key=value",
		"mobilenet_v2:width":              "is not key=value",
		"mobilenet_v2:width=":             "is not key=value",
		"mobilenet_v2:width=-1":           "width=-1; want a number above 0",
		"mobilenet_v2:width=NaN":          "width=NaN",
		"mobilenet_v2:width=1,width=2":    "stands twice",
		"mobilenet_v2:depth=3":            `unknown setting "depth"`,
		"mobilenet_v2:data=mnist":         "data=mnist; want one of imagenet",
		"mobilenet_v2:min=2":              "min_ratio 2",
		"resnet18:width=2":                `unknown setting "width"`,
		"resnet18:classes=0":              "classes=0; want a whole number above 0",
		"resnet18:size=99999999":          "size",
		"mlp:depth=1":                     "depth=1; want 2 or more",
		"mlp:depth=100000000":             "at most 5000",
		"mlp:width=9999999999999":         "channels",
		"mlp:width=99999999999999999999":  "a whole number",
		"efficientnet_b0:divisor=1000000": "", // widths then do not shrink, which is what was asked for
	} {
		_, err := New(reference)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", reference, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q in it", reference, err, want)
		}
	}
}

// TestSmallNetworkShrinks: what the recipes that end in minutes need.
func TestSmallNetworkShrinks(t *testing.T) {
	for _, reference := range []string{"resnet_small:data=fashion-mnist", "resnet_small:data=fashion-mnist,divisor=16,min=0.25", "resnet_small:data=cifar10"} {
		n, err := New(reference)
		if err != nil {
			t.Fatal(err)
		}
		small, err := n.View(n.Smallest(), n.Input())
		if err != nil {
			t.Fatal(err)
		}
		full, least := n.Full().Costs().MACs, small.Costs().MACs
		if len(n.Groups()) < 10 || least*4 > full || full > 10e6 {
			t.Errorf("%s: %d groups, %d MACs, smallest %d; want 10 groups or more and a smallest of a quarter or less", reference, len(n.Groups()), full, least)
		}
	}
}
