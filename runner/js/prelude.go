package js

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner/js/chunk"
	"github.com/phxworker/phxworker/runner/js/vm"
)

//go:embed lib/*.js
var lib embed.FS

// core are the files of the prelude that every VM runs, in order; they share
// one function scope. The late ones are functions, which a VM loads when it first needs them: to read what
// a step does without would be a third of the time that its VM takes.
var (
	core = []string{"core", "values", "json", "console", "bounds", "timers", "dates", "step", "condition", "basic", "real", "dispatch"}
	late = []string{"common", "datetext", "problem"}
)

// loaderName is that under which a VM asks for [chunk.Loader].
const loaderName = "loader"

// prelude is the prelude in QuickJS's bytecode, which loads ten times as fast as
// its source.
type prelude struct {
	core    []byte
	late    map[string][]byte // and the loader of packages from npm
	exports []string          // the names of the basic operations
	adaptor []lineRange       // the lines of the adaptor's code, of which no two files have the same
}

// lineRange is the lines from first to before last.
type lineRange struct{ first, last int }

func compilePrelude() (*prelude, error) {
	p := &prelude{late: make(map[string][]byte)}
	if err := p.compile(); err != nil {
		return nil, err
	}
	return p, p.readExports()
}

func (p *prelude) compile() error {
	compiler, err := vm.New()
	if err != nil {
		return err
	}
	defer compiler.Close()
	var text strings.Builder
	fmt.Fprintf(&text, "(host, native) => {'use strict'; const utc = %t;\n", inUTC)
	line := 2
	for _, name := range core {
		line = p.add(&text, name, line)
	}
	text.WriteString("}")
	if p.core, err = compiler.Compile(text.String()); err != nil {
		return fmt.Errorf("the prelude does not compile: %w", err)
	}
	for _, name := range late {
		text.Reset()
		text.WriteString(strings.Repeat("\n", line-1) + "(() => {'use strict'; return (\n")
		line = p.add(&text, name, line+1)
		text.WriteString(");})()")
		if p.late[name], err = compiler.Compile(text.String()); err != nil {
			return fmt.Errorf("%s of the prelude does not compile: %w", name, err)
		}
	}
	if p.late[loaderName], err = compiler.Compile(chunk.Loader); err != nil {
		return fmt.Errorf("the loader of packages does not compile: %w", err)
	}
	return nil
}

// add appends a file, which begins at a line, and returns the line after it.
func (p *prelude) add(text *strings.Builder, name string, line int) int {
	source, _ := lib.ReadFile("lib/" + name + ".js") // it is embedded
	text.Write(source)
	next := line + bytes.Count(source, []byte("\n"))
	if name == "basic" || name == "common" {
		p.adaptor = append(p.adaptor, lineRange{line, next})
	}
	return next
}

// isAdaptor reports whether a line of the prelude is the adaptor's.
func (p *prelude) isAdaptor(line int) bool {
	return slices.ContainsFunc(p.adaptor, func(r lineRange) bool { return r.first <= line && line < r.last })
}

func (p *prelude) readExports() error {
	box, err := newSandbox(p)
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
