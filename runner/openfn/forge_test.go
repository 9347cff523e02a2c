package openfn

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// A job in Node can write messages of the protocol, for it has the descriptor that its process
// writes them to. docs/security.md says what comes of that: its own run is told wrongly, as it
// could be by its states and lines, and no other is.
func TestWhatAJobMayForge(t *testing.T) {
	if testing.Short() {
		t.Skip("its time goes into Node")
	}
	tests := []struct {
		name          string
		says          []string
		reason, error string // how the run ends
		state         string
		line          string // one of its log
	}{
		{name: "a line of the engine's", says: []string{`{"type":"log","source":"R/T","level":"success","message":["forged"]}`}, reason: "success", state: `{"data":{}}`, line: `"forged"`},
		{name: "its end", says: []string{`{"type":"step-complete","step":"s1","reason":"success","leaf":true,"state":{"data":"forged"}}`, `{"type":"end","state":{"data":"forged"}}`}, reason: "success", state: `{"data":"forged"}`},
		{name: "a fault of the worker's", says: []string{`{"type":"end","reason":"exception","error_type":"EngineError","error_message":"forged"}`}, reason: "exception", error: "forged"},
		{name: "its end, with a step that goes on", says: []string{`{"type":"end"}`}, reason: "exception", error: "The engine ended without completing a step that it had started"},
		{name: "that it goes back to the queue", says: []string{`{"type":"release"}`, `{"type":"end","reason":"postpone"}`}, reason: "crash", error: `The engine broke its protocol: it ended the run with the reason "postpone"`},
		{name: "a process that begins", says: []string{`{"type":"ready"}`}, reason: "crash", error: "The engine broke its protocol: it sent ready a second time"},
		{name: "a step of another run", says: []string{`{"type":"step-complete","step":"s2","reason":"success","leaf":true}`}, reason: "crash", error: `The engine broke its protocol: it completed the step "s2", which it has not started`},
		{name: "a step twice", says: []string{`{"type":"step-complete","step":"s1","reason":"success","leaf":true}`}, reason: "crash", error: `The engine broke its protocol: it completed the step "s1" twice`},
	}
	b := newBench(t, Config{Spares: 2})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.T = t
			other := beside(b, "fn(s => new Promise(r => setTimeout(() => { console.log('of the other'); r({ data: 'its own' }); }, 200)))")
			record, outcome := b.Outcome(t.Context(), runner.Limits{}, runtest.OneJob("fn(s => { "+escape+"get('fs').writeSync(1, "+strconv.Quote("\n"+strings.Join(tt.says, "\n")+"\n")+"); return s; })", ofOneProject))
			require.Equal(t, []string{tt.reason, tt.error}, []string{record.Reason, record.ErrorMessage})
			require.Equal(t, runner.Processed, outcome.Settled, "it is not returned")
			require.False(t, outcome.Unable, "it says nothing of the worker")
			if tt.state != "" {
				require.JSONEq(t, tt.state, string(record.FinalState))
			}
			if tt.line != "" {
				require.True(t, slices.Contains(runtest.Lines(t, record, "R/T"), tt.line))
			}
			record = <-other
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.JSONEq(t, `{"data":"its own"}`, string(record.FinalState))
			require.Equal(t, []string{`"of the other"`}, runtest.Lines(t, record, "JOB"))
			require.NotContains(t, runtest.Lines(t, record, "R/T"), `"forged"`)
		})
	}
}

// beside executes a job, and returns once its step has begun.
func beside(b *runtest.Bench, body string) <-chan mockserver.RunRecord {
	run := runtest.OneJob(body, ofOneProject)
	var plan struct{ ID string }
	require.NoError(b.T, json.Unmarshal(run.Plan, &plan))
	ended := make(chan mockserver.RunRecord, 1)
	go func() { ended <- b.Run(b.T.Context(), runner.Limits{}, run) }()
	require.Eventually(b.T, func() bool {
		record, known := b.Server.Inspect(plan.ID)
		return known && began(record)
	}, time.Minute, time.Millisecond)
	return ended
}
