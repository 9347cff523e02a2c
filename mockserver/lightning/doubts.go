package lightning

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Doubts returns what in the plan of a run can hardly mean what it says, a sentence each, in the order of the plan;
// nil if there is nothing. Such a run is queued all the same: how a worker copes with it is worth a test.
func (s *Service) Doubts(r Run) []string {
	return doubtsOf(r.Plan, func(credential string) bool {
		s.Lock()
		defer s.Unlock()
		return r.Credentials[credential] != nil || s.credentials[credential] != nil
	})
}

func doubtsOf(plan json.RawMessage, hasCredential func(id string) bool) []string {
	var p doubtfulPlan
	if json.Unmarshal(plan, &p) != nil {
		return nil // parsePlan says what is wrong
	}
	d := &doubts{plan: &p, names: make(map[string]string), hasCredential: hasCredential}
	d.fields("the plan", plan, planFieldNames)
	d.parts(plan)
	for i := range p.Triggers {
		id := string(p.Triggers[i].ID)
		d.names[id] = fmt.Sprintf("the trigger %q", id)
	}
	for i := range p.Jobs {
		d.job(&p.Jobs[i])
	}
	for i := range p.Edges {
		d.edge(i)
	}
	d.start()
	return d.found
}

// yamlField matches the fields of which workflows in YAML have one at least.
var yamlField = regexp.MustCompile(`(?m)^(?:steps|jobs|workflows|workflow|workspace):`)

// Syntax says what keeps a text from being JSON, and where, as the end of a sentence about it; empty if it is JSON.
func Syntax(text []byte) string {
	var v any
	err := json.Unmarshal(text, &v)
	bad, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case isSyntax:
		before := text[:min(int(bad.Offset), len(text))]
		line := 1 + bytes.Count(before, []byte("\n"))
		return fmt.Sprintf("is not JSON: line %d, column %d: %v", line, len(before)-bytes.LastIndexByte(before, '\n')-1, bad)
	case err != nil:
		return "is not JSON: " + err.Error()
	case !utf8.Valid(text): // Go's decoder lets it pass
		return "is not UTF-8: save the file as UTF-8"
	}
	return ""
}

// HintAt returns what to do with a text that is no JSON, empty if nobody knows.
func HintAt(text []byte) string {
	if yamlField.Match(text) {
		return "; it looks like YAML, which phxworker run executes"
	}
	return ""
}

// doubtfulPlan is a plan as far as it is looked at.
type doubtfulPlan struct {
	StartingNodeID loose `json:"starting_node_id"`
	Triggers       []struct {
		ID loose `json:"id"`
	} `json:"triggers"`
	Jobs  []doubtfulJob  `json:"jobs"`
	Edges []doubtfulEdge `json:"edges"`
}

// loose is a text. What is of another type is none: a worker says so, and the rest of the plan can be looked at.
type loose string

// UnmarshalJSON returns no error.
func (l *loose) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*l = loose(text)
	}
	return nil
}

type doubtfulJob struct {
	ID      loose `json:"id"`
	Name    loose `json:"name"`
	Adaptor loose `json:"adaptor"`
	Body    loose `json:"body"`

	CredentialID loose `json:"credential_id"`
	Credential   loose `json:"credential"` // empty for one that is there itself

	raw json.RawMessage
}

// UnmarshalJSON keeps the text of the job.
func (j *doubtfulJob) UnmarshalJSON(data []byte) error {
	type plain doubtfulJob
	j.raw = data
	return json.Unmarshal(data, (*plain)(j))
}

type doubtfulEdge struct {
	SourceJobID     loose `json:"source_job_id"`
	SourceTriggerID loose `json:"source_trigger_id"`
	TargetJobID     loose `json:"target_job_id"`
	Condition       loose `json:"condition"`
	raw             json.RawMessage
}

// UnmarshalJSON keeps the text of the edge.
func (e *doubtfulEdge) UnmarshalJSON(data []byte) error {
	type plain doubtfulEdge
	e.raw = data
	return json.Unmarshal(data, (*plain)(e))
}

// source returns where the edge leaves.
func (e *doubtfulEdge) source() string { return string(cmp.Or(e.SourceJobID, e.SourceTriggerID)) }

// The fields that Lightning sends, and those that this server takes out of a plan that is posted, or that
// its examples have.
var (
	planFieldNames = []string{
		"id", "name", "project_id", "dataclip_id", "starting_node_id", "triggers", "jobs", "edges", "options", "globals", "meta",
		"dataclip", "credentials", "key", "about", "queue", "priority", "expect",
	}
	jobFieldNames  = []string{"id", "name", "body", "adaptor", "credential", "credential_id", "state"}
	edgeFieldNames = []string{
		"id", "name", "source_job_id", "source_trigger_id", "target_job_id", "condition", "enabled", "error_path", "errors",
	}
	metaFieldNames   = []string{"work_order_id", "workflow_id", "project_id"}
	optionFieldNames = []string{
		"run_timeout_ms", "run_memory_limit_mb", "state_limit_mb", "payload_limit_mb", "log_payload_limit_mb",
		"output_dataclips", "job_log_level", "sanitize", "start", "deadline_ms",
	}
)

// meant is what people who know OpenFn's other formats write in the place of a field.
var meant = map[string]string{
	"expression": "body", "code": "body", "adaptors": "adaptor", "adapter": "adaptor", "adapters": "adaptor", "configuration": "credential", "next": "edges",
	"steps": "jobs", "workflow": "jobs", "start": "starting_node_id", "input": "dataclip",
	"source": "source_job_id", "from": "source_job_id", "target": "target_job_id", "to": "target_job_id",
	"condition_type": "condition", "condition_expression": "condition", "label": "name", "disabled": "enabled",
	"timeout": "run_timeout_ms", "run_timeout": "run_timeout_ms", "memory": "run_memory_limit_mb",
}

// knownConditions are words that are good ones: those that have a name, and expressions of one word.
var knownConditions = []string{"always", "on_job_success", "on_job_failure", "true", "false", "state"}

// conditions are what they write for one.
var conditions = map[string]string{
	"on_success": "on_job_success", "success": "on_job_success", "on_job_succeeded": "on_job_success",
	"on_failure": "on_job_failure", "on_fail": "on_job_failure", "on_error": "on_job_failure", "failure": "on_job_failure", "on_job_fail": "on_job_failure", "on_job_error": "on_job_failure",
	"on_job_sucess": "on_job_success", "on_job_succes": "on_job_success", "on_job_failed": "on_job_failure", "on_job_fails": "on_job_failure", //nolint:misspell // what people type
	"on_always": "always", "js_expression": "the expression itself",
}

// calls matches code that calls a function where operations are called, at the beginning of the code or of a line;
// word, what is a condition's name and no expression.
var (
	calls = regexp.MustCompile(`(?:\A\s*|(?m:^))([a-zA-Z_]\w*)[ \t]*\(`)
	word  = regexp.MustCompile(`^[a-zA-Z_]+$`)
)

// comments matches those of a job, which are no code; declared, the names that it has of its own.
var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|(?m:^)[ \t]*//[^\n]*`)
	declared = regexp.MustCompile(`\b(?:function\*?|class|const|let|var)\s+([a-zA-Z_]\w*)`)
)

// notOperations are what code calls, or seems to, that is no adaptor's.
var notOperations = []string{
	"if", "for", "while", "switch", "catch", "with", "return", "function", "await", "typeof", "import", "super",
	"setTimeout", "setInterval", "clearTimeout", "clearInterval", "String", "Number", "Boolean", "parseInt", "parseFloat",
	"Promise", "Error", "Date", "Array", "Object", "fetch", "require", "eval",
}

// operation returns the first function of an adaptor's that the code calls, empty if there is none.
func operation(code string) string {
	code = comments.ReplaceAllString(code, "")
	own := slices.Clone(notOperations)
	for _, name := range declared.FindAllStringSubmatch(code, -1) {
		own = append(own, name[1])
	}
	for _, call := range calls.FindAllStringSubmatch(code, -1) {
		if !slices.Contains(own, call[1]) {
			return call[1]
		}
	}
	return ""
}

type doubts struct {
	plan  *doubtfulPlan
	names map[string]string // of triggers and jobs, by id
	found []string

	hasCredential func(id string) bool
}

func (d *doubts) addf(format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

// fields tells of the members of an object that nothing reads.
func (d *doubts) fields(of string, object json.RawMessage, known []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		instead := meant[name]
		if lower := strings.ToLower(name); slices.Contains(known, lower) {
			instead = lower
		}
		switch {
		case slices.Contains(known, name):
		case slices.Contains(known, instead):
			d.addf("%s has a field %q, which nothing reads: did you mean %q?", of, name, instead)
		case instead == "edges":
			d.addf("%s has a field %q, which nothing reads: what comes next is told by the plan's edges", of, name)
		default:
			d.addf("%s has a field %q, which nothing reads", of, name)
		}
	}
}

// parts tells of those of the plan that are objects.
func (d *doubts) parts(plan json.RawMessage) {
	var p struct{ Options, Meta json.RawMessage }
	if json.Unmarshal(plan, &p) == nil {
		d.fields("options", p.Options, optionFieldNames)
		d.fields("meta", p.Meta, metaFieldNames)
	}
}

func (d *doubts) job(j *doubtfulJob) {
	of := fmt.Sprintf("the job %q", j.ID)
	if j.Name != "" {
		of = fmt.Sprintf("the job %q (%s)", j.Name, j.ID)
	}
	d.names[string(j.ID)] = of
	d.fields(of, j.raw, jobFieldNames)
	if name := operation(string(j.Body)); j.Adaptor == "" && name != "" {
		d.addf(`%s has no adaptor, and calls %s(): operations are an adaptor's, such as "@openfn/language-common"`, of, name)
	}
	if id := string(cmp.Or(j.CredentialID, j.Credential)); id != "" && !d.hasCredential(id) {
		d.addf("%s names the credential %q, which neither the plan nor the server has", of, id)
	}
}

func (d *doubts) edge(i int) {
	e := &d.plan.Edges[i]
	from, to := e.source(), string(e.TargetJobID)
	of := fmt.Sprintf("edges[%d], from %s to %s,", i, d.name(from), d.name(to))
	d.fields(of, e.raw, edgeFieldNames)
	switch {
	case from == "":
		d.addf("%s leaves no node: it needs a source_job_id or a source_trigger_id", of)
	case d.names[from] == "":
		d.addf("%s leaves a node that the plan does not have, and is never followed", of)
	}
	switch {
	case to == "":
		d.addf("%s leads nowhere: it needs a target_job_id", of)
	case d.names[to] == "":
		d.addf("%s leads to a job that the plan does not have", of)
	}
	condition := strings.TrimSpace(string(e.Condition))
	lower := strings.ToLower(condition)
	switch instead := conditions[lower]; {
	case instead != "":
		d.addf("%s has the condition %q: did you mean %s?", of, condition, instead)
	case slices.Contains(knownConditions, condition):
	case slices.Contains(knownConditions, lower):
		d.addf("%s has the condition %q: did you mean %s?", of, condition, lower)
	case word.MatchString(condition):
		d.addf("%s has the condition %q, an expression in JavaScript that reads a variable of that name", of, condition)
	}
}

// start tells of a start that is not there, and of what is never reached from it. An edge that is switched off
// counts: whoever did so knows.
func (d *doubts) start() {
	first := string(d.plan.StartingNodeID)
	switch {
	case first != "" && d.names[first] == "":
		d.addf("the plan starts with %q, which it does not have", first)
		return
	case first != "":
	case len(d.plan.Triggers) > 0:
		first = string(d.plan.Triggers[0].ID)
	case len(d.plan.Jobs) > 0:
		first = string(d.plan.Jobs[0].ID)
	}
	next, led := make(map[string][]string), make(map[string]bool)
	for i := range d.plan.Edges {
		e := &d.plan.Edges[i]
		next[e.source()] = append(next[e.source()], string(e.TargetJobID))
		led[string(e.TargetJobID)] = true
	}
	if led[first] { // a start in the middle leaves out on purpose what is before and beside it
		for i := range d.plan.Edges {
			e := &d.plan.Edges[i]
			next[string(e.TargetJobID)] = append(next[string(e.TargetJobID)], e.source())
		}
	}
	reached, waiting := map[string]bool{first: true}, []string{first}
	for len(waiting) > 0 {
		id := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for _, to := range next[id] {
			if !reached[to] {
				reached[to] = true
				waiting = append(waiting, to)
			}
		}
	}
	for i := range d.plan.Jobs {
		if id := string(d.plan.Jobs[i].ID); !reached[id] {
			d.addf("%s is never executed: no edge leads to it from %s, where the run starts", d.names[id], d.name(first))
		}
	}
}

// name returns what people know a node by.
func (d *doubts) name(id string) string {
	switch {
	case id == "":
		return "nothing"
	case d.names[id] != "":
		return d.names[id]
	}
	return fmt.Sprintf("%q", id)
}
