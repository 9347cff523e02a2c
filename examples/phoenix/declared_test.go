package phoenix_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goFiles parses the files of a folder that are no tests.
func goFiles(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// eventsOf returns the events that a program names.
func eventsOf(t *testing.T, folders ...string) []string {
	t.Helper()
	event := regexp.MustCompile(`^(?:(?:run|step|fetch|worker):[a-z_]+|claim|work-available)$`)
	var events []string
	for _, folder := range folders {
		for _, file := range goFiles(t, folder) {
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				if event.MatchString(text) && text != "worker:queue" {
					events = append(events, text)
				}
				return true
			})
		}
	}
	return names(events)
}

// tagsOf returns the JSON names of the fields in a declaration, those of types within
// it included.
func tagsOf(t *testing.T, folder, declaration string) []string {
	t.Helper()
	var tags []string
	for _, file := range goFiles(t, folder) {
		for _, decl := range file.Decls {
			if declared(decl) != declaration {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok && field.Tag != nil {
					tags = append(tags, found(`json:"([a-z_]+)`, field.Tag.Value)...)
				}
				return true
			})
		}
	}
	require.NotEmpty(t, tags, "%s has no %s with JSON names", folder, declaration)
	return names(tags)
}

// declared returns the name of a type, or of a function with its receiver's.
func declared(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.GenDecl:
		if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return spec.Name.Name
		}
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		return receiver.(*ast.Ident).Name + "." + d.Name.Name
	}
	return ""
}

// keysOf returns the keys of a value as JSON.
func keysOf(t *testing.T, v any) []string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var object map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &object))
	return slices.Sorted(maps.Keys(object))
}
