package phxworker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Two hundred runs are in flight, on more than one socket, when something happens
// to all of them: each comes to its end at the server, once.
func TestTwoHundredRunsSurvive(t *testing.T) {
	runs := 200
	if testing.Short() {
		runs = 110 // more than a socket has topics
	}
	now := func(h *house, r fault.Rule) {
		r.Event = fault.Now
		h.fail(r)
	}
	tests := []struct {
		name   string
		happen func(h *house, worker *Worker, stop context.CancelFunc)
		state  string // of every run afterwards; defaults to success
		err    error
	}{
		{name: "a restart", happen: func(h *house, _ *Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Restart, Delay: 30 * time.Second})
		}},
		{name: "a crash of the server", happen: func(h *house, _ *Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Restart, Code: fault.Abnormal, Delay: 30 * time.Second})
		}},
		{name: "a kick", happen: func(h *house, _ *Worker, _ context.CancelFunc) { now(h, fault.Rule{Action: fault.Close, Code: 1000}) }},
		{name: "a dead network", happen: func(h *house, _ *Worker, _ context.CancelFunc) { h.cut() }},
		{name: "a server that freezes", happen: func(h *house, _ *Worker, _ context.CancelFunc) {
			now(h, fault.Rule{Action: fault.Stall, Delay: 50 * time.Second})
		}},
		{name: "a drain", happen: func(_ *house, _ *Worker, stop context.CancelFunc) { stop() }},
		{name: "a drain and a restart", happen: func(h *house, _ *Worker, stop context.CancelFunc) {
			stop()
			now(h, fault.Rule{Action: fault.Restart, Delay: 5 * time.Second})
		}},
		{name: "an abort", state: "cancelled", err: ErrAborted, happen: func(_ *house, worker *Worker, stop context.CancelFunc) {
			stop()
			worker.Abort()
		}},
		{name: "an abort and a kick", state: "cancelled", err: ErrAborted, happen: func(h *house, worker *Worker, stop context.CancelFunc) {
			stop()
			worker.Abort()
			now(h, fault.Rule{Action: fault.Close, Code: 1000})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.state == "" {
				tt.state = "success"
			}
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour, OpaqueTokens: true})
				var ids []string
				for i := range runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				worker, stop := h.hire(Config{Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", runs)), Engine: Func(h.gate.inSteps)})
				settle(time.Minute)
				require.Equal(t, runs, h.server.Stats().Started)
				tt.happen(h, worker, func() { go func() { _ = stop() }() })
				if tt.state == "success" {
					for _, id := range ids {
						h.gate.release(id)
					}
				}
				settle(3 * time.Minute)
				for _, id := range ids {
					require.Equal(t, tt.state, h.state(id))
					require.Equal(t, 1, h.taken(id, "step:start"))
					require.Equal(t, 1, h.taken(id, "step:complete"))
					require.Equal(t, 1, h.taken(id, "run:complete"))
				}
				require.Zero(t, worker.Stats().Undelivered)
				require.ErrorIs(t, stop(), tt.err)
			})
		})
	}
}
