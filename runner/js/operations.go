package js

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// commonVersions are the versions of language-common whose operations were compared with those that are built in.
// TestOperationsAreTheRealOnes compares the last, in CI, and all with PHXWORKER_TEST_COMMON=all.
var commonVersions = []string{"3.1.0", "3.2.1", "3.2.2", "3.2.3", "3.3.1", commonVersion}

// ofTheLast are the operations that do something else in the versions before the last.
var ofTheLast = []string{"combine"}

// builtIn are the operations of lib/common.js, and the paths that each may be given as its first argument, if any:
// of all that such a path can say, only members, indices and `*` are built in.
var builtIn = map[string]*regexp.Regexp{
	"alterState": nil, "as": nil, "assert": nil, "combine": nil, "composeNextState": nil, "dataPath": nil, "debug": nil, "execute": nil,
	"field": nil, "fields": nil, "fn": nil, "fnIf": nil, "index": nil, "log": nil, "referencePath": nil,

	"each": fromState, "map": fromState, "source": fromState, "sourceValue": fromState,
	"dataValue":          regexp.MustCompile(`^(\$?\.)?` + members + `$`),
	"lastReferenceValue": regexp.MustCompile(`^` + members + `$`),
}

// fromState is for paths that begin at the state. A single name is not among them: for some, as "constructor", the
// real package looks into the wrong place.
var fromState = regexp.MustCompile(`^(\$|\$\.` + members + `|` + name + part + further + `|\$(` + brackets + `)` + further + `)$`)

const (
	members  = name + further
	further  = part + `*`
	part     = `(\.` + name + `|\.\*|` + brackets + `)`
	name     = `[A-Za-z_][A-Za-z0-9_]*`
	brackets = `\[\*\]|\[[0-9]+\]|\['` + name + `'\]|\["` + name + `"\]`
)

// needsText are those that do nothing without a path.
var needsText = []string{"source", "sourceValue", "dataValue", "lastReferenceValue"}

// exported are the names that version 3.3.4 exports. A name that no version has is what it is elsewhere: not defined.
var exported = strings.Fields(`_ alterState arrayToString as asData assert beta chunk combine composeNextState cursor dataPath dataValue dateFns
	debug default each execute field fields fn fnIf group http humanProper index join jsonValue lastReferenceValue log map merge
	parseCsv referencePath scrubEmojis source sourceValue splitKeys toArray util validate`)

// missing are the globals of OpenFn's jobs that are not built in. The first comes with the published packages.
var missing = []string{buffer, "WebAssembly"}

const buffer = "Buffer"

// refusal is why a plan cannot be executed with what is built in.
type refusal struct {
	job *runner.Job // nil for a condition
	why string
	// packaged tells that with the published packages there would be no reason.
	packaged bool
}

func (r *refusal) Error() string {
	if r.job == nil {
		return "a condition " + r.why
	}
	return "job " + r.job.Label() + " " + r.why
}

// failure is how a run ends for it where there is no other engine.
func (r *refusal) failure() *runner.Failure {
	adaptor := commonAdaptor
	if r.job != nil && r.job.Adaptor != "" {
		adaptor = r.job.Adaptor
	}
	return &runner.Failure{
		Reason: runner.Exception, Type: "AutoinstallError",
		Message: "Error installing " + adaptor + ": " + r.Error() + "; this run needs the OpenFn engine: install Node, and use --engine auto or openfn",
	}
}

// Refuses returns why the engine does not execute a plan with what is built in, in a sentence without a full stop: it
// needs more than that. It returns nil where it does not, as for what fails at once and in the same words as elsewhere. When
// ctx ends, it returns its cause.
func (e *Engine) Refuses(ctx context.Context, plan *runner.Plan) error {
	why, err := e.refuses(ctx, plan)
	if why != nil {
		return why
	}
	return err
}

// refuses returns a reason for which there is no help with published packages, if there is one, before all others.
func (e *Engine) refuses(ctx context.Context, plan *runner.Plan) (*refusal, error) {
	batch, err := e.cfg.Compiler.Start(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	var first *refusal
	globals := globalsOf(plan)
	for i := range plan.Jobs {
		if plan.Jobs[i].Body == "" {
			continue
		}
		why := refuseJob(ctx, batch, &plan.Jobs[i], globals)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if why != nil && !why.packaged {
			return why, nil
		}
		first = cmp.Or(first, why)
	}
	for i := range plan.Edges {
		if word := findWord(plan.Edges[i].Condition, isOfLanguages); word != "" {
			return &refusal{nil, "says " + word + ", which is not built in", false}, nil
		}
	}
	return first, nil
}

// refuseJob returns why a job needs more than what is built in, nil if it does not.
func refuseJob(ctx context.Context, batch *compile.Batch, job *runner.Job, globals string) (why *refusal) {
	adaptor, version, other := checkAdaptor(job.Adaptor)
	if other != "" {
		why = &refusal{job, other, true}
	}
	if strings.Contains(globals, allowedModules) {
		return &refusal{job, "has globals that import an adaptor", false}
	}
	if word := findWord(job.Body+"\n"+globals, isOfLanguages); word != "" {
		return &refusal{job, "says " + word + ", which is not built in", false}
	}
	if word := findWord(globals, func(word, _ string) bool { return slices.Contains(missing, word) }); word != "" {
		one := &refusal{job, "has globals that use " + word + ", which is not built in", packaged(compile.Use{Name: word}, adaptor)}
		if !one.packaged {
			return one
		}
		why = cmp.Or(why, one)
	}
	uses, err := batch.Uses(ctx, job.Body)
	if err != nil {
		return why // the run ends with that
	}
	for _, use := range uses {
		if beyond := beyond(use, adaptor, version); beyond != "" {
			one := &refusal{job, fmt.Sprintf("%s (line %d), which is not built in", beyond, use.Position.Line), packaged(use, adaptor)}
			if !one.packaged {
				return one
			}
			why = cmp.Or(why, one)
		}
	}
	return why
}

// packaged reports whether what a use of a name needs is in the package of the job's adaptor.
func packaged(use compile.Use, adaptor string) bool {
	if !strings.HasPrefix(adaptor, allowedModules) {
		return false
	}
	if use.Module == "" {
		return use.Name == buffer || !slices.Contains(missing, use.Name)
	}
	return use.Module == adaptor
}

// beyond returns why one use of a name is not built in, "" if it is.
func beyond(use compile.Use, adaptor, version string) string {
	switch {
	case use.Module == "" && slices.Contains(missing, use.Name):
		return "uses " + use.Name
	case use.Module == "" && adaptor != commonAdaptor, use.Module == runtimeModule, !strings.HasPrefix(use.Module, allowedModules) && use.Module != "":
		return ""
	case use.Module != "" && use.Module != commonAdaptor:
		return "imports " + use.Module
	case use.Name == "*", use.Name == "default":
		return "imports all of " + commonAdaptor
	case !slices.Contains(exported, use.Name):
		return ""
	}
	paths, known := builtIn[use.Name]
	switch {
	case !known, version != commonVersion && slices.Contains(ofTheLast, use.Name):
		return "uses " + use.Name
	case paths == nil, use.How == compile.Imported:
		return ""
	case use.How == compile.CalledWithText && paths.MatchString(use.Text):
		return ""
	case use.How == compile.CalledWithText:
		return fmt.Sprintf("gives %s the path %q", use.Name, use.Text)
	case use.How == compile.CalledWithout && !slices.Contains(needsText, use.Name):
		return ""
	}
	return fmt.Sprintf("uses %s with a path that is not written out", use.Name)
}
