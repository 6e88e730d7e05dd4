package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Trace is what happened, budget after budget.
type Trace struct {
	Version  int      `json:"version"`
	On       string   `json:"on"`       // what the pictures are
	Pictures int      `json:"pictures"` // different ones
	Threads  int      `json:"threads"`  // of one inference
	Weights  string   `json:"weights"`  // their hash
	Periods  []Period `json:"periods"`
	Times    []Time   `json:"times"` // of the frontier's subnetworks
}

// Time is how long an inference of a subnetwork takes.
type Time struct {
	Subnet string        `json:"subnet"`
	Time   time.Duration `json:"time_ns"`
}

// Errors that trace files are refused with.
var (
	ErrCorrupt = errors.New("damaged file")
	ErrVersion = errors.New("unknown version")
)

const (
	version    = 1
	maxBytes   = 16 << 20
	maxPeriods = 1 << 16
)

// Write writes the trace as JSON.
func (t *Trace) Write(w io.Writer) error {
	out := *t
	out.Version = version
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// Read reads what Write wrote, strictly.
func Read(r io.Reader) (*Trace, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("demo: %w: more than %d bytes", ErrCorrupt, maxBytes)
	}
	var t Trace
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("demo: %w: %v", ErrCorrupt, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("demo: %w: something follows its end", ErrCorrupt)
	}
	if t.Version != version {
		return nil, fmt.Errorf("demo: %w %d; this program reads version %d", ErrVersion, t.Version, version)
	}
	if len(t.Periods) > maxPeriods || len(t.Times) > maxPeriods {
		return nil, fmt.Errorf("demo: %w: %d budgets, %d times; want at most %d", ErrCorrupt, len(t.Periods), len(t.Times), maxPeriods)
	}
	for i, p := range t.Periods {
		if p.Pictures < 1 || p.Correct < 0 || p.Correct > p.Pictures || p.Kept < 0 || p.Kept > p.Pictures || !(p.Share >= 0 && p.Share <= 1) ||
			p.Start < 0 || p.Length < 1 || p.Median < 0 || p.High < p.Median || p.Time < 0 || p.MACs < 0 || p.Cost < 0 {
			return nil, fmt.Errorf("demo: %w: budget %d of %d makes no sense", ErrCorrupt, i+1, len(t.Periods))
		}
	}
	for _, x := range t.Times {
		if x.Time < 0 {
			return nil, fmt.Errorf("demo: %w: time %v of %s", ErrCorrupt, x.Time, x.Subnet)
		}
	}
	return &t, nil
}

// Open reads a file that Write wrote.
func Open(name string) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Of is the time of a subnetwork, as it writes itself; 0: unknown.
func (t *Trace) Of(subnet string) time.Duration {
	for _, x := range t.Times {
		if x.Subnet == subnet {
			return x.Time
		}
	}
	return 0
}
