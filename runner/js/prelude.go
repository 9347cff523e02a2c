package js

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"modernc.org/quickjs"
)

//go:embed lib/*.js
var lib embed.FS

// core are the files of the prelude that every VM runs, in order; they share
// one function scope.
var core = []string{
	"core", "values", "json", "console", "bounds", "timers", "locale", "step", "condition", "jsonpath", "common", "dispatch",
}

// groups are the parts of the prelude that a VM loads when a job asks for them.
var groups = []string{"node", "url", "csv", "schema", "intl"}

// adaptorFiles are the files of the prelude that an adaptor would consist of.
var adaptorFiles = []string{"jsonpath", "common", "csv", "schema"}

// prelude is the prelude in QuickJS's bytecode, which loads ten times as fast as
// its source.
type prelude struct {
	core    []byte
	groups  map[string][]byte
	exports []string // the names of the basic operations
	// adaptor has the lines of the adaptor's code, of which no two files have
	// the same.
	adaptor []lineRange
}

type lineRange struct{ first, last int }

func compilePrelude() (*prelude, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	defer func() { _ = vm.Close() }()
	w, err := newWatch(vm)
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.stripSource()

	p := &prelude{groups: make(map[string][]byte)}
	var text strings.Builder
	fmt.Fprintf(&text, "(() => {'use strict'; const host = %[1]s, native = %[2]s; delete globalThis.%[1]s; delete globalThis.%[2]s;\n", hostName, nativeName)
	line := 2
	read := func(name string) (source []byte, err error) {
		if source, err = lib.ReadFile("lib/" + name + ".js"); err != nil {
			return nil, err
		}
		first := line
		line += bytes.Count(source, []byte("\n"))
		if slices.Contains(adaptorFiles, name) {
			p.adaptor = append(p.adaptor, lineRange{first, line})
		}
		return source, nil
	}
	for _, name := range core {
		source, err := read(name)
		if err != nil {
			return nil, err
		}
		text.Write(source)
	}
	text.WriteString("})()")
	if p.core, err = vm.Compile(text.String(), quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("the prelude does not compile: %w", err)
	}
	for _, name := range groups {
		line++
		before := strings.Repeat("\n", line-1)
		source, err := read(name)
		if err != nil {
			return nil, err
		}
		if p.groups[name], err = vm.Compile(before+string(source), quickjs.EvalGlobal); err != nil {
			return nil, fmt.Errorf("%s.js of the prelude does not compile: %w", name, err)
		}
	}
	return p, p.readExports()
}

// isAdaptor reports whether a line of the prelude is the adaptor's.
func (p *prelude) isAdaptor(line int) bool {
	return slices.ContainsFunc(p.adaptor, func(r lineRange) bool { return r.first <= line && line <= r.last })
}

func (p *prelude) readExports() error {
	box, err := newSandbox(p, 0, nil)
	if err != nil {
		return err
	}
	defer box.close()
	names, err := box.call("exports")
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(names.(string)), &p.exports)
}
