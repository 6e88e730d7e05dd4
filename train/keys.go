package train

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"tips/dataset"
)

// Key is one key of a recipe, for the page that lists them.
type Key struct {
	Name    string // with dots, as Recipe.Set takes it
	Default string // as in a recipe; "" where that is nothing
	Needed  bool   // a recipe must say
	Help    string
}

// Keys lists the keys of a recipe in the order of a file.
func Keys() []Key {
	r := defaultRecipe()
	r.Augment = &dataset.Pipeline{}
	var list []Key
	walk(reflect.ValueOf(r), "", func(name string, field reflect.StructField, value reflect.Value) {
		k := Key{Name: name, Help: field.Tag.Get("doc"), Needed: field.Tag.Get("need") != ""}
		switch {
		case k.Needed:
		case strings.HasPrefix(name, "augment."):
			k.Help = augmentHelp[name]
		case !value.IsZero() || value.Kind() == reflect.Bool:
			k.Default = text(value)
		case value.CanInt() || value.CanUint() || value.CanFloat():
			k.Default = "0"
		}
		list = append(list, k)
	})
	return list
}

// augmentHelp says in a recipe's words what package dataset says in its own.
var augmentHelp = map[string]string{
	"augment.pad":                 "pixels by which the crop may reach beyond the edges",
	"augment.flip":                "mirror every second picture",
	"augment.random_resized_crop": "cut out a part of random size and shape",
	"augment.scale":               "least and largest part of the area that is cut out",
	"augment.ratio":               "least and largest width by height of what is cut out",
	"augment.brightness":          "factor of 1−b to 1+b",
	"augment.contrast":            "likewise",
	"augment.saturation":          "likewise",
	"augment.hue":                 "moved by −h to h of the circle",
	"augment.resize":              "length that the shorter side is scaled to before the centre is cut out",
	"augment.mean":                "of the pixels, one value or one a channel; otherwise the data's own",
	"augment.std":                 "likewise",
}

// flatten lists the keys of a recipe with their values.
func flatten(r *Recipe) map[string]string {
	m := map[string]string{}
	walk(reflect.ValueOf(*r), "", func(name string, _ reflect.StructField, value reflect.Value) { m[name] = text(value) })
	return m
}

// walk visits the leaves of a recipe.
func walk(v reflect.Value, prefix string, visit func(name string, field reflect.StructField, value reflect.Value)) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		name = prefix + name
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct {
			walk(value, name+".", visit)
			continue
		}
		visit(name, field, value)
	}
}

// text writes a value as a recipe would.
func text(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		var parts []string
		for i := range v.Len() {
			parts = append(parts, text(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// keyError is something wrong in the text of a recipe, and where.
type keyError struct {
	line, column int
	message      string
}

func (e *keyError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.message)
}

// explain says on one line, in the words of recipes, what the YAML package found
// wrong with a text.
func explain(recipe []byte, err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	at := e.GetToken()
	wrong := &keyError{at.Position.Line, at.Position.Column, strings.Join(strings.Fields(e.GetMessage()), " ")}
	switch e := e.(type) {
	case *yaml.UnknownFieldError:
		wrong.message = fmt.Sprintf("unknown key %q", at.Value)
		if known := siblings(recipe, at); len(known) > 0 {
			wrong.message += "; want one of " + strings.Join(known, ", ")
		}
	case *yaml.TypeError:
		wrong.message = fmt.Sprintf("%q; want %s", at.Value, wanted(e.DstType))
	case *yaml.UnexpectedNodeTypeError:
		switch e.Expected {
		case ast.SequenceType:
			wrong.message = fmt.Sprintf("%q; want a list, as in %s", at.Value, exampleList(recipe, at))
		case ast.MappingType:
			wrong.message = fmt.Sprintf("%q; want keys with values", at.Value)
		}
	case *yaml.OverflowError:
		wrong.message = fmt.Sprintf("%q; want %s", at.Value, wanted(e.DstType))
	}
	return wrong
}

// checkScalars refuses what the YAML package would make fit: fractions where whole
// numbers are wanted, and keys without a value.
func checkScalars(recipe []byte) error {
	file, err := parser.ParseBytes(recipe, 0)
	if err != nil {
		return explain(recipe, err)
	}
	whole := map[string]bool{}
	r := defaultRecipe()
	r.Augment = &dataset.Pipeline{}
	walk(reflect.ValueOf(r), "$.", func(name string, _ reflect.StructField, v reflect.Value) {
		t := v.Type()
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		whole[name] = t.Kind() == reflect.Int || t.Kind() == reflect.Uint64
	})
	check := &scalarCheck{whole: whole}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(check, doc.Body)
		}
	}
	return check.err
}

type scalarCheck struct {
	whole map[string]bool // by path
	err   error
}

func (c *scalarCheck) Visit(n ast.Node) ast.Visitor {
	if c.err != nil {
		return nil
	}
	fail := func(n ast.Node, format string, args ...any) {
		at := n.GetToken().Position
		c.err = &keyError{at.Line, at.Column, fmt.Sprintf(format, args...)}
	}
	path, _, _ := strings.Cut(n.GetPath(), "[") // all elements of a list alike
	switch n.(type) {
	case *ast.NullNode:
		fail(n, "a key without a value")
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if c.whole[path] {
			fail(n, "%q; want a whole number", n.GetToken().Value)
		}
	}
	return c
}

// wanted names a Go type as users of a recipe would.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Pointer:
		return "keys with values"
	}
	return "a text"
}

// exampleList is a list that may stand where a token of a recipe does.
func exampleList(recipe []byte, at *token.Token) string {
	switch pathOf(recipe, at) {
	case "evaluate.subnets":
		return "[full, smallest]"
	case "schedule.drops":
		return "[60, 80]"
	}
	return "[" + at.Value + "]"
}

// siblings lists the keys that may stand where a token of a recipe does.
func siblings(recipe []byte, at *token.Token) []string {
	prefix := pathOf(recipe, at)
	if i := strings.LastIndexByte(prefix, '.'); i >= 0 {
		prefix = prefix[:i+1]
	} else {
		prefix = ""
	}
	var known []string
	for _, k := range Keys() {
		if rest, below := strings.CutPrefix(k.Name, prefix); below {
			name, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	return known
}

// pathOf is the key, with dots, that a token of a recipe is or is the value of; ""
// where there is none.
func pathOf(recipe []byte, at *token.Token) string {
	file, err := parser.ParseBytes(recipe, 0)
	if err != nil {
		return ""
	}
	find := &keyFinder{at: at.Position.Offset}
	for _, doc := range file.Docs {
		ast.Walk(find, doc.Body)
	}
	return strings.TrimPrefix(strings.TrimPrefix(find.path, "$"), ".")
}

// keyFinder finds the path of the key at an offset, or whose value is there.
type keyFinder struct {
	at   int
	path string
}

func (f *keyFinder) Visit(n ast.Node) ast.Visitor {
	if v, ok := n.(*ast.MappingValueNode); ok {
		key, value := v.Key.GetToken(), v.Value.GetToken()
		// A map's token is the colon of its first key.
		if key.Position.Offset == f.at || value.Position.Offset == f.at && value.Value != ":" {
			f.path = v.Key.GetPath()
		}
	}
	return f
}
