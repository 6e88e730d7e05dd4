package accel

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Plugin is a PJRT plugin that was found.
type Plugin struct {
	Path string
	// Libraries are folders that the dynamic linker must know when a program starts
	// that loads the plugin: those of CUDA, where pip installed it.
	Libraries []string
	// Data is the folder of CUDA's tools, for the compiler.
	Data string
}

// PluginVariable names the environment variable that holds paths of plugins, or of
// folders that hold some, with colons between.
const PluginVariable = "PJRT_PLUGIN_LIBRARY_PATH"

// Plugins are the PJRT plugins on this machine, the best first: those that
// PluginVariable names, those that pip installed with JAX, for the Python that is
// on the PATH or active or the system's, and those in the folders that go-xla
// installs to.
func Plugins() []Plugin {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return search(os.Getenv, exec.LookPath, home, "/")
}

// search is Plugins on a machine whose files are below root.
func search(env func(string) string, look func(string) (string, error), home, root string) []Plugin {
	var found []Plugin
	add := func(patterns ...string) {
		for _, pattern := range patterns {
			paths, _ := filepath.Glob(pattern) // patterns are well formed, but for what a variable holds
			slices.SortFunc(paths, func(a, b string) int { return compareVersions(b, a) })
			for _, path := range paths {
				path, err := filepath.Abs(path)
				if info, statErr := os.Stat(path); err != nil || statErr != nil || info.IsDir() {
					continue
				}
				if !slices.ContainsFunc(found, func(p Plugin) bool { return p.Path == path }) {
					found = append(found, newPlugin(path))
				}
			}
		}
	}
	folder := func(dir string) {
		add(filepath.Join(dir, "pjrt_c_api_*plugin*.so"), filepath.Join(dir, "pjrt-plugin-*.so"), filepath.Join(dir, "xla_*_plugin.so"))
	}
	for _, path := range filepath.SplitList(env(PluginVariable)) {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			folder(path)
		} else {
			add(path)
		}
	}
	var prefixes []string
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if v := env(variable); v != "" {
			prefixes = append(prefixes, v)
		}
	}
	for _, name := range []string{"python3", "python"} {
		path, err := look(name)
		if err != nil {
			continue
		}
		// A virtual environment's python is a link out of it.
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(path)))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(real)))
		}
	}
	if home != "" {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	prefixes = append(prefixes, filepath.Join(root, "usr/local"), filepath.Join(root, "usr"))
	for _, prefix := range prefixes {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			for _, python := range []string{"python3*", "python3"} {
				add(filepath.Join(prefix, "lib", python, packages, "jax_plugins/xla_*/xla_*_plugin.so"))
			}
		}
	}
	if home != "" {
		folder(filepath.Join(home, ".local/lib/go-xla"))
	}
	folder(filepath.Join(root, "usr/local/lib/go-xla"))
	return found
}

// compareVersions orders paths by the names in them, and numbers in names by value:
// python3 comes before python3.9, and that before python3.12.
func compareVersions(a, b string) int {
	a, b = strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00") // less than all that names hold
	digits := func(s string) int {
		n := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if n < 0 {
			return len(s)
		}
		return n
	}
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// newPlugin finds what goes with a plugin: wheels of NVIDIA's beside it.
func newPlugin(path string) Plugin {
	p := Plugin{Path: path}
	packages := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	p.Libraries, _ = filepath.Glob(filepath.Join(packages, "nvidia", "*", "lib"))
	for _, data := range []string{"cu13", "cuda_nvcc"} {
		dir := filepath.Join(packages, "nvidia", data)
		if info, err := os.Stat(dir); err == nil && info.IsDir() && p.Data == "" {
			p.Data = dir
		}
	}
	return p
}

// environment is what of the environment a process needs that loads the plugin, and
// whether it must be there before the process starts.
func (p Plugin) environment(env func(string) string) (set map[string]string, before bool) {
	set = map[string]string{}
	const linker, flags = "LD_LIBRARY_PATH", "XLA_FLAGS"
	// First, because the plugin was built for these: of the system's CUDA, older, it
	// might find some libraries only.
	paths := filepath.SplitList(env(linker))
	if before = len(paths) < len(p.Libraries) || !slices.Equal(paths[:len(p.Libraries)], p.Libraries); before {
		others := slices.DeleteFunc(paths, func(dir string) bool { return slices.Contains(p.Libraries, dir) })
		set[linker] = strings.Join(slices.Concat(p.Libraries, others), string(filepath.ListSeparator))
	}
	if f := env(flags); p.Data != "" && canBeFlag(p.Data) && !strings.Contains(f, "xla_gpu_cuda_data_dir") {
		set[flags] = strings.TrimSpace(f + " --xla_gpu_cuda_data_dir=" + p.Data)
	}
	return set, before
}

// canBeFlag tells whether a value can stand in XLA_FLAGS, where spaces separate flags.
func canBeFlag(value string) bool { return !strings.ContainsFunc(value, unicode.IsSpace) }
