package search

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tips/internal/atomicfile"
	"tips/supernet"
)

// The header of a state file. Version rises when files of the old form would be
// read wrongly.
const (
	stateFormat   = "tips-search"
	stateVersion  = 1
	maxStateBytes = 256 << 20
	maxImages     = 1 << 30
)

// Errors that state files are refused with.
var (
	ErrVersion = errors.New("unknown version")
	ErrCorrupt = errors.New("damaged file")
	ErrOther   = errors.New("answers of another judge")
)

// state is the judge's answers so far. It holds nothing of the search itself: a
// search that goes on asks the same questions again, and finds the answers here.
type state struct {
	file    string
	head    stateHead
	answers map[supernet.Subnet]count
	order   []supernet.Subnet
	filed   map[supernet.Subnet]bool // those that were in the file
	anyone  bool                     // whose the answers are does not matter
}

type count struct{ correct, images int }

type stateHead struct {
	Format   string `json:"format"`
	Version  int    `json:"version"`
	Network  string `json:"network"` // its hash
	Identity string `json:"identity"`
}

type stateEntry struct {
	Subnet  string `json:"subnet"`
	Correct int    `json:"correct"`
	Images  int    `json:"images"`
}

// openState reads the state file, if there is one.
func openState(file string, n *supernet.Network, identity string) (*state, error) {
	s := &state{
		file: file, head: stateHead{stateFormat, stateVersion, n.Hash().String(), identity},
		answers: map[supernet.Subnet]count{}, filed: map[supernet.Subnet]bool{},
	}
	if file == "" {
		return s, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		defer f.Close()
		err = s.read(f, n)
	}
	if err != nil {
		return nil, fmt.Errorf("search: state %s: %w", file, err)
	}
	return s, nil
}

// read is strict: what write would not have written is refused.
func (s *state) read(r io.Reader, n *supernet.Network) error {
	data, err := io.ReadAll(io.LimitReader(r, maxStateBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxStateBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrCorrupt, maxStateBytes)
	}
	lines := strings.SplitAfter(string(data), "\n")
	var head stateHead
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil || head.Format != stateFormat {
		return fmt.Errorf("%w: it does not start as a search's state", ErrCorrupt)
	}
	if head.Version != stateVersion {
		return fmt.Errorf("%w %d; this program reads version %d", ErrVersion, head.Version, stateVersion)
	}
	if s.anyone {
		s.head.Identity = head.Identity
	}
	if head.Network != s.head.Network || head.Identity != s.head.Identity {
		return fmt.Errorf("%w: the network, its weights or the data are not the same", ErrOther)
	}
	for i, line := range lines[1:] {
		if line == "" {
			continue // after the last line's end
		}
		var e stateEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrCorrupt, i+2, err)
		}
		sub, err := n.ParseSubnet(e.Subnet)
		if err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrCorrupt, i+2, err)
		}
		if e.Images < 1 || e.Images > maxImages || e.Correct < 0 || e.Correct > e.Images {
			return fmt.Errorf("%w: line %d: %d of %d images", ErrCorrupt, i+2, e.Correct, e.Images)
		}
		if _, twice := s.answers[sub]; twice {
			return fmt.Errorf("%w: line %d: %s is there twice", ErrCorrupt, i+2, sub)
		}
		s.answers[sub] = count{e.Correct, e.Images}
		s.order = append(s.order, sub)
		s.filed[sub] = true
	}
	var again bytes.Buffer
	if err := s.write(&again); err != nil || again.String() != string(data) {
		return fmt.Errorf("%w: not as this program writes it", ErrCorrupt)
	}
	return nil
}

// write writes a header and a line for every answer.
func (s *state) write(w io.Writer) error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	if err := lines.Encode(s.head); err != nil {
		return err
	}
	for _, sub := range s.order {
		a := s.answers[sub]
		if err := lines.Encode(stateEntry{sub.String(), a.correct, a.images}); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// add keeps an answer.
func (s *state) add(sub supernet.Subnet, correct, images int) error {
	s.answers[sub] = count{correct, images}
	s.order = append(s.order, sub)
	if s.file == "" {
		return nil
	}
	return atomicfile.Write(s.file, s.write)
}

// Answer is what a judge said about a subnetwork.
type Answer struct {
	Subnet          supernet.Subnet
	Correct, Images int
}

// Answers reads what a state file holds, whoever's answers they are, in the order
// they were found out.
func Answers(file string, n *supernet.Network) ([]Answer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &state{head: stateHead{stateFormat, stateVersion, n.Hash().String(), ""}, answers: map[supernet.Subnet]count{}, filed: map[supernet.Subnet]bool{}, anyone: true}
	if err := s.read(f, n); err != nil {
		return nil, fmt.Errorf("search: state %s: %w", file, err)
	}
	list := make([]Answer, len(s.order))
	for i, sub := range s.order {
		a := s.answers[sub]
		list[i] = Answer{sub, a.correct, a.images}
	}
	return list, nil
}
