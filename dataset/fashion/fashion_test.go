package fashion

import (
	"strings"
	"testing"

	"tips/dataset"
)

// TestEmbedded: as many of each class as the package comment says, by way of the
// spec that users give.
func TestEmbedded(t *testing.T) {
	if size := len(trainImages) + len(trainLabels) + len(testImages) + len(testLabels); size > 4<<20 {
		t.Errorf("%d bytes", size)
	}
	d, err := dataset.Open("embedded", Format())
	if err != nil {
		t.Fatal(err)
	}
	if d.Classes != 10 || d.Channels != 1 || d.Size != 28 || len(d.ClassNames) != 10 {
		t.Errorf("%+v", d)
	}
	for s, each := range map[dataset.Source]int{d.Train: 700, d.Test: 150} {
		count := make([]int, 10)
		for i := range s.Len() {
			count[s.Label(i)]++
		}
		for c, n := range count {
			if n != each {
				t.Errorf("%d pictures of class %s; want %d", n, d.ClassNames[c], each)
			}
		}
	}
	// The first training picture is an ankle boot, which fills the lower right.
	p, err := d.Train.Image(0)
	if err != nil || d.Train.Label(0) != 9 || p.Width != 28 || p.Height != 28 || p.Pix[0] != 0 || p.Pix[20*28+20] < 100 {
		t.Errorf("%v, label %d, %v", p, d.Train.Label(0), err)
	}

	if _, err := dataset.Open("embedded:x", Format()); err == nil || !strings.Contains(err.Error(), `"x" after the name`) {
		t.Errorf("error %v", err)
	}
	if _, err := dataset.Open("nothing", Format()); err == nil || !strings.Contains(err.Error(), "cifar100, embedded, fashion-mnist") {
		t.Errorf("error %v", err)
	}
}
