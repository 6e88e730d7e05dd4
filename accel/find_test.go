package accel

import (
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
	values := map[string]string{"LD_LIBRARY_PATH": "/somewhere", "XLA_FLAGS": "--xla_some_flag"}
	env := func(key string) string { return values[key] }
	set, before := p.environment(env)
	nvidia := filepath.Join(root, packages, "nvidia")
	if want := "/somewhere:" + nvidia + "/cu13/lib:" + nvidia + "/cudnn/lib"; set["LD_LIBRARY_PATH"] != want || !before {
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
