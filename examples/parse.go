package examples

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/phxworker/phxworker/runner"
)

// FileError is a file that is no example.
type FileError struct {
	File    string
	Field   string // empty for the file as a whole
	Problem string
}

func (e *FileError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("example %s %s", e.File, e.Problem)
	}
	return fmt.Sprintf("example %s: %q %s", e.File, e.Field, e.Problem)
}

// parser takes the fields of a file apart. It keeps the first error.
type parser struct {
	file   string
	fields map[string]json.RawMessage
	err    error
}

func (p *parser) fault(field, problem string) error {
	return &FileError{File: p.file, Field: field, Problem: problem}
}

// take moves a field out of those that are left.
func (p *parser) take(field, shape string, into any) {
	raw, ok := p.fields[field]
	delete(p.fields, field)
	if ok && json.Unmarshal(raw, into) != nil && p.err == nil {
		p.err = p.fault(field, "must be "+shape)
	}
}

func (p *parser) read(e *Example) {
	e.Queue = "default"
	p.take("about", "a text", &e.About)
	p.take("queue", "the name of a queue", &e.Queue)
	p.take("expect", `an object of "reason" and "error_type"`, &e.Expect)
	p.take("dataclip", "JSON", &e.Dataclip)
	p.take("credentials", "an object of bodies by id", &e.Credentials)
	if p.err == nil {
		p.err = p.check(e)
	}
	if p.err == nil {
		e.Plan, p.err = p.plan(e.Name)
	}
}

func (p *parser) check(e *Example) error {
	reason := runner.Reason(e.Expect.Reason)
	switch {
	case e.About == "":
		return p.fault("about", "is missing: say what there is to see")
	case e.Queue == "":
		return p.fault("queue", "is empty: name a queue, or leave the field out")
	case !slices.Contains([]runner.Reason{runner.Success, runner.Fail, runner.Crash, runner.Cancel, runner.Kill, runner.Exception}, reason):
		return p.fault("expect.reason", "must be success, fail, crash, cancel, kill or exception")
	case (reason == runner.Success) != (e.Expect.ErrorType == ""):
		return p.fault("expect.error_type", "must be there unless the reason is success")
	}
	return nil
}

// planFields are all that a plan can have. Others are spelling mistakes.
var planFields = []string{"project_id", "name", "triggers", "jobs", "edges", "starting_node_id", "dataclip_id", "options", "globals"}

func (p *parser) plan(id string) (json.RawMessage, error) {
	if _, ok := p.fields["id"]; ok {
		return nil, p.fault("id", "must not be there: the run is named after the file")
	}
	for _, field := range slices.Sorted(maps.Keys(p.fields)) {
		if !slices.Contains(planFields, field) {
			return nil, p.fault(field, "is no field of an example or of a plan")
		}
	}
	if _, ok := p.fields["jobs"]; !ok {
		return nil, p.fault("jobs", "is missing: a plan needs at least one job")
	}
	p.fields["id"], _ = json.Marshal(id) // a string always encodes
	plan, err := json.Marshal(p.fields)
	if err != nil {
		return nil, p.fault("", "is not a plan: "+err.Error())
	}
	if _, err := runner.ParsePlan(plan); err != nil {
		return nil, p.fault("", "is not a plan: "+err.Error())
	}
	return plan, nil
}
