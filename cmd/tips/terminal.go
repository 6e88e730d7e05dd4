package main

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"
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
