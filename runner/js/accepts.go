package js

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/phxworker/phxworker/runner"
)

// beyond are the parts of the adaptor, and of OpenFn's own engine, that this one
// does not have. A body may use the words for something else; that it is
// not accepted then does no harm.
var beyond = regexp.MustCompile(`\b(http|dateFns|util|collections)\b`)

// local is what comes to something else in Node, which knows the languages and
// the names of time zones, where this engine knows en-US and offsets.
var local = regexp.MustCompile(`\b(toLocale\w+|localeCompare|Intl|toTimeString)\b|(\bString\(|\$\{)\s*new Date\([^()]*\)\s*[)}]`)

// module is the name of a module that a job may import.
var module = regexp.MustCompile("[\"'`](" + allowedModules + "[^\"'`]*)")

// CanRun implements [runner.PartialEngine]: a plan whose jobs need no adaptor but
// the basic operations of today's language-common. What fails at once, and in the
// same words as elsewhere, is accepted too.
func (e *Engine) CanRun(_ context.Context, plan *runner.Plan) error {
	for i := range plan.Jobs {
		if job := &plan.Jobs[i]; job.Body != "" && !accepts(job) {
			return errBeyond
		}
	}
	for i := range plan.Edges {
		if local.MatchString(plan.Edges[i].Condition) {
			return errBeyond
		}
	}
	return nil
}

var errBeyond = errors.New("the plan needs more than the js engine has")

func accepts(job *runner.Job) bool {
	name, version, err := checkAdaptor(job.Adaptor)
	if err != nil || (name == commonAdaptor && !strings.HasPrefix(version, "3.")) || beyond.MatchString(job.Body) || local.MatchString(job.Body) {
		return false
	}
	for _, m := range module.FindAllStringSubmatch(job.Body, -1) {
		if m[1] != commonAdaptor && m[1] != runtimeModule {
			return false
		}
	}
	return true
}
