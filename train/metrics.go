package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// Record is a line of metrics.jsonl: one of its fields is set.
type Record struct {
	Start      *StartRecord      `json:"start,omitempty"`
	Step       *StepRecord       `json:"step,omitempty"`
	Epoch      *EpochRecord      `json:"epoch,omitempty"`
	Evaluation *EvaluationRecord `json:"evaluation,omitempty"`
}

// StartRecord is that a process has begun to train, or to go on: what computes the steps
// from here on.
type StartRecord struct {
	Step     int       `json:"step"` // the first, counted from 0
	Time     time.Time `json:"time"`
	Executor string    `json:"executor"`          // what results depend on, in the last digits
	Program  string    `json:"program,omitempty"` // as Options has it
}

// StepRecord is how one step went.
type StepRecord struct {
	Number  int            `json:"number"` // counted from 0
	Epoch   int            `json:"epoch"`  // counted from 0
	Rate    float64        `json:"rate"`
	Loss    float64        `json:"loss"` // the sum over the lessons
	Norm    float64        `json:"norm"` // of the gradient
	Lessons []LessonRecord `json:"lessons"`
	Seconds float64        `json:"seconds"` // that it took
}

// LessonRecord is how one network of a step did, before the update.
type LessonRecord struct {
	Subnet   string  `json:"subnet"`
	Loss     float64 `json:"loss"`
	Label    float64 `json:"label"` // cross-entropy with the labels
	Soft     float64 `json:"soft,omitempty"`
	Accuracy float64 `json:"accuracy"` // on the batch
}

// EpochRecord is the mean over an epoch's steps.
type EpochRecord struct {
	Number   int     `json:"number"` // counted from 1
	Steps    int     `json:"steps"`  // taken since the start
	Loss     float64 `json:"loss"`
	Label    float64 `json:"label"`          // the full network's cross-entropy
	Accuracy float64 `json:"accuracy"`       // the full network's, on what it trained on
	Full     int     `json:"full,omitempty"` // steps of the epoch that trained the full network
	Seconds  float64 `json:"seconds"`        // since the start
}

// EvaluationRecord is what subnetworks scored.
type EvaluationRecord struct {
	Epoch   int     `json:"epoch"` // after which it was
	Steps   int     `json:"steps"`
	On      string  `json:"on"`
	Results Results `json:"results"`
}

// Results are the scores of the subnetworks of an evaluation.
type Results []Result

// Result is what one subnetwork scored.
type Result struct {
	Name     string  `json:"name"` // as the recipe has it
	Subnet   string  `json:"subnet"`
	MACs     int64   `json:"macs"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"`
	Images   int     `json:"images"`
}

// Tally adds up the steps of an epoch.
type Tally struct {
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"`
	Full    int     `json:"full"` // steps that trained the full network
	Label   float64 `json:"label"`
	Correct int     `json:"correct"`
	Images  int     `json:"images"`
}

// maxRecordBytes bounds a line of metrics: a step of a thousand lessons.
const maxRecordBytes = 4 << 20

// ReadMetrics reads metrics.jsonl, strictly. A last line without an end, as a
// killed run may leave, is not read.
func ReadMetrics(from io.Reader) ([]Record, error) {
	var list []Record
	in := bufio.NewReaderSize(from, 1<<16)
	for number := 1; ; number++ {
		line, err := readLine(in)
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("metrics: line %d: %w", number, err)
		}
		var r Record
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("metrics: line %d: %w: %w", number, ErrCorrupt, err)
		}
		kinds := 0
		for _, is := range []bool{r.Start != nil, r.Step != nil, r.Epoch != nil, r.Evaluation != nil} {
			if is {
				kinds++
			}
		}
		if kinds != 1 || d.More() {
			return nil, fmt.Errorf("metrics: line %d: %w: want one record of a start, a step, an epoch or an evaluation", number, ErrCorrupt)
		}
		list = append(list, r)
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxRecordBytes {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrCorrupt, maxRecordBytes)
		}
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// metricsLog appends records to metrics.jsonl. It is the one file of a run that
// grows instead of being replaced; checkpoints hold how much of it counts.
type metricsLog struct {
	file *os.File
	mark Mark
	crc  hash.Hash32
}

// openMetrics opens the file as it was at the mark. What stands after it is cut
// off; a file that does not hold what the mark says is an error.
func openMetrics(name string, mark Mark) (*metricsLog, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("metrics %w", err)
	}
	crc := crc32.New(castagnoli)
	n, err := io.CopyN(crc, f, mark.Bytes)
	if err == nil && crc.Sum32() != mark.CRC || err == io.EOF {
		err = fmt.Errorf("%w: not the %d bytes that the checkpoint vouches for; put it back, or start again with --fresh", ErrCorrupt, mark.Bytes)
	}
	if err == nil {
		err = f.Truncate(n)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("metrics %s: %w", name, err)
	}
	return &metricsLog{file: f, mark: mark, crc: crc}, nil
}

// add writes a record. The mark moves only when all of it is written.
func (m *metricsLog) add(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	line = append(line, '\n')
	if _, err := m.file.WriteAt(line, m.mark.Bytes); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m.crc.Write(line)
	m.mark = Mark{m.mark.Bytes + int64(len(line)), m.crc.Sum32()}
	return nil
}

// sync makes what was written last: before a checkpoint vouches for it.
func (m *metricsLog) sync() error {
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func (m *metricsLog) close() error { return m.file.Close() }
