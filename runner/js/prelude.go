package js

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/runner/js/chunk"
)

//go:embed lib/*.js
var lib embed.FS

// core are the files of the prelude that every VM runs, in order; they share
// one function scope.
var core = []string{
	"core", "values", "json", "console", "bounds", "timers", "dates", "step", "condition", "common", "real", "dispatch",
}

// adaptorFile is the file of the prelude that stands for an adaptor.
const adaptorFile = "common"

// prelude is the prelude in QuickJS's bytecode, which loads ten times as fast as
// its source.
type prelude struct {
	core    []byte
	loader  []byte    // of packages from npm
	exports []string  // the names of the basic operations
	adaptor lineRange // the lines of the adaptor's code, of which no two files have the same
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

	p := &prelude{}
	var text strings.Builder
	fmt.Fprintf(&text, "(() => {'use strict'; const host = %[1]s, native = %[3]s, utc = %[2]t; delete globalThis.%[1]s; delete globalThis.%[3]s;\n", hostName, inUTC, nativeName)
	line := 2
	for _, name := range core {
		source, err := lib.ReadFile("lib/" + name + ".js")
		if err != nil {
			return nil, err
		}
		first := line
		line += bytes.Count(source, []byte("\n"))
		if name == adaptorFile {
			p.adaptor = lineRange{first, line}
		}
		text.Write(source)
	}
	text.WriteString("})()")
	if p.core, err = vm.Compile(text.String(), quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("the prelude does not compile: %w", err)
	}
	if p.loader, err = vm.Compile(chunk.Loader, quickjs.EvalGlobal); err != nil {
		return nil, fmt.Errorf("the loader of packages does not compile: %w", err)
	}
	return p, p.readExports()
}

// isAdaptor reports whether a line of the prelude is the adaptor's.
func (p *prelude) isAdaptor(line int) bool {
	return p.adaptor.first <= line && line <= p.adaptor.last
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
