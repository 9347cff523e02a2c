package recorded

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// normalise takes out what may differ: versions, the wording of the two
// JavaScript engines, and the line and column of errors.
func normalise(out *outcomeOfRun) {
	for i := range out.Events {
		payload := out.Events[i].Payload
		delete(payload, "run_id")
		delete(payload, "dataclip_size_mb") // newer than the recordings
		if versions, ok := payload["versions"].(map[string]any); ok {
			maps.DeleteFunc(versions, func(name string, version any) bool {
				_, text := version.(string)
				return text
			})
		}
		if text, ok := payload["output_dataclip"].(string); ok {
			var state any
			if json.Unmarshal([]byte(text), &state) == nil {
				payload["output_dataclip"] = state
			}
		}
		payload = normaliseValue(payload).(map[string]any)
		out.Events[i].Payload = payload
	}
	if out.ErrorMessage != nil {
		text := wording(*out.ErrorMessage)
		out.ErrorMessage = &text
	}
	if out.FinalState != nil {
		var state any
		_ = json.Unmarshal(out.FinalState, &state)
		out.FinalState, _ = json.Marshal(normaliseValue(state))
	}
}

func normaliseValue(value any) any {
	switch v := value.(type) {
	case string:
		return wording(v)
	case []any:
		for i := range v {
			v[i] = normaliseValue(v[i])
		}
	case map[string]any:
		for key, item := range v {
			if placeholder := varying[key]; placeholder != "" {
				v[key] = placeholder
				continue
			}
			v[key] = normaliseValue(item)
		}
	}
	return value
}

// varying are members of errors that are another each time.
var varying = map[string]string{"pos": "<pos>", "localPort": "<port>", "remotePort": "<port>", "duration": "<ms>"}

// sameWordings are how V8 and QuickJS say the same, where the engine leaves it to them,
// and where it says clearer what OpenFn's leaves to V8.
var sameWordings = []struct {
	name, pattern string
}{
	{"nothing to start with", `Cannot read properties of undefined \(reading 'id'\)|The plan has no job to start with`},
	{"not a function", `[\w.()]+ is not a function|not a function|each\(\) needs an array to go through, not \w+`},
	{"not iterable", `\w+ is not iterable`},
	{"bad JSON", `Expected property name or '}' in JSON at position.*|expecting property name`},
	{"bad pattern", `Invalid regular expression: .*|expecting '\)'`},
	{"bad URI", `URI malformed|expecting hex digit`},
	{"syntax", `Unexpected token ';'|unexpected token in expression: ';'`},
	{"adaptor", `(?s)(Error installing [^:]*): .*`},
	{"token", `Line \d+: Unexpected token ILLEGAL|Unexpected token \(\d+:\d+\)`},
	{"where", ` ?\(\d+:\d+\)`},
	{"dur", `in (\d+ms|[\d.]+s|<dur>)$`},
	{"boundary", `formdata-undici-(\d+|<n>)`},
}

var wordingPatterns = func() (patterns []*regexp.Regexp) {
	for _, w := range sameWordings {
		patterns = append(patterns, regexp.MustCompile(w.pattern))
	}
	return patterns
}()

func wording(text string) string {
	for i, pattern := range wordingPatterns {
		text = pattern.ReplaceAllString(text, "<"+sameWordings[i].name+">")
	}
	return text
}

// forgetLatest takes out the versions that "latest" stood for.
func forgetLatest(want, got *outcomeOfRun) {
	for i := range min(len(want.Events), len(got.Events)) {
		recorded, _ := want.Events[i].Payload["versions"].(map[string]any)
		versions, _ := got.Events[i].Payload["versions"].(map[string]any)
		for name, list := range recorded {
			if _, there := versions[name]; there && reflect.DeepEqual(list, []any{"<version>"}) {
				versions[name] = list
			}
		}
	}
}

// dropLost drops the log lines of a killed run that the recording lacks:
// OpenFn's engine loses those written just before a busy loop.
func dropLost(want, got *outcomeOfRun) {
	isLog := func(e eventOfRun) bool { return e.Event == "run:log" }
	if !slices.ContainsFunc(want.Events, isLog) {
		got.Events = slices.DeleteFunc(got.Events, isLog)
	}
}

// compare returns the first difference, "" if there is none.
func compare(want, got outcomeOfRun) string {
	for i := range max(len(want.Events), len(got.Events)) {
		var a, b any = "(none)", "(none)"
		if i < len(want.Events) {
			a = want.Events[i]
		}
		if i < len(got.Events) {
			b = got.Events[i]
		}
		if !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("recorded %s\ngot      %s", asJSON(a), asJSON(b))
		}
	}
	want.Events, got.Events = nil, nil
	if a, b := asJSON(want), asJSON(got); a != b {
		return fmt.Sprintf("recorded %s\ngot      %s", a, b)
	}
	return ""
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
