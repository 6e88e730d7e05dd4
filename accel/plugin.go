//go:build xla

package accel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// startedAnew marks a process that Prepare has started, so that it does so once.
const startedAnew = "TIPS_ACCEL_STARTED"

// Prepare makes this process ready for Open: programs that offer devices call it
// first of all. Where pip installed CUDA, the dynamic linker must know its folders
// when a process starts; the process then starts anew, with the same arguments, and
// Prepare does not return.
func Prepare(name string) error {
	kind, path, err := parse(name)
	if err != nil || kind == GoName {
		return err
	}
	plugin, ok := choosePlugin(path)
	if !ok {
		return errNoPlugin
	}
	set, before := plugin.environment(os.Getenv)
	plugin.addFlags(set)
	for key, value := range set {
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("accel: %w", err)
		}
	}
	if !before || os.Getenv(startedAnew) != "" {
		return nil
	}
	if err := os.Setenv(startedAnew, "1"); err != nil {
		return fmt.Errorf("accel: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("accel: %w", err)
	}
	return fmt.Errorf("accel: starting %s anew: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}

// Flags for the compiler.
const (
	// autotuneFlag names the folder that the compiler for NVIDIA's GPUs keeps
	// measurements in, of which a program needs hundreds: with them it compiles in a
	// sixth of the time.
	autotuneFlag = "xla_gpu_per_fusion_autotune_cache_dir"
	// tritonFlag is whether that compiler writes products itself. Where it moves other
	// operations into them it ends the process on some programs (a failed check in
	// triton_tiling_propagation.cc, seen with JAX 0.11), and the library's products are
	// as fast.
	tritonFlag = "xla_gpu_enable_triton_gemm"
)

// addFlags adds flags for the compiler to an environment, those that nobody has set
// and that the plugin knows: one that it does not know would end the process.
func (p Plugin) addFlags(set map[string]string) {
	const variable = "XLA_FLAGS"
	flags, there := set[variable]
	if !there {
		flags = os.Getenv(variable)
	}
	values := map[string]string{}
	if !strings.Contains(flags, tritonFlag) {
		values[tritonFlag] = "false"
	}
	if cache, err := os.UserCacheDir(); err == nil && !strings.Contains(flags, autotuneFlag) {
		dir := filepath.Join(cache, "tips", "xla")
		if canBeFlag(dir) && os.MkdirAll(dir, 0o755) == nil {
			values[autotuneFlag] = dir
		}
	}
	for _, name := range p.knows(slices.Sorted(maps.Keys(values))...) {
		flags += " --" + name + "=" + values[name]
		set[variable] = strings.TrimSpace(flags)
	}
}

// knows tells which of some words a plugin holds.
func (p Plugin) knows(words ...string) []string {
	f, err := os.Open(p.Path)
	if err != nil || len(words) == 0 {
		return nil
	}
	defer f.Close()
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	found := make([]bool, len(words))
	buffer := make([]byte, 1<<20)
	for kept := 0; err == nil && slices.Contains(found, false); {
		var n int
		n, err = f.Read(buffer[kept:])
		end := kept + n
		for i, w := range words {
			found[i] = found[i] || bytes.Contains(buffer[:end], []byte(w))
		}
		// A word may begin in this part and end in the next.
		kept = min(end, longest-1)
		copy(buffer, buffer[end-kept:end])
	}
	var list []string
	for i, w := range words {
		if found[i] {
			list = append(list, w)
		}
	}
	return list
}

// rounding is whether NVIDIA's libraries round the factors of float32 products to
// fewer digits. They are told by the environment, of which a process has one, and it
// is not said when they read it: the first device decides for all of its process.
type rounding struct {
	mu    sync.Mutex
	first Precision // "": no device yet
}

var ofProcess rounding

func (r *rounding) decide(p Precision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		if p == Float32 {
			if err := os.Setenv("NVIDIA_TF32_OVERRIDE", "0"); err != nil {
				return fmt.Errorf("accel: %w", err)
			}
		}
		r.first = p
	}
	if (p == Float32) != (r.first == Float32) {
		return fmt.Errorf("accel: precision %s in a process that has computed in %s; want a process of its own for %s", p, r.first, Float32)
	}
	return nil
}

// choosePlugin finds the plugin that a device's name stands for.
func choosePlugin(path string) (Plugin, bool) {
	if path != "" {
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		return newPlugin(path), true
	}
	all := Plugins()
	if len(all) == 0 {
		return Plugin{}, false
	}
	return all[0], true
}

var errNoPlugin = errors.New("accel: no XLA plugin found; install one with pip install 'jax[cuda13]' (cuda12 for older drivers), or name one: --device xla:/path/to/plugin.so, or " + PluginVariable)

// explain says what a known failure of a plugin means, and keeps others to a line.
func explain(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	for _, known := range []struct{ sign, meaning string }{
		{"GetPjrtApi", "the file is no PJRT plugin"},
		{"libcuda.so", "no NVIDIA driver on this machine: the plugin wants libcuda.so.1; install the driver, or use --device cpu"},
		{"CUDA_ERROR_NO_DEVICE", "no NVIDIA GPU that the driver can use; see nvidia-smi, or use --device cpu"},
		{"no CUDA-capable device", "no NVIDIA GPU that the driver can use; see nvidia-smi, or use --device cpu"},
		{"driver version is insufficient", "the NVIDIA driver is too old for the plugin's CUDA; update it, or install the plugin for an older CUDA with pip install 'jax[cuda12]'"},
		{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the NVIDIA driver and its libraries are of different versions; restart the machine, or install the driver again"},
		{"RESOURCE_EXHAUSTED", "the device has too little memory for this; use a smaller batch, or end what else uses it (see nvidia-smi)"},
		{"CUDA_ERROR_OUT_OF_MEMORY", "the device has too little memory for this; use a smaller batch, or end what else uses it (see nvidia-smi)"},
		{"cannot open shared object file", "a library that the plugin needs is missing; pip install 'jax[cuda13]' brings all of them"},
	} {
		if strings.Contains(err.Error(), known.sign) {
			return fmt.Errorf("%s (%s)", known.meaning, text)
		}
	}
	return errors.New(text)
}
