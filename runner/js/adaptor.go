package js

import (
	"slices"
	"strings"

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

// adaptorCode is the text of the module of an adaptor, whose exports lie in a
// global when it is evaluated.
func (p *prelude) adaptorCode() string {
	names := strings.Join(p.exports, ", ")
	return "export const { " + names + " } = globalThis." + handoverName + ";"
}

const runtimeCode = "export const { defer } = globalThis." + handoverName + ";"
