// Package reproduce recomputes figures of the TIPS paper and states what they
// show beside what the paper claims.
package reproduce

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"tips/plot"
)

// Figure is a recomputed figure: its data, how to draw it, and what it shows.
type Figure struct {
	Name     string
	Caption  string
	Header   []string
	Rows     [][]string
	Chart    plot.Chart
	Picture  Picture    // drawn instead of the chart, unless it is nil
	Table    [][]string // for people, its header first; nil for none
	Findings []Finding
	Remarks  []string // what a reader should know to judge the findings
}

// Picture is something that can be drawn.
type Picture interface {
	WriteSVG(io.Writer) error
	WritePNG(io.Writer) error
}

// Drawn is what shows the figure.
func (f Figure) Drawn() Picture {
	if f.Picture != nil {
		return f.Picture
	}
	return f.Chart
}

// Finding is a claim of the paper beside what was measured here.
type Finding struct {
	Claim    string `json:"claim"`
	Measured string `json:"measured"`
	Holds    bool   `json:"holds"`
	Open     bool   `json:"open,omitempty"` // what was measured is too uncertain to tell
}

// WriteCSV writes the data of the figure.
func (f Figure) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(f.Header); err != nil {
		return err
	}
	if err := out.WriteAll(f.Rows); err != nil {
		return err
	}
	return out.Error()
}

// usage marks errors about options.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// IsUsage tells whether an error is about the options given, and not about the
// work.
func IsUsage(err error) bool {
	var u usage
	return errors.As(err, &u)
}

// within wants an option in a range.
func within(name string, value, low, high int) error {
	if value < low || value > high {
		return usage{fmt.Errorf("%s %d; want %d to %d", name, value, low, high)}
	}
	return nil
}

// number writes a value so that it reads back as the same value.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
