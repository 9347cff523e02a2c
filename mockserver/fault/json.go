package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// form is how a rule is written in JSON: a delay is text, such as "1.5s".
type form struct {
	ID          int             `json:"id,omitzero"`
	Event       string          `json:"event,omitzero"`
	Topic       string          `json:"topic,omitzero"`
	Run         string          `json:"run,omitzero"`
	Worker      string          `json:"worker,omitzero"`
	Over        int             `json:"over,omitzero"`
	Skip        int             `json:"skip,omitzero"`
	Count       int             `json:"count,omitzero"`
	Probability float64         `json:"probability,omitzero"`
	Action      Action          `json:"action"`
	When        When            `json:"when,omitzero"`
	Delay       string          `json:"delay,omitzero"`
	Code        int             `json:"code,omitzero"`
	Response    json.RawMessage `json:"response,omitempty"`
}

// fields are the names that a rule can have in JSON; the number is not for
// others to choose.
var fields = []string{
	"event", "topic", "run", "worker", "over", "skip", "count", "probability",
	"action", "when", "delay", "code", "response",
}

func (r Rule) form() form {
	f := form{
		ID: r.ID, Event: r.Event, Topic: r.Topic, Run: r.Run, Worker: r.Worker, Over: r.Over,
		Skip: r.Skip, Count: r.Count, Probability: r.Probability,
		Action: r.Action, When: r.When, Code: r.Code, Response: r.Response,
	}
	if r.Delay != 0 {
		f.Delay = r.Delay.String()
	}
	return f
}

// MarshalJSON writes the rule as [Parse] reads it, and the counts.
func (s Status) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		form
		Seen   int `json:"seen"`
		Struck int `json:"struck"`
	}{s.form(), s.Seen, s.Struck})
}

// MarshalJSON writes a rule as [Parse] reads it, and its number.
func (r Rule) MarshalJSON() ([]byte, error) { return json.Marshal(r.form()) }

// Parse reads a rule from a JSON object, whose keys are the names of the fields
// in lower case, and checks it. The errors are [*InvalidError].
func Parse(data []byte) (Rule, error) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(data, &raw) != nil || raw == nil {
		return Rule{}, &InvalidError{Field: "fault", Reason: "must be a JSON object"}
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !slices.Contains(fields, name) {
			return Rule{}, &InvalidError{Field: "fault", Reason: fmt.Sprintf("has the unknown field %q: the fields are %s", name, strings.Join(fields, ", "))}
		}
	}
	var f form
	if err := json.Unmarshal(data, &f); err != nil {
		if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Rule{}, &InvalidError{Field: bad.Field, Reason: "must be " + typeName(bad.Type.Kind())}
		}
		return Rule{}, &InvalidError{Field: "fault", Reason: err.Error()}
	}
	r := Rule{
		Event: f.Event, Topic: f.Topic, Run: f.Run, Worker: f.Worker, Over: f.Over,
		Skip: f.Skip, Count: f.Count, Probability: f.Probability,
		Action: f.Action, When: f.When, Code: f.Code, Response: bytes.Clone(f.Response),
	}
	if f.Delay != "" {
		var err error
		if r.Delay, err = time.ParseDuration(f.Delay); err != nil {
			return Rule{}, &InvalidError{Field: "delay", Reason: `must be a time such as "500ms" or "15s"`}
		}
	}
	return r.checked()
}

func typeName(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "a string"
	}
}
