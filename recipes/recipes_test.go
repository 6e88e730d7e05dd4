package recipes

import (
	"strings"
	"testing"
)

func TestRecipes(t *testing.T) {
	names := Names()
	if len(names) < 9 {
		t.Errorf("%d recipes", len(names))
	}
	for _, name := range names {
		r, err := Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := Text(name)
		if err != nil || !strings.HasPrefix(text, "# ") || !strings.Contains(text, "name: "+r.Name+"\n") || r.Name != name {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	for _, err := range []error{second(Open("nothing")), second(Text("../go"))} {
		if err == nil || !strings.Contains(err.Error(), "there are cifar100-mobilenet_v2, ") {
			t.Errorf("%v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
