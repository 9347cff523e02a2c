package js

import (
	"encoding/json"
	"errors"
	"fmt"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/runner"
)

// The names of a step's own modules, as stack traces have them.
const (
	jobModule     = "job"
	globalsModule = "globals"
)

// handoverName is a global by which the modules of adaptors get at what they
// export, before any code of the job runs.
const handoverName = "__adaptor"

// jobFacts tells the prelude what to load.
func (s *step) jobFacts() string {
	facts := struct {
		Module  string `json:"module"`
		Adaptor bool   `json:"adaptor"`
		// Packages are the entries of the job's adaptors by their names, where they are from npm.
		Packages map[string]string `json:"packages,omitempty"`
		// Buffer tells that the job has Node's global of that name: it says so.
		Buffer   bool            `json:"buffer,omitempty"`
		Globals  string          `json:"globals,omitempty"`
		Handover string          `json:"handover"`
		Meta     json.RawMessage `json:"meta"`
	}{Module: jobModule, Handover: handoverName, Meta: s.meta}
	for _, i := range s.node.module.Imports {
		facts.Adaptor = facts.Adaptor || i.Module == commonAdaptor || i.Module == runtimeModule
		if one := s.real(i.Module); one != nil {
			facts.Adaptor = true
			if facts.Packages == nil {
				facts.Packages = make(map[string]string)
			}
			facts.Packages[one.Name] = one.Entry
		}
	}
	facts.Buffer = s.reals[s.node.job.Adaptor] != nil && usesBuffer(s.run.Plan, s.node.job)
	if s.globals() != "" {
		facts.Globals = globalsModule
	}
	text, _ := json.Marshal(facts) // cannot fail
	return string(text)
}

// usesBuffer reports whether a job, or what all jobs see, says the name of Node's Buffer.
func usesBuffer(plan *runner.Plan, job *runner.Job) bool {
	return findWord(job.Body+globalsOf(plan), func(word, _ string) bool { return word == buffer }) != ""
}

// globalsOf returns the code whose exports every job sees, if the plan has any.
// What is no string is ignored.
func globalsOf(plan *runner.Plan) string {
	var code string
	_ = json.Unmarshal(plan.Globals, &code)
	return code
}

func (s *step) globals() string { return globalsOf(s.run.Plan) }

// refuseImports returns why the step cannot begin, if its job or its adaptor
// is none that may be loaded.
func (s *step) refuseImports() *verdict {
	if spec := s.node.job.Adaptor; spec != "" {
		if name, version, why := checkAdaptor(spec); version == "" && why == "" {
			return importError("module blacklisted: " + name)
		}
	}
	return checkImports(s.node.module)
}

var errNoDynamicImport = errors.New("A dynamic import callback was not specified.") //nolint:staticcheck // as Node words it

// resolveModule refuses what a job imports besides its adaptor; what it imports
// by declaration has been checked before.
func (s *step) resolveModule(_ *quickjs.VM, _, name string) (string, error) {
	switch name {
	case jobModule, globalsModule, commonAdaptor, runtimeModule:
		return name, nil
	}
	if s.real(name) != nil {
		return name, nil
	}
	return "", errNoDynamicImport
}

func (s *step) loadModule(_ *quickjs.VM, name string) (string, error) {
	if one := s.real(name); one != nil {
		return one.code(s.node.job.Body), nil
	}
	switch name {
	case jobModule:
		return s.node.module.Code, nil
	case globalsModule:
		return s.globals(), nil
	case commonAdaptor:
		return s.prelude.adaptorCode(), nil
	case runtimeModule:
		return runtimeCode, nil
	}
	return "", fmt.Errorf("there is no module %q", name)
}
