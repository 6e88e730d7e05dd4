// Package recipes holds the recipes that come with the program: those of the
// paper's tables, and small ones that end in minutes.
package recipes

import (
	"embed"
	"fmt"
	"strings"

	"tips/train"
)

//go:embed *.yaml
var files embed.FS

// Names lists the recipes, in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("recipes: " + err.Error()) // they are part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Open reads a recipe by its name.
func Open(name string) (*train.Recipe, error) {
	f, err := files.Open(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("recipes: no recipe %q; there are %s", name, strings.Join(Names(), ", "))
	}
	defer f.Close()
	r, err := train.ReadRecipe(f)
	if err != nil {
		return nil, fmt.Errorf("recipes: %s: %w", name, err)
	}
	return r, nil
}

// Text is a recipe as it was written, comments and all.
func Text(name string) (string, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("recipes: no recipe %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return string(text), nil
}
