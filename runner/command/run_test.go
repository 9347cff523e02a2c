package command

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

func TestARunIsReportedAsTheProcessTellsIt(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job(
		`say {"type":"log","level":"debug","source":"R/T","message":["outside",{"n":12345678901234567890}],"time":1700000000123.5}`,
		`say {"type":"step-start","step":"s1","job":"a"}`,
		`say {"type":"log","step":"s1","level":"warn","source":"JOB","message":["inside"]}`,
		`say {"type":"step-complete","step":"s1","reason":"fail","error_type":"E","error_message":"m","state":{"n":1.50},"leaf":false,"duration":12.7,"memory":{"job":10,"system":20.5},"thread_id":"t"}`,
		`say {"type":"step-start","step":"s2","job":"a","from":"s1"}`,
		`say {"type":"step-complete","step":"s2","reason":"success","state":{"x":"é<&>"},"leaf":true}`,
		`say printed`,
		`say {"type":"end","state":{"done":true}}`,
	)
	requireEnd(t, record, "success", "", "")
	require.JSONEq(t, `{"done":true}`, string(record.FinalState))
	require.Equal(t, []string{`"outside" {"n":12345678901234567890}`}, logLines(t, record, "R/T")[:1])
	require.Equal(t, []string{`"inside"`}, logLines(t, record, "JOB"))
	require.Equal(t, []string{`"printed"`}, logLines(t, record, "OUT"))

	var events []string
	var bodies []map[string]any
	for _, e := range record.Events {
		if strings.HasPrefix(e.Event, "step:") || e.Event == "run:log" || e.Event == "run:start" {
			var body map[string]any
			require.NoError(t, json.Unmarshal(e.Payload, &body))
			events, bodies = append(events, e.Event), append(bodies, body)
		}
	}
	events, bodies = events[5:], bodies[5:] // behind the limits and versions
	require.Equal(t, []string{"run:log", "step:start", "run:log", "step:complete", "step:start", "step:complete"}, events[:6])
	require.Contains(t, logLines(t, record, "VER")[0], "test 1.2")
	require.Contains(t, string(eventsOf(record, "run:start")[0]), `"adaptor":["1.0","2.0"],"engine":"test 1.2"`)
	require.Equal(t, "1700000000123500", bodies[0]["timestamp"])
	require.Equal(t, bodies[1]["step_id"], bodies[2]["step_id"])
	require.Equal(t, `{"n":1.50}`, bodies[3]["output_dataclip"])
	require.InDelta(t, 12, bodies[3]["duration"], 0)
	require.Equal(t, map[string]any{"job": 10.0, "system": 20.0}, bodies[3]["mem"])
	require.Equal(t, []any{"fail", "E", "m", "t"}, []any{bodies[3]["reason"], bodies[3]["error_type"], bodies[3]["error_message"], bodies[3]["thread_id"]})
	require.Equal(t, bodies[3]["output_dataclip_id"], bodies[4]["input_dataclip_id"])
}

func TestTheProcessSaysHowTheRunEnded(t *testing.T) {
	tests := []struct {
		name, end, reason, errorType, message string
	}{
		{name: "worst leaf", end: `{"type":"end"}`, reason: "fail", errorType: "E", message: "m"},
		{name: "success is the worst leaf as well", end: `{"type":"end","reason":"success"}`, reason: "fail", errorType: "E", message: "m"},
		{name: "own reason", end: `{"type":"end","reason":"crash","error_type":"T","error_message":"boom"}`, reason: "crash", errorType: "T", message: "boom"},
	}
	w := newWire(t, "ready", Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.job(
				`say {"type":"step-start","step":"s","job":"a"}`,
				`say {"type":"step-complete","step":"s","reason":"fail","error_type":"E","error_message":"m","leaf":true}`,
				`say `+tt.end,
			)
			requireEnd(t, record, tt.reason, tt.errorType, tt.message)
		})
	}
}

// A state that the engine leaves out for its size is one over the limit, not none.
func TestAStateThatIsLeftOutIsReportedAsTooLarge(t *testing.T) {
	record := newWire(t, "ready", Config{}).job(
		`say {"type":"step-start","step":"s","job":"a"}`,
		`say {"type":"step-complete","step":"s","reason":"success","state_too_large":true,"leaf":true}`,
		`say {"type":"end"}`,
	)
	requireEnd(t, record, "success", "", "")
	complete := string(eventsOf(record, "step:complete")[0])
	require.Contains(t, complete, `"output_dataclip_error":"DATACLIP_TOO_LARGE"`)
	require.NotContains(t, complete, "output_dataclip_id")
}

func TestTheRunMessage(t *testing.T) {
	w := newWire(t, "ready", Config{})
	w.Server.AddCredential("c", json.RawMessage(`{"password":"hush"}`))
	w.Server.AddDataclip("d", json.RawMessage(`{"data": {"n": 1.0}}`))
	run := oneJob()
	run.Plan = json.RawMessage(`{"id":"message","dataclip_id":"d","jobs":[{"id":"a","body":"run\nok {}","credential_id":"c"},{"id":"b"}],"options":{"job_log_level":"warn","run_memory_limit_mb":400}}`)
	record := w.start(t.Context(), runner.Limits{RunTimeout: time.Minute}, run).wait()
	requireEnd(t, record, "success", "", "")
	var message map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(logLines(t, record, "JOB")[0]), &message))
	require.JSONEq(t, `"run"`, string(message["type"]))
	var body map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(message["run"], &body))
	require.JSONEq(t, string(run.Plan), string(body["plan"]))
	delete(body, "plan")
	rest, err := json.Marshal(body)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"message","input":{"data":{"n":1.0}},"credentials":{"a":{"password":"***"}},"job_log_level":"warn",
		"limits":{"run_timeout_ms":60000,"run_memory_mb":400,"state_mb":60,"payload_mb":10,"log_payload_mb":1}}`, string(rest))
}

func TestAProcessThatDiesEndsItsRunOnly(t *testing.T) {
	tests := []struct {
		name    string
		script  []string
		message string
	}{
		{name: "exit", script: []string{"exit 3"}, message: "Process exited with code: 3"},
		{name: "exit 0", script: []string{"exit 0"}, message: "Process exited with code: 0"},
		{name: "after a lot", script: []string{"flood 1", `say {"type":"log","source":"JOB","message":["last"]}`, "exit 4"}, message: "Process exited with code: 4"},
	}
	w := newWire(t, "ready", Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := append([]string{`say {"type":"step-start","step":"s","job":"a"}`, `say {"type":"log","step":"s","source":"JOB","message":["first"]}`, "stderr Traceback: it broke"}, tt.script...)
			record := w.job(script...)
			requireEnd(t, record, "crash", "ExitError", tt.message)
			require.Equal(t, `"first"`, logLines(t, record, "JOB")[0], "what it said before it died")
			if tt.name == "after a lot" {
				require.Equal(t, `"last"`, logLines(t, record, "JOB")[1])
			}
			require.Equal(t, []string{`"Traceback: it broke"`}, logLines(t, record, "ERR"))
			require.Len(t, eventsOf(record, "step:complete"), 1)
		})
	}
	requireEnd(t, w.job("ok {}"), "success", "", "")
}

func TestAKilledProcessEndsItsRunOnly(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 1})
	f := w.start(t.Context(), runner.Limits{}, oneJob("who", "hang"))
	require.NoError(t, syscall.Kill(pidOf(t, f.awaitLine(0)), syscall.SIGKILL))
	requireEnd(t, f.wait(), "crash", "ExitError", "Process exited with signal: killed")
	for range 3 {
		requireEnd(t, w.job("ok {}"), "success", "", "")
	}
}

func TestDiedSaysWhatAnExitMeans(t *testing.T) {
	exits := make(chan Exit, 2)
	w := newWire(t, "ready", Config{Died: func(exit Exit) *runner.Failure {
		exits <- exit
		if exit.Code == 5 {
			return &runner.Failure{Reason: runner.Kill, Type: "Five", Message: "five"}
		}
		return nil
	}})
	requireEnd(t, w.job("stderr of five", "exit 5"), "kill", "Five", "five")
	require.Equal(t, Exit{Code: 5, Stderr: []byte("of five\n")}, <-exits)
	requireEnd(t, w.job("exit 6"), "crash", "ExitError", "Process exited with code: 6")
}

func TestATimeOutKillsAProcessThatHangs(t *testing.T) {
	w := newWire(t, "ready", Config{CancelGrace: time.Millisecond})
	for _, script := range []string{"hang", "deaf"} {
		f := w.start(t.Context(), runner.Limits{RunTimeout: time.Second}, oneJob("who", script))
		requireEnd(t, f.wait(), "kill", "TimeoutError", "Workflow failed to return within 1000ms")
		requireGone(t, pidOf(t, f.awaitLine(0)))
	}
}

func TestAProcessIsToldThatItsRunIsToEnd(t *testing.T) {
	w := newWire(t, "ready", Config{CancelGrace: patient})
	ctx, cancel := context.WithCancelCause(t.Context())
	f := w.start(ctx, runner.Limits{}, oneJob(
		`say {"type":"step-start","step":"s","job":"a"}`, "who", "await",
		`say {"type":"step-complete","step":"s","reason":"cancel","error_type":"Own","error_message":"words","leaf":true}`,
		`say {"type":"end","reason":"cancel","error_type":"Not","error_message":"heard"}`, "hang",
	))
	pid := pidOf(t, f.awaitLine(0))
	cancel(&runner.Failure{Reason: runner.Cancel, Type: "Stop", Message: "enough"})
	record := f.wait()
	requireEnd(t, record, "cancel", "Stop", "enough")
	require.JSONEq(t, `{"type":"cancel","reason":"Stop (cancel): enough"}`, logLines(t, record, "JOB")[1])
	require.Contains(t, string(eventsOf(record, "step:complete")[0]), `"error_type":"Own"`)
	requireGone(t, pid)
}

func TestTwoRunsAtOnceHaveTwoProcesses(t *testing.T) {
	w := newWire(t, "ready", Config{CancelGrace: -1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := w.start(ctx, runner.Limits{}, oneJob("who", "await"))
	second := w.start(ctx, runner.Limits{}, oneJob("who", "await"))
	require.NotEqual(t, pidOf(t, first.awaitLine(0)), pidOf(t, second.awaitLine(0)))
	cancel()
	require.Equal(t, "cancel", first.wait().Reason)
	require.Equal(t, "cancel", second.wait().Reason)
}

func TestManyRunsAtOnceDoNotMindEachOther(t *testing.T) {
	w := newWire(t, "ready", Config{Spares: 2, Runs: 3, CancelGrace: -1})
	ends := map[string]string{
		"ok {}": "success", "exit 1": "crash", "hang": "kill", `say {"type":"end","reason":"fail"}`: "fail", `twice {"type":"end"}`: "success", "flood 1\nok {}": "success",
	}
	options := map[string][]string{"hang": {`"options":{"run_timeout_ms":300}`}}
	records := make(chan mockserver.RunRecord, 4*len(ends))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for script := range ends {
				records <- w.Run(t.Context(), runner.Limits{}, runtest.OneJob(script, options[script]...))
			}
		})
	}
	all.Wait()
	close(records)
	for record := range records { // whoever claimed it
		var plan struct{ Jobs []struct{ Body string } }
		require.NoError(t, json.Unmarshal(record.Plan, &plan))
		require.Equal(t, ends[plan.Jobs[0].Body], record.Reason, record.ErrorMessage)
	}
}
