package cost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"tips/internal/atomicfile"
	"tips/nn"
	"tips/supernet"
)

// The header of a table's file. Version rises when files of the old form would be
// read wrongly.
const (
	tableFormat   = "tips-latency"
	tableVersion  = 1
	maxTableBytes = 64 << 20
	maxSteps      = 1 << 18
)

// Errors that files are refused with.
var (
	ErrVersion = errors.New("unknown version")
	ErrCorrupt = errors.New("damaged file")
)

// tableFile is a table as a file holds it.
type tableFile struct {
	Format  string         `json:"format"`
	Version int            `json:"version"`
	Machine Machine        `json:"machine"`
	Network string         `json:"network"`
	Input   supernet.Shape `json:"input"`
	Overall float64        `json:"overall"`
	Energy  *Energy        `json:"energy,omitempty"`
	Steps   []timingFile   `json:"steps"`
}

type timingFile struct {
	Nanoseconds int64   `json:"ns"`
	Count       int     `json:"count"`
	Step        nn.Step `json:"step"`
}

// sort puts steps in an order that depends on nothing but them.
func (t *Table) sort() {
	texts := make(map[nn.Step]string, len(t.Steps))
	for _, s := range t.Steps {
		texts[s.Step] = fmt.Sprintf("%+v", s.Step)
	}
	slices.SortFunc(t.Steps, func(a, b Timing) int { return strings.Compare(texts[a.Step], texts[b.Step]) })
}

// Write writes the table as Read takes it: JSON, one step a line.
func (t *Table) Write(w io.Writer) error {
	f := tableFile{tableFormat, tableVersion, t.Machine, t.Network, t.Input, t.Overall, t.Energy, []timingFile{}}
	head, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("cost: latency table: %w", err)
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(head, []byte("]}")))
	for i, s := range t.Steps {
		line, err := json.Marshal(timingFile{int64(s.Median), s.Count, s.Step})
		if err != nil {
			return fmt.Errorf("cost: latency table: %w", err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// Save writes the table to a file, whole or not at all.
func (t *Table) Save(name string) error { return atomicfile.Write(name, t.Write) }

// Open reads a table's file.
func Open(name string) (*Table, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cost: latency table: %w", err)
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, name)
	}
	return t, nil
}

// Read reads a table. It is strict: what Write would not have written is refused.
func Read(r io.Reader) (*Table, error) {
	t, err := readTable(r)
	if err != nil {
		return nil, fmt.Errorf("cost: latency table: %w", err)
	}
	return t, nil
}

func readTable(r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTableBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, maxTableBytes)
	}
	var header struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	if header.Format != tableFormat {
		return nil, fmt.Errorf("%w: no file of format %q", ErrCorrupt, tableFormat)
	}
	if header.Version != tableVersion {
		return nil, fmt.Errorf("%w %d; this program reads version %d", ErrVersion, header.Version, tableVersion)
	}
	var f tableFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	t := &Table{Machine: f.Machine, Network: f.Network, Input: f.Input, Overall: f.Overall, Energy: f.Energy}
	for _, s := range f.Steps {
		t.Steps = append(t.Steps, Timing{s.Step, time.Duration(s.Nanoseconds), s.Count})
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	// Unknown, repeated and wrongly spelt fields and whatever else is not ours.
	var again bytes.Buffer
	if err := t.Write(&again); err != nil || !bytes.Equal(again.Bytes(), data) {
		return nil, fmt.Errorf("%w: not as this program writes it", ErrCorrupt)
	}
	return t, nil
}

// check tells what is impossible about a table.
func (t *Table) check() error {
	if len(t.Steps) == 0 || len(t.Steps) > maxSteps {
		return fmt.Errorf("%d steps; want 1 to %d", len(t.Steps), maxSteps)
	}
	if t.Machine.Threads < 1 {
		return fmt.Errorf("%d threads", t.Machine.Threads)
	}
	if !(t.Overall >= 1 && t.Overall <= 100) {
		return fmt.Errorf("whole runs are %v times their steps; want 1 to 100", t.Overall)
	}
	if e := t.Energy; e != nil && !(finite(e.PerSecond) && finite(e.PerMAC) && finite(e.Error)) {
		return fmt.Errorf("energy %+v", *e)
	}
	seen := make(map[nn.Step]bool, len(t.Steps))
	for _, s := range t.Steps {
		if s.Median < 1 || s.Median > 24*time.Hour || s.Count < 1 {
			return fmt.Errorf("%s takes %v in %d measurements", s.Step, s.Median, s.Count)
		}
		if seen[s.Step] {
			return fmt.Errorf("%s is there twice", s.Step)
		}
		seen[s.Step] = true
		const most = 1 << 24 // of anything: squares stay finite, sums exact
		for _, n := range []int{s.Step.In.Channels, s.Step.In.Height, s.Step.In.Width, s.Step.Out.Channels, s.Step.Out.Height, s.Step.Out.Width, s.Step.Batch} {
			if n < 1 || n > most {
				return fmt.Errorf("a size of %d in %s", n, s.Step)
			}
		}
		for _, n := range []int{s.Step.Kernel, s.Step.Stride, s.Step.Padding, s.Step.Groups, s.Step.Wide} {
			if n < 0 || n > most {
				return fmt.Errorf("a size of %d in %s", n, s.Step)
			}
		}
	}
	return nil
}

// finite tells of a number that is one and not below zero.
func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
