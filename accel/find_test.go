package accel

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// machine makes files below a folder, and gives what search asks of a machine.
func machine(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPlugins(t *testing.T) {
	const (
		venv   = "opt/env/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"
		older  = "opt/env/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so"
		system = "usr/lib/python3/dist-packages/jax_plugins/xla_rocm7/xla_rocm_plugin.so"
		user   = "home/.local/lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"
		goXLA  = "home/.local/lib/go-xla/pjrt_c_api_cpu_plugin.so"
		own    = "own/pjrt_c_api_cpu_v0.83_plugin.so"
		newer  = "own/pjrt_c_api_cpu_v0.115_plugin.so"
		ninth  = "home/.local/lib/python3.9/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so"
	)
	all := []string{venv, older, system, user, goXLA, own, "opt/env/bin/python3"}
	for _, c := range []struct {
		name  string
		files []string
		env   map[string]string // values are below the root
		path  string            // of python3
		want  []string
	}{
		{"nothing", nil, nil, "", nil},
		{"python on the path", []string{venv, older, "opt/env/bin/python3"}, nil, "opt/env/bin/python3", []string{venv, older}},
		{"an active environment", []string{venv}, map[string]string{"VIRTUAL_ENV": "opt/env"}, "", []string{venv}},
		{"the system's and the user's", []string{system, user, goXLA}, nil, "", []string{user, system, goXLA}},
		{"a file by name comes first", all, map[string]string{PluginVariable: own}, "opt/env/bin/python3", []string{own, venv, older, user, system, goXLA}},
		{"newer versions first", []string{ninth, user, own, newer}, map[string]string{PluginVariable: "own"}, "", []string{newer, own, user, ninth}},
		{"a folder by name", all, map[string]string{PluginVariable: "own"}, "", []string{own, user, system, goXLA}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.files...)
			env := func(key string) string {
				if v, ok := c.env[key]; ok {
					return filepath.Join(root, v)
				}
				return ""
			}
			look := func(name string) (string, error) {
				if c.path == "" || name != "python3" {
					return "", errors.New("not found")
				}
				return filepath.Join(root, c.path), nil
			}
			var got []string
			for _, p := range search(env, look, filepath.Join(root, "home"), root) {
				rel, err := filepath.Rel(root, p.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rel)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q; want %q", got, c.want)
			}
		})
	}
}

// TestEnvironment: the wheels beside a plugin are told to the linker and to the
// compiler, once.
func TestEnvironment(t *testing.T) {
	const packages = "lib/python3.12/site-packages"
	root := machine(t, packages+"/jax_plugins/xla_cuda13/xla_cuda_plugin.so", packages+"/nvidia/cu13/lib/libcublas.so", packages+"/nvidia/cudnn/lib/libcudnn.so")
	p := newPlugin(filepath.Join(root, packages, "jax_plugins/xla_cuda13/xla_cuda_plugin.so"))
	nvidia := filepath.Join(root, packages, "nvidia")
	// The system's CUDA does not come before that of the wheels.
	values := map[string]string{"LD_LIBRARY_PATH": "/somewhere:" + nvidia + "/cudnn/lib:/elsewhere", "XLA_FLAGS": "--xla_some_flag"}
	env := func(key string) string { return values[key] }
	set, before := p.environment(env)
	if want := nvidia + "/cu13/lib:" + nvidia + "/cudnn/lib:/somewhere:/elsewhere"; set["LD_LIBRARY_PATH"] != want || !before {
		t.Errorf("LD_LIBRARY_PATH=%s, %v; want %s before the process starts", set["LD_LIBRARY_PATH"], before, want)
	}
	if want := "--xla_some_flag --xla_gpu_cuda_data_dir=" + nvidia + "/cu13"; set["XLA_FLAGS"] != want {
		t.Errorf("XLA_FLAGS=%s; want %s", set["XLA_FLAGS"], want)
	}
	for key, value := range set {
		values[key] = value
	}
	if again, before := p.environment(env); len(again) > 0 || before {
		t.Errorf("a second time: %v, %v; want nothing", again, before)
	}
}

// TestEnvironmentSpaces: a folder that a flag cannot name is not named, and one
// without wheels needs nothing.
func TestEnvironmentSpaces(t *testing.T) {
	const packages = "a folder/site-packages"
	root := machine(t, packages+"/jax_plugins/xla_cuda13/xla_cuda_plugin.so", packages+"/nvidia/cu13/lib/libcublas.so")
	p := newPlugin(filepath.Join(root, packages, "jax_plugins/xla_cuda13/xla_cuda_plugin.so"))
	set, before := p.environment(func(string) string { return "" })
	if flags, there := set["XLA_FLAGS"]; there || !before {
		t.Errorf("XLA_FLAGS=%s, %v; want none, and the libraries", flags, before)
	}
	if set, before := (Plugin{}).environment(func(string) string { return "" }); len(set) > 0 || before {
		t.Errorf("%v, %v for no wheels", set, before)
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"", "lib/python3/x", "lib/python3.9/x", "lib/python3.9/y", "lib/python3.12/x", "lib/python3.012/y", "lib/python10", "lib/pythons"}
	for i, a := range order {
		for j, b := range order {
			if got := compareVersions(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"xla": true, "xla:/a/plugin.so": true, "go": true, "xla:": false, "": false, "cpu": false, "go:x": false, "cuda": false} {
		if Names(name) != want {
			t.Errorf("Names(%q) is %v", name, !want)
		}
	}
	for _, p := range []Precision{"", BFloat16, TF32, Float32} {
		if !p.Valid() {
			t.Errorf("%q is not valid", p)
		}
	}
	if Precision("fp8").Valid() {
		t.Error("fp8 is valid")
	}
}
