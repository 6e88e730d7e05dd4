package reproduce

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tips/frontier"
	"tips/internal/atomicfile"
	"tips/supernet"
	"tips/train"
	"tips/weights"
)

// A run can be kept without its weights, in a hundredth of the space: the recipe, without
// where the data lay; the network; the metrics of epochs, not of steps; the frontier,
// without statistics, and all that it was chosen of; and what test images said about subnetworks. Tables and figures
// take what was kept for the run.

// testedFile has the verdicts of test images in the folder of a run that was kept.
const testedFile = "tested.csv"

var testedHeader = []string{"subnetwork", "macs", "correct", "images"}

// maxTestedBytes bounds the file: thousands of verdicts.
const maxTestedBytes = 4 << 20

// tested are verdicts of test images.
type tested map[supernet.Subnet]verdict

type verdict struct{ correct, images int }

// keep writes a run to a folder, with verdicts by test images.
func (r *run) keep(dir string, o Table1Options, points []frontier.Point) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	recipe := *r.recipe
	recipe.Data, _, _ = strings.Cut(recipe.Data, ":")
	if recipe.Data == "synthetic" {
		recipe.Data = r.recipe.Data // that is how it is made, and no folder
	}
	light := *r.frontier
	light.Points = append([]frontier.Point(nil), light.Points...)
	for i := range light.Points {
		light.Points[i].Statistics = nil
	}
	var table bytes.Buffer
	out := csv.NewWriter(&table)
	rows := [][]string{testedHeader}
	seen := map[supernet.Subnet]bool{}
	for _, p := range points {
		if !seen[p.Subnet] {
			seen[p.Subnet] = true
			rows = append(rows, []string{p.Subnet.String(), fmt.Sprint(p.Costs.MACs), fmt.Sprint(p.Correct), fmt.Sprint(p.Images)})
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return err
	}
	var metrics bytes.Buffer
	lines := json.NewEncoder(&metrics)
	for _, record := range r.records {
		if record.Step == nil {
			if err := lines.Encode(record); err != nil {
				return err
			}
		}
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{train.RecipeFile, recipe.Write}, {train.NetworkFile, r.network.Write},
		{train.MetricsFile, func(w io.Writer) error { _, err := w.Write(metrics.Bytes()); return err }},
		{testedFile, func(w io.Writer) error { _, err := w.Write(table.Bytes()); return err }},
	} {
		if err := atomicfile.Write(filepath.Join(dir, file.name), file.write); err != nil {
			return err
		}
	}
	if r.searched != nil {
		answers, err := os.ReadFile(r.file(o.SearchFile))
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(dir, o.SearchFile), func(w io.Writer) error { _, err := w.Write(answers); return err }); err != nil {
			return err
		}
	}
	return light.Save(filepath.Join(dir, o.FrontierFile))
}

// readKept reads the network and the verdicts of a run that was kept; false if it was
// not.
func (r *run) readKept() (bool, error) {
	f, err := os.Open(r.file(testedFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := r.readNetwork(); err != nil {
		return false, err
	}
	if r.tested, err = readTested(f, r.network); err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return true, nil
}

// readTested reads verdicts, strictly.
func readTested(from io.Reader, n *supernet.Network) (tested, error) {
	rows, err := readTable(from, testedHeader)
	if err != nil {
		return nil, err
	}
	list := tested{}
	for i, row := range rows {
		s, err := n.ParseSubnet(row[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		macs, err := macsOf(n, s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if _, twice := list[s]; twice || fmt.Sprint(macs) != row[1] {
			return nil, fmt.Errorf("line %d: %s stands twice, or has not %s MACs in %s", i+2, row[0], row[1], n.Name())
		}
		if list[s], err = parseVerdict(row[2], row[3]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return list, nil
}

// readTable reads the lines of a table whose header is known, all but that.
func readTable(from io.Reader, header []string) ([][]string, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxTestedBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxTestedBytes {
		return nil, fmt.Errorf("more than %d bytes", maxTestedBytes)
	}
	in := csv.NewReader(bytes.NewReader(text)) // all rows as long as the first
	if first, err := in.Read(); err != nil || !slices.Equal(first, header) {
		return nil, fmt.Errorf("want the columns %s", strings.Join(header, ","))
	}
	return in.ReadAll()
}

// parseVerdict reads how many of how many images were right.
func parseVerdict(correct, images string) (verdict, error) {
	right, err := strconv.ParseUint(correct, 10, 31)
	all, err2 := strconv.ParseUint(images, 10, 31)
	if err != nil || err2 != nil || right > all || all == 0 {
		return verdict{}, fmt.Errorf("%s of %s images right", correct, images)
	}
	return verdict{int(right), int(all)}, nil
}

// keptJudge knows what was known when a run was kept.
type keptJudge struct{ r *run }

func (j keptJudge) Accuracy(_ context.Context, s supernet.Subnet) (correct, images int, t *weights.Statistics, err error) {
	v, known := j.r.tested[s]
	if !known {
		return 0, 0, nil, fmt.Errorf("reproduce: %s has no verdict on %s, and no weights to find it with; want the budgets that it was kept with", j.r.file(testedFile), s)
	}
	return v.correct, v.images, nil, nil
}

func (keptJudge) On() string   { return "test" }
func (keptJudge) Close() error { return nil }
