package recorded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
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
	Category    string
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
	// Log tells the engines' own lines, which are not compared.
	Log string `json:"log,omitempty"`
}

// readRecorded reads a recording, for servers at these addresses.
func readRecorded(t *testing.T, file string, web *webServer) recordedRun {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data = bytes.ReplaceAll(data, []byte("<server>"), []byte(web.addr))
	data = bytes.ReplaceAll(data, []byte("<closed>"), []byte(web.closed))
	var r recordedRun
	require.NoError(t, json.Unmarshal(data, &r))
	r.Expect.Events = slices.DeleteFunc(r.Expect.Events, func(e eventOfRun) bool { return e.Log == "engine" })
	for i := range r.Expect.Events {
		r.Expect.Events[i].Log = ""
	}
	return r
}

// replay executes what a recording asked for.
func replay(w *runtest.Bench, recorded recordedRun) outcomeOfRun {
	for id, body := range recorded.Dataclips {
		w.Server.AddDataclip(id, body)
	}
	refuseUnknownDataclip(w, recorded)
	run := mockserver.Run{Plan: recorded.Plan, Credentials: recorded.Credentials}
	record := w.Run(w.T.Context(), limitsOf(recorded.WorkerFlags), run)

	out := outcomeOfRun{Reason: record.Reason}
	ids := newPlaceholders(recorded.Dataclips)
	for _, e := range record.Events {
		if e.Event != "run:log" && !strings.HasPrefix(e.Event, "step:") && e.Event != "run:start" && e.Event != "run:complete" {
			continue
		}
		event := eventOfRun{Event: e.Event}
		decoder := json.NewDecoder(bytes.NewReader(e.Payload))
		if err := decoder.Decode(&event.Payload); err != nil {
			w.T.Fatal(err)
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
func refuseUnknownDataclip(w *runtest.Bench, recorded recordedRun) {
	var plan struct {
		ID         string
		DataclipID string `json:"dataclip_id"`
	}
	if err := json.Unmarshal(recorded.Plan, &plan); err != nil {
		w.T.Fatal(err)
	}
	if _, known := recorded.Dataclips[plan.DataclipID]; known || plan.DataclipID == "" {
		return
	}
	_, err := w.Server.AddFault(fault.Rule{
		Event: "fetch:dataclip", Run: plan.ID, Action: fault.Refuse, Response: json.RawMessage(`"not_found"`),
	})
	require.NoError(w.T, err)
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
