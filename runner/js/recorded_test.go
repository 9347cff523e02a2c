package js

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

// recordedRun is one run of OpenFn's worker and engine, as it was recorded:
// what was asked for, and the events that the server received.
type recordedRun struct {
	Name        string
	Plan        json.RawMessage
	Dataclips   map[string]json.RawMessage
	Credentials map[string]json.RawMessage
	WorkerFlags []string `json:"worker_flags"`
	Expect      outcomeOfRun
}

// outcomeOfRun is what is compared of a run.
type outcomeOfRun struct {
	Events          []eventOfRun    `json:"events"`
	Reason          string          `json:"reason"`
	ErrorType       *string         `json:"error_type"`
	ErrorMessage    *string         `json:"error_message"`
	FinalState      json.RawMessage `json:"final_state"`
	FinalDataclipID *string         `json:"final_dataclip_id"`
}

type eventOfRun struct {
	Event   string         `json:"event"`
	Payload map[string]any `json:"payload"`
}

// minimum is the share of the recorded runs that must come to the same.
const minimum = 0.90

// TestRecordedRuns executes the recorded runs with the real runner against the
// mock server, and compares all but the engines' own log lines.
func TestRecordedRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	w := newWire(t)
	same, executed, met := 0, 0, make(map[string]bool)
	for _, file := range files {
		recorded := readRecorded(t, file)
		if raceEnabled && (recorded.Name == "err-memory" || recorded.Name == "state-over-engine-limit") {
			continue // takes minutes under the race detector
		}
		executed++
		got := replay(w, recorded)
		want := recorded.Expect
		normalise(&want)
		normalise(&got)
		if want.Reason == "kill" {
			dropLost(&want, &got)
		}
		difference := compare(want, got)
		reason, documented := differences[recorded.Name]
		met[recorded.Name] = true
		verdict := "same"
		switch {
		case difference == "" && !documented:
			same++
		case difference == "":
			verdict = "SAME, but documented to differ"
			t.Errorf("%s no longer differs; take it from the list: %s", recorded.Name, reason)
		case documented:
			verdict = "differs as documented: " + reason
		default:
			verdict = "DIFFERS"
			t.Errorf("%s differs:\n%s", recorded.Name, difference)
		}
		t.Logf("%-40s %s", recorded.Name, verdict)
	}
	for name := range differences {
		require.True(t, met[name], "%s is documented to differ, but there is no such recording", name)
	}
	t.Logf("%d of %d recorded runs come to the same", same, executed)
	require.GreaterOrEqual(t, float64(same), minimum*float64(executed))
}

func readRecorded(t *testing.T, file string) recordedRun {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r recordedRun
	require.NoError(t, json.Unmarshal(data, &r))
	return r
}

// replay executes what a recording asked for.
func replay(w *wire, recorded recordedRun) outcomeOfRun {
	for id, body := range recorded.Dataclips {
		w.server.AddDataclip(id, body)
	}
	refuseUnknownDataclip(w, recorded)
	run := mockserver.Run{Plan: recorded.Plan, Credentials: recorded.Credentials}
	record := w.run(w.t.Context(), limitsOf(recorded.WorkerFlags), run)

	out := outcomeOfRun{Reason: record.Reason}
	ids := newPlaceholders(recorded.Dataclips)
	for _, e := range record.Events {
		if e.Event != "run:log" && !strings.HasPrefix(e.Event, "step:") && e.Event != "run:start" && e.Event != "run:complete" {
			continue
		}
		event := eventOfRun{Event: e.Event}
		decoder := json.NewDecoder(bytes.NewReader(e.Payload))
		if err := decoder.Decode(&event.Payload); err != nil {
			w.t.Fatal(err)
		}
		if source := event.Payload["source"]; e.Event == "run:log" && source != "JOB" && source != "ADA" {
			continue
		}
		ids.replace(event.Payload)
		out.Events = append(out.Events, event)
	}
	last := out.Events[len(out.Events)-1].Payload
	if text, ok := last["error_type"].(string); ok {
		out.ErrorType = &text
	}
	if text, ok := last["error_message"].(string); ok {
		out.ErrorMessage = &text
	}
	if id, ok := last["final_dataclip_id"].(string); ok {
		out.FinalDataclipID = &id
	}
	if state, ok := last["final_state"]; ok {
		out.FinalState, _ = json.Marshal(state)
	}
	return out
}

// refuseUnknownDataclip has the server answer as the one of the recordings did
// when it was asked for a dataclip that it did not have.
func refuseUnknownDataclip(w *wire, recorded recordedRun) {
	var plan struct {
		ID         string
		DataclipID string `json:"dataclip_id"`
	}
	if err := json.Unmarshal(recorded.Plan, &plan); err != nil {
		w.t.Fatal(err)
	}
	if _, known := recorded.Dataclips[plan.DataclipID]; known || plan.DataclipID == "" {
		return
	}
	_, err := w.server.AddFault(fault.Rule{
		Event: "fetch:dataclip", Run: plan.ID, Action: fault.Refuse, Response: json.RawMessage(`"not_found"`),
	})
	require.NoError(w.t, err)
}

func limitsOf(flags []string) (limits runner.Limits) {
	for i := 0; i+1 < len(flags); i += 2 {
		n, _ := strconv.ParseFloat(flags[i+1], 64)
		switch flags[i] {
		case "--max-run-duration-seconds":
			limits.RunTimeout = time.Duration(n * float64(time.Second))
		case "--payload-memory":
			limits.PayloadMB = n
		case "--log-payload-memory":
			limits.LogPayloadMB = n
		case "--run-memory":
			limits.MemoryMB = n
		}
	}
	return limits
}

// placeholders number the ids of steps and dataclips in the order in which
// they appear, as the recordings have them.
type placeholders struct {
	kept         map[string]json.RawMessage
	steps, clips map[string]string
}

func newPlaceholders(kept map[string]json.RawMessage) *placeholders {
	return &placeholders{kept: kept, steps: make(map[string]string), clips: make(map[string]string)}
}

func (p *placeholders) replace(payload map[string]any) {
	delete(payload, "run_id")
	number := func(key, kind string, seen map[string]string) {
		id, ok := payload[key].(string)
		if _, keep := p.kept[id]; !ok || keep {
			return
		}
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("<%s:%d>", kind, len(seen)+1)
		}
		payload[key] = seen[id]
	}
	number("step_id", "step", p.steps)
	for _, key := range []string{"input_dataclip_id", "output_dataclip_id", "final_dataclip_id"} {
		number(key, "clip", p.clips)
	}
	for key, placeholder := range map[string]any{
		"timestamp": "<ts>", "duration": "<ms>", "thread_id": "<thread>",
		"mem": map[string]any{"job": "<bytes>", "system": "<bytes>"},
	} {
		if _, ok := payload[key]; ok {
			payload[key] = placeholder
		}
	}
}

// normalise takes out what may differ: versions, the wording of the two
// JavaScript engines, and the line and column of errors.
func normalise(out *outcomeOfRun) {
	for i := range out.Events {
		payload := out.Events[i].Payload
		if versions, ok := payload["versions"].(map[string]any); ok {
			maps.DeleteFunc(versions, func(name string, version any) bool {
				_, text := version.(string)
				return text
			})
			for name, list := range versions {
				if reflect.DeepEqual(list, []any{"<version>"}) {
					versions[name] = []any{commonVersion}
				}
			}
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
			if key == "pos" {
				v[key] = "<pos>"
				continue
			}
			v[key] = normaliseValue(item)
		}
	}
	return value
}

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
