package reproduce

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tips/recipes"
	"tips/supernet"
	"tips/train"
	"tips/train/method"
)

func drawsRecipe(t *testing.T, changes ...string) (*train.Recipe, *supernet.Network) {
	t.Helper()
	r, err := recipes.Open("cifar100-mobilenet_v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		key, value, _ := strings.Cut(c, "=")
		if err := r.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	n, err := r.OpenNetwork()
	if err != nil {
		t.Fatal(err)
	}
	return r, n
}

// TestDraws: what the methods are known to draw.
func TestDraws(t *testing.T) {
	const steps = 300
	r, n := drawsRecipe(t)
	f, err := Draws(n, DrawsOptions{Recipe: r, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	value := func(method, column string) float64 {
		t.Helper()
		for _, row := range f.Rows {
			if row[0] == method {
				x, err := strconv.ParseFloat(row[slices.Index(f.Header, column)], 64)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
		}
		t.Fatalf("no line of %s", method)
		return 0
	}
	var names []string
	for _, row := range f.Rows {
		if len(row) != len(f.Header) {
			t.Fatalf("%s: %d values; want %d", row[0], len(row), len(f.Header))
		}
		names = append(names, row[0])
	}
	want := "tips; us-nets; ds-net; ofa; alphanet; tips, factor 1; tips, factor 1.25; tips, factor 2; tips, path of 45 nodes; tips, path total; tips, others favoured; tips, together; tips, up to 0.667; tips, smallest; tips, 1 plain"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("lines are %s; want %s", got, want)
	}

	own, _, err := r.OwnSmallest(n)
	if err != nil {
		t.Fatal(err)
	}
	least, err := macsOf(n, own)
	if err != nil {
		t.Fatal(err)
	}
	if got := value("tips", "macs_p0"); got < float64(least) {
		t.Errorf("tips draws %v MACs; its smallest has %d", got, least)
	}
	for _, c := range []struct {
		method, column string
		low, high      float64
	}{
		{"tips", "subnetworks", 3 * steps, 3 * steps},
		{"ofa", "subnetworks", 4 * steps, 4 * steps},
		{"tips", "share_smallest", 0, 0},
		{"us-nets", "share_smallest", 1. / 3, 0.4},
		{"alphanet", "share_smallest", 1. / 3, 0.34},
		{"us-nets", "macs_p0", 6.94e6, 6.95e6},
		// Uniform in [0.35, 1]: a mean of 0.675, of three halves of it, at most 1, of 0.889.
		{"tips", "ratio_other", 0.66, 0.69}, {"tips", "ratio_important", 0.87, 0.91}, {"tips, factor 1", "ratio_important", 0.66, 0.71},
		{"ofa", "ratio_important", 0.65, 0.7}, // of 0.35, 0.675 and 1: the last phase
		{"alphanet", "ratio_inner", 0.55, 0.58},
		{"tips", "important_groups", 15, 15}, {"tips, path total", "important_groups", 25, 25}, {"us-nets", "important_groups", 15, 15},
	} {
		if got := value(c.method, c.column); got < c.low || got > c.high {
			t.Errorf("%s of %s is %v; want %v to %v", c.column, c.method, got, c.low, c.high)
		}
	}
	for _, name := range names {
		for i := 1; i < len(drawQuantiles); i++ {
			low, high := fmt.Sprintf("macs_p%d", drawQuantiles[i-1]), fmt.Sprintf("macs_p%d", drawQuantiles[i])
			if value(name, low) > value(name, high) {
				t.Errorf("%s: %s is above %s", name, low, high)
			}
		}
		for b := 20; b <= 40; b += 5 {
			low, high := fmt.Sprintf("share_within_%d000000", b), fmt.Sprintf("share_within_%d000000", b+5)
			if value(name, low) > value(name, high) {
				t.Errorf("%s: %s is above %s", name, low, high)
			}
		}
	}
	if row := f.Rows[9]; row[slices.Index(f.Header, "ratio_other")] != "" {
		t.Errorf("%s has a ratio of groups off a path on which all are", row[0])
	}

	again, err := Draws(n, DrawsOptions{Recipe: r, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(f.Rows) != fmt.Sprint(again.Rows) {
		t.Error("the same seed gives other data")
	}
	var picture bytes.Buffer
	if err := f.Drawn().WritePNG(&picture); err != nil {
		t.Fatal(err)
	}
	size, err := png.DecodeConfig(&picture)
	if err != nil || size.Height < size.Width {
		t.Errorf("%+v, %v; want two charts below each other", size, err)
	}
}

// TestDrawsVariants: the recipe's settings are where variants start from, and no two
// lines are the same.
func TestDrawsVariants(t *testing.T) {
	r, n := drawsRecipe(t, "method.name=us-nets", "method.loss=own", "method.factor=1.25", "method.together=true", "method.analysis.path=total", "seed=5")
	f, err := Draws(n, DrawsOptions{Recipe: r, Steps: 3, At: []int64{30e6}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range f.Rows {
		names = append(names, row[0])
	}
	want := []string{
		"tips, factor 1.25, together, path total", "us-nets", "ds-net", "ofa", "alphanet",
		"tips, factor 1, together, path total", "tips, together, path total", "tips, factor 2, together, path total",
		"tips, factor 1.25, together", "tips, factor 1.25, together, path of 45 nodes", "tips, factor 1.25, path total",
		"tips, factor 1.25, together, up to 0.8, path total", "tips, factor 1.25, together, smallest, path total",
		"tips, factor 1.25, together, 1 plain, path total",
	}
	if !slices.Equal(names, want) {
		t.Errorf("lines are %q; want %q", names, want)
	}
	if !slices.Contains(f.Header, "share_within_30000000") {
		t.Errorf("no share within 30 M: %q", f.Header)
	}
	if !strings.Contains(f.Remarks[0], "seed 5") {
		t.Errorf("%q does not tell the seed", f.Remarks[0])
	}
	// Beside the smallest there is room for two plain ones.
	plain, _ := drawsRecipe(t, "method.plain=3")
	if f, err = Draws(n, DrawsOptions{Recipe: plain, Steps: 3}); err != nil || f.Rows[len(f.Rows)-2][0] != "tips, smallest, 2 plain" || f.Rows[len(f.Rows)-1][0] != "tips" {
		t.Errorf("variants of three plain subnetworks: %v, %v", f.Rows, err)
	}
	if _, err := Draws(n, DrawsOptions{Recipe: r, Steps: -1}); !IsUsage(err) {
		t.Errorf("-1 steps: %v", err)
	}
	if _, err := Draws(network(t, "mobilenet_v2:min=1"), DrawsOptions{Recipe: r}); !IsUsage(err) {
		t.Errorf("a network that cannot shrink: %v", err)
	}
}

// TestDrawnMethods: every method is drawn by, or the figure says why not.
func TestDrawnMethods(t *testing.T) {
	names := slices.Clone(drawnMethods)
	for _, m := range undrawnMethods {
		names = append(names, m.name)
	}
	slices.Sort(names)
	all := method.Names()
	slices.Sort(all)
	if !slices.Equal(names, all) {
		t.Errorf("drawn or left out are %q; there are %q", names, all)
	}
}

// TestGroupKinds: trunks and the middles of blocks, of networks whose groups are known.
func TestGroupKinds(t *testing.T) {
	for _, c := range []struct {
		model                string
		groups, trunk, inner int
		first, last          string // inner ones
	}{
		{"mobilenet_v2", 25, 5, 16, "block2.expand", "block17.expand"},
		{"resnet34", 20, 4, 16, "stage1.block1.conv1", "stage4.block3.conv1"},
		// Bottlenecks are narrower inside, but for the first, behind a stem of its own width.
		{"resnet50", 37, 4, 1, "stage1.block1.conv1", "stage1.block1.conv1"},
	} {
		n := network(t, c.model)
		trunk, inner := trunkGroups(n), innerGroups(n)
		if len(n.Groups()) != c.groups || len(trunk) != c.trunk || len(inner) != c.inner {
			t.Errorf("%s: %d groups, %d trunks, %d inner; want %d, %d, %d", c.model, len(n.Groups()), len(trunk), len(inner), c.groups, c.trunk, c.inner)
			continue
		}
		if first, last := n.Groups()[inner[0]].Name, n.Groups()[inner[len(inner)-1]].Name; first != c.first || last != c.last {
			t.Errorf("%s: inner groups are %s to %s; want %s to %s", c.model, first, last, c.first, c.last)
		}
	}
}

// TestDrawBudgets: those asked for in the paper's table, or evenly spaced ones.
func TestDrawBudgets(t *testing.T) {
	for model, want := range map[string][]int64{
		"mobilenet_v2:width=1.4,data=cifar100": {20e6, 25e6, 30e6, 35e6, 40e6, 45e6},
		"mobilenet_v2":                         {100, 200, 300, 400, 500, 600},
	} {
		got, err := drawBudgets(network(t, model), 0, 700)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d, %v; want %d", model, got, err, want)
		}
	}
}
