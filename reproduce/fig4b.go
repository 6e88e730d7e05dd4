package reproduce

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tips/plot"
	"tips/train"
)

// Fig4bOptions say whose convergence is compared.
type Fig4bOptions struct {
	Runs []string // folders of training runs, by method and seed
	Time bool     // draw against the time that runs took, not against epochs
}

// curve is how the full network of a method learnt, mean over its runs.
type curve struct {
	name                             string
	epochs                           []int
	seconds, loss, deviation, sought []float64 // by epoch; sought is the least loss so far
}

// Fig4b is the form of the paper's Figure 4b and c: the training loss of the full
// network by epoch. The loss is its cross-entropy with the labels, which means the same
// for all methods; the sum that a step goes down by does not, since it is of
// different subnetworks. Both are among the data.
func Fig4b(o Fig4bOptions) (Figure, error) {
	runs, err := openRuns(o.Runs, (*run).readMetrics)
	if err != nil {
		return Figure{}, err
	}
	network, data := runs[0].recipe.Network, dataName(runs[0].recipe.Data)
	f := Figure{
		Name:    "fig4b-" + fileName(data) + "-" + model(network),
		Caption: fmt.Sprintf("training loss of the full %s on %s, by method (the paper's Figure 4b, c is on ImageNet and Tiny-ImageNet)", network, data),
		Chart: plot.Chart{
			Title:  fmt.Sprintf("%s on %s: training loss of the full network", model(network), data),
			XLabel: "epoch", YLabel: "cross-entropy with the labels", LogY: true,
		},
	}
	if o.Time {
		f.Chart.XLabel = "minutes of training"
	}
	f.Header, f.Rows = epochRows(runs)
	if len(f.Rows) == 0 {
		return Figure{}, errors.New("no run has ended an epoch yet; nothing to draw")
	}
	methods, of := byMethod(runs)
	var curves []*curve
	for _, m := range methods {
		c := curveOf(m, of[m])
		s := plot.Series{Name: m, X: make([]float64, len(c.epochs)), Y: c.loss, Deviation: make([]float64, len(c.epochs))}
		for i, e := range c.epochs {
			s.Deviation[i] = min(c.deviation[i], 0.9*c.loss[i]) // the axis ends above 0
			if s.X[i] = float64(e); o.Time {
				s.X[i] = c.seconds[i] / 60
			}
		}
		if len(s.X) > 0 {
			f.Chart.Series = append(f.Chart.Series, s)
			curves = append(curves, c)
		}
	}
	f.Findings, f.Table = fig4bFindings(curves), fig4bTable(curves)
	f.Remarks = []string{
		"Loss: the full network's cross-entropy with the labels of training images, mean over an epoch; the band is the deviation over the runs of a method. In phases in which a method (OFA) does not train the full network it has none.",
	}
	for _, r := range runs {
		if e := lastEpoch(r); e < r.recipe.Epochs {
			f.Remarks = append(f.Remarks, fmt.Sprintf("%s is not over: %d of %d epochs.", r.dir, e, r.recipe.Epochs))
		}
	}
	return f, nil
}

// epochRows are the metrics of runs, a row an epoch: small enough to be kept, and all
// that figures are drawn from.
func epochRows(runs []*run) (header []string, rows [][]string) {
	header = []string{"method", "seed", "epoch", "steps", "seconds", "loss", "full_loss", "full_accuracy"}
	var judged []string // subnetworks, in the order in which they occur
	for _, r := range runs {
		for _, record := range r.records {
			if record.Evaluation == nil {
				continue
			}
			for _, e := range record.Evaluation.Results {
				if !slices.Contains(judged, e.Name) {
					judged = append(judged, e.Name)
				}
			}
		}
	}
	for _, name := range judged {
		header = append(header, "judged_"+name)
	}
	for _, r := range runs {
		results := map[int]train.Results{}
		for _, record := range r.records {
			if record.Evaluation != nil {
				results[record.Evaluation.Epoch] = record.Evaluation.Results
			}
		}
		for _, record := range r.records {
			e := record.Epoch
			if e == nil {
				continue
			}
			row := []string{r.method(), fmt.Sprint(r.recipe.Seed), fmt.Sprint(e.Number), fmt.Sprint(e.Steps), fmt.Sprintf("%.1f", e.Seconds), fmt.Sprintf("%.5f", e.Loss), "", ""}
			if trainsFull(e) {
				row[6], row[7] = fmt.Sprintf("%.5f", e.Label), fmt.Sprintf("%.5f", e.Accuracy)
			}
			for _, name := range judged {
				text := ""
				if at := slices.IndexFunc(results[e.Number], func(result train.Result) bool { return result.Name == name }); at >= 0 {
					text = fmt.Sprintf("%.5f", results[e.Number][at].Accuracy)
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
	}
	return header, rows
}

// trainsFull tells whether the full network was trained in all steps of an epoch: in
// some phases of OFA it is drawn now and then, and a mean over those few steps is none
// over the epoch. A loss is never quite zero; metrics from before they had the number of
// steps only tell that there were some.
func trainsFull(e *train.EpochRecord) bool {
	return e.Label > 0 && (e.Full == 0 || e.Full*e.Number >= e.Steps)
}

func lastEpoch(r *run) int {
	last := 0
	for _, record := range r.records {
		if record.Epoch != nil {
			last = max(last, record.Epoch.Number)
		}
	}
	return last
}

// curveOf is the mean of runs, over the epochs that all of them have.
func curveOf(name string, runs []*run) *curve {
	c := &curve{name: name}
	losses, seconds := map[int][]float64{}, map[int][]float64{}
	for _, r := range runs {
		for _, record := range r.records {
			if e := record.Epoch; e != nil && trainsFull(e) {
				losses[e.Number] = append(losses[e.Number], e.Label)
				seconds[e.Number] = append(seconds[e.Number], e.Seconds)
			}
		}
	}
	for e := range losses {
		if len(losses[e]) == len(runs) {
			c.epochs = append(c.epochs, e)
		}
	}
	slices.Sort(c.epochs)
	for i, e := range c.epochs {
		loss, deviation := spread(losses[e])
		took, _ := spread(seconds[e])
		least := loss
		if i > 0 {
			least = min(least, c.sought[i-1])
		}
		c.seconds, c.loss, c.deviation, c.sought = append(c.seconds, took), append(c.loss, loss), append(c.deviation, deviation), append(c.sought, least)
	}
	return c
}

// reach is the first epoch with a loss of at most target.
func (c *curve) reach(target float64) (epoch int, reached bool) {
	at := slices.IndexFunc(c.sought, func(loss float64) bool { return loss <= target })
	if at < 0 {
		return 0, false
	}
	return c.epochs[at], true
}

// against says how many epochs a loss takes a method and TIPS, and how many times as many
// the latter: infinitely many where it does not get there.
func (c *curve) against(tips *curve, loss float64) (text string, ratio float64) {
	needs, _ := c.reach(loss)
	text = fmt.Sprintf("a loss of %#.3g takes %s %s", loss, c.name, plural(needs, "epoch"))
	epoch, reached := tips.reach(loss)
	if !reached {
		last := len(tips.epochs) - 1
		return text + fmt.Sprintf(", and TIPS does not reach it: %#.3g after %d", tips.sought[last], tips.epochs[last]), math.Inf(1)
	}
	ratio = float64(epoch) / float64(needs)
	return text + fmt.Sprintf(" and TIPS %d: %.2f times as many", epoch, ratio), ratio
}

// muchFewer is a share of the epochs that is less by far. The paper's is 0.61.
const muchFewer = 0.75

// fig4bFindings say when TIPS reaches what other methods end with, and what they have
// after half of their epochs, which tells more where all know the training images by
// heart in the end.
func fig4bFindings(curves []*curve) []Finding {
	name := tipsAmong(texts(len(curves), func(i int) string { return curves[i].name }))
	at := slices.IndexFunc(curves, func(c *curve) bool { return c.name == name })
	if at < 0 {
		return nil
	}
	ours := curves[at]
	var list []Finding
	claims := map[string]string{
		"us-nets": "than US-Nets for the same training loss (on ImageNet 88 epochs, where US-Nets takes 145, for 1.25)",
		"joslim":  "than Joslim for the same training loss",
		"ds-net":  "than DS-Net for the same training loss",
	}
	for _, c := range curves {
		if claims[c.name] == "" {
			continue // nothing that the paper draws
		}
		end, half := c.sought[len(c.sought)-1], c.sought[(len(c.sought)-1)/2]
		text, ratio := c.against(ours, end)
		f := Finding{Claim: "TIPS needs much fewer epochs " + claims[c.name], Measured: aboutTIPS(name) + text, Holds: ratio <= muchFewer}
		if half > end {
			text, _ = c.against(ours, half)
			f.Measured += "; " + text
		}
		list = append(list, f)
	}
	return list
}

// fig4bTable is the loss at a few epochs.
func fig4bTable(curves []*curve) [][]string {
	const columns = 6
	last := 0
	for _, c := range curves {
		last = max(last, c.epochs[len(c.epochs)-1])
	}
	var epochs []int
	for i := range columns {
		if e := last * (i + 1) / columns; e > 0 && !slices.Contains(epochs, e) {
			epochs = append(epochs, e)
		}
	}
	table := [][]string{append([]string{"LOSS AFTER EPOCH"}, texts(len(epochs), func(i int) string { return fmt.Sprint(epochs[i]) })...)}
	for _, c := range curves {
		table = append(table, append([]string{c.name}, texts(len(epochs), func(i int) string {
			at := slices.Index(c.epochs, epochs[i])
			if at < 0 {
				return "-"
			}
			return fmt.Sprintf("%#.3g", c.loss[at])
		})...))
	}
	return table
}
