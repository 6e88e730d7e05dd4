package onnx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tips/supernet/zoo"
	"tips/weights"
)

// checker reads models and checks them; the full check infers all shapes too.
const checker = `
import sys, onnx
for name in sys.argv[1:]:
    model = onnx.load(name)
    onnx.checker.check_model(model, full_check=True)
    print(name, len(model.graph.node), "nodes")
`

// TestChecker has the checker of the onnx project read what is written.
func TestChecker(t *testing.T) {
	const python = "/usr/bin/python3" // the one that Debian's packages belong to
	if err := exec.Command(python, "-c", "import onnx").Run(); err != nil {
		t.Skipf("%s with the onnx module (Debian: python3-onnx) is not at hand: %v", python, err)
	}
	dir := t.TempDir()
	args := []string{"-c", checker}
	save := func(set *weights.Set, o Options) {
		name := filepath.Join(dir, fmt.Sprintf("%d.onnx", len(args)))
		if err := os.WriteFile(name, export(t, set, o), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	n := networkOf(t, everything)
	set := randomSet(n)
	for i, s := range someSubnets(t, n, 8) {
		save(set, Options{Subnet: s, KeepNorm: i%2 == 1, Batch: i % 3})
	}
	for _, model := range zoo.Models() {
		n, err := zoo.New(model.Name)
		if err != nil {
			t.Fatal(err)
		}
		set := weights.New(n)
		for i, s := range someSubnets(t, n, 2) {
			view, err := n.View(s, n.Input())
			if err != nil {
				t.Fatal(err)
			}
			// The checker copies models several times; large ones teach nothing more.
			if s == n.Smallest() || view.Costs().Params < 6e6 {
				save(set, Options{Subnet: s, KeepNorm: i%2 == 1})
			}
		}
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
