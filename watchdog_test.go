package phxworker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against a worker that looks idle because one of its loops is dead: here
// the loop is never run at all.
func TestALoopThatIsStuckIsComplainedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var log bytes.Buffer
		worker, err := New(Config{
			URL: "ws://lightning.test/worker", Secret: h.server.Secret(), NetDial: h.dial,
			Engine: Func(h.gate.hold), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		socket, err := worker.open()
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		queue := newQueue(worker, socket)
		turnstile := newTurnstile(worker, queue)
		loops := worker.loops(turnstile, &starter{work: ctx})
		var running sync.WaitGroup
		running.Go(func() { queue.run(ctx, func() {}) })
		running.Go(func() { worker.watch(ctx, turnstile, loops) })
		settle(5 * time.Minute)
		stop()
		running.Wait()
		require.NoError(t, socket.Close())
		require.Contains(t, log.String(), "a claim loop is stuck")
	})
}

func TestALoopThatBacksOffIsNotComplainedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var log bytes.Buffer
		_, stop := h.hire(Config{Groups: twoGroups, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		h.enqueue("fast_lane", "f1") // and one that is full
		settle(time.Hour)
		h.cut()
		settle(time.Hour)
		h.gate.release("f1")
		require.NoError(t, stop())
		require.Zero(t, strings.Count(log.String(), "stuck"), log.String())
	})
}
