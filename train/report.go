package train

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tips/internal/atomicfile"
	"tips/plot"
)

// Plot draws the metrics of a run's folder, finished or under way, as its curves.
func Plot(dir string) error {
	f, err := os.Open(filepath.Join(dir, MetricsFile))
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	defer f.Close()
	records, err := ReadMetrics(f)
	if err != nil {
		return fmt.Errorf("train: %s: %w", f.Name(), err)
	}
	charts, err := Curves(records)
	if err != nil {
		return fmt.Errorf("train: %s: %w", f.Name(), err)
	}
	err = atomicfile.Write(filepath.Join(dir, CurvesFile), func(w io.Writer) error { return plot.Sheet(charts).WriteSVG(w) })
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// Curves are charts of a run: losses and accuracies of what was judged, and of
// the full network on what it trained on.
func Curves(records []Record) ([]plot.Chart, error) {
	loss := plot.Chart{Title: "Loss", XLabel: "step", YLabel: "cross-entropy"}
	accuracy := plot.Chart{Title: "Accuracy", XLabel: "step", YLabel: "% of the images"}
	learnt := points(records)
	loss.Series = append(loss.Series, plot.Series{Name: "full, training", X: learnt.step, Y: learnt.loss})
	accuracy.Series = append(accuracy.Series, plot.Series{Name: "full, training", X: learnt.step, Y: learnt.accuracy})

	var names []string
	at := map[string]int{}
	for _, r := range records {
		if r.Evaluation == nil {
			continue
		}
		for _, result := range r.Evaluation.Results {
			i, known := at[result.Name]
			if !known {
				i = len(names)
				at[result.Name] = i
				names = append(names, result.Name)
				label := result.Name + ", " + r.Evaluation.On
				loss.Series = append(loss.Series, plot.Series{Name: label})
				accuracy.Series = append(accuracy.Series, plot.Series{Name: label})
			}
			l, a := &loss.Series[i+1], &accuracy.Series[i+1]
			l.X, l.Y = append(l.X, float64(r.Evaluation.Steps)), append(l.Y, result.Loss)
			a.X, a.Y = append(a.X, float64(r.Evaluation.Steps)), append(a.Y, 100*result.Accuracy)
		}
	}
	for _, c := range []*plot.Chart{&loss, &accuracy} {
		if len(c.Series[0].X) == 0 { // the full network is not what was trained
			c.Series = c.Series[1:]
		}
		if len(c.Series) == 0 {
			return nil, fmt.Errorf("no step is recorded yet")
		}
	}
	return []plot.Chart{loss, accuracy}, nil
}

// series is the full network's way through its steps.
type series struct{ step, loss, accuracy []float64 }

// points are means over neighbouring steps, at most a few hundred of them: single
// steps are noise.
func points(records []Record) series {
	var all series
	for _, r := range records {
		if r.Step == nil {
			continue
		}
		for _, l := range r.Step.Lessons {
			if l.Subnet == "full" {
				all.step = append(all.step, float64(r.Step.Number+1))
				all.loss = append(all.loss, l.Label)
				all.accuracy = append(all.accuracy, 100*l.Accuracy)
				break
			}
		}
	}
	const most = 200
	n := len(all.step)
	count := min(n, most)
	var few series
	for i := range count {
		from, to := i*n/count, (i+1)*n/count
		few.step = append(few.step, mean(all.step[from:to]))
		few.loss = append(few.loss, mean(all.loss[from:to]))
		few.accuracy = append(few.accuracy, mean(all.accuracy[from:to]))
	}
	return few
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
