package train

import (
	"context"
	"os"
	"strings"
	"testing"
)

func synthetic(t testing.TB, changes ...string) *Recipe {
	t.Helper()
	r, err := OpenRecipe("../recipes/synthetic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		key, value, _ := strings.Cut(c, "=")
		if err := r.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	s, err := Run(context.Background(), Options{Recipe: synthetic(t), Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", s)
	e, _ := os.ReadDir(dir)
	t.Log(e)
	b, _ := os.ReadFile(dir + "/recipe.yaml")
	t.Log(string(b))
	b, _ = os.ReadFile(dir + "/metrics.jsonl")
	t.Log(string(b[:3000]))
}
