package lightning

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver/changeset"
)

const blank = "can't be blank"

// maxID keeps a run's topic below the 255 bytes that a binary frame can carry.
const maxID = 200

// parsePlan checks a plan and makes the run of it. Only what this server itself
// needs, or what no worker could make sense of, is checked: plans with
// broken edges or code are good, for how a worker copes with them is worth a test.
func parsePlan(r Run, defaultTimeout time.Duration) (*Entry, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Plan, &fields) != nil || fields == nil {
		return nil, &InvalidError{Field: "plan", Reason: "must be a JSON object"}
	}
	if !utf8.Valid(r.Plan) {
		return nil, &InvalidError{Field: "plan", Reason: "must be UTF-8"}
	}
	p := planFields{raw: fields}
	out := &Entry{
		plan: r.Plan, queue: r.Queue, priority: r.Priority, timeout: defaultTimeout,
		state: Available, jobs: make(map[string]bool),
		dataclip: r.Dataclip, credentials: r.Credentials, key: r.Key,
	}
	added := false // whether a field was
	var err error
	if _, found := fields["id"]; !found {
		fields["id"], _ = json.Marshal(uuid.NewString())
		added = true
	}
	if out.id, err = p.str("id", true); err != nil {
		return nil, err
	}
	if len(out.id) > maxID {
		return nil, &InvalidError{Field: "id", Reason: "must be at most 200 bytes long"}
	}
	if out.input, err = p.str("dataclip_id", false); err != nil {
		return nil, err
	}
	_ = json.Unmarshal(fields["name"], &out.name) // of another type, it is none
	if _, err = p.str("starting_node_id", false); err != nil {
		return nil, err
	}
	for _, list := range []string{"jobs", "edges", "triggers"} {
		if err := p.list(list, out.jobs); err != nil {
			return nil, err
		}
	}
	if err := p.options(out); err != nil {
		return nil, err
	}
	if r.Dataclip != nil && out.input == "" {
		out.input = uuid.NewString()
		fields["dataclip_id"], _ = json.Marshal(out.input)
		added = true
	}
	if added {
		if out.plan, err = json.Marshal(fields); err != nil {
			return nil, err
		}
	}
	if out.queue == "" {
		out.queue = "default"
	}
	return out, nil
}

// planFields are the fields of an object in the plan, and where it is.
type planFields struct {
	raw  map[string]json.RawMessage
	path string // such as "jobs[0]."
}

func (p planFields) absent(name string) bool {
	raw, ok := p.raw[name]
	return !ok || string(raw) == "null"
}

func (p planFields) str(name string, required bool) (string, error) {
	if p.absent(name) {
		if required {
			return "", &InvalidError{Field: p.path + name, Reason: blank}
		}
		return "", nil
	}
	var s string
	if json.Unmarshal(p.raw[name], &s) != nil {
		return "", &InvalidError{Field: p.path + name, Reason: "must be a string"}
	}
	if s == "" && required {
		return "", &InvalidError{Field: p.path + name, Reason: blank}
	}
	return s, nil
}

// list checks one of the plan's lists, and collects the ids of the jobs.
func (p planFields) list(name string, jobs map[string]bool) error {
	if p.absent(name) {
		if name == "jobs" {
			return &InvalidError{Field: name, Reason: blank}
		}
		return nil
	}
	var items []map[string]json.RawMessage
	if json.Unmarshal(p.raw[name], &items) != nil {
		return &InvalidError{Field: name, Reason: "must be a list of objects"}
	}
	for i, raw := range items {
		item := planFields{raw: raw, path: fmt.Sprintf("%s[%d].", name, i)}
		id, err := item.str("id", name == "jobs")
		if err != nil {
			return err
		}
		if name != "jobs" {
			continue
		}
		if jobs[id] {
			return &InvalidError{Field: item.path + "id", Reason: changeset.Taken}
		}
		jobs[id] = true
	}
	return nil
}

func (p planFields) options(out *Entry) error {
	if p.absent("options") {
		return nil
	}
	var o struct {
		Timeout *float64 `json:"run_timeout_ms"`
		Outputs *bool    `json:"output_dataclips"`
	}
	if err := json.Unmarshal(p.raw["options"], &o); err != nil {
		field := "options"
		var bad *json.UnmarshalTypeError
		if errors.As(err, &bad) && bad.Field != "" {
			field += "." + bad.Field
		}
		return &InvalidError{Field: field, Reason: changeset.Invalid}
	}
	if o.Timeout != nil {
		if *o.Timeout < 1 || *o.Timeout > maxTimeout {
			return &InvalidError{Field: "options.run_timeout_ms", Reason: "must be at least 1 and at most a year"}
		}
		out.timeout = time.Duration(*o.Timeout) * time.Millisecond
	}
	out.erase = o.Outputs != nil && !*o.Outputs
	return nil
}

const maxTimeout = 365 * 24 * 3600 * 1000 // ms
