package reproduce

import (
	"testing"

	"tips/train"
)

// TestMethodLabel: settings that a method does not have are not in its label.
func TestMethodLabel(t *testing.T) {
	for want, m := range map[string]train.MethodRecipe{
		published:                           {Name: "tips", Loss: "paper", WorstUp: true},
		byDefault:                           {Name: "tips", Loss: "paper", Smallest: true},
		"tips, factor 2, path total":        {Name: "tips", Factor: 2, Analysis: train.AnalysisRecipe{Path: "total"}},
		"us-nets":                           {Name: "us-nets", Smallest: true, Factor: 2, Plain: 1, Subnet: "smallest"},
		"attentive-nas, own loss, worst up": {Name: "attentive-nas", Loss: "own", Smallest: true, WorstUp: true},
		"static, 0.5":                       {Name: "static", Smallest: true, Subnet: "0.5"},
	} {
		if got := methodLabel(m); got != want {
			t.Errorf("%+v is labelled %q; want %q", m, got, want)
		}
	}
}

// TestTIPSAmong: as published it stands for TIPS, and by default where that is not there.
func TestTIPSAmong(t *testing.T) {
	for _, c := range []struct {
		labels []string
		want   string
	}{
		{[]string{"us-nets", byDefault, published}, published},
		{[]string{"us-nets", byDefault, "tips, factor 2"}, byDefault},
		{[]string{"us-nets", "tips, factor 2"}, ""},
		{nil, ""},
	} {
		if got := tipsAmong(c.labels); got != c.want {
			t.Errorf("among %q it is %q; want %q", c.labels, got, c.want)
		}
	}
}
