package reproduce

import (
	"cmp"
	"fmt"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"tips/plot"
	"tips/supernet"
	"tips/topology"
)

// Fig5Options are the parameters of Figure 5. Zero values are the paper's.
type Fig5Options struct {
	Runs int // for every T; 0 means 10
	Seed uint64
}

// fig5Subnets is the largest T of the figure.
const fig5Subnets = 20

// Fig5 shows how the TPS of the important path settles with the number of
// subnetworks drawn.
func Fig5(n *supernet.Network, o Fig5Options) (Figure, error) {
	o.Runs = cmp.Or(o.Runs, 10)
	if err := within("runs", o.Runs, 2, 10_000); err != nil {
		return Figure{}, err
	}
	f := Figure{
		Name:    "fig5",
		Caption: fmt.Sprintf("TPS of the important path of %s against the number of subnetworks: mean and deviation over %d runs", n.Name(), o.Runs),
		Header:  []string{"subnets", "run", "path_nodes", "tps"},
		Chart: plot.Chart{
			Title:  fmt.Sprintf("Figure 5: %s, %d runs", n.Name(), o.Runs),
			XLabel: "subnetworks drawn, T", YLabel: "TPS of the important path",
		},
	}
	curve := plot.Series{Name: "mean ± sd"}
	worst := 0.0 // largest relative deviation for T > 4
	var at8 float64
	for t := 2; t <= fig5Subnets; t++ {
		scores := make([]float64, o.Runs)
		for run := range scores {
			a, err := topology.Analyze(n, topology.Options{Subnets: t, Seed: o.Seed + uint64(run)})
			if err != nil {
				return Figure{}, err
			}
			scores[run] = a.TPS()
			f.Rows = append(f.Rows, []string{strconv.Itoa(t), strconv.Itoa(run + 1), strconv.Itoa(len(a.Path.Nodes)), number(a.TPS())})
		}
		mean, deviation := stat.MeanStdDev(scores, nil)
		curve.X = append(curve.X, float64(t))
		curve.Y = append(curve.Y, mean)
		curve.Deviation = append(curve.Deviation, deviation)
		if t > 4 {
			worst = max(worst, deviation/mean)
		}
		if t == topology.DefaultSubnets {
			at8 = deviation / mean
		}
	}
	f.Chart.Series = []plot.Series{curve}
	f.Findings = []Finding{
		{
			Claim:    "with 8 subnetworks the deviation of the TPS is below 2.5 % of its mean",
			Measured: fmt.Sprintf("%.2f %%", 100*at8),
			Holds:    at8 < 0.025,
		},
		{
			Claim:    "with more than 4 subnetworks the variation is negligible (below 2.5 %)",
			Measured: fmt.Sprintf("at most %.2f %% of the mean", 100*worst),
			Holds:    worst < 0.025,
		},
	}
	expected, err := topology.Analyze(n, topology.Options{Expected: true})
	if err != nil {
		return Figure{}, err
	}
	f.Remarks = []string{
		"The TPS falls with T because the coupling λ(T−1) evens out all scores; its variation is what the figure is about.",
		fmt.Sprintf("Expected scores have no variation at all: TPS %.6f at T = 8 (tips analyze --expected).", expected.TPS()),
	}
	return f, nil
}
