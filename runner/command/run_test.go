package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
		"limits":{"run_timeout_ms":60000,"run_memory_mb":400,"payload_mb":10,"log_payload_mb":1}}`, string(rest))
}

func TestNonsenseEndsTheRun(t *testing.T) {
	const started = `say {"type":"step-start","step":"s","job":"a"}`
	const completed = `say {"type":"step-complete","step":"s","reason":"success","leaf":true}`
	tests := []struct {
		name   string
		script []string
		want   string
	}{
		{name: "unknown step", script: []string{`say {"type":"log","step":"x","message":[]}`}, want: `it logged for the step "x", which it has not started`},
		{name: "complete before start", script: []string{completed}, want: `it completed the step "s", which it has not started`},
		{name: "complete twice", script: []string{started, completed, completed}, want: `it completed the step "s" twice`},
		{name: "step id reused", script: []string{started, completed, started}, want: `it started the step "s" twice`},
		{name: "no step id", script: []string{`say {"type":"step-start","job":"a"}`}, want: `a step-start has no "step"`},
		{name: "unknown job", script: []string{`say {"type":"step-start","step":"s","job":"z"}`}, want: `it started a step of the job "z", which the plan does not have`},
		{name: "from an open step", script: []string{started, `say {"type":"step-start","step":"s2","job":"a","from":"s"}`}, want: `the step "s2" comes from the step "s", which is not complete`},
		{name: "step reason", script: []string{started, `say {"type":"step-complete","step":"s","reason":"great","leaf":true}`}, want: `it completed the step "s" with the reason "great"`},
		{name: "no leaf", script: []string{started, `say {"type":"step-complete","step":"s","reason":"fail"}`}, want: `the step-complete of the step "s" does not say whether it is a leaf`},
		{name: "end reason", script: []string{`say {"type":"end","reason":"great"}`}, want: `it ended the run with the reason "great"`},
		{name: "wrong type", script: []string{`say {"type":"log","message":"text"}`}, want: `"message" of a log message is no array`},
		{name: "ready again", script: []string{`say {"type":"ready"}`}, want: `it sent ready a second time`},
		{name: "closed output", script: []string{"close", "deaf"}, want: `it closed its output before the end of the run`},
	}
	w := newWire(t, "ready", Config{Runs: 100})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.job(append(tt.script, "deaf")...)
			requireEnd(t, record, "crash", "ProtocolError", "The engine broke its protocol: "+tt.want)
		})
	}
	require.Equal(t, "1", runsOf(t, w.job("who", "ok {}")), "a process that sent nonsense had another run")
}

func TestWhatIsNoMessageIsALineOfOutput(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job(
		`say {"type":"telemetry","n":1}`, `say {"type":5}`, `say {"half":`, `say [1]`, `say null`, `say "text"`,
		`say {"type":"log"`, "say ", `unquote "\xff\xfe bytes"`, `unquote "{\"type\":\"log\",\"source\":\"JOB\",\"message\":[\"\xff\"]}"`,
		`write {"type":"end"}`, "exit 0",
	)
	requireEnd(t, record, "success", "", "")
	require.Equal(t, []string{
		`"{\"type\":\"telemetry\",\"n\":1}"`, `"{\"type\":5}"`, `"{\"half\":"`, `"[1]"`, `"null"`, `"\"text\""`,
		`"{\"type\":\"log\""`, `"� bytes"`,
	}, logLines(t, record, "OUT"))
	require.Equal(t, []string{`"�"`}, logLines(t, record, "JOB"), "invalid UTF-8 would make the server close the connection")
}

func TestOfADuplicateKeyTheLastCounts(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job(`say {"type":"ready","type":"end","reason":"fail","reason":"crash","error_type":"T","error_message":"m"}`)
	requireEnd(t, record, "crash", "T", "m")
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

func TestNoDescendantSurvives(t *testing.T) {
	tests := []struct {
		name, last string
		reason     string
	}{
		{name: "end", last: "ok {}", reason: "success"},
		{name: "exit", last: "exit 1", reason: "crash"},
		{name: "stop", last: "hang", reason: "cancel"},
	}
	w := newWire(t, "ready", Config{CancelGrace: -1})
	for _, tt := range tests {
		for _, fork := range []string{"fork", "fork away"} {
			t.Run(tt.name+", "+fork, func(t *testing.T) {
				if fork == "fork away" && runtime.GOOS != "linux" {
					t.Skip("a child that leaves the process group is only found on Linux")
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := w.start(ctx, runner.Limits{}, oneJob("who", fork, tt.last))
				if tt.reason == "cancel" {
					f.awaitLine(3)
					cancel()
				}
				record := f.wait()
				require.Equal(t, tt.reason, record.Reason)
				said := logLines(t, record, "JOB")
				require.Len(t, said, 4)
				for _, line := range said {
					requireGone(t, pidOf(t, line))
				}
			})
		}
	}
}

func TestAProcessHasAFolderOfItsOwn(t *testing.T) {
	w := newWire(t, "ready", Config{})
	said := logLines(t, w.job("who", "file", "ok {}"), "JOB")
	folder, err := strconv.Unquote(strings.Fields(said[0])[1])
	require.NoError(t, err)
	require.Contains(t, folder, "phxworker-engine-")
	require.Eventually(t, func() bool {
		_, err := os.Lstat(folder)
		return os.IsNotExist(err)
	}, patient, time.Millisecond)
}

func TestAProcessDoesNotSeeTheWorkersEnvironment(t *testing.T) {
	t.Setenv("WORKER_SECRET", "hush")
	t.Setenv("TZ", "UTC")
	t.Setenv("HOME", "/home/worker")
	w := newWire(t, "ready", Config{})
	var env []string
	require.NoError(t, json.Unmarshal([]byte(logLines(t, w.job("env", "ok {}"), "JOB")[0]), &env))
	keys := map[string]string{}
	for _, pair := range env {
		key, value, _ := strings.Cut(pair, "=")
		keys[key] = value
	}
	require.Equal(t, "UTC", keys["TZ"])
	require.Equal(t, keys["TMPDIR"], keys["HOME"])
	require.True(t, strings.HasPrefix(filepath.Base(keys["TMPDIR"]), "phxworker-engine-"))
	for key := range keys {
		require.Contains(t, []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME"}, key)
	}

	w = newWire(t, "ready", Config{Env: []string{"A=1", "HOME=/nowhere"}})
	require.NoError(t, json.Unmarshal([]byte(logLines(t, w.job("env", "ok {}"), "JOB")[0]), &env))
	require.Len(t, env, 3)
	require.Equal(t, "A=1", env[0])
	require.NotContains(t, env, "HOME=/nowhere")
}

func TestAProcessIsGrantedItsFolder(t *testing.T) {
	w := newWire(t, "", Config{
		Args: os.Args[:1],
		Grant: func(tmp string) []string {
			return []string{"engine", `hello {"type":"ready","versions":{"engine":"` + tmp + `"}}`}
		},
	})
	record := w.job("who", "ok {}")
	folder := strings.Fields(logLines(t, record, "JOB")[0])[1]
	require.Contains(t, string(eventsOf(record, "run:start")[0]), `"engine":`+folder)
}

func TestAProcessOverItsMemoryIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is watched on Linux only")
	}
	w := newWire(t, "ready", Config{})
	for range 2 {
		f := w.start(t.Context(), runner.Limits{MemoryMB: 60}, oneJob("who", "eat 200", "hang"))
		record := f.wait()
		requireEnd(t, record, "kill", "OOMError", "Run exceeded maximum memory usage")
		requireGone(t, pidOf(t, logLines(t, record, "JOB")[0]))
	}
	requireEnd(t, w.start(t.Context(), runner.Limits{MemoryMB: 300}, oneJob("eat 20", "ok {}")).wait(), "success", "", "")
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
