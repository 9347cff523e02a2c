package openfn

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Guards against a run that dies of a character in its input: from 24 on, Node's
// reader of lines takes these two for the end of one.
func TestLineSeparatorsArriveInBothDirections(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	run := runtest.OneJob(`fn(s => { console.log(s.data.text); return s; })`, `"dataclip_id":"d"`)
	run.Dataclip = json.RawMessage("{\"data\":{\"text\":\"a\u2028b\u2029c\"}}")
	record := b.Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, string(run.Dataclip), string(record.FinalState))
	require.Equal(t, []string{"\"a\u2028b\u2029c\""}, runtest.Lines(t, record, "JOB"))
}

// Guards against a run that hangs for ever over console.log(fn): a class and a
// function are asked in a circle whether they are errors.
func TestAFunctionIsLoggedAsNull(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	record := b.Run(t.Context(), runner.Limits{RunTimeout: time.Minute},
		runtest.OneJob(`fn(s => { class A {} console.log(A); console.warn('f', function f() {}, 'g', () => 1, { A, x: 1 }); console.log(fn); console.log(null); return s; })`))
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, []string{"null", `"f" null "g" null {"x":1}`, "null"}, runtest.Lines(t, record, "JOB"))
}

// What is printed past console must not mix with the messages of the host, and its writer is told that it was written.
func TestWhatIsPrintedIsALine(t *testing.T) {
	b := newBench(t, Config{})
	record := b.Job("fn(async s => { " + escape + `await new Promise(r => p.stdout.write('{"type":"end"}\n', r)); return s; })`)
	requireSuccess(t, record)
	require.Equal(t, []string{`"{\"type\":\"end\"}"`}, runtest.Lines(t, record, "ADA"))
}
