//go:build xla

package accel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// autotuneFlag names the folder that the compiler for NVIDIA's GPUs keeps measurements
// in, of which a program needs hundreds: with them it compiles in a sixth of the time.
const autotuneFlag = "--xla_gpu_per_fusion_autotune_cache_dir"

// addFlags adds flags for the compiler to an environment, those that the plugin
// knows: a flag that it does not know would end the process.
func (p Plugin) addFlags(set map[string]string) {
	const variable = "XLA_FLAGS"
	flags, there := set[variable]
	if !there {
		flags = os.Getenv(variable)
	}
	cache, err := os.UserCacheDir()
	if err != nil || strings.Contains(flags, autotuneFlag) || !p.knows(strings.TrimLeft(autotuneFlag, "-")) {
		return
	}
	dir := filepath.Join(cache, "tips", "xla")
	if os.MkdirAll(dir, 0o755) == nil && !strings.ContainsAny(dir, " \t") {
		set[variable] = strings.TrimSpace(flags + " " + autotuneFlag + "=" + dir)
	}
}

// knows tells whether a plugin holds a word.
func (p Plugin) knows(word string) bool {
	f, err := os.Open(p.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	buffer := make([]byte, 1<<20)
	kept := 0
	for {
		n, err := f.Read(buffer[kept:])
		if bytes.Contains(buffer[:kept+n], []byte(word)) {
			return true
		}
		if err != nil {
			return false
		}
		// The word may begin in this part and end in the next.
		end := kept + n
		kept = min(end, len(word)-1)
		copy(buffer, buffer[end-kept:end])
	}
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
