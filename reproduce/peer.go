package reproduce

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"tips/supernet"
)

// ONNX Runtime runs in a process of its own, which an interpreter that has its
// package starts: this program links no C.
//
//go:embed peer.py
var peerPython string

//go:embed peer.js
var peerNode string

// peer makes sessions of ONNX models, one at a time.
type peer struct {
	Version, Language string

	process *exec.Cmd
	models  io.WriteCloser
	answers *json.Decoder
	errors  *bytes.Buffer
}

// peerTimes are seconds.
type peerTimes struct{ Create, First, Again float64 }

// startPeer starts the interpreter that was asked for or, where none was, the
// first of python3 and node that has ONNX Runtime. The error says why there is none.
func startPeer(ctx context.Context, python, node string, threads int, input supernet.Shape) (*peer, error) {
	type choice struct{ flag, program, script string }
	var choices []choice
	asked := python != "" || node != ""
	if python != "" || !asked {
		choices = append(choices, choice{"-c", cmp.Or(python, "python3"), peerPython})
	}
	if node != "" || !asked {
		choices = append(choices, choice{"-e", cmp.Or(node, "node"), peerNode})
	}
	var reasons []string
	for _, c := range choices {
		arguments := []string{c.flag, c.script}
		if c.flag == "-e" {
			arguments = append(arguments, "--")
		}
		for _, n := range []int{threads, input.Channels, input.Height, input.Width} {
			arguments = append(arguments, fmt.Sprint(n))
		}
		p, err := openPeer(exec.CommandContext(ctx, c.program, arguments...))
		if err == nil {
			return p, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", c.program, err))
	}
	return nil, errors.New(strings.Join(reasons, "; "))
}

func openPeer(process *exec.Cmd) (*peer, error) {
	if process.Err != nil { // not found
		var lookup *exec.Error
		if errors.As(process.Err, &lookup) {
			return nil, lookup.Err
		}
		return nil, process.Err
	}
	p := &peer{process: process, errors: new(bytes.Buffer)}
	process.Stderr = p.errors
	var err error
	if p.models, err = process.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	p.answers = json.NewDecoder(bufio.NewReader(answers))
	if err := p.answers.Decode(p); err != nil || p.Version == "" {
		return nil, p.failed()
	}
	return p, nil
}

// measure has a session made of a model file.
func (p *peer) measure(name string) (t peerTimes, err error) {
	if _, err = fmt.Fprintln(p.models, name); err == nil {
		err = p.answers.Decode(&t)
	}
	if err != nil {
		return t, fmt.Errorf("reproduce: ONNX Runtime: %w", p.failed())
	}
	return t, nil
}

// failed ends the process and gives what it said last, less where it said it.
func (p *peer) failed() error {
	p.close()
	said := "ended without an answer"
	for line := range strings.Lines(p.errors.String()) {
		line = strings.TrimSpace(line)
		// An error of either language; stacks, sources and advice surround it.
		if i := strings.Index(line, "Error: "); i >= 0 && !strings.Contains(line[:i], " ") {
			said = line
		}
	}
	return errors.New(said)
}

func (p *peer) close() {
	p.models.Close()
	_ = p.process.Wait()
}
