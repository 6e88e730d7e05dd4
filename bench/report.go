package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"tips/internal/atomicfile"
)

// table is what a section found. The first column names the case.
type table struct {
	name, title string
	notes       []string
	columns     []string
	rows        [][]string
}

// Words of the column that says whether a limit holds.
const (
	holdsColumn = "holds"
	yes, no     = "yes", "**no**"
	skipped     = "skipped" // what it takes is missing
)

func verdict(holds bool) string {
	if holds {
		return yes
	}
	return no
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// skip adds a row that says that a case did not run, and a note that says why. The
// columns must be there.
func (t *table) skip(name string, why error) {
	row := make([]string, len(t.columns))
	row[0], row[slices.Index(t.columns, holdsColumn)] = name, skipped
	t.add(row...)
	if note := fmt.Sprintf("Skipped: %v.", why); !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// withVerdict lists the rows with a verdict.
func withVerdict(tables []table, verdict string) []string {
	var list []string
	for _, t := range tables {
		for _, row := range t.rows {
			for i, cell := range row {
				if t.columns[i] == holdsColumn && cell == verdict {
					list = append(list, t.name+": "+row[0])
				}
			}
		}
	}
	return list
}

func (t table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", t.title)
	for _, note := range t.notes {
		fmt.Fprintf(&b, "%s\n\n", note)
	}
	if len(t.rows) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// writeReport writes the tables as a page, and as one value a line for programs.
// Sections that did not run this time are kept as they stand there, and the table
// of where says so.
func writeReport(dir string, where table, tables []table) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pageFile, valuesFile := filepath.Join(dir, "bench.md"), filepath.Join(dir, "bench.csv")
	pages, values, err := oldReport(pageFile, valuesFile)
	if err != nil {
		return err
	}
	var kept []string
	for _, c := range sections {
		switch i := slices.IndexFunc(tables, func(t table) bool { return t.name == c.verb }); {
		case i >= 0:
			pages[c.title], values[c.verb] = tables[i].markdown(), tables[i].values()
		case pages[c.title] != "":
			kept = append(kept, c.verb)
		}
	}
	if len(kept) > 0 {
		where.add("kept from an earlier run", strings.Join(kept, ", "))
	}
	err = atomicfile.Write(pageFile, func(w io.Writer) error {
		fmt.Fprint(w, "# Beside ONNX Runtime and PyTorch\n\nThe last run of `cd bench && go run . all`, which writes this page and [bench.csv](bench.csv).\n\n", where.markdown())
		for _, c := range sections {
			if pages[c.title] == "" {
				continue
			}
			if _, err := fmt.Fprint(w, "\n", pages[c.title]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return atomicfile.Write(valuesFile, func(w io.Writer) error {
		c := csv.NewWriter(w)
		c.Write(valueColumns)
		c.WriteAll(where.values())
		for _, s := range sections {
			c.WriteAll(values[s.verb])
		}
		return c.Error()
	})
}

var valueColumns = []string{"table", "case", "column", "value"}

// values are the cells of a table, one a line.
func (t table) values() (lines [][]string) {
	for _, row := range t.rows {
		for i, cell := range row[1:] {
			lines = append(lines, []string{t.name, row[0], t.columns[i+1], strings.Trim(cell, "*")})
		}
	}
	return lines
}

// oldReport reads what writeReport wrote: the text of sections by title, and their
// values by verb. What is not there is empty.
func oldReport(pageFile, valuesFile string) (pages map[string]string, values map[string][][]string, err error) {
	pages, values = map[string]string{}, map[string][][]string{}
	text, err := os.ReadFile(pageFile)
	if errors.Is(err, fs.ErrNotExist) {
		return pages, values, nil
	}
	if err != nil {
		return nil, nil, err
	}
	parts := strings.Split(string(text), "\n## ")
	for _, part := range parts[1:] {
		title, _, _ := strings.Cut(part, "\n")
		pages[title] = "## " + strings.TrimRight(part, "\n") + "\n"
	}
	f, err := os.Open(valuesFile)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", valuesFile, err)
	}
	for _, line := range lines {
		values[line[0]] = append(values[line[0]], line)
	}
	return pages, values, nil
}

// environment is where and with what was measured.
func environment(s settings) table {
	t := table{name: "environment", title: "Where", columns: []string{"what", "value"}}
	t.add("CPU", cpuModel())
	t.add("cores", strconv.Itoa(runtime.NumCPU()))
	t.add("vector extensions", vectorExtensions())
	t.add("load when the run ended", loadAverage())
	t.add("Go", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	t.add("ONNX Runtime", peerVersionHere())
	t.add("PyTorch", torchVersionHere())
	t.add("time for each speed comparison", s.box.String())
	t.add("seed", strconv.FormatUint(s.seed, 10))
	t.add("date", time.Now().UTC().Format(time.DateOnly))
	return t
}

// What versions are compared with, if they are there.
func peerVersionHere() string {
	if !ort.IsInitialized() {
		return "none"
	}
	return ort.GetVersion()
}

func torchVersionHere() string {
	version, err := findTorch()
	if err != nil {
		return "none"
	}
	return version
}

func cpuModel() string { return cpuInfo("model name") }

// vectorExtensions are those that matter to either side.
func vectorExtensions() string {
	var list []string
	for flag := range strings.FieldsSeq(cpuInfo("flags")) {
		switch flag {
		case "avx2", "fma", "avx512f", "avx512_vnni", "amx_tile":
			list = append(list, flag)
		}
	}
	return strings.Join(list, " ")
}

// cpuInfo is the first value of a key of /proc/cpuinfo.
func cpuInfo(key string) string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if words := strings.Fields(string(b)); err == nil && len(words) > 2 {
		return strings.Join(words[:3], " ") + " (1, 5, 15 minutes)"
	}
	return "unknown"
}
