package tips

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImports compares what packages import with the table in ARCHITECTURE.md:
// the page is the rule, and this is what makes it one.
func TestImports(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		may := map[string]bool{}
		for name := range strings.FieldsFuncSeq(cells[3], func(r rune) bool { return strings.ContainsRune(" `,", r) }) {
			may[name] = true
		}
		allowed[strings.Trim(cells[1], " `")] = may
	}
	if len(allowed) == 0 {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}

	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not at hand to list imports")
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], "tips/")
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %s is not in the table of ARCHITECTURE.md", name)
			continue
		}
		delete(allowed, name)
		for _, imported := range words[1:] {
			if may["all"] {
				break
			}
			other, ours := strings.CutPrefix(imported, "tips/")
			if (ours || other == "tips") && !may[other] {
				t.Errorf("package %s imports %s, which the table of ARCHITECTURE.md does not allow", name, other)
			}
		}
	}
	for name := range allowed {
		t.Errorf("package %s is in the table of ARCHITECTURE.md and not in the module", name)
	}
}
