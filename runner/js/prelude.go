package js

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"modernc.org/quickjs"
)

//go:embed lib/*.js
var lib embed.FS

// core are the files of the prelude that every VM runs, in order; they share
// one function scope.
var core = []string{
	"core", "values", "console", "timers", "locale", "step", "condition", "jsonpath", "common", "dispatch",
}

// groups are the parts of the prelude that a VM loads when a job asks for them.
var groups = []string{"node", "url", "csv", "schema", "intl"}

// prelude is the prelude in QuickJS's bytecode, which loads ten times as fast as
// its source.
type prelude struct {
	core    []byte
	groups  map[string][]byte
	exports []string // the names of the basic operations
}

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
	w.stripSource()

	var text strings.Builder
	fmt.Fprintf(&text, "(() => {'use strict'; const host = %[1]s, native = %[2]s; delete globalThis.%[1]s; delete globalThis.%[2]s;\n", hostName, nativeName)
	for _, name := range core {
		source, err := lib.ReadFile("lib/" + name + ".js")
		if err != nil {
			return nil, err
		}
		text.Write(source)
	}
	text.WriteString("})()")
	p := &prelude{groups: make(map[string][]byte)}
	if p.core, err = vm.Compile(text.String(), quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("the prelude does not compile: %w", err)
	}
	for _, name := range groups {
		source, err := lib.ReadFile("lib/" + name + ".js")
		if err != nil {
			return nil, err
		}
		if p.groups[name], err = vm.Compile(string(source), quickjs.EvalGlobal); err != nil {
			return nil, fmt.Errorf("%s.js of the prelude does not compile: %w", name, err)
		}
	}
	return p, p.readExports()
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
