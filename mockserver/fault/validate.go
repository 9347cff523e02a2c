package fault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

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
	case !given && r.Action == Refuse && r.Event != Connect:
		return &InvalidError{Field: "response", Reason: blank}
	}
	return nil
}

func notFor(a Action) string { return fmt.Sprintf("can't be set for the action %s", a) }
