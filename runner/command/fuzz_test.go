package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// FuzzOutput has a process answer its run with arbitrary bytes. Whatever they are, the server
// is told of one end, behind everything else, and of each step once that it began and once
// that it ended.
func FuzzOutput(f *testing.F) {
	const start, complete = `{"type":"step-start","step":"s","job":"a"}` + "\n", `{"type":"step-complete","step":"s","reason":"success","leaf":true,"state":{"a":1}}` + "\n"
	for _, seed := range []string{
		"", "\n", "printed\n", `{"type":"end"}`, start + complete + `{"type":"end","state":{"a":1}}` + "\n",
		start + `{"type":"end"}` + "\n", start + start, complete, start + complete + complete,
		start + complete + `{"type":"step-start","step":"t","job":"a","from":"s"}` + "\n" + `{"type":"end","reason":"kill","error_type":"T","error_message":"m"}` + "\n" + start,
		`{"type":"log","message":[1,"two",null],"level":"odd","source":"longer than eight","time":1e99}` + "\n" + `{"type":"log","step":"x","message":[]}`,
		`{"type":"ready"}` + "\n", `{"type":"end","state":` + "\xff" + `}`, `{"type":"end","state":"\ud800\u0000"}` + "\n", `{"type":5}`, "{\"type\":\"end\"}\r\n\x00",
		start + `{"type":"step-complete","step":"s","reason":"fail","leaf":false,"duration":-1e300,"memory":{"job":-1,"system":1e300},"webhook_response":[1],"thread_id":"\u0000"}` + "\n",
		`{"type":"end","last":true,"reason":"success"}` + "\n" + `{"type":"end","reason":"crash"}`,
	} {
		f.Add([]byte(seed))
	}
	output := filepath.Join(f.TempDir(), "output")
	require.NoError(f, os.WriteFile(output, nil, 0o600))
	const process = `echo '{"type":"ready"}'; read -r run; exec cat "$1"`
	w := newWire(f, "", Config{Args: []string{"sh", "-c", process, "sh", output}, Spares: 2, MaxLine: 1 << 16})
	f.Fuzz(func(t *testing.T, written []byte) {
		require.NoError(t, os.WriteFile(output, written, 0o600))
		w.T = t
		record := w.start(t.Context(), runner.Limits{RunTimeout: patient}, oneJob("")).wait()
		requireBalanced(t, record)
		require.NotEqual(t, "TimeoutError", record.ErrorType)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		require.Less(t, memory.HeapInuse, uint64(256<<20))
	})
}

// requireBalanced asserts that what the server was told of a run makes sense.
func requireBalanced(t *testing.T, record mockserver.RunRecord) {
	t.Helper()
	steps := map[string]string{} // by id, what was told last
	for i, e := range record.Events {
		var p struct {
			StepID string `json:"step_id"`
		}
		require.NoError(t, json.Unmarshal(e.Payload, &p))
		switch e.Event {
		case "step:start":
			require.Empty(t, steps[p.StepID])
			steps[p.StepID] = "started"
		case "step:complete":
			require.Equal(t, "started", steps[p.StepID])
			steps[p.StepID] = "completed"
		case "run:log":
			require.True(t, p.StepID == "" || steps[p.StepID] != "", "a line of the step %q, which was not begun", p.StepID)
		case "run:complete":
			require.Equal(t, len(record.Events)-1, i, "the end comes last")
		}
	}
	for id, told := range steps {
		require.Equal(t, "completed", told, id)
	}
	require.Len(t, eventsOf(record, "run:complete"), 1)
	require.True(t, isReason(record.Reason), record.Reason)
}

// FuzzParse reads one line, which is much quicker than a whole process.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"x", "{", `{"type":"log","message":[{}],"time":1}`, `{"type":"step-complete","leaf":true,"state":[]}`, `{"type":"ready","versions":{"a":["b",1]}}`, "{\"type\":\"end\",\"state\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m := parse(line)
		require.LessOrEqual(t, len(m.text), maxOutput+200)
		for _, name := range []string{m.Step, m.From, m.Job, m.Reason, m.ErrorType, m.ThreadID, m.Source, m.Level} {
			require.LessOrEqual(t, len(name), maxName)
		}
		_ = m.versions()
		if logged := m.line(); !logged.Time.IsZero() {
			require.Less(t, logged.Time.Year(), 10_000)
			require.False(t, logged.Time.Before(time.Unix(0, 0)))
		}
		if m.Leaf != nil {
			require.GreaterOrEqual(t, m.result().Duration, time.Duration(0))
		}
	})
}
