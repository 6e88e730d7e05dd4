package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"tips/internal/atomicfile"
)

// writeJSON writes a value as programs read it.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeFile writes a file whole or not at all.
func writeFile(name string, write func(io.Writer) error) error {
	return failed(atomicfile.Write(name, write))
}

// checkOut tells before the work, not after it, that the file of --out cannot be
// written. It may be empty.
func checkOut(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return fmt.Errorf("--out %s: there is no folder %s", name, filepath.Dir(name))
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--out %s: a folder; want the name of a file", name)
	}
	return nil
}

// table writes rows in aligned columns.
type table struct {
	out     io.Writer
	aligned *bytes.Buffer
	columns *tabwriter.Writer
}

func newTable(w io.Writer, header ...string) table {
	t := table{out: w, aligned: new(bytes.Buffer)}
	t.columns = tabwriter.NewWriter(t.aligned, 0, 0, 2, ' ', 0)
	t.row(header...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t.columns, strings.Join(cells, "\t")) }

// flush writes the table, without the blanks that empty last cells leave.
func (t table) flush() error {
	if err := t.columns.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(t.aligned.Bytes()) {
		if _, err := fmt.Fprintf(t.out, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// count writes a large number with three or four digits and a unit: 300.8 M.
func count(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= u.size {
			x := float64(n) / float64(u.size)
			digits := 3
			switch {
			case x >= 100:
				digits = 1
			case x >= 10:
				digits = 2
			}
			return fmt.Sprintf("%.*f %s", digits, x, u.name)
		}
	}
	return fmt.Sprint(n)
}

// bytesize writes a number of bytes in binary units.
func bytesize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
