package frontier

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tips/supernet"
)

// jsonPoint is a point for people and programs: all but the statistics.
type jsonPoint struct {
	Subnet     supernet.Subnet `json:"subnet"`
	Accuracy   float64         `json:"accuracy"`
	Error      float64         `json:"error,omitempty"`
	Correct    int             `json:"correct,omitempty"`
	Images     int             `json:"images,omitempty"`
	Calibrated bool            `json:"calibrated"`
	Costs
}

// MarshalJSON gives all that the frontier holds but for the values of statistics.
// There is no way back: a frontier is read from its file.
func (f *Frontier) MarshalJSON() ([]byte, error) {
	sizes, err := f.Sizes()
	if err != nil {
		return nil, err
	}
	points := make([]jsonPoint, len(f.Points))
	for i, p := range f.Points {
		points[i] = jsonPoint{p.Subnet, p.Accuracy, p.Error(), p.Correct, p.Images, p.Statistics != nil, p.Costs}
	}
	return json.Marshal(struct {
		Network     string         `json:"network"`
		NetworkHash supernet.Hash  `json:"network_hash"`
		WeightsHash supernet.Hash  `json:"weights_hash"`
		Input       supernet.Shape `json:"input"`
		By          []Kind         `json:"by"`
		OwnName     string         `json:"own_name,omitempty"`
		CPU         string         `json:"cpu,omitempty"`
		Threads     int            `json:"threads,omitempty"`
		Preprocess  Preprocess     `json:"preprocess"`
		ClassNames  []string       `json:"class_names,omitempty"`
		Bytes       Sizes          `json:"bytes"`
		Points      []jsonPoint    `json:"points"`
	}{f.Network.Name(), f.Network.Hash(), f.Weights, f.Input, f.By, f.OwnName, f.CPU, f.Threads, f.Preprocess, f.ClassNames, sizes, points})
}

// WriteTable writes the points as a table, one a line; costs that no point has are
// left out.
func (f *Frontier) WriteTable(w io.Writer) error {
	has := func(k Kind) bool {
		for _, p := range f.Points {
			if k >= Latency && p.Costs.Known(k) {
				return true
			}
		}
		return false
	}
	latency, energy, own := has(Latency), has(Energy), has(Own)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "#\taccuracy\tMACs\tparameters\tpeak memory\t")
	if latency {
		fmt.Fprint(t, "latency\t")
	}
	if energy {
		fmt.Fprint(t, "energy\t")
	}
	if own {
		fmt.Fprintf(t, "%s\t", f.OwnName)
	}
	fmt.Fprintln(t, " subnetwork")
	for i, p := range f.Points {
		accuracy := fmt.Sprintf("%.2f %%", 100*p.Accuracy)
		if p.Images > 0 {
			accuracy = fmt.Sprintf("%.2f ± %.2f %%", 100*p.Accuracy, 100*p.Error())
		}
		fmt.Fprintf(t, "%d\t%s\t%.2f M\t%.3f M\t%.1f KiB\t", i+1, accuracy, float64(p.Costs.MACs)/1e6, float64(p.Costs.Params)/1e6, float64(p.Costs.PeakBytes)/1024)
		unknown := func(known bool, text string) string {
			if known {
				return text
			}
			return "–"
		}
		if latency {
			fmt.Fprintf(t, "%s\t", unknown(p.Costs.Latency > 0, p.Costs.Latency.Round(time.Microsecond).String()))
		}
		if energy {
			fmt.Fprintf(t, "%s\t", unknown(p.Costs.Energy > 0, fmt.Sprintf("%.3g J", p.Costs.Energy)))
		}
		if own {
			fmt.Fprintf(t, "%s\t", unknown(p.Costs.Own > 0, fmt.Sprintf("%.4g", p.Costs.Own)))
		}
		fmt.Fprintf(t, " %s\n", p.Subnet)
	}
	return t.Flush()
}
