package main

import (
	"bytes"
	"fmt"

	ort "github.com/yalue/onnxruntime_go"

	"tips/onnx"
	"tips/supernet"
	"tips/weights"
)

// startPeer loads the library. Only one can be loaded in a process.
func startPeer(library string) error {
	if ort.IsInitialized() {
		return nil
	}
	ort.SetSharedLibraryPath(library)
	if err := ort.InitializeEnvironment(); err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	return ort.SetEnvironmentLogLevel(ort.LoggingLevelError)
}

func stopPeer() { ort.DestroyEnvironment() }

// theirs is one ONNX Runtime session with its input and output.
type theirs struct {
	session *ort.AdvancedSession
	in, out *ort.Tensor[float32]
}

// exported is a subnetwork as an ONNX model in memory.
func exported(set *weights.Set, o onnx.Options) ([]byte, error) {
	var b bytes.Buffer
	err := onnx.Export(&b, set, o)
	return b.Bytes(), err
}

// openModel makes a session of a model as ONNX Runtime runs it best: all graph
// optimisations, a fixed number of threads, the CPU provider, input and output
// bound once.
func openModel(model []byte, view *supernet.View, batch, threads int) (*theirs, error) {
	return open(view, batch, threads, func(in, out []ort.Value, o *ort.SessionOptions) (*ort.AdvancedSession, error) {
		return ort.NewAdvancedSessionWithONNXData(model, []string{"input"}, []string{"output"}, in, out, o)
	})
}

// openFile is openModel for a model on disk.
func openFile(name string, view *supernet.View, batch, threads int) (*theirs, error) {
	return open(view, batch, threads, func(in, out []ort.Value, o *ort.SessionOptions) (*ort.AdvancedSession, error) {
		return ort.NewAdvancedSession(name, []string{"input"}, []string{"output"}, in, out, o)
	})
}

func open(view *supernet.View, batch, threads int, create func(in, out []ort.Value, o *ort.SessionOptions) (*ort.AdvancedSession, error)) (_ *theirs, err error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	for _, set := range []func() error{
		func() error { return o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll) },
		func() error { return o.SetExecutionMode(ort.ExecutionModeSequential) },
		func() error { return o.SetIntraOpNumThreads(threads) },
		func() error { return o.SetInterOpNumThreads(1) },
	} {
		if err := set(); err != nil {
			return nil, err
		}
	}
	t := &theirs{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	s, last := view.Input, view.Shape(view.Output())
	if t.in, err = ort.NewEmptyTensor[float32](ort.NewShape(int64(batch), int64(s.Channels), int64(s.Height), int64(s.Width))); err != nil {
		return nil, err
	}
	if t.out, err = ort.NewEmptyTensor[float32](ort.NewShape(int64(batch), int64(last.Channels))); err != nil {
		return nil, err
	}
	t.session, err = create([]ort.Value{t.in}, []ort.Value{t.out}, o)
	return t, err
}

func (t *theirs) run() error { return t.session.Run() }

func (t *theirs) close() {
	if t.session != nil {
		t.session.Destroy()
	}
	if t.in != nil {
		t.in.Destroy()
	}
	if t.out != nil {
		t.out.Destroy()
	}
}
