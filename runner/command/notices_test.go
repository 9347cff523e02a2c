package command

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

// caught is an engine that lets a test have the executions it prepares.
type caught struct {
	*Engine

	executions chan *execution
}

func newCaught(w *wire) *caught {
	c := &caught{Engine: w.engine, executions: make(chan *execution, 1)}
	w.Engine = c
	return c
}

func (c *caught) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	x, err := c.Engine.Prepare(ctx, run)
	c.executions <- x.(*execution)
	return x, err
}

func TestAProcessGetsTheNoticesOfItsRun(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 5})
	engine := newCaught(w)
	f := w.start(t.Context(), runner.Limits{}, oneJob("who", "await", "await", "ok {}"))
	run := <-engine.executions
	f.awaitLine(0)
	run.Notify(t.Context(), json.RawMessage(`{"n":1}`))
	run.Notify(t.Context(), json.RawMessage(`{"n":"<2>"}`))
	record := f.wait()
	require.Equal(t, "success", record.Reason)
	lines := logLines(t, record, "JOB")
	require.JSONEq(t, `{"type":"notify","notice":{"n":1}}`, lines[1])
	require.JSONEq(t, `{"type":"notify","notice":{"n":"<2>"}}`, lines[2])

	run.Notify(t.Context(), json.RawMessage(`{"late":true}`)) // goes nowhere
	require.Equal(t, "2", runsOf(t, w.job("who", "ok {}")), "the process is fit for another run")
	<-engine.executions
}

// Guards against a worker that is held up by a process that reads nothing.
func TestNoticesThatAreNotReadHoldNothingUp(t *testing.T) {
	w := newWire(t, "ready", Config{CancelGrace: -1})
	engine := newCaught(w)
	ctx, cancel := context.WithCancelCause(t.Context())
	f := w.start(ctx, runner.Limits{}, oneJob("who", "hang"))
	run := <-engine.executions
	pid := pidOf(t, f.awaitLine(0))
	large := json.RawMessage(fmt.Sprintf(`{"text":%q}`, make([]byte, 1<<20)))
	for range 50 {
		run.Notify(t.Context(), large)
	}
	cancel(runner.Cancellation("enough"))
	requireEnd(t, f.wait(), "cancel", "RunCancelled", "enough")
	requireGone(t, pid)
}
