package lightning

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Doubts returns what in a plan can hardly mean what it says, a sentence each, in the order of the plan;
// nil if there is nothing. Such a plan is queued all the same: how a worker copes with it is worth a test.
func Doubts(plan json.RawMessage) []string {
	var p doubtfulPlan
	if json.Unmarshal(plan, &p) != nil {
		return nil // parsePlan says what is wrong
	}
	d := &doubts{plan: &p, names: make(map[string]string)}
	d.fields("the plan", plan, planFieldNames)
	d.options(plan)
	for i := range p.Triggers {
		d.names[p.Triggers[i].ID] = fmt.Sprintf("the trigger %q", p.Triggers[i].ID)
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

// doubtfulPlan is a plan as far as it is looked at. Fields of a wrong type make the whole unreadable.
type doubtfulPlan struct {
	StartingNodeID *string `json:"starting_node_id"`
	Triggers       []struct {
		ID string `json:"id"`
	} `json:"triggers"`
	Jobs  []doubtfulJob  `json:"jobs"`
	Edges []doubtfulEdge `json:"edges"`
}

type doubtfulJob struct {
	ID      string  `json:"id"`
	Name    *string `json:"name"`
	Adaptor *string `json:"adaptor"`
	Body    *string `json:"body"`
	raw     json.RawMessage
}

// UnmarshalJSON keeps the text of the job.
func (j *doubtfulJob) UnmarshalJSON(data []byte) error {
	type plain doubtfulJob
	j.raw = data
	return json.Unmarshal(data, (*plain)(j))
}

type doubtfulEdge struct {
	SourceJobID     *string `json:"source_job_id"`
	SourceTriggerID *string `json:"source_trigger_id"`
	TargetJobID     *string `json:"target_job_id"`
	Condition       *string `json:"condition"`
	Enabled         *bool   `json:"enabled"`
	raw             json.RawMessage
}

// UnmarshalJSON keeps the text of the edge.
func (e *doubtfulEdge) UnmarshalJSON(data []byte) error {
	type plain doubtfulEdge
	e.raw = data
	return json.Unmarshal(data, (*plain)(e))
}

// The fields that Lightning sends, and those that this server takes out of a plan that is posted, or that
// its examples have.
var (
	planFieldNames = []string{
		"id", "name", "project_id", "dataclip_id", "starting_node_id", "triggers", "jobs", "edges", "options", "globals", "meta",
		"dataclip", "credentials", "key", "about", "queue", "expect",
	}
	jobFieldNames  = []string{"id", "name", "body", "adaptor", "credential", "credential_id", "state"}
	edgeFieldNames = []string{
		"id", "name", "source_job_id", "source_trigger_id", "target_job_id", "condition", "enabled", "error_path", "errors",
	}
	optionFieldNames = []string{
		"run_timeout_ms", "run_memory_limit_mb", "state_limit_mb", "payload_limit_mb", "log_payload_limit_mb",
		"output_dataclips", "job_log_level", "sanitize", "start", "deadline_ms",
	}
)

// meant is what people who know OpenFn's other formats write in the place of a field.
var meant = map[string]string{
	"expression": "body", "code": "body", "adaptors": "adaptor", "configuration": "credential", "next": "edges",
	"steps": "jobs", "workflow": "jobs", "start": "starting_node_id", "input": "dataclip",
	"source": "source_job_id", "from": "source_job_id", "target": "target_job_id", "to": "target_job_id",
	"condition_type": "condition", "condition_expression": "condition", "label": "name", "disabled": "enabled",
	"timeout": "run_timeout_ms", "run_timeout": "run_timeout_ms", "memory": "run_memory_limit_mb",
}

// conditions are what they write for one.
var conditions = map[string]string{
	"on_success": "on_job_success", "success": "on_job_success", "on_job_succeeded": "on_job_success",
	"on_failure": "on_job_failure", "on_fail": "on_job_failure", "on_error": "on_job_failure", "failure": "on_job_failure", "on_job_fail": "on_job_failure", "on_job_error": "on_job_failure",
	"on_always": "always", "js_expression": "the expression itself",
}

// calls matches code that calls a function at the beginning of a line, as operations are; word, what is a condition's
// name and no expression.
var (
	calls = regexp.MustCompile(`(?m)^([a-zA-Z_]\w*)\(`)
	word  = regexp.MustCompile(`^[a-zA-Z_]+$`)
)

type doubts struct {
	plan  *doubtfulPlan
	names map[string]string // of triggers and jobs, by id
	found []string
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

func (d *doubts) options(plan json.RawMessage) {
	var p struct{ Options json.RawMessage }
	if json.Unmarshal(plan, &p) == nil && len(p.Options) > 0 {
		d.fields("options", p.Options, optionFieldNames)
	}
}

func (d *doubts) job(j *doubtfulJob) {
	of := fmt.Sprintf("the job %q", j.ID)
	if name := text(j.Name); name != "" {
		of = fmt.Sprintf("the job %q (%s)", name, j.ID)
	}
	d.names[j.ID] = of
	d.fields(of, j.raw, jobFieldNames)
	if call := calls.FindStringSubmatch(text(j.Body)); text(j.Adaptor) == "" && call != nil {
		d.addf(`%s has no adaptor, and calls %s(): operations are an adaptor's, such as "@openfn/language-common"`, of, call[1])
	}
}

func (d *doubts) edge(i int) {
	e := &d.plan.Edges[i]
	from := text(e.SourceJobID)
	if from == "" {
		from = text(e.SourceTriggerID)
	}
	to := text(e.TargetJobID)
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
	condition := strings.TrimSpace(text(e.Condition))
	switch instead := conditions[condition]; {
	case instead != "":
		d.addf("%s has the condition %q: did you mean %s?", of, condition, instead)
	case condition == "always", condition == "on_job_success", condition == "on_job_failure", condition == "true", condition == "false", condition == "state":
	case word.MatchString(condition):
		d.addf("%s has the condition %q, an expression in JavaScript that reads a variable of that name", of, condition)
	}
}

// start tells of a start that is not there, and of what is never reached from it.
func (d *doubts) start() {
	first := text(d.plan.StartingNodeID)
	switch {
	case first != "" && d.names[first] == "":
		d.addf("the plan starts with %q, which it does not have", first)
		return
	case first != "":
	case len(d.plan.Triggers) > 0:
		first = d.plan.Triggers[0].ID
	case len(d.plan.Jobs) > 0:
		first = d.plan.Jobs[0].ID
	}
	next := make(map[string][]string)
	for i := range d.plan.Edges {
		e := &d.plan.Edges[i]
		if e.Enabled == nil || *e.Enabled {
			from := text(e.SourceJobID)
			if from == "" {
				from = text(e.SourceTriggerID)
			}
			next[from] = append(next[from], text(e.TargetJobID))
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
		if id := d.plan.Jobs[i].ID; !reached[id] {
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

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
