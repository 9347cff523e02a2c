package command

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

// caught is an engine that lets a test have the runs it executes.
type caught struct {
	*Engine

	runs chan *runner.Run
}

func (c *caught) Execute(ctx context.Context, run *runner.Run) (runner.Result, error) {
	c.runs <- run
	return c.Engine.Execute(ctx, run)
}

func TestAProcessGetsTheNoticesOfItsRun(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 5})
	engine := &caught{Engine: w.engine, runs: make(chan *runner.Run, 1)}
	w.Engine = engine
	f := w.start(t.Context(), runner.Limits{}, oneJob("who", "await", "await", "ok {}"))
	run := <-engine.runs
	f.awaitLine(0)
	w.engine.Notify(t.Context(), run, json.RawMessage(`{"n":1}`))
	w.engine.Notify(t.Context(), run, json.RawMessage(`{"n":"<2>"}`))
	record := f.wait()
	require.Equal(t, "success", record.Reason)
	lines := logLines(t, record, "JOB")
	require.JSONEq(t, `{"type":"notify","notice":{"n":1}}`, lines[1])
	require.JSONEq(t, `{"type":"notify","notice":{"n":"<2>"}}`, lines[2])

	w.engine.Notify(t.Context(), run, json.RawMessage(`{"late":true}`)) // goes nowhere
	require.Equal(t, "2", runsOf(t, w.job("who", "ok {}")), "the process is fit for another run")
	<-engine.runs
}

// Guards against a worker that is held up by a process that reads nothing.
func TestNoticesThatAreNotReadHoldNothingUp(t *testing.T) {
	w := newWire(t, "ready", Config{CancelGrace: -1})
	engine := &caught{Engine: w.engine, runs: make(chan *runner.Run, 1)}
	w.Engine = engine
	ctx, cancel := context.WithCancelCause(t.Context())
	f := w.start(ctx, runner.Limits{}, oneJob("who", "hang"))
	run := <-engine.runs
	pid := pidOf(t, f.awaitLine(0))
	large := json.RawMessage(fmt.Sprintf(`{"text":%q}`, make([]byte, 1<<20)))
	for range 50 {
		w.engine.Notify(t.Context(), run, large)
	}
	cancel(runner.Cancellation("enough"))
	requireEnd(t, f.wait(), "cancel", "RunCancelled", "enough")
	requireGone(t, pid)
}
