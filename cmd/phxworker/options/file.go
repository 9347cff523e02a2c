package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is a config file.
type file struct {
	path   string
	values map[string]value
	// open tells that everybody on this machine can read the file.
	open bool
}

// readFile reads the file that the value names. It is YAML: one mapping from
// [Option.Key], or an alias, to a text, a number, a boolean or a list of texts.
func readFile(from value) (*file, error) {
	data, err := os.ReadFile(from.text)
	if err != nil {
		return nil, &Error{Problem: fmt.Sprintf("%s cannot be read: %v", from.from, err)}
	}
	f := &file{path: from.text, values: make(map[string]value)}
	if info, err := os.Stat(from.text); err == nil {
		f.open = info.Mode()&0o004 != 0
	}
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	keys, lines := fileKeys(), make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, node := root.Content[i], root.Content[i+1]
		o, ok := keys[name.Value]
		if !ok {
			return nil, f.fail(name.Line, "unknown option %q%s", name.Value, didYouMean(name.Value))
		}
		key := o.Key()
		switch first := lines[key]; {
		case key == configKey:
			return nil, f.fail(name.Line, "%q names this file and does not belong in it: take it out", name.Value)
		case first != 0:
			return nil, f.fail(name.Line, "%q is set in line %d already: keep one of them", key, first)
		}
		lines[key] = name.Line
		text, problem := o.read(node)
		if problem != "" {
			return nil, f.fail(node.Line, "%q %s", name.Value, problem)
		}
		if text != "" {
			place := fmt.Sprintf("%s:%d", f.path, name.Line)
			f.values[key] = value{text: text, rank: byFile, place: place, from: place + ": " + name.Value}
		}
	}
	return f, nil
}

// parse returns the mapping of the file, an empty one if there is nothing in it.
func (f *file) parse(data []byte) (*yaml.Node, error) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return new(yaml.Node), nil
	}
	if err != nil {
		return nil, f.syntax(err)
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null":
		return new(yaml.Node), nil
	case root.Kind != yaml.MappingNode:
		return nil, f.fail(root.Line, `this is no config file: write an option and its value in each line, such as "capacity: 5"`)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, f.fail(second.Line, `there is a second document in the file: take out the "---" between them`)
	case !errors.Is(err, io.EOF):
		return nil, f.syntax(err)
	}
	return root, nil
}

// resolve returns the node that an alias stands for.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// read returns the text of a value, empty if it is null, or what is wrong with it.
func (o Option) read(node *yaml.Node) (text, problem string) {
	node = resolve(node)
	_, known := truth(node.Value)
	switch {
	case node.Kind == yaml.SequenceNode && o.Kind == List:
		var items []string
		for _, item := range node.Content {
			item = resolve(item)
			if item.Kind != yaml.ScalarNode {
				return "", "has something in its list that is not a text: write a list such as [a, b]"
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), ""
	case node.Kind != yaml.ScalarNode && o.Kind == List:
		return "", "is not a list: write a list such as [a, b]"
	case node.Kind == yaml.SequenceNode:
		return "", "takes one value and not a list"
	case node.Kind != yaml.ScalarNode:
		return "", "takes one value and not options of its own"
	case node.ShortTag() == "!!null":
		return "", ""
	case o.Kind == Toggle && !known && node.Value != "":
		return "", fmt.Sprintf("is on or off, and %q is neither: write %s", node.Value, toggleWords)
	case o.Kind != Toggle && node.ShortTag() == "!!bool":
		return "", fmt.Sprintf("takes a text or a number: write %q in quotes if it is meant", node.Value)
	}
	return o.Kind.normal(node.Value), ""
}

// fileKeys returns the options by the names they have in a file.
func fileKeys() map[string]Option {
	keys := make(map[string]Option)
	for _, o := range Table() {
		for _, name := range append([]string{o.Key()}, o.Aliases...) {
			if len(name) > 1 {
				keys[name] = o
			}
		}
	}
	return keys
}

func (f *file) fail(line int, format string, args ...any) *Error {
	return &Error{Problem: fmt.Sprintf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...))}
}

// yamlLine is how package yaml begins a complaint about one line.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (f *file) syntax(err error) *Error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	place := f.path
	if match := yamlLine.FindStringSubmatch(first); match != nil && match[1] != "" {
		place += ":" + match[1]
	}
	return &Error{Problem: fmt.Sprintf("%s: this is not YAML: %s", place, yamlLine.ReplaceAllString(first, ""))}
}

// lookup returns what the file, if there is one, sets the option to.
func (f *file) lookup(o Option) (value, bool) {
	if f == nil {
		return value{}, false
	}
	v, ok := f.values[o.Key()]
	return v, ok
}
