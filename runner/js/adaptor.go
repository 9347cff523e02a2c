package js

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

const (
	commonAdaptor  = "@openfn/language-common"
	runtimeModule  = "@openfn/runtime" // where the compiler imports defer from
	allowedModules = "@openfn/"
	// commonVersion is the version that "latest" stands for.
	commonVersion = "3.3.4"
)

// checkAdaptor returns the version that stands for a job's adaptor in
// run:start: "" for one that no job may import, which fails when its step runs.
// Of an adaptor that is not built in, it returns why its job cannot be executed.
func checkAdaptor(spec string) (name, version, why string) {
	name, version = runner.SplitAdaptor(spec)
	switch {
	case !strings.HasPrefix(name, allowedModules):
		return name, "", ""
	case name == commonAdaptor && (version == "" || version == "latest"):
		return name, commonVersion, ""
	case name == commonAdaptor && slices.Contains(commonVersions, version):
		return name, version, ""
	}
	return name, "", "has the adaptor " + spec + ", which is not built in"
}

// checkImports returns why a job's imports fail its step, if they do. An
// import() fails where it is evaluated.
func checkImports(module *compile.Module) *verdict {
	for _, i := range module.Imports {
		if !i.Dynamic && !strings.HasPrefix(i.Module, allowedModules) {
			return importError("module blacklisted: " + i.Module)
		}
	}
	return nil
}

func importError(message string) *verdict {
	v := crashed("ImportError", message)
	v.failure.Type = "ImportError"
	return &v
}

// words are what may be names in the code of a job.
var words = regexp.MustCompile(`[\w$]+`)

// isIdentifier reports whether a job can import something by a name.
func isIdentifier(name string) bool {
	for i, r := range name {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsNumber(r)) {
			return false
		}
	}
	return name != ""
}

// usedOf returns what a job may use of the exports of an adaptor: those that its code speaks of, and all if that imports
// all. What is read of an adaptor is loaded.
func usedOf(name string, exports []string, code string) []string {
	said := map[string]bool{"execute": true}
	for _, word := range words.FindAllString(code, -1) {
		said[word] = true
	}
	all := strings.Contains(code, "*") && strings.Contains(code, name)
	var used []string
	for _, export := range exports {
		if export != "default" && (all || said[export]) && isIdentifier(export) {
			used = append(used, export)
		}
	}
	return used
}

// moduleCode is the text of the module of an adaptor, whose exports lie in a
// global when it is evaluated. They are there under names of ours, for theirs may be words of the language.
func moduleCode(name string, used []string) string {
	var taken, given strings.Builder
	for i, export := range used {
		fmt.Fprintf(&taken, "%s: _%d, ", export, i)
		fmt.Fprintf(&given, "_%d as %s, ", i, export)
	}
	return fmt.Sprintf("const { %s} = globalThis.%s[%s]; export { %s};", &taken, handoverName, quoted(name), &given)
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // a string cannot fail
	return string(data)
}
