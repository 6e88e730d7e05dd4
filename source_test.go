package tips

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuntime: the files are those that go list names for every platform, and no
// package among them needs another module.
func TestRuntime(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not at hand to list packages")
	}
	files, err := Runtime()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := files["LICENSE"]; !ok {
		t.Error("the licence is missing")
	}
	delete(files, "LICENSE")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, platform := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "riscv64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		list := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}} {{end}}{{range .SFiles}}{{$d}}/{{.}} {{end}}{{end}}`, "./engine", "./engine/input")
		list.Env = append(os.Environ(), "GOOS="+platform[0], "GOARCH="+platform[1], "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %v: %v", platform, err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			inside, err := filepath.Rel(root, name)
			if err != nil || strings.HasPrefix(inside, "..") {
				t.Errorf("%v: %s is of another module; what runs networks must do without", platform, name)
				continue
			}
			inside = filepath.ToSlash(inside)
			seen[inside] = true
			if _, ok := files[inside]; !ok {
				t.Errorf("%v: %s is needed and not embedded", platform, inside)
			}
		}
	}
	if len(seen) < 50 {
		t.Fatalf("go list named %d files", len(seen))
	}
	for name := range files {
		folder := filepath.ToSlash(filepath.Dir(name))
		needed := false
		for other := range seen {
			needed = needed || strings.HasPrefix(other, folder+"/")
		}
		if !needed {
			t.Errorf("%s is embedded, and nothing of its package is needed", name)
		}
		if strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s is a test", name)
		}
	}
	if v := GoVersion(); !strings.HasPrefix(v, "1.") {
		t.Errorf("version %q", v)
	}
}
