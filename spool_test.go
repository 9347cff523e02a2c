package phxworker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

// Guards against a run that is lost without a trace because it was leased: it is
// still this worker's when the worker has to give up.
func TestALeasedRunThatCannotBeReportedIsSpooled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Hour})
		h.enqueue("manual", "a")
		dir := t.TempDir()
		worker, stop := h.hire(all(Config{Groups: "manual:1", Spool: dir}))
		settle(time.Second)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
		h.cut()
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Equal(t, 1, worker.Stats().Undelivered)
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, spooled, 1)
	})
}

// Guards against a run that is taken for another worker's, on a server that knows no
// leases, when the server closes its topic.
func TestARunWhoseTopicIsClosedIsSpooled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{plan: `{"id":"r1","jobs":[{"id":"j"}]}`, runs: `{"id":"r1","token":"x.y.z"}`, closes: "run:start", events: make(chan string, 1000)}
		listener := wstest.Serve(t, mock)
		dir := t.TempDir()
		worker, err := New(Config{URL: "ws://lightning.test/worker", Secret: "s", NetDial: listener.DialContext, Engine: Func(newGate().hold), Spool: dir})
		require.NoError(t, err)
		running := make(chan error, 1)
		go func() { running <- worker.Run(t.Context()) }()
		settle(time.Minute)
		require.Equal(t, 1, worker.Stats().Undelivered)
		worker.Drain()
		require.NoError(t, <-running)
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, spooled, 1)
		require.Contains(t, spooled[0].Cause, "closed")
	})
}

// readSpool returns what lies in a spool folder, by name, and what is wrong with the rest.
func readSpool(dir string) (all []runner.Spooled, err error) {
	for spooled, wrong := range runner.EachSpooled(dir) {
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, *spooled)
		}
	}
	return all, err
}
