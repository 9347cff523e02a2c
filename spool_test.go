package phxworker

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Guards against a run that is lost without a trace because it was leased: it is
// still this worker's when the worker has to give up.
func TestALeasedRunThatCannotBeReportedIsSpooled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Hour})
		h.enqueue("manual", "a")
		dir := t.TempDir()
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Delivery: Delivery{Spool: dir}}))
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
		worker, err := New(Config{URL: "ws://lightning.test/worker", Secret: "s", Transport: Transport{NetDial: listener.DialContext}, Engine: Func(newGate().hold), Delivery: Delivery{Spool: dir}})
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

// Guards against a worker that does not start for want of what it may never need.
func TestAWorkerWithoutItsSpoolFolderStartsAndSaysSo(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "none")
	_, err := New(Config{URL: "ws://lightning.test/worker", Secret: "s", Engine: Func(nil), Delivery: Delivery{Spool: dir}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.Contains(t, log.String(), "the spool folder cannot be opened, and until it can what cannot be reported is lost")
}
