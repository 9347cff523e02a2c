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
	"unicode/utf8"
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

const blank = "can't be blank"

// checked returns the rule with its defaults, or an [*InvalidError].
func (r Rule) checked() (Rule, error) {
	if r.Action == "" {
		return r, &InvalidError{Field: "action", Reason: blank}
	}
	s, ok := specs[r.Action]
	if !ok {
		return r, &InvalidError{Field: "action", Reason: fmt.Sprintf("must be one of %v", Actions())}
	}
	for _, check := range []func(*Rule, spec) *InvalidError{checkMatch, checkOdds, checkTarget, checkWhen, checkDelay, checkCode, checkResponse} {
		if err := check(&r, s); err != nil {
			return r, err
		}
	}
	return r, nil
}

func checkMatch(r *Rule, s spec) *InvalidError {
	switch {
	case r.Event != "" && !slices.Contains(events, r.Event):
		return &InvalidError{Field: "event", Reason: "must be one of " + strings.Join(events, ", ")}
	case !s.can(r.Event), r.Action == Expire && r.Event == "claim":
		return &InvalidError{Field: "event", Reason: fmt.Sprintf("can't be %s for the action %s", r.Event, r.Action)}
	case r.Run != "" && r.Topic != "":
		return &InvalidError{Field: "topic", Reason: "can't be set together with run"}
	case strings.Contains(strings.TrimSuffix(r.Topic, "*"), "*"):
		return &InvalidError{Field: "topic", Reason: "can have a * at its end only"}
	case r.Over < 0:
		return &InvalidError{Field: "over", Reason: "must not be negative"}
	}
	return nil
}

func checkOdds(r *Rule, _ spec) *InvalidError {
	switch {
	case !(r.Probability >= 0 && r.Probability <= 1): // NaN as well
		return &InvalidError{Field: "probability", Reason: "must be between 0 and 1"}
	case r.Skip < 0:
		return &InvalidError{Field: "skip", Reason: "must not be negative"}
	}
	if r.Count == 0 {
		r.Count = 1
		if r.Probability > 0 {
			r.Count = -1
		}
	}
	return nil
}

// checkTarget checks the rules whose event has no message to name a target.
func checkTarget(r *Rule, _ spec) *InvalidError {
	if r.Event == Now && r.Action == Expire {
		if r.Run == "" {
			return &InvalidError{Field: "run", Reason: blank}
		}
		return nil
	}
	if r.Event != Now && r.Event != Connect && r.Event != Heartbeat {
		return nil
	}
	for field, set := range map[string]bool{"topic": r.Topic != "", "run": r.Run != ""} {
		if set {
			return &InvalidError{Field: field, Reason: "can't be set for the event " + r.Event}
		}
	}
	if r.Event == Now && (r.Skip > 0 || r.Count > 1 || r.Probability > 0 || r.Over > 0) {
		return &InvalidError{Field: "event", Reason: "now happens once: skip, count, probability and over can't be set"}
	}
	if r.Event == Now && r.Action == Restart && r.Worker != "" {
		return &InvalidError{Field: "worker", Reason: "can't be set for a restart: it is for all"}
	}
	return nil
}

func checkWhen(r *Rule, s spec) *InvalidError {
	if r.When == "" {
		r.When = s.when[0]
	}
	if !slices.Contains(s.when, r.When) {
		return &InvalidError{Field: "when", Reason: fmt.Sprintf("must be one of %v for the action %s", s.when, r.Action)}
	}
	return nil
}

func checkDelay(r *Rule, s spec) *InvalidError {
	switch {
	case r.Delay < 0:
		return &InvalidError{Field: "delay", Reason: "must not be negative"}
	case r.Delay > 0 && s.delay == never:
		return &InvalidError{Field: "delay", Reason: notFor(r.Action)}
	case r.Delay == 0 && s.delay == required:
		return &InvalidError{Field: "delay", Reason: blank}
	}
	if r.Action == Reorder && r.Delay == 0 {
		r.Delay = time.Second
	}
	return nil
}

func checkCode(r *Rule, s spec) *InvalidError {
	takes := s.codes
	if takes == httpCodes && r.Event != Connect {
		takes = noCodes
	}
	if r.Code == 0 {
		r.Code = map[codes]int{closeCodes: 1000, endCodes: 1012, httpCodes: 503}[takes]
		return nil
	}
	if takes == noCodes {
		return &InvalidError{Field: "code", Reason: notFor(r.Action)}
	}
	if !takes.take(r.Code) {
		return &InvalidError{Field: "code", Reason: map[codes]string{
			closeCodes: "must be a close code: 1000 to 4999, except 1005, 1006 and 1015, which cannot be sent (use the action drop for 1006)",
			endCodes:   "must be a close code: 1000 to 4999, except 1005 and 1015; 1006 closes without a close frame",
			httpCodes:  "must be an HTTP status from 400 to 599",
		}[takes]}
	}
	return nil
}

func checkResponse(r *Rule, s spec) *InvalidError {
	given := len(r.Response) > 0
	switch {
	case given && (s.response == never || r.Event == Connect):
		return &InvalidError{Field: "response", Reason: notFor(r.Action)}
	case given && (!json.Valid(r.Response) || !utf8.Valid(r.Response)):
		return &InvalidError{Field: "response", Reason: "must be JSON"}
	case !given && (s.response == required || r.Action == Refuse) && r.Event != Connect:
		return &InvalidError{Field: "response", Reason: blank}
	}
	return nil
}

func notFor(a Action) string { return fmt.Sprintf("can't be set for the action %s", a) }
