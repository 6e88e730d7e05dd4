package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// isTerminal tells whether somebody may be looking.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// screen is what can be shown where output goes.
type screen struct {
	live   bool // lines can be written again
	colour bool
	ascii  bool // no other characters
	width  int  // in characters, 80 at most
}

// newScreen finds out. Colour is for terminals whose user does not object
// (https://no-color.org). Characters are ASCII where the locale names another
// encoding than UTF-8; where it names none, as in most containers, what looks at the
// output is newer than the locale.
func newScreen(w io.Writer) screen {
	s := screen{live: isTerminal(w), width: 80}
	dumb := os.Getenv("TERM") == "dumb"
	s.live = s.live && !dumb
	s.colour = s.live && os.Getenv("NO_COLOR") == ""
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	s.ascii = locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if f, ok := w.(*os.File); ok && s.live {
		if wide := terminalWidth(f); wide > 0 {
			columns, err = wide, nil
		}
	}
	if err == nil && columns > 0 {
		s.width = min(s.width, columns)
	}
	return s
}

// styled wraps text in an escape sequence where there are any.
func (s screen) styled(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s screen) bold(text string) string { return s.styled("1", text) }

// bar is a share of so many characters.
func (s screen) bar(share float64, width int) string {
	full, parts := "█", []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
	if s.ascii {
		full, parts = "#", []string{""}
	}
	units := int(min(max(share, 0), 1)*float64(width*len(parts)) + 0.5)
	return strings.Repeat(full, units/len(parts)) + parts[units%len(parts)]
}

// shortened keeps text on a line.
func (s screen) shortened(text string, width int) string {
	r, end := []rune(text), "…"
	if s.ascii {
		end = "~"
	}
	if width = max(width, 1); len(r) > width {
		return string(r[:width-1]) + end
	}
	return text
}

// liveLine is a line that says how far work is, where somebody looks; it is written
// again and again, and gone at the end.
type liveLine struct {
	out   io.Writer
	show  screen
	what  string
	first int // what was done before this work began
	total int
	began time.Time
	shown time.Time
}

func newLiveLine(out io.Writer, what string, first, total int) *liveLine {
	return &liveLine{out: out, show: newScreen(out), what: what, first: first, total: total, began: time.Now()}
}

// set says how much is done.
func (l *liveLine) set(done int) {
	if !l.show.live || time.Since(l.shown) < 200*time.Millisecond {
		return
	}
	l.shown = time.Now()
	const width = 24
	text := fmt.Sprintf("  %s  %s %d of %d", l.what, padded(l.show.bar(float64(done)/float64(l.total), width), width), done, l.total)
	if took := time.Since(l.began).Seconds(); took > 1 && done > l.first {
		text += fmt.Sprintf(", %s left", duration(took/float64(done-l.first)*float64(l.total-done)))
	}
	fmt.Fprintf(l.out, "\r%s\x1b[K", l.show.shortened(text, l.show.width-1))
}

// clear takes the line away; set draws it again.
func (l *liveLine) clear() {
	if l.show.live && !l.shown.IsZero() {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.shown = time.Time{}
	}
}
