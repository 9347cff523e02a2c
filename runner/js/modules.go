package js

import (
	"encoding/json"
	"errors"

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

// handover is an adaptor of a job, which the prelude puts where its module reads it.
type handover struct {
	Name string `json:"name"`
	// Entry is that of a package from npm; what is built in has none, and Uses, what the job may use of it.
	Entry string   `json:"entry,omitempty"`
	Uses  []string `json:"uses,omitempty"`
}

// jobFacts tells the prelude what to load.
func (s *step) jobFacts() string {
	facts := struct {
		Module  string     `json:"module"`
		Modules []handover `json:"modules,omitempty"`
		// Buffer tells that the job has Node's global of that name: it says so.
		Buffer   bool            `json:"buffer,omitempty"`
		Globals  string          `json:"globals,omitempty"`
		Handover string          `json:"handover"`
		Meta     json.RawMessage `json:"meta"`
	}{Module: jobModule, Modules: s.handovers(), Handover: handoverName, Meta: s.meta}
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

// handovers returns what the job's modules read: a package from npm or what is built in, and the runtime's part.
func (s *step) handovers() []handover {
	var all []handover
	if one := s.reals[s.node.job.Adaptor]; one != nil && s.imports(one.Name) {
		all = append(all, handover{Name: one.Name, Entry: one.Entry})
	} else if s.imports(commonAdaptor) {
		all = append(all, handover{Name: commonAdaptor, Uses: s.builtInUses()})
	}
	if s.imports(runtimeModule) {
		all = append(all, handover{Name: runtimeModule})
	}
	return all
}

// imports reports whether the job imports a module by declaration.
func (s *step) imports(name string) bool { return s.declared(name) > 0 }

// declared returns how often it does. What the compile step takes from an adaptor, it exports again as well.
func (s *step) declared(name string) int {
	n := 0
	for _, i := range s.node.module.Imports {
		if i.Module != name || i.Dynamic {
			continue
		}
		if n++; i.Position.Line == 0 && name != runtimeModule {
			n++
		}
	}
	return n
}

// builtInUses returns what the job may use of what is built in.
func (s *step) builtInUses() []string {
	return usedOf(commonAdaptor, s.prelude.exports, s.node.job.Body+s.globals())
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

// resolveImport refuses what a job imports with import(): what it imports by declaration has been checked before, and is resolved
// as often as it is declared, before any code of the job runs.
func (s *step) resolveImport(base, name string) error {
	if base != jobModule {
		return nil
	}
	if s.resolved == nil {
		s.resolved = make(map[string]int)
	}
	if s.resolved[name]++; s.resolved[name] > s.declared(name) {
		return errNoDynamicImport
	}
	return nil
}

// loadModule returns the text of what a job imports; all but its own modules and its adaptor is refused.
func (s *step) loadModule(name string) (string, error) {
	if one := s.real(name); one != nil {
		return one.code(s.node.job.Body + s.globals()), nil
	}
	switch name {
	case jobModule:
		return s.node.module.Code, nil
	case globalsModule:
		return s.globals(), nil
	case commonAdaptor:
		return moduleCode(commonAdaptor, s.builtInUses()), nil
	case runtimeModule:
		return moduleCode(runtimeModule, []string{"defer"}), nil
	}
	return "", errNoDynamicImport
}
