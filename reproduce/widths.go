package reproduce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tips/supernet"
)

// WidthsOptions say which runs are compared, and how narrow they are made.
type WidthsOptions struct {
	Runs []string // folders of finished training runs of one network, by method and seed

	// Judge gives what counts the accuracies of a run's subnetworks by test images.
	Judge func(run string) (CalibratingJudge, error)

	Ratios []float64 // of full width; nil: the network's least, and some above it up to 1

	Progress func(done, total int) // in subnetworks to be judged; may be nil
}

// CalibratingJudge is a judge that tells on how many training images it re-estimates
// batch norm.
type CalibratingJudge interface {
	Judge
	Calibration() int
}

// widthFamily is groups that are made narrow, all others staying at full width.
type widthFamily struct {
	name, title string
	groups      func(*supernet.Network) []int
}

var widthFamilies = []widthFamily{
	{"all", "all widths", allGroups},
	{"trunk", "trunk alone", trunkGroups},
	{"inner", "inner widths alone", innerGroups},
}

func allGroups(n *supernet.Network) (all []int) {
	for g := range n.Groups() {
		all = append(all, g)
	}
	return all
}

const (
	maxWidthRatios  = 50
	maxWidthMethods = 8 // as many as a chart can tell apart
	maxWidthRuns    = 1000
	maxWidthName    = 1000
)

// widths is what the figure is made of: the same subnetworks of every run.
type widths struct {
	network, data       string
	epochs, calibration int
	at                  []widthsAt
	runs                []*widthsRun
}

// widthsAt is a subnetwork: the groups of a family at a ratio.
type widthsAt struct {
	family string
	ratio  float64
	subnet string // its text form: what was written to a file has no network
	macs   int64
}

// widthsRun is what test images said about a run.
type widthsRun struct {
	label, seed string
	verdicts    []verdict // by subnetwork
}

func (r *widthsRun) method() string { return r.label }

// Widths shows which widths methods have taught a network to do without: how accurate
// it is with all its groups narrow, with those of the residual trunk alone, and with
// those within blocks alone.
func Widths(ctx context.Context, o WidthsOptions) (Figure, error) {
	opened, err := openRuns(o.Runs, (*run).readWeights)
	if err != nil {
		return Figure{}, err
	}
	n, recipe := opened[0].network, opened[0].recipe
	w := &widths{network: n.Name(), data: dataName(recipe.Data), epochs: recipe.Epochs}
	subnets, err := w.choose(n, o.Ratios)
	if err != nil {
		return Figure{}, err
	}
	for _, r := range opened {
		w.runs = append(w.runs, &widthsRun{label: r.method(), seed: fmt.Sprint(r.recipe.Seed)})
	}
	if err := w.check(); err != nil {
		return Figure{}, err
	}
	done, total := 0, len(opened)*len(subnets)
	for i, r := range opened {
		if err := w.judge(ctx, r, w.runs[i], o, subnets, func() {
			if done++; o.Progress != nil {
				o.Progress(done, total)
			}
		}); err != nil {
			return Figure{}, err
		}
	}
	return w.figure(), nil
}

func (w *widths) judge(ctx context.Context, r *run, to *widthsRun, o WidthsOptions, subnets []supernet.Subnet, judged func()) error {
	j, err := o.Judge(r.dir)
	if err != nil {
		return err
	}
	defer j.Close()
	first := w.runs[0]
	if to == first {
		w.calibration = j.Calibration()
	}
	if n := j.Calibration(); n != w.calibration {
		return fmt.Errorf("%s is calibrated on %s, and the first run on %d; --calibration says how many for all", r.dir, plural(n, "image"), w.calibration)
	}
	if to.verdicts, err = r.byTest(ctx, j, subnets, judged); err != nil {
		return err
	}
	if n := to.verdicts[0].images; n != first.verdicts[0].images {
		return fmt.Errorf("%s is judged by %s, and the first run by %d; not to be compared", r.dir, plural(n, "test image"), first.verdicts[0].images)
	}
	return nil
}

// choose lists the subnetworks of all families. A network may have no group of some.
func (w *widths) choose(n *supernet.Network, ratios []float64) ([]supernet.Subnet, error) {
	if n.Smallest().IsFull() {
		return nil, usage{fmt.Errorf("%s has but one width; want a network whose widths can shrink", n.Name())}
	}
	least := n.Elastic().MinRatio
	if ratios == nil {
		ratios = []float64{least}
		for _, r := range []float64{0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1} {
			if r > least {
				ratios = append(ratios, r)
			}
		}
	}
	if len(ratios) > maxWidthRatios {
		return nil, usage{fmt.Errorf("%d --ratios; want at most %d", len(ratios), maxWidthRatios)}
	}
	ratios = slices.Sorted(slices.Values(ratios))
	for i, r := range ratios {
		if !(r >= least && r <= 1) || i > 0 && r == ratios[i-1] {
			return nil, usage{fmt.Errorf("--ratios %v; want ratios from %v, the least of %s, to 1, each once", r, least, n.Name())}
		}
	}
	var list []supernet.Subnet
	for _, family := range widthFamilies {
		groups := family.groups(n)
		if len(groups) == 0 {
			continue
		}
		for _, ratio := range ratios {
			s, err := narrowed(n, groups, ratio)
			if err != nil {
				return nil, err
			}
			macs, err := macsOf(n, s)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
			w.at = append(w.at, widthsAt{family.name, ratio, s.String(), macs})
		}
	}
	return list, nil
}

// narrowed is a subnetwork with some groups at a ratio, and the others at full width.
func narrowed(n *supernet.Network, groups []int, ratio float64) (supernet.Subnet, error) {
	var widths []int
	for g, group := range n.Groups() {
		width := group.Channels
		if slices.Contains(groups, g) {
			width = group.Round(ratio)
		}
		widths = append(widths, width)
	}
	return n.Subnet(widths, nil)
}

// plainName is what can be part of a file's name.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// check refuses what cannot be drawn, or not be called by its name.
func (w *widths) check() error {
	if name := model(w.network); !plainName.MatchString(name) {
		return fmt.Errorf("the network is called %.50q; want a name of letters, digits, - and _ that files can have", w.network)
	}
	if !plainName.MatchString(w.data) || len(w.data) > maxWidthName {
		return fmt.Errorf("the data is called %.50q; want a name of letters, digits, - and _", w.data)
	}
	if err := checkLabel(w.network); err != nil {
		return err
	}
	if methods, _ := byMethod(w.runs); len(methods) > maxWidthMethods {
		return usage{fmt.Errorf("runs of %d methods; want at most %d, which can be told apart in a chart", len(methods), maxWidthMethods)}
	}
	return nil
}

var widthsHeader = []string{"network", "data", "epochs", "calibration", "method", "seed", "family", "ratio", "subnetwork", "macs", "correct", "images"}

// rows are the data, all that the figure is drawn from.
func (w *widths) rows() (rows [][]string) {
	methods, of := byMethod(w.runs)
	for _, m := range methods {
		for _, r := range of[m] {
			for i, at := range w.at {
				v := r.verdicts[i]
				rows = append(rows, []string{w.network, w.data, fmt.Sprint(w.epochs), fmt.Sprint(w.calibration), r.label, r.seed,
					at.family, number(at.ratio), at.subnet, fmt.Sprint(at.macs), fmt.Sprint(v.correct), fmt.Sprint(v.images)})
			}
		}
	}
	return rows
}

// ReadWidths makes the figure of the data that an earlier one wrote, when the weights
// are gone.
func ReadWidths(from io.Reader) (Figure, error) {
	w, err := readWidths(from)
	if err != nil {
		return Figure{}, err
	}
	return w.figure(), nil
}

// readWidths reads the data, strictly: all runs have the same subnetworks, in the order
// in which they are written.
func readWidths(from io.Reader) (*widths, error) {
	rows, err := readTable(from, widthsHeader)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("no line below the header; want a line for each subnetwork of a run")
	}
	first := rows[0]
	epochs, err := parseWhole(first, 2, 31)
	if err != nil {
		return nil, err
	}
	calibration, err := parseWhole(first, 3, 31)
	if err != nil {
		return nil, err
	}
	w := &widths{network: first[0], data: first[1], epochs: int(epochs), calibration: int(calibration)}
	for i, row := range rows {
		if err := w.read(row, first); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	for _, r := range w.runs {
		if len(r.verdicts) != len(w.at) {
			return nil, fmt.Errorf("%s, seed %s, has %d subnetworks; want %d as the first", r.label, r.seed, len(r.verdicts), len(w.at))
		}
	}
	if err := w.checkFamilies(); err != nil {
		return nil, err
	}
	return w, w.check()
}

// read takes a line; first is the first one.
func (w *widths) read(row, first []string) error {
	for i := range 4 {
		if row[i] != first[i] {
			return fmt.Errorf("%s %.50q; want %.50q as in the first line", widthsHeader[i], row[i], first[i])
		}
	}
	label, seed := row[4], row[5]
	at := slices.IndexFunc(w.runs, func(r *widthsRun) bool { return r.label == label && r.seed == seed })
	if at < 0 {
		if err := checkLabel(label); err != nil {
			return err
		}
		if _, err := parseWhole(row, 5, 64); err != nil {
			return err
		}
		if len(w.runs) == maxWidthRuns {
			return fmt.Errorf("more than %d runs", maxWidthRuns)
		}
		w.runs = append(w.runs, &widthsRun{label: label, seed: seed})
		at = len(w.runs) - 1
	}
	r := w.runs[at]
	if at == 0 {
		subnet, err := parseWidthsAt(row)
		if err != nil {
			return err
		}
		w.at = append(w.at, subnet)
	}
	place := len(r.verdicts)
	if place >= len(w.at) {
		return fmt.Errorf("%s, seed %s, has more subnetworks than the %d of the first run", label, seed, len(w.at))
	}
	if want := w.at[place]; row[6] != want.family || row[7] != number(want.ratio) || row[8] != want.subnet || row[9] != fmt.Sprint(want.macs) {
		return fmt.Errorf("%.100q; want %s at %v, %s, as in the first run", row[6:10], want.family, want.ratio, want.subnet)
	}
	v, err := parseVerdict(row[10], row[11])
	if err != nil {
		return err
	}
	if row[10] != fmt.Sprint(v.correct) || row[11] != fmt.Sprint(v.images) || row[11] != first[11] {
		return fmt.Errorf("%.20s of %.20s images right; want as many images as in the first line", row[10], row[11])
	}
	r.verdicts = append(r.verdicts, v)
	return nil
}

// parseWidthsAt reads which subnetwork a line is about.
func parseWidthsAt(row []string) (widthsAt, error) {
	ratio, err := strconv.ParseFloat(row[7], 64)
	if err != nil || !(ratio > 0 && ratio <= 1) || number(ratio) != row[7] {
		return widthsAt{}, fmt.Errorf("ratio %.50q; want a number above 0, at most 1", row[7])
	}
	if err := checkLabel(row[8]); err != nil {
		return widthsAt{}, err
	}
	macs, err := parseWhole(row, 9, 60)
	return widthsAt{row[6], ratio, row[8], int64(macs)}, err
}

// checkFamilies wants known families, in their order, each with the same rising ratios.
func (w *widths) checkFamilies() error {
	var names []string
	for _, f := range widthFamilies {
		names = append(names, f.name)
	}
	var ratios [][]float64 // by family
	last := -1
	for _, at := range w.at {
		k := slices.Index(names, at.family)
		if k < 0 || k < last {
			return fmt.Errorf("family %.50q; want %s, in this order", at.family, strings.Join(names, ", "))
		}
		if k > last {
			ratios = append(ratios, nil)
		}
		last = k
		of := &ratios[len(ratios)-1]
		if n := len(*of); n > 0 && (*of)[n-1] >= at.ratio || n == maxWidthRatios {
			return fmt.Errorf("ratio %v of family %s; want at most %d rising ones", at.ratio, at.family, maxWidthRatios)
		}
		*of = append(*of, at.ratio)
	}
	for _, of := range ratios {
		if !slices.Equal(of, ratios[0]) {
			return fmt.Errorf("ratios %v and %v; want the same for all families", ratios[0], of)
		}
	}
	return nil
}

// parseWhole reads a column of a line as a whole number, as it is written.
func parseWhole(row []string, column, bits int) (uint64, error) {
	n, err := strconv.ParseUint(row[column], 10, bits)
	if err != nil || fmt.Sprint(n) != row[column] {
		return 0, fmt.Errorf("%s %.50q; want a whole number", widthsHeader[column], row[column])
	}
	return n, nil
}

// checkLabel wants a text that can stand in a table and a chart.
func checkLabel(text string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if text == "" || len(text) > maxWidthName || strings.ContainsFunc(text, bad) {
		return fmt.Errorf("%.50q; want a name in print", text)
	}
	return nil
}
