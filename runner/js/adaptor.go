package js

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

const (
	commonAdaptor  = "@openfn/language-common"
	runtimeModule  = "@openfn/runtime" // where the compiler imports defer from
	allowedModules = "@openfn/"
	// commonVersion is the version whose behaviour the basic operations
	// follow; commonMajor is the last major version that they stand in for.
	commonVersion = "3.3.4"
	commonMajor   = 3
)

// checkAdaptor returns the version that stands for a job's adaptor in
// run:start: "" for one that no job may import, which fails when its step runs.
// An adaptor that the OpenFn engine would install is an error.
func checkAdaptor(spec string) (name, version string, err error) {
	name, version = runner.SplitAdaptor(spec)
	if !strings.HasPrefix(name, allowedModules) {
		return name, "", nil
	}
	if name != commonAdaptor {
		return "", "", &runner.Failure{
			Reason: runner.Exception, Type: "AutoinstallError",
			Message: fmt.Sprintf("Error installing %s: the js engine has no adaptor but %s; this job needs the OpenFn engine (--engine auto or openfn)", spec, commonAdaptor),
		}
	}
	if version == "" || version == "latest" {
		return name, commonVersion, nil
	}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 1 || n > commonMajor {
		return "", "", &runner.Failure{
			Reason: runner.Exception, Type: "AutoinstallError",
			Message: fmt.Sprintf("Error installing %s: the js engine stands in for versions 1 to %d of it; this job needs the OpenFn engine (--engine auto or openfn)", spec, commonMajor),
		}
	}
	return name, version, nil
}

// checkImports returns why a job's imports fail its step, if they do. An
// import() fails where it is evaluated.
func checkImports(module *compile.Module) *verdict {
	for _, i := range module.Imports {
		switch {
		case i.Dynamic || i.Module == commonAdaptor || i.Module == runtimeModule:
		case !strings.HasPrefix(i.Module, allowedModules):
			return refusal("module blacklisted: " + i.Module)
		default:
			return refusal(fmt.Sprintf("Failed to import module %q", i.Module))
		}
	}
	return nil
}

func refusal(message string) *verdict {
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
