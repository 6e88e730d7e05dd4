package train

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"tips/internal/atomicfile"
	"tips/supernet"
	"tips/weights"
)

// A checkpoint is one file. A folder of files would have to be swapped as a
// whole, and no system call replaces one folder by another that is in use; a file
// is replaced by a rename, so there is always exactly one checkpoint, the old one
// until the new one is complete and on the disk. Its weights are safetensors files
// one after the other, so that they can be cut out without this program.
//
//	8 bytes   "tipsckpt"
//	4 bytes   version, little endian as all numbers
//	4 bytes   CRC-32C of the header
//	8 bytes   length of the header
//	          header, JSON: everything but tensors, and name, length and CRC-32C of
//	          each section
//	          sections: weights, momentum, average and frozen, where there are any
const (
	checkpointMagic   = "tipsckpt"
	checkpointVersion = 1
	checkpointPrefix  = 24 // bytes before the header
)

// maxCheckpointHeader bounds what a file may claim. Joslim's state, the largest,
// is a thousandth of it.
const maxCheckpointHeader = 256 << 20

// Errors about files.
var (
	ErrCorrupt = errors.New("damaged file")
	ErrVersion = errors.New("unknown version")
)

// Checkpoint is a run between two steps.
type Checkpoint struct {
	Position
	Recipe  string          `json:"recipe"` // as resolved, YAML
	Method  json.RawMessage `json:"method"` // its state; null where it has none
	Images  int             `json:"images"` // that an epoch of this run trains on; other data has others
	Metrics Mark            `json:"metrics"`
	State   *State          `json:"-"`
}

// Position is where in a run one is, and what has been added up there. Random
// state there is none: all chance comes from the seed and these numbers.
type Position struct {
	Step      int     `json:"step"`      // the next to take, counted from 0
	Closed    int     `json:"closed"`    // epochs whose record is written
	Evaluated int     `json:"evaluated"` // the step before which the last evaluation was; 0 before the first
	Seconds   float64 `json:"seconds"`   // worked on so far
	Epoch     Tally   `json:"epoch"`     // of the epoch under way
	Results   Results `json:"results"`   // of the last evaluation
}

// Mark is how far a file of metrics reached: that many bytes with that CRC-32C.
// The metrics of a long run are larger than its weights, so that a checkpoint
// does not hold them but vouches for them; what stands after the mark when a run
// goes on is from steps that will be taken again, and is cut off.
type Mark struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc32c"`
}

// section is how the header describes one of the sets that follow it.
type section struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc32c"`
}

// checkpointHeader is the JSON of a checkpoint file.
type checkpointHeader struct {
	Checkpoint
	Sections []section `json:"sections"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sets lists the sections of a state in the order of a file.
func (s *State) sets() []struct {
	name string
	set  **weights.Set
} {
	return []struct {
		name string
		set  **weights.Set
	}{{"weights", &s.Weights}, {"momentum", &s.Momentum}, {"average", &s.Average}, {"frozen", &s.Frozen}}
}

// Save writes the checkpoint to a file, whole or not at all: on any error the
// file is what it was.
func (c *Checkpoint) Save(name string) error { return atomicfile.Write(name, c.write) }

func (c *Checkpoint) write(w io.Writer) error {
	h := checkpointHeader{Checkpoint: *c}
	if h.Method == nil {
		h.Method = json.RawMessage("null")
	}
	// Sections are written twice, first to be measured: the header comes first.
	for _, s := range c.State.sets() {
		if *s.set == nil {
			continue
		}
		m := &measure{crc: crc32.New(castagnoli)}
		if err := (*s.set).Write(m); err != nil {
			return err
		}
		h.Sections = append(h.Sections, section{s.name, m.bytes, m.crc.Sum32()})
	}
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	prefix := []byte(checkpointMagic)
	prefix = binary.LittleEndian.AppendUint32(prefix, checkpointVersion)
	prefix = binary.LittleEndian.AppendUint32(prefix, crc32.Checksum(header, castagnoli))
	prefix = binary.LittleEndian.AppendUint64(prefix, uint64(len(header)))
	if _, err := w.Write(append(prefix, header...)); err != nil {
		return err
	}
	for _, s := range c.State.sets() {
		if *s.set != nil {
			if err := (*s.set).Write(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure counts bytes and takes their checksum.
type measure struct {
	bytes int64
	crc   hash.Hash32
}

func (m *measure) Write(p []byte) (int, error) {
	m.bytes += int64(len(p))
	return m.crc.Write(p)
}

// OpenCheckpoint reads a checkpoint file and checks all of it. An error that the
// file does not exist wraps os.ErrNotExist.
func OpenCheckpoint(name string, n *supernet.Network) (*Checkpoint, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("checkpoint %w", err)
	}
	c, err := readCheckpoint(f, info.Size(), n)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", name, err)
	}
	return c, nil
}

// readCheckpoint reads a checkpoint of a network; of whichever it is, if n is nil.
func readCheckpoint(r io.ReaderAt, size int64, n *supernet.Network) (*Checkpoint, error) {
	h, at, err := readCheckpointHeader(r, size)
	if err != nil {
		return nil, err
	}
	h.State = new(State)
	for _, part := range h.Sections {
		var set **weights.Set
		for _, s := range h.State.sets() {
			if s.name == part.Name {
				set = s.set
			}
		}
		if set == nil || *set != nil {
			return nil, fmt.Errorf("%w: section %q is unknown or stands twice", ErrCorrupt, part.Name)
		}
		data := io.NewSectionReader(r, at, part.Bytes)
		crc := crc32.New(castagnoli)
		if _, err := io.Copy(crc, data); err != nil {
			return nil, err
		}
		if crc.Sum32() != part.CRC {
			return nil, fmt.Errorf("%w: the checksum of section %q is wrong", ErrCorrupt, part.Name)
		}
		if *set, err = weights.Read(data, part.Bytes, n); err != nil {
			return nil, fmt.Errorf("section %q: %w", part.Name, err)
		}
		n = (*set).Network
		at += part.Bytes
	}
	if h.State.Weights == nil || h.State.Momentum == nil {
		return nil, fmt.Errorf("%w: no weights or no momentum", ErrCorrupt)
	}
	return &h.Checkpoint, nil
}

// readCheckpointHeader reads and checks the header, and tells where it ends.
func readCheckpointHeader(r io.ReaderAt, size int64) (*checkpointHeader, int64, error) {
	prefix := make([]byte, checkpointPrefix)
	if size < checkpointPrefix {
		return nil, 0, fmt.Errorf("%w: %d bytes are no checkpoint", ErrCorrupt, size)
	}
	if _, err := r.ReadAt(prefix, 0); err != nil {
		return nil, 0, err
	}
	if string(prefix[:8]) != checkpointMagic {
		return nil, 0, fmt.Errorf("%w: no checkpoint", ErrCorrupt)
	}
	if v := binary.LittleEndian.Uint32(prefix[8:]); v != checkpointVersion {
		return nil, 0, fmt.Errorf("%w %d; this program reads version %d", ErrVersion, v, checkpointVersion)
	}
	length := binary.LittleEndian.Uint64(prefix[16:])
	if length > maxCheckpointHeader || int64(length) > size-checkpointPrefix {
		return nil, 0, fmt.Errorf("%w: a header of %d bytes in a file of %d", ErrCorrupt, length, size)
	}
	header := make([]byte, length)
	if _, err := r.ReadAt(header, checkpointPrefix); err != nil {
		return nil, 0, err
	}
	if crc32.Checksum(header, castagnoli) != binary.LittleEndian.Uint32(prefix[12:]) {
		return nil, 0, fmt.Errorf("%w: the checksum of the header is wrong", ErrCorrupt)
	}
	var h checkpointHeader
	d := json.NewDecoder(bytes.NewReader(header))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if string(h.Method) == "null" {
		h.Method = nil
	}
	if h.Step < 0 || h.Closed < 0 || h.Evaluated < 0 || h.Images < 1 || h.Metrics.Bytes < 0 {
		return nil, 0, fmt.Errorf("%w: a position that cannot be", ErrCorrupt)
	}
	at := checkpointPrefix + int64(length)
	end := at
	for _, s := range h.Sections {
		if s.Bytes < 0 || s.Bytes > size-end {
			return nil, 0, fmt.Errorf("%w: section %q ends after the file: it is cut off", ErrCorrupt, s.Name)
		}
		end += s.Bytes
	}
	if end != size {
		return nil, 0, fmt.Errorf("%w: %d bytes after the last section", ErrCorrupt, size-end)
	}
	return &h, at, nil
}
