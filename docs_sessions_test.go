package phxworker

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// sessions are what the pages of docs/extensions show: a worker that offers some of
// the extensions, and what happens to it. The frames of a page are those of its session,
// some left out.
var sessions = []struct {
	page       string
	extensions []string
	prefetch   bool
	happens    func(h *house, worker *Worker)
}{
	{page: "README.md", extensions: []string{"lease", "drain"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "lease.md", extensions: []string{"lease"}, happens: func(h *house, _ *Worker) {
		h.enqueueLong("run-1")
		settle(18 * time.Minute)
		h.gate.release("run-1")
		settle(time.Second)

		h.enqueueLong("run-2")
		settle(time.Second)
		_, err := h.server.AddFault(fault.Rule{Event: "run:renew", Action: fault.Withhold, When: fault.Before, Count: -1})
		require.NoError(h.t, err)
		settle(21 * time.Minute)
		h.returns("run-2")
		h.gate.release("run-2")
	}},
	{page: "attempt.md", extensions: []string{"attempt", "release"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		for range 3 {
			settle(5 * time.Second)
			h.gate.of("run-1") <- ErrRequeue
		}
		settle(5 * time.Second)
	}},
	{page: "release.md", extensions: []string{"release", "attempt", "lease"}, prefetch: true, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.of("run-1") <- fmt.Errorf("the register is being updated: %w", ErrRequeue)
		settle(time.Second)
		h.gate.of("run-2") <- Postpone(time.Hour, "")
		h.enqueue("manual", "run-2")
		settle(5 * time.Second)

		// run-1 is executed again; the next is claimed ahead, and waits.
		h.enqueue("manual", "run-3")
		settle(12 * time.Second)
		h.gate.release("run-1")
		settle(time.Second)
		h.returns("run-3")
		settle(10 * time.Second)
		h.gate.release("run-3")
	}},
	{page: "longpoll.md", extensions: []string{"longpoll", "status"}, happens: func(h *house, _ *Worker) {
		settle(17 * time.Second)
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
		settle(25 * time.Second)
	}},
	{page: "claim-ack.md", extensions: []string{"claim_ack", "attempt"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "status.md", extensions: []string{"status"}, happens: func(h *house, worker *Worker) {
		h.enqueue("manual", "run-1")
		settle(20 * time.Second)
		worker.Drain()
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "drain.md", extensions: []string{"drain"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.Equal(h.t, 1, h.server.DrainWorkers())
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "cancel.md", extensions: []string{"cancel"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.NoError(h.t, h.server.Cancel("run-1", "The order was withdrawn"))
	}},
	{page: "notify.md", extensions: []string{"notify"}, happens: func(h *house, _ *Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.NoError(h.t, h.server.Notify("run-1", json.RawMessage(`{"stock":3}`)))
		settle(time.Second)
		h.gate.release("run-1")
	}},
}

// enqueueLong makes a run that may take an hour.
func (h *house) enqueueLong(id string) {
	h.t.Helper()
	plan := fmt.Sprintf(`{"id":%q,"jobs":[],"options":{"run_timeout_ms":3600000}}`, id)
	h.put(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
}

// returns has a worker that was away come back to a run, with the token that it once
// had: a rejoin, as it was written before the worker knew.
func (h *house) returns(id string) {
	h.t.Helper()
	var token string
	for _, f := range h.sent(frame.Join) {
		if f.topic == "run:"+id {
			var payload struct{ Token string }
			require.NoError(h.t, json.Unmarshal([]byte(f.payload), &payload))
			token = payload.Token
			break
		}
	}
	require.NotEmpty(h.t, token, "%s was never joined", id)
	socket, err := channel.Open(channel.Config{
		URL: "ws://lightning.test/worker", NetDial: h.dial, Params: socketParams(h.server.Secret(), "frozen", "dev"),
	})
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, socket.Close()) }()
	_, err = socket.Join(h.t.Context(), "run:"+id, map[string]string{"token": token})
	var refused *channel.RefusedError
	require.ErrorAs(h.t, err, &refused)
	require.Equal(h.t, "lease_lost", refused.Reason())
}

// play returns the frames of a session, as the pages have them.
func play(t *testing.T, extensions []string, prefetch bool, happens func(*house, *Worker)) (frames []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, mockserver.Config{Mode: mockserver.Extended, OpaqueTokens: true})
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual>*:1"), Extensions: extensions, Claim: Claim{Prefetch: prefetch}})
		settle(time.Second)
		happens(h, worker)
		settle(time.Second)
		if err := stop(); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		frames = written(t, h.server.Transcript())
	})
	return frames
}
